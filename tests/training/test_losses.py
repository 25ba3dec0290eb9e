import pytest
import torch
import torch.nn.functional as F

from attnbook.training.losses import cross_entropy


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_loss_equals_torch(label_smoothing, reduction):
    torch.manual_seed(0)
    ours = torch.randn(3, 5, 7, requires_grad=True)
    theirs = ours.detach().clone().requires_grad_()
    target = torch.randint(0, 7, (3, 5))
    assert (target == 0).any()
    loss = cross_entropy(ours, target, label_smoothing, reduction=reduction)
    expected = F.cross_entropy(
        theirs.flatten(0, 1),
        target.flatten(),
        ignore_index=0,
        label_smoothing=label_smoothing,
        reduction=reduction,
    )
    torch.testing.assert_close(loss, expected)
    loss.backward()
    expected.backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_smoothed_loss_is_the_cross_entropy_with_the_mixed_distribution():
    logits, target, epsilon = torch.tensor([[1.0, 2.0, 3.0, 0.5]]), torch.tensor([2]), 0.2
    q = (1 - epsilon) * F.one_hot(target, 4) + epsilon / 4
    expected = -(q * logits.log_softmax(dim=-1)).sum()
    torch.testing.assert_close(cross_entropy(logits, target, epsilon), expected)


def test_padding_costs_nothing():
    torch.manual_seed(0)
    logits, target = torch.randn(2, 4, 6), torch.tensor([[1, 2, 0, 0], [3, 4, 5, 0]])
    before = cross_entropy(logits, target, 0.1)
    changed = logits.masked_fill((target == 0)[..., None], 1e4)
    assert cross_entropy(changed, target, 0.1) == before
    longer = torch.cat([logits, torch.randn(2, 3, 6)], dim=1)
    assert cross_entropy(longer, F.pad(target, (0, 3)), 0.1) == before


def test_batch_without_words_gives_zero_and_zero_gradients():
    logits = torch.randn(2, 3, 5, requires_grad=True)
    loss = cross_entropy(logits, torch.zeros(2, 3, dtype=torch.long), 0.1)
    loss.backward()
    assert loss == 0
    assert not logits.grad.any()


def test_bfloat16_logits_are_summed_in_float32():
    torch.manual_seed(0)
    logits, target = torch.randn(64, 1000, dtype=torch.bfloat16), torch.randint(1, 1000, (64,))
    loss = cross_entropy(logits, target)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, cross_entropy(logits.float(), target))


@pytest.mark.parametrize(
    ("logits", "target", "message"),
    [
        (torch.randn(2, 3, 5), torch.ones(2, 4, dtype=torch.long), "target: expected shape"),
        (torch.randn(2, 3, 5), torch.full((2, 3), 5), r"target: expected token ids in \[0, 5\)"),
        (torch.randn(2, 3, 5), torch.full((2, 3), -1), r"target: expected token ids in \[0, 5\)"),
    ],
)
def test_loss_refuses_what_does_not_fit(logits, target, message):
    with pytest.raises(ValueError, match=message):
        cross_entropy(logits, target)


def test_loss_refuses_a_smoothing_of_one():
    with pytest.raises(ValueError, match="label_smoothing"):
        cross_entropy(torch.randn(2, 5), torch.tensor([1, 2]), 1.0)
