"""Decoding: caches change nothing, a beam of one is greedy, sentences stop one by one."""

import functools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attnbook.attention import padding_mask
from attnbook.convolutional_seq2seq import ConvolutionalSeq2Seq, ConvolutionalSeq2SeqConfig
from attnbook.decoding import beam_search, filter_logits, greedy, length_penalty, reorder, sample
from attnbook.gpt import GPT, GPTConfig
from attnbook.seq2seq import Seq2Seq, Seq2SeqConfig
from attnbook.transformer import Transformer, TransformerConfig

PAD, BOS, EOS = 0, 1, 2
VOCAB = 8
ROUNDING = 1e-9  # float64; the large weights of `model` amplify it, to 3e-12 in the worst example seen


def seq2seq(cell, attention, **choices):
    return Seq2Seq(Seq2SeqConfig(VOCAB, VOCAB, 6, 8, cell, attention=attention, **choices))


def transformer(position, norm_first=False):
    sizes = (VOCAB, VOCAB, 16, 4, 2, 2, 32)
    return Transformer(TransformerConfig(*sizes, max_len=10, position=position, norm_first=norm_first))


def cnn(growth):
    return ConvolutionalSeq2Seq(ConvolutionalSeq2SeqConfig(VOCAB, VOCAB, 16, 4, 2, 2, growth=growth))


def gpt(**choices):
    return GPT(GPTConfig(VOCAB, 16, 4, 2, max_len=10, **choices))


MODELS = {
    "rnn": lambda: seq2seq("rnn", None),
    "lstm": lambda: seq2seq("lstm", None, num_layers=2, reverse_source=True),
    "gru": lambda: seq2seq("gru", None, bidirectional=True),
    "gru, additive": lambda: seq2seq("gru", "additive", bidirectional=True),
    "lstm, general": lambda: seq2seq("lstm", "general", num_layers=2),
    "rnn, dot": lambda: seq2seq("rnn", "dot"),
    "transformer": lambda: transformer("sinusoidal"),
    "transformer, pre-norm, learned": lambda: transformer("learned", norm_first=True),
    "transformer, rotary": lambda: transformer("rotary"),
    "cnn": lambda: cnn(1),
    "cnn, dilated": lambda: cnn(2),
    "gpt, learned": lambda: gpt(),
    "gpt, rotary, rmsnorm, grouped": lambda: gpt(position="rotary", norm="rmsnorm", num_key_value_heads=2),
}
NAMES = list(MODELS)
NO_LIMIT = [name for name in NAMES if "learned" not in name]


@functools.cache
def model(name, seed=0):
    """In float64, and with larger weights than a new model has: predictions differ between tokens."""
    torch.manual_seed(seed)
    made = MODELS[name]().double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(3)
    return made


def pad(lists, length=None):
    length = max(map(len, lists)) if length is None else length
    return torch.tensor([row + [PAD] * (length - len(row)) for row in lists])


def full_logits(name, source, tokens, seed=0):
    """Without a cache: the logits after each of `tokens`, which begin with `<bos>` or continue the prompt."""
    made = model(name, seed)
    with torch.no_grad():
        if name.startswith("gpt"):
            return made(torch.tensor([source + tokens]))[0, len(source) - 1 :]
        return made(torch.tensor([source]), torch.tensor([[BOS, *tokens]]))[0]


def log_probs(name, source, tokens, seed=0):
    """Of what may come: before each of `tokens`, and after the last one."""
    logits = full_logits(name, source, tokens, seed).clone()
    logits[:, [PAD, BOS]] = float("-inf")
    return logits.log_softmax(-1)


def log_prob(name, source, tokens, ended, seed=0):
    sentence = [*tokens, EOS] if ended else tokens
    before = log_probs(name, source, sentence[:-1], seed)
    return sum(row[token].item() for row, token in zip(before, sentence, strict=True))


names, words = st.sampled_from(NAMES), st.integers(3, VOCAB - 1)
sentences = st.lists(words, min_size=1, max_size=5)
batches = st.lists(sentences, min_size=1, max_size=4)
seeds = st.integers(0, 3)


