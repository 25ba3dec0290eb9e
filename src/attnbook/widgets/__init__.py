"""Interactive figures: one class and one ES module each, live in a notebook and static in the book."""

from attnbook.widgets.activation_explorer import ActivationExplorer
from attnbook.widgets.alignment_explorer import AlignmentExplorer
from attnbook.widgets.attention_calculator import AttentionCalculator
from attnbook.widgets.attention_heatmap import AttentionHeatmap
from attnbook.widgets.data_flow_explorer import DataFlowExplorer
from attnbook.widgets.decision_boundary import DecisionBoundary
from attnbook.widgets.decoding_stepper import DecodingStepper
from attnbook.widgets.depth_explorer import DepthExplorer
from attnbook.widgets.gate_explorer import GateExplorer
from attnbook.widgets.gradient_flow import GradientFlow
from attnbook.widgets.head_gallery import HeadGallery
from attnbook.widgets.live_translator import LiveTranslator
from attnbook.widgets.mask_builder import MaskBuilder
from attnbook.widgets.receptive_field import ReceptiveField
from attnbook.widgets.recurrent_stepper import RecurrentStepper
from attnbook.widgets.rotation_explorer import RotationExplorer
from attnbook.widgets.softmax_scaling import SoftmaxScaling
from attnbook.widgets.word_order_machine import WordOrderMachine

__all__ = [
    "ActivationExplorer",
    "AlignmentExplorer",
    "AttentionCalculator",
    "AttentionHeatmap",
    "DataFlowExplorer",
    "DecisionBoundary",
    "DecodingStepper",
    "DepthExplorer",
    "GateExplorer",
    "GradientFlow",
    "HeadGallery",
    "LiveTranslator",
    "MaskBuilder",
    "ReceptiveField",
    "RecurrentStepper",
    "RotationExplorer",
    "SoftmaxScaling",
    "WordOrderMachine",
]
