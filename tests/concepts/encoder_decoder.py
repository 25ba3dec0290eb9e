"""What holds for every encoder–decoder, whatever its layers are, and is asserted for each."""

import torch

EXACT = 1e-12  # in float64


def distance(a, b):
    return (a - b).abs().max().item()


def pad(lists, length):
    return torch.tensor([row + [0] * (length - len(row)) for row in lists])


@torch.no_grad()
def assert_future_is_invisible(model, src, tgt, cut, following):
    """The logits of the first `cut` target tokens are the same whatever follows them."""
    other = tgt[:cut] + following
    logits = model(torch.tensor([src]), torch.tensor([tgt]))
    changed = model(torch.tensor([src]), torch.tensor([other]))
    assert distance(logits[:, :cut], changed[:, :cut]) <= EXACT


@torch.no_grad()
def assert_padding_is_invisible(model, sources, targets, more):
    """A padded batch, with `more` padding than it needs, gives each pair what the pair gets alone."""
    logits = model(pad(sources, max(map(len, sources)) + more), pad(targets, max(map(len, targets)) + more))
    for i, (source, target) in enumerate(zip(sources, targets, strict=True)):
        alone = model(torch.tensor([source]), torch.tensor([target]))[0]
        assert distance(logits[i, : len(target)], alone) <= EXACT