@pytest.mark.parametrize("name", NAMES)
@given(sources=batches, data=st.data())
@settings(max_examples=5, deadline=None)
def test_cached_decoding_equals_recomputing_the_prefix(name, sources, data):
    made = model(name)
    length = data.draw(st.integers(1, 5))
    tokens = data.draw(
        st.lists(
            st.lists(words, min_size=length, max_size=length), min_size=len(sources), max_size=len(sources)
        )
    )
    with torch.no_grad():
        if name.startswith("gpt"):
            sources = [(source * 5)[:5] for source in sources]  # prompts of one length, whatever it is
            cache, steps = made.start(pad(sources)[:, :-1]), [pad(sources)[:, -1]]
        else:
            src = pad(sources)
            cache, steps = made.start(made.encode(src), padding_mask(src)), [torch.full((len(src),), BOS)]
        steps += torch.tensor(tokens).unbind(1)
        expected = [full_logits(name, *pair) for pair in zip(sources, tokens, strict=True)]
        for t, token in enumerate(steps):
            logits, cache = made.step(token, cache)
            assert (logits - torch.stack([rows[t] for rows in expected])).abs().max() <= ROUNDING


@pytest.mark.parametrize("name", NO_LIMIT)
def test_cached_decoding_equals_recomputing_past_every_trained_length(name):
    made, source = model(name), [3, 4, 5]
    tokens = torch.randint(3, VOCAB, (40,), generator=torch.Generator().manual_seed(0)).tolist()
    expected = full_logits(name, source, tokens)
    with torch.no_grad():
        if name.startswith("gpt"):
            cache, first = made.start(torch.tensor([source[:-1]])), source[-1]
        else:
            cache, first = made.start(made.encode(torch.tensor([source]))), BOS
        for t, token in enumerate([first, *tokens]):
            logits, cache = made.step(torch.tensor([token]), cache)
            assert (logits[0] - expected[t]).abs().max() <= ROUNDING


@pytest.mark.parametrize("name", [name for name in NAMES if "learned" in name])
def test_past_the_last_learned_position_is_an_error(name):
    never = VOCAB - 1 + 100  # no token ends a sentence
    longest = 10 - (
        2 if name.startswith("gpt") else 0
    )  # the prompt takes two positions, its last one included
    assert len(greedy(model(name), torch.tensor([[3, 4, 5]]), longest, eos_id=never)[0][0]) == longest
    with pytest.raises(ValueError, match=r"expected positions in \[0, max_len = 10\), found 10 to 10"):
        greedy(model(name), torch.tensor([[3, 4, 5]]), 20, eos_id=never)


@pytest.mark.parametrize("name", NAMES)
@given(sources=batches, seed=seeds)
@settings(max_examples=5, deadline=None)
def test_greedy_takes_the_best_token_and_scores_it(name, sources, seed):
    max_len = 5
    results = greedy(model(name, seed), pad(sources), max_len)
    for source, ids, score in zip(sources, *results, strict=True):
        ended = len(ids) < max_len
        sentence = [*ids, EOS] if ended else ids
        assert sentence == log_probs(name, source, sentence[:-1], seed).argmax(-1).tolist()
        assert score == pytest.approx(log_prob(name, source, ids, ended, seed), abs=ROUNDING)
        assert not {PAD, BOS, EOS} & set(ids)


@given(names, batches, seeds, st.floats(0, 2))
@settings(max_examples=25, deadline=None)
def test_a_beam_of_one_is_greedy(name, sources, seed, alpha):
    greedy_ids, greedy_scores = greedy(model(name, seed), pad(sources), 5)
    beam_ids, beam_scores = beam_search(model(name, seed), pad(sources), 1, alpha, 5)
    assert beam_ids == greedy_ids
    for ids, score, log_probability in zip(beam_ids, beam_scores, greedy_scores, strict=True):
        length = len(ids) + (len(ids) < 5)
        assert score == pytest.approx(log_probability / length_penalty(length, alpha), abs=ROUNDING)


@given(names, batches, seeds, st.integers(1, 4), st.data())
@settings(max_examples=25, deadline=None)
def test_a_batch_equals_its_members_whatever_the_padding(name, sources, seed, width, data):
    longer = max(map(len, sources)) + data.draw(st.integers(0, 3))
    made = model(name, seed)
    together = greedy(made, pad(sources, longer), 5), beam_search(made, pad(sources, longer), width, 0.6, 5)
    for i, source in enumerate(sources):
        alone = greedy(made, pad([source]), 5), beam_search(made, pad([source]), width, 0.6, 5)
        for (ids, scores), ((one,), (score,)) in zip(together, alone, strict=True):
            assert ids[i] == one
            assert scores[i] == pytest.approx(score, abs=ROUNDING)


