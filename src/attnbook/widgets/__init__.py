"""Interactive figures: one class and one ES module each, live in a notebook and static in the book."""

from attnbook.widgets.attention_calculator import AttentionCalculator
from attnbook.widgets.attention_heatmap import AttentionHeatmap
from attnbook.widgets.rotation_explorer import RotationExplorer
from attnbook.widgets.softmax_scaling import SoftmaxScaling

__all__ = ["AttentionCalculator", "AttentionHeatmap", "RotationExplorer", "SoftmaxScaling"]
