"""A trained translator with all it needs, in one file: weights, vocabularies, and how it came about.

The file is safetensors. Its header holds, as JSON: the model's class and config, both vocabularies, the
subwords and the casing of the target, the recipe with its seed, the data's hash, the training, the scores.
Weights are stored in float16, half the size, and computed with in float32; the rounding is one part in 2000.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnbook.decoding import beam_search
from attnbook.text.batching import pad
from attnbook.text.normalize import normalize_chinese
from attnbook.text.subwords import BytePairEncoding
from attnbook.text.tokenizers import detokenize_english, tokenize_chinese
from attnbook.text.vocabulary import BOS, SPECIALS, Vocabulary
from attnbook.training.files import FileError, read_tensors, write_tensors
from attnbook.training.recipes import build_model, model_name, vocabulary_sizes

__all__ = ["Translator", "load_translator", "save_translator", "shipped_checkpoints"]

FORMAT = "attnbook translator 1"
MAX_SOURCE = 200  # tokens of a sentence; those of the corpora have up to 60
_ENDS = "。！？!?；;\n"  # where a text is cut into sentences
_AFTER_END = "”’」』）)"


@dataclass
class Translator:
    """A model from Chinese to English and the text around it.

    A model that continues (`TranslatingGPT`, a model without `encode`) has one vocabulary for both languages,
    which is then `source_vocabulary` as well as `target_vocabulary`.
    `subwords` is None where the target's words are whole. `decoding` holds the recipe's `beam_width` and
    `alpha`, `about` whatever else the file says.
    """

    model: nn.Module
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    subwords: BytePairEncoding | None = None
    casing: dict[str, str] = field(default_factory=dict)
    decoding: dict[str, Any] = field(default_factory=lambda: {"beam_width": 1, "alpha": 0.0})
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def continues(self) -> bool:
        """Whether the model continues the source, instead of converting what an encoder made of it."""
        return not hasattr(self.model, "encode")

    def encode_source(self, tokens: Sequence[str]) -> list[int]:
        """The ids of a source: its tokens and `<eos>`; for a model that continues them, `<bos>`."""
        if self.continues:
            return [*self.source_vocabulary.encode(tokens), BOS]
        return self.source_vocabulary.encode(tokens, eos=True)

    def encode_target(self, tokens: Sequence[str]) -> list[int]:
        """The ids of a target: `<bos>`, the subwords of its tokens, `<eos>`."""
        pieces = tokens if self.subwords is None else self.subwords.encode(tokens)
        return self.target_vocabulary.encode(pieces, bos=True, eos=True)

    def decode_target(self, ids: Sequence[int]) -> list[str]:
        """The tokens that ids spell."""
        pieces = self.target_vocabulary.decode(ids)
        return pieces if self.subwords is None else self.subwords.decode(pieces)

    def translate_tokens(
        self, sources: Sequence[Sequence[str]], beam_width: int | None = None, alpha: float | None = None
    ) -> list[list[str]]:
        """Source tokens -> target tokens, in batches of like lengths.

        Raises:
            ValueError: a sentence without tokens, or with more than 200.
        """
        beam_width = self.decoding["beam_width"] if beam_width is None else beam_width
        alpha = self.decoding["alpha"] if alpha is None else alpha
        for number, source in enumerate(sources):
            if not 1 <= len(source) <= MAX_SOURCE:
                raise ValueError(
                    f"sources: expected 1 to {MAX_SOURCE} tokens in each sentence, "
                    f"found {len(source)} in number {number}"
                )
        # A translation is cut at twice its source's length. All sentences of one class of length have one
        # limit, so that it makes no difference which batch a sentence happens to be in.
        classes: dict[int, list[int]] = {}
        for index, source in enumerate(sources):
            classes.setdefault(len(source) // 8, []).append(index)
        targets: list[list[str]] = [[] for _ in sources]
        for length_class, members in classes.items():
            for start in range(0, len(members), 64):
                indices = members[start : start + 64]
                src, _ = pad([self.encode_source(sources[index]) for index in indices])
                found, _ = beam_search(self.model, src, beam_width, alpha, max_len=16 * length_class + 24)
                for index, ids in zip(indices, found, strict=True):
                    targets[index] = self.decode_target(ids)
        return targets

    def translate(self, text: str, beam_width: int | None = None, alpha: float | None = None) -> str:
        """Chinese text -> English text; sentence by sentence, as the model was trained.

        Args:
            text: any text. Without a word in it the translation is empty.
            beam_width, alpha: as in `beam_search`; default: the recipe's.

        Raises:
            TypeError: `text` is not a str.
            ValueError: a sentence with more than 200 tokens.
        """
        sentences = [tokenize_chinese(sentence) for sentence in split_sentences(normalize_chinese(text))]
        sentences = [tokens for tokens in sentences if tokens]
        targets = self.translate_tokens(sentences, beam_width, alpha) if sentences else []
        return " ".join(detokenize_english(tokens, self.casing) for tokens in targets)

    @torch.no_grad()
    def cross_attention(self, source: Sequence[str], target: Sequence[str]) -> Tensor:
        """Where the model looks while it writes `target`.

        Args:
            source, target: tokens.

        Returns:
            Weights (layers, target pieces + 1, source tokens + 1), the mean over heads; the last row belongs
            to the `<eos>` that is predicted, the last column to what ends the source. Of a model that
            continues it is the part of self-attention that goes from the target to the prompt; what goes to
            the target itself is missing from the sums of its rows.

        Raises:
            ValueError: a model without attention.
        """
        self.model.eval()
        src = torch.tensor([self.encode_source(source)])
        tgt = torch.tensor([self.encode_target(target)[:-1]])
        _, weights = self.model(src, tgt, need_weights=True)
        if self.continues:
            prompt = src.shape[1]  # its last token is the target's first
            return weights[:, 0, :, prompt - 1 :, :prompt].mean(dim=1)  # (layers, target, source)
        if not isinstance(weights, Tensor):  # a Transformer has others, too
            weights = weights.cross
        if weights.dim() == 3:  # Seq2Seq: (1, target, source)
            return weights
        return weights[:, 0].mean(dim=1)  # (layers, target, source)


def split_sentences(text: str) -> list[str]:
    """Cut after each 。！？； and line break; closing quotes and brackets stay with their sentence."""
    sentences, begun = [], ""
    for index, character in enumerate(text):
        begun += character
        following = text[index + 1 : index + 2]
        at_end = character in _ENDS or (character in _AFTER_END and begun[-2:-1] in _ENDS and len(begun) > 1)
        if at_end and (not following or following not in _ENDS + _AFTER_END):
            sentences.append(begun)
            begun = ""
    return [sentence.strip() for sentence in [*sentences, begun] if sentence.strip()]


def save_translator(path: str | Path, translator: Translator, dtype: torch.dtype = torch.float16) -> None:
    """Write a checkpoint, completely or not at all; a matrix that two layers share is stored once.

    Raises:
        FileError: the file cannot be written.
        ValueError: weights that `dtype` cannot hold (in float16: above 65504), or NaN.
    """
    tensors = {name: value.detach().to(dtype) for name, value in translator.model.named_parameters()}
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise ValueError(f"model: expected weights that {dtype} can hold, found others in {name}")
    metadata = {
        "format": FORMAT,
        "model": model_name(translator.model),
        "config": asdict(translator.model.config),
        "source_vocabulary": list(translator.source_vocabulary)[len(SPECIALS) :],
        "target_vocabulary": list(translator.target_vocabulary)[len(SPECIALS) :],
        "merges": [" ".join(merge) for merge in translator.subwords.merges] if translator.subwords else [],
        "casing": translator.casing,
        "decoding": translator.decoding,
        "about": translator.about,
    }
    write_tensors(path, tensors, metadata)


def load_translator(name_or_path: str | Path) -> Translator:
    """A shipped translator by its name ("tatoeba-transformer"), or one in a file; in float32, ready to use.

    Raises:
        FileError: no such file or name, a file of something else, or a part of a checkpoint.
    """
    path = find_checkpoint(name_or_path)
    tensors, metadata = read_tensors(path)
    if metadata.get("format") != FORMAT:
        raise FileError(f"{path}: not a checkpoint of attnbook (format {metadata.get('format')!r})")
    try:
        model = build_model(metadata["model"], metadata["config"])
        parameters = dict(model.named_parameters())
        if parameters.keys() != tensors.keys():
            raise ValueError(f"weights of other names: {sorted(parameters.keys() ^ tensors.keys())[:4]}")
        with torch.no_grad():
            for name, parameter in parameters.items():
                if parameter.shape != tensors[name].shape:
                    raise ValueError(f"weights of another shape: {name}")
                parameter.copy_(tensors[name])
        merges = [merge.split(" ") for merge in metadata["merges"]]
        translator = Translator(
            model.eval(),
            Vocabulary(metadata["source_vocabulary"]),
            Vocabulary(metadata["target_vocabulary"]),
            BytePairEncoding(merges) if merges else None,
            metadata["casing"],
            metadata["decoding"],
            metadata["about"],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileError(f"{path}: a checkpoint that does not fit its own description ({error})") from error
    vocabularies = translator.source_vocabulary, translator.target_vocabulary
    found = vocabulary_sizes(metadata["model"], *map(len, vocabularies))
    sizes = {name: getattr(model.config, name) for name in found}
    if sizes != found:
        raise FileError(f"{path}: a model for vocabularies of {sizes} tokens, with vocabularies of {found}")
    if translator.continues and vocabularies[0] != vocabularies[1]:
        raise FileError(f"{path}: a model for one vocabulary, with two")
    return translator


def shipped_checkpoints() -> dict[str, Path]:
    """The checkpoints that come with the package, by name."""
    folder = Path(str(files("attnbook").joinpath("checkpoints")))
    return {path.stem: path for path in sorted(folder.glob("*.safetensors"))}


def find_checkpoint(name_or_path: str | Path) -> Path:
    """The file of a shipped checkpoint's name, or the path itself.

    Raises:
        FileError: neither a name nor a file; the message lists the names.
    """
    shipped = shipped_checkpoints()
    if str(name_or_path) in shipped:
        return shipped[str(name_or_path)]
    path = Path(name_or_path)
    if not path.is_file():
        names = ", ".join(shipped) or "none"
        raise FileError(f"{name_or_path}: no such file, and no checkpoint of that name (there are: {names})")
    return path