@given(names, sentences, seeds)
@settings(max_examples=10, deadline=None)
def test_an_exhaustive_beam_finds_the_most_probable_sentence(name, source, seed):
    max_len = 2
    choices = range(EOS + 1, VOCAB)
    cut = [[a, b] for a in choices for b in choices]
    ended = [[]] + [[a] for a in choices]
    every = [(log_prob(name, source, ids, False, seed), ids) for ids in cut]
    every += [(log_prob(name, source, ids, True, seed), ids) for ids in ended]
    best_score, best = max(every)
    (found,), (score,) = beam_search(model(name, seed), pad([source]), 1000, 0.0, max_len)
    assert score == pytest.approx(best_score, abs=ROUNDING)
    assert found == best
    assert score >= greedy(model(name, seed), pad([source]), max_len)[1][0] - ROUNDING


class Table(nn.Module):
    """A language model with known probabilities: the next token depends on the newest one only."""

    def __init__(self, rows):
        super().__init__()
        self.log_probs = nn.Parameter(torch.full((VOCAB, VOCAB), -1e4))
        self.steps = []
        with torch.no_grad():
            for token, following in rows.items():
                for after, probability in following.items():
                    self.log_probs[token, after] = math.log(probability)

    def start(self, prompt):
        return (prompt.new_zeros(len(prompt), 1),)

    def step(self, token, cache):
        self.steps.append(len(token))
        return self.log_probs[token], cache


# Greedy goes 3 → 4 → 6 → end with 0.6 · 0.4 · 1; better is 3 → 5 → 6 → end with 0.4 · 0.9 · 1.
GARDEN_PATH = {
    3: {4: 0.6, 5: 0.4},
    4: {6: 0.4, 7: 0.3, EOS: 0.3},
    5: {6: 0.9, 7: 0.1},
    6: {EOS: 1},
    7: {EOS: 1},
}


def test_beam_search_sees_past_a_greedy_choice():
    table, source = Table(GARDEN_PATH), torch.tensor([[3]])
    ids, scores = greedy(table, source)
    assert ids == [[4, 6]]
    assert scores[0] == pytest.approx(math.log(0.24), abs=1e-5)
    ids, scores = beam_search(table, source, 2, 0.0)
    assert ids == [[5, 6]]
    assert scores[0] == pytest.approx(math.log(0.36), abs=1e-5)


def test_length_penalty_is_equation_14_and_favours_longer_sentences():
    assert length_penalty(1, 0.7) == 1
    assert length_penalty(7, 0.5) == pytest.approx(math.sqrt(2))
    assert length_penalty(40, 0.0) == 1
    table = Table({3: {EOS: 0.5, 4: 0.5}, 4: {5: 0.9, EOS: 0.1}, 5: {EOS: 1}})
    source = torch.tensor([[3]])
    assert beam_search(table, source, 2, 0.0)[0] == [[]]  # 0.5 against 0.45
    ids, scores = beam_search(table, source, 2, 1.0)
    assert ids == [[4, 5]]
    assert scores[0] == pytest.approx(math.log(0.45) / (8 / 6), abs=1e-5)


def test_sentences_leave_the_batch_when_they_end():
    table = Table({3: {EOS: 1}, 4: {5: 1}, 5: {6: 1}, 6: {EOS: 1}})
    ids, scores = greedy(table, torch.tensor([[4], [3], [5]]))
    assert ids == [[5, 6], [], [6]]
    assert scores == pytest.approx([0, 0, 0], abs=1e-5)
    assert table.steps == [3, 2, 1]
    table.steps.clear()
    beam_search(table, torch.tensor([[4], [3], [5]]), 1)
    assert table.steps == [3, 2, 1]


def test_a_beam_stops_when_nothing_can_overtake():
    table = Table({3: {EOS: 0.9, 4: 0.1}, 4: {4: 1}})
    assert beam_search(table, torch.tensor([[3]]), 4, 0.0, 50)[0] == [[]]
    assert table.steps == [1]


def test_a_hypothesis_that_ends_takes_its_place_with_it():
    table = Table({3: {EOS: 0.4, 4: 0.35, 5: 0.25}, 4: {6: 0.55, 7: 0.45}, 6: {4: 0.5, 5: 0.5}, 7: {EOS: 1}})
    # Of [], [4], [5] the first two are kept, [] ends, and one place is left for [4, 6] or [4, 7].
    assert beam_search(table, torch.tensor([[3]]), 2, 3.0, max_len=3)[0] == [[]]
    assert table.steps == [1, 1, 1]
    assert beam_search(table, torch.tensor([[3]]), 4, 3.0, max_len=3)[0] == [[4, 7]]


