import json
import pickle

import pytest
import torch

from attnbook.gpt import GPTConfig, TranslatingGPT
from attnbook.seq2seq import Seq2Seq, Seq2SeqConfig
from attnbook.text.subwords import BytePairEncoding
from attnbook.text.vocabulary import Vocabulary
from attnbook.training.checkpoint import (
    MAX_SOURCE,
    Translator,
    load_translator,
    save_translator,
    split_sentences,
)
from attnbook.training.files import FileError, read_metadata, read_tensors, write_tensors
from attnbook.transformer import Transformer, TransformerConfig

SOURCE = Vocabulary("我你他喜欢茶。")
TARGET = Vocabulary(["i", "you", "he", "like", "s@@", "s", "tea", "."])
BOTH = Vocabulary([*"我你他喜欢茶。", "i", "you", "he", "like", "s@@", "s", "tea", "."])
SIZES = (len(SOURCE), len(TARGET))


def transformer():
    config = TransformerConfig(*SIZES, 16, 2, 1, 2, 32, 0.1, norm_first=True, tie_weights="target")
    return Transformer(config)


def seq2seq(attention="additive"):
    return Seq2Seq(Seq2SeqConfig(*SIZES, 8, 12, "lstm", 2, attention=attention, bidirectional=True))


def gpt():
    config = GPTConfig(len(BOTH), 16, 4, 2, 32, norm="rmsnorm", position="rotary", num_key_value_heads=2)
    return TranslatingGPT(config)


def translator(model=None):
    torch.manual_seed(0)
    model = model or transformer()
    return Translator(
        model,
        *((BOTH, BOTH) if isinstance(model, TranslatingGPT) else (SOURCE, TARGET)),
        BytePairEncoding([("l@@", "i@@"), ("k@@", "e")]),
        {"tom": "Tom"},
        {"beam_width": 2, "alpha": 0.6},
        {"name": "tiny", "scores": {"test": {"bleu": 12.3}}},
    )


@pytest.mark.parametrize("make", [transformer, seq2seq, lambda: seq2seq(None), gpt])
def test_loaded_translator_computes_the_same(tmp_path, make):
    saved = translator(make())
    path = tmp_path / "tiny.safetensors"
    save_translator(path, saved, torch.float32)
    loaded = load_translator(path)
    src, tgt = torch.tensor([[4, 7, 8, 2], [5, 2, 0, 0]]), torch.tensor([[1, 4, 7], [1, 5, 0]])
    saved.model.eval()
    assert torch.equal(loaded.model(src, tgt), saved.model(src, tgt))
    assert not loaded.model.training
    assert loaded.source_vocabulary == saved.source_vocabulary
    assert loaded.target_vocabulary == saved.target_vocabulary
    assert loaded.subwords.merges == saved.subwords.merges
    assert (loaded.casing, loaded.decoding, loaded.about) == (saved.casing, saved.decoding, saved.about)
    assert loaded.translate("我喜欢茶。") == saved.translate("我喜欢茶。")


def test_file_holds_float16_and_the_model_float32(tmp_path):
    saved, path = translator(), tmp_path / "tiny.safetensors"
    save_translator(path, saved)
    tensors, _ = read_tensors(path)
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16}
    loaded = dict(load_translator(path).model.named_parameters())
    for name, value in saved.model.named_parameters():
        assert loaded[name].dtype == torch.float32
        torch.testing.assert_close(loaded[name], value, rtol=2**-11, atol=1e-7)


def test_tied_matrices_are_stored_once_and_stay_tied(tmp_path):
    path = tmp_path / "tiny.safetensors"
    save_translator(path, translator())
    assert "output.weight" not in read_tensors(path)[0]
    model = load_translator(path).model
    assert model.output.weight is model.tgt_embedding.weight


