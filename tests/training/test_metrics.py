import pytest
import torch

from attnbook.training.metrics import alignment_error_rate, attention_links, bleu, exact_match


def test_exact_match_counts_whole_sentences_by_length():
    references = [["a"], ["b", "c"], ["d"], ["e", "f"]]
    hypotheses = [["a"], ["b", "x"], ("d",), ["e"]]
    assert exact_match(hypotheses, references) == {"all": 0.5}
    shares = exact_match(hypotheses, references, lengths=[3, 10, 11, 40], bounds=(10, 20, 30))
    assert shares == {"all": 0.5, "1-10": 0.5, "11-20": 1.0, "31+": 0.0}


def test_bleu_of_the_references_themselves_is_100():
    sentences = ["the cat sat on the mat .", "i like tea very much ."]
    assert bleu(sentences, [[sentence] for sentence in sentences]) == pytest.approx(100)


def test_bleu_is_papinenis():
    # 4 of 5 unigrams, 3 of 4 bigrams, 2 of 3 trigrams, 1 of 2 four-grams, no brevity penalty
    expected = 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    assert bleu(["a b c d x"], [["a b c d e"]]) == pytest.approx(expected)


def test_bleu_takes_any_number_of_references():
    one = bleu(["a b c d", "e f g h"], [["a b c d"], ["x y z w"]])
    two = bleu(["a b c d", "e f g h"], [["a b c d"], ["x y z w", "e f g h"]])
    assert one < two == pytest.approx(100)


def test_bleu_compares_tokens_as_they_are():
    assert bleu(["do n't go there ."], [["don't go there ."]]) < 100


def test_alignment_error_rate_is_och_and_neys():
    gold = [frozenset({(0, 0), (1, 1), (2, 1)})]
    assert alignment_error_rate(gold, gold) == 0
    assert alignment_error_rate([frozenset()], gold) == 1
    assert alignment_error_rate([frozenset({(0, 0), (1, 2)})], gold) == pytest.approx(1 - 2 / 5)


def test_attention_links_are_the_weights_above_the_threshold():
    weights = torch.tensor([[0.9, 0.1, 0.0], [0.0, 0.5, 0.5], [0.2, 0.2, 0.2]])  # (target, source)
    assert attention_links(weights, 0.25) == {(0, 0), (1, 1), (2, 1)}


@pytest.mark.parametrize(
    "call",
    [
        lambda: exact_match([], []),
        lambda: exact_match([["a"]], [["a"], ["b"]]),
        lambda: bleu(["a"], [[]]),
        lambda: bleu(["a"], []),
        lambda: alignment_error_rate([frozenset()], [frozenset()]),
    ],
)
def test_measures_refuse_nothing_to_measure(call):
    with pytest.raises(ValueError, match="expected"):
        call()