def test_max_len_cuts_and_counts_the_end_token():
    table = Table({3: {4: 1}, 4: {5: 1}, 5: {EOS: 1}})
    for search in (greedy, functools.partial(beam_search, beam_width=3), sample):
        assert search(table, torch.tensor([[3]]), max_len=1)[0] == [[4]]
        assert search(table, torch.tensor([[3]]), max_len=2)[0] == [[4, 5]]
        table.steps.clear()
        assert search(table, torch.tensor([[3]]), max_len=3)[0] == [[4, 5]]
        assert len(table.steps) == 3


def test_equal_probabilities_are_decided_by_the_lowest_id():
    table = Table(
        {3: {7: 0.25, 5: 0.25, 6: 0.25, 4: 0.25}, 4: {EOS: 1}, 5: {EOS: 1}, 6: {EOS: 1}, 7: {EOS: 1}}
    )
    assert greedy(table, torch.tensor([[3]]))[0] == [[4]]
    for width in range(1, 6):
        assert beam_search(table, torch.tensor([[3]]), width)[0] == [[4]]


def test_a_beam_wider_than_the_vocabulary_is_not_full():
    table = Table(GARDEN_PATH)
    assert beam_search(table, torch.tensor([[3]]), 500, 0.0)[0] == [[5, 6]]
    assert max(table.steps) <= (VOCAB - 2) ** 2


def test_padding_and_bos_are_never_chosen():
    table = Table({3: {PAD: 0.5, BOS: 0.3, 4: 0.2}, 4: {PAD: 0.9, EOS: 0.1}})
    for search in (greedy, beam_search, sample):
        ids, scores = search(table, torch.tensor([[3]]))
        assert ids == [[4]]
        assert scores == pytest.approx([0], abs=1e-5)  # probabilities among the tokens that may come


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("gpt")])
def test_prompts_of_different_lengths_are_continued_together(name):
    prompts = [[3], [4, 5, 6, 7], [5, EOS, 6]]  # an end token inside a prompt ends nothing
    made = model(name)
    for search in (greedy, functools.partial(beam_search, beam_width=3)):
        ids, scores = search(made, pad(prompts), max_len=4)
        for prompt, continued, score in zip(prompts, ids, scores, strict=True):
            (alone,), (alone_score,) = search(made, torch.tensor([prompt]), max_len=4)
            assert continued == alone
            assert score == pytest.approx(alone_score, abs=ROUNDING)


def test_sampling_follows_the_probabilities_and_the_generator():
    table = Table({3: {4: 0.5, 5: 0.3, 6: 0.2}, 4: {EOS: 1}, 5: {EOS: 1}, 6: {EOS: 1}})
    source = torch.full((4000, 1), 3)

    def frequencies(**choices):
        ids, scores = sample(table, source, generator=torch.Generator().manual_seed(0), **choices)
        for (token,), score in zip(ids, scores, strict=True):
            assert score == pytest.approx(
                {4: math.log(0.5), 5: math.log(0.3), 6: math.log(0.2)}[token], abs=1e-5
            )
        return [sum(row == [token] for row in ids) / len(ids) for token in (4, 5, 6)]

    assert frequencies() == pytest.approx([0.5, 0.3, 0.2], abs=0.03)
    assert frequencies() == frequencies()
    squares = [0.25 / 0.38, 0.09 / 0.38, 0.04 / 0.38]
    assert frequencies(temperature=0.5) == pytest.approx(squares, abs=0.03)
    assert frequencies(top_k=2) == pytest.approx([0.625, 0.375, 0], abs=0.03)
    assert frequencies(top_k=1) == [1, 0, 0]
    assert frequencies(top_p=0.75) == pytest.approx([0.625, 0.375, 0], abs=0.03)


def test_filters_of_logits():
    inf = float("inf")
    logits = torch.tensor([0.1, 0.4, 0.2, 0.3]).log()
    assert torch.equal(filter_logits(logits), logits)
    assert torch.equal(filter_logits(logits, temperature=2.0), logits / 2)
    for choices, kept in [
        ({"top_k": 2}, (1, 3)),
        ({"top_k": 99}, (0, 1, 2, 3)),
        ({"top_p": 0.39}, (1,)),
        ({"top_p": 0.41}, (1, 3)),
        ({"top_p": 0.8}, (1, 2, 3)),
        ({"top_p": 1.0}, (0, 1, 2, 3)),
        ({"top_p": 1e-9}, (1,)),
    ]:
        filtered = filter_logits(logits, **choices)
        expected = torch.tensor([logits[i] if i in kept else -inf for i in range(4)])
        assert torch.equal(filtered, expected), choices
    equal = torch.zeros(2, 5)
    assert torch.equal(filter_logits(equal, top_k=2), equal)  # all as probable as the second
    assert (filter_logits(equal, top_p=0.5) == 0).tolist() == [[True, True, True, False, False]] * 2