def test_a_gpt_is_a_gpt_in_the_file(tmp_path):
    path = tmp_path / "tiny.safetensors"
    save_translator(path, translator(gpt()))
    metadata = read_metadata(path)
    assert metadata["model"] == "GPT"
    assert metadata["config"]["vocab_size"] == len(BOTH)
    assert metadata["source_vocabulary"] == metadata["target_vocabulary"] == list(BOTH)[4:]


def test_a_gpt_with_two_vocabularies_is_refused(tmp_path):
    path = tmp_path / "odd.safetensors"
    save_translator(path, translator(gpt()))
    tensors, metadata = read_tensors(path)
    metadata["source_vocabulary"].reverse()
    write_tensors(path, tensors, metadata)
    with pytest.raises(FileError, match="a model for one vocabulary, with two"):
        load_translator(path)


def test_a_source_ends_where_its_reader_needs_it_to():
    assert translator().encode_source(["我"]) == [SOURCE["我"], 2]  # an encoder reads to <eos>
    assert translator(gpt()).encode_source(["我"]) == [BOTH["我"], 1]  # a prompt is continued after <bos>
    assert translator(gpt()).encode_target(["i"])[0] == 1


def test_metadata_is_json_that_any_program_can_read(tmp_path):
    path = tmp_path / "tiny.safetensors"
    save_translator(path, translator())
    data = path.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    metadata = {name: json.loads(text) for name, text in header["__metadata__"].items()}
    assert metadata["model"] == "Transformer"
    assert metadata["config"]["d_model"] == 16
    assert metadata["source_vocabulary"] == list("我你他喜欢茶。")
    assert metadata["about"]["scores"] == {"test": {"bleu": 12.3}}


def test_weights_that_float16_cannot_hold_are_refused(tmp_path):
    too_large = translator()
    with torch.no_grad():
        too_large.model.src_embedding.weight[3, 3] = 1e5
    with pytest.raises(ValueError, match=r"torch.float16 can hold, found others in src_embedding.weight"):
        save_translator(tmp_path / "tiny.safetensors", too_large)
    assert not list(tmp_path.iterdir())


class Bomb:
    exploded = False

    def __reduce__(self):
        return setattr, (Bomb, "exploded", True)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a checkpoint",
        pickle.dumps(Bomb()),
        (8).to_bytes(8, "little") + b'{"a": 1}',
        (1 << 60).to_bytes(8, "little") + b"{}",
    ],
    ids=["empty", "text", "pickle", "header", "size"],
)
def test_foreign_files_are_named_and_never_run(tmp_path, content):
    path = tmp_path / "foreign.safetensors"
    path.write_bytes(content)
    with pytest.raises(FileError, match="foreign.safetensors: not a checkpoint of attnbook"):
        load_translator(path)
    assert not Bomb.exploded


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_truncated_checkpoint_is_refused(tmp_path, share):
    path = tmp_path / "part.safetensors"
    save_translator(path, translator())
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(FileError, match="part.safetensors: not a checkpoint of attnbook, or only a part"):
        load_translator(path)


def test_safetensors_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "other.safetensors"
    write_tensors(path, {"a": torch.ones(2)}, {"kind": "other"})
    with pytest.raises(FileError, match=r"other.safetensors: not a checkpoint of attnbook \(format None\)"):
        load_translator(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors, metadata: tensors.pop("src_embedding.weight"), "other names"),
        (lambda tensors, metadata: metadata["config"].update(d_ff=33), "another shape"),
        (lambda tensors, metadata: metadata["config"].update(d_fff=1), "d_fff"),
        (lambda tensors, metadata: metadata.update(model="Perceptron"), "Perceptron"),
        (lambda tensors, metadata: metadata.pop("casing"), "casing"),
        (lambda tensors, metadata: metadata["source_vocabulary"].append("咖"), "with vocabularies of"),
        (lambda tensors, metadata: metadata["target_vocabulary"].append("tea"), "each token once"),
    ],
)
def test_checkpoint_that_contradicts_itself_is_refused(tmp_path, change, message):
    path = tmp_path / "odd.safetensors"
    save_translator(path, translator())
    tensors, metadata = read_tensors(path)
    change(tensors, metadata)
    write_tensors(path, tensors, metadata)
    with pytest.raises(FileError, match=f"odd.safetensors: .*{message}"):
        load_translator(path)


def test_missing_checkpoint_names_those_that_exist(tmp_path):
    with pytest.raises(
        FileError, match=r"nowhere: no such file, and no checkpoint of that name \(there are: "
    ):
        load_translator("nowhere")


def test_writing_into_a_place_that_does_not_exist_makes_it(tmp_path):
    save_translator(tmp_path / "a" / "b" / "tiny.safetensors", translator())
    assert read_metadata(tmp_path / "a" / "b" / "tiny.safetensors")["model"] == "Transformer"


def test_writing_where_a_file_stands_in_the_way_is_explained(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="file/tiny.safetensors: cannot be written"):
        save_translator(tmp_path / "file" / "tiny.safetensors", translator())


def test_text_is_cut_into_sentences():
    assert split_sentences("我来了。你呢？“好！”他说。\n没有句号") == [
        "我来了。",
        "你呢？",
        "“好！”",
        "他说。",
        "没有句号",
    ]
    assert split_sentences("真的？！好。。。走") == ["真的？！", "好。。。", "走"]
    assert split_sentences("") == split_sentences(" \n \n") == []


@pytest.mark.parametrize("text", ["", "   ", "\n\n"])
def test_translation_of_nothing_is_empty(text):
    assert translator().translate(text) == ""


@pytest.mark.parametrize(
    "text", ["😀👍🏽", "龘龘龘", "Tom用iPhone看YouTube。", "？", "\u200b我", "ไทย العربية", "<pad><eos>"]
)
def test_strange_text_has_a_translation(text):
    assert isinstance(translator().translate(text), str)


def test_sentence_past_the_maximum_is_refused_and_long_text_of_short_ones_is_not():
    ours = translator()
    with pytest.raises(ValueError, match=f"expected 1 to {MAX_SOURCE} tokens in each sentence, found 201"):
        ours.translate("茶" * (MAX_SOURCE + 1))
    assert ours.translate("我喜欢茶。" * 100)


@pytest.mark.parametrize("make", [transformer, gpt])
def test_batch_of_sentences_equals_its_members(make):
    ours = translator(make())
    sources = [tuple("我喜欢茶。"), ("茶",), tuple("他喜欢你。"), tuple("你喜欢他喜欢茶。")]
    assert ours.translate_tokens(sources) == [ours.translate_tokens([source])[0] for source in sources]


@pytest.mark.parametrize("make", [transformer, seq2seq])
def test_cross_attention_has_a_row_for_each_target_and_sums_to_one(make):
    weights = translator(make()).cross_attention(tuple("我喜欢茶"), ["i", "s", "tea"])
    assert weights.shape[1:] == (6, 5)  # i, s, t@@ e@@ a, <eos>; four characters, <eos>
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:2]))


def test_attention_of_a_gpt_is_read_from_the_target_to_the_prompt():
    ours = translator(gpt())
    source, target = tuple("我喜欢茶"), ["i", "tea"]
    weights = ours.cross_attention(source, target)
    assert weights.shape == (2, 5, 5)  # two blocks; <bos>, i, t@@ e@@ a; four characters, <bos>
    sums = weights.sum(dim=-1)
    torch.testing.assert_close(sums[:, 0], torch.ones(2))  # <bos> sees the prompt only
    assert (sums[:, 1:] < 1).all()  # the others see the target too
    sequence = torch.tensor([[*ours.encode_source(source), *ours.encode_target(target)[1:-1]]])
    _, whole = super(TranslatingGPT, ours.model).forward(sequence, need_weights=True)
    torch.testing.assert_close(weights, whole[:, 0, :, 4:, :5].mean(dim=1))