def test_reorder_moves_the_sentences_of_every_part():
    cache = (torch.arange(3), ((torch.arange(6).view(3, 2),), torch.arange(12).view(3, 2, 2)))
    moved = reorder(cache, torch.tensor([2, 0, 0, 1]))
    assert moved[0].tolist() == [2, 0, 0, 1]
    assert moved[1][0][0].tolist() == [[4, 5], [0, 1], [0, 1], [2, 3]]
    assert moved[1][1].shape == (4, 2, 2)


@pytest.mark.parametrize("name", ["gru, additive", "transformer", "gpt, learned"])
def test_decoding_runs_in_evaluation_mode_and_restores_the_models_mode(name):
    torch.manual_seed(0)
    made = MODELS[name]()
    source = torch.tensor([[3, 4, 5], [6, 7, 0]])
    for training in (True, False):
        made.train(training)
        assert greedy(made, source, 4) == greedy(made, source, 4)
        assert made.training is training
        with pytest.raises(ValueError, match="source: expected sentences with at least one word"):
            beam_search(made, torch.zeros(1, 3, dtype=torch.long))
        assert made.training is training
    beam_search(made, source, 3, max_len=4)
    assert all(parameter.grad is None for parameter in made.parameters())


def test_steps_change_no_cache_that_was_handed_out():
    for name in ("gru, additive", "transformer", "gpt, rotary, rmsnorm, grouped"):
        made, source = model(name), torch.tensor([[3, 4, 5]])
        cache = made.start(source) if name.startswith("gpt") else made.start(made.encode(source))
        first, _ = made.step(torch.tensor([6]), cache)
        made.step(torch.tensor([7]), cache)
        again, _ = made.step(torch.tensor([6]), cache)
        assert torch.equal(first, again)


SEARCHES = {"greedy": greedy, "beam": beam_search, "sample": sample}


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("name", ["gru", "transformer", "gpt, learned"])
def test_bad_sources_are_named(name, search):
    made, search = model(name), SEARCHES[search]
    with pytest.raises(ValueError, match=r"source: expected sentences with at least one word .* \[2, 0\]"):
        search(made, torch.tensor([[3, 4], [0, 0]]))
    with pytest.raises(ValueError, match="source: expected sentences with at least one word"):
        search(made, torch.zeros(2, 0, dtype=torch.long))
    with pytest.raises(ValueError, match="source: expected sentences with at least one word"):
        search(made, torch.zeros(0, 4, dtype=torch.long))
    with pytest.raises(ValueError, match="source: expected padding .id 0. at the end"):
        search(made, torch.tensor([[3, 0, 4]]))
    with pytest.raises(ValueError, match=r"source: expected shape \(batch, time\), found \(2,\)"):
        search(made, torch.tensor([3, 4]))
    with pytest.raises(TypeError, match="source: expected a tensor of token ids, found list"):
        search(made, [[3, 4]])
    with pytest.raises(ValueError, match=r"expected token ids in \[0, 8\), found . to 8"):
        search(made, torch.tensor([[3, 8]]))
    with pytest.raises(ValueError, match="max_len: expected a positive int, found 0"):
        search(made, torch.tensor([[3, 4]]), max_len=0)


def test_bad_choices_are_named():
    made, source = model("gru"), torch.tensor([[3, 4]])
    with pytest.raises(ValueError, match="beam_width: expected a positive int, found 0"):
        beam_search(made, source, 0)
    with pytest.raises(ValueError, match="alpha: expected a number of at least 0, found -1"):
        beam_search(made, source, 2, -1)
    for temperature in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="temperature: expected a number above 0"):
            sample(made, source, temperature=temperature)
    with pytest.raises(ValueError, match="top_k: expected a positive int, found 0"):
        sample(made, source, top_k=0)
    for top_p in (0.0, 1.5, -0.1):
        with pytest.raises(ValueError, match="top_p: expected a number above 0 and at most 1"):
            sample(made, source, top_p=top_p)
