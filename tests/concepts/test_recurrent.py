"""RNN, LSTM and GRU are the published equations, equal torch, and do not see padding."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attnbook.feedforward import num_parameters
from attnbook.recurrent import (
    GRU,
    LSTM,
    RNN,
    gru_step,
    gru_step_reset_before,
    lstm_gates,
    lstm_step,
    rnn_step,
    unroll,
)

BATCH, TIME, INPUT, HIDDEN = 5, 7, 6, 8
LENGTHS = torch.tensor([3, 7, 1, 5, 6])
TWINS = [pytest.param(RNN, nn.RNN, id="RNN"), pytest.param(LSTM, nn.LSTM, id="LSTM")]
TWINS += [pytest.param(GRU, nn.GRU, id="GRU")]
DTYPES = {  # (of a single layer, of a stack)
    torch.float32: (1e-6, 1e-5),
    torch.float64: (1e-14, 1e-13),
}


def cho_gru(*args, **options):
    return GRU(*args, **options, reset_after=False)


NETWORKS = [pytest.param(RNN, id="RNN"), pytest.param(LSTM, id="LSTM")]
NETWORKS += [pytest.param(GRU, id="GRU"), pytest.param(cho_gru, id="GRU, reset before")]


def deviation(ours, theirs):
    """The largest difference, in units of the largest entry where that is above 1."""
    return ((ours - theirs).abs().max() / max(1.0, theirs.abs().max().item())).item()


def parts(state):
    """The tensors of a state: (h,) or (h, c)."""
    return state if isinstance(state, tuple) else (state,)


def random_state(network, batch=BATCH):
    shape = (len(network.cells), batch, network.hidden_size)
    state = tuple(
        torch.randn(shape, dtype=network.cells[0].bias.dtype, requires_grad=True)
        for _ in range(2 if isinstance(network, LSTM) else 1)
    )
    return state if len(state) > 1 else state[0]


def gradients_by_torch_name(network):
    """Gradients under torch's names. Both of torch's biases get that of our one, except for n in a GRU."""
    gradients = {}
    for k, cell in enumerate(network.cells):
        suffix = f"_l{k // network.num_directions}" + "_reverse" * (k % network.num_directions)
        bias_hh = cell.bias.grad.clone()
        if cell.bias_hn is not None:
            bias_hh[-network.hidden_size :] = cell.bias_hn.grad
        gradients |= {
            "weight_ih" + suffix: cell.weight_ih.grad,
            "weight_hh" + suffix: cell.weight_hh.grad,
            "bias_ih" + suffix: cell.bias.grad,
            "bias_hh" + suffix: bias_hh,
        }
    return gradients


def twin_deviations(network, twin, lengths):
    """Largest deviation of outputs and states, and of all gradients, on a random batch and loss."""
    dtype = network.cells[0].bias.dtype
    x = torch.randn(BATCH, TIME, INPUT, dtype=dtype, requires_grad=True)
    state = random_state(network)
    outputs, final = network(x, state, lengths)

    their_x, their_state = x.detach().requires_grad_(), [s.detach().requires_grad_() for s in parts(state)]
    their_input = their_x
    if lengths is not None:
        their_input = pack_padded_sequence(their_x, lengths, batch_first=True, enforce_sorted=False)
    their_outputs, their_final = twin(
        their_input, tuple(their_state) if len(their_state) > 1 else their_state[0]
    )
    if lengths is not None:
        their_outputs, _ = pad_packed_sequence(their_outputs, batch_first=True, total_length=TIME)

    probe = torch.randn_like(outputs), *(torch.randn_like(part) for part in parts(final))
    for values in ((outputs, *parts(final)), (their_outputs, *parts(their_final))):
        sum((p * value).sum() for p, value in zip(probe, values, strict=True)).backward()

    ours, theirs = (outputs, *parts(final)), (their_outputs, *parts(their_final))
    by_value = max(map(deviation, ours, theirs))
    by_name = gradients_by_torch_name(network)
    assert by_name.keys() == dict(twin.named_parameters()).keys()
    pairs = [(by_name[name], parameter.grad) for name, parameter in twin.named_parameters()]
    pairs += [(x.grad, their_x.grad)]
    pairs += [(a.grad, b.grad) for a, b in zip(parts(state), their_state, strict=True)]
    return by_value, max(deviation(*pair) for pair in pairs)


@pytest.mark.parametrize(("network", "twin"), TWINS)
@pytest.mark.parametrize("num_layers", [1, 2, 3])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["one length", "packed lengths"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_equals_torch_in_outputs_states_and_gradients(
    network, twin, num_layers, bidirectional, lengths, dtype
):
    torch.manual_seed(0)
    options = {"num_layers": num_layers, "bidirectional": bidirectional}
    theirs = twin(INPUT, HIDDEN, batch_first=True, dtype=dtype, **options)
    ours = network.from_torch(theirs)
    single, stack = DTYPES[dtype]
    tolerance = single if num_layers == 1 and not bidirectional else stack
    by_value, by_gradient = twin_deviations(ours, theirs, lengths)
    assert by_value <= tolerance
    assert by_gradient <= tolerance


@pytest.mark.parametrize(("network", "twin"), TWINS)
def test_torch_with_our_weights_equals_us(network, twin):
    torch.manual_seed(0)
    ours = network(INPUT, HIDDEN, num_layers=2, bidirectional=True)
    nn.init.normal_(ours.cells[1].bias)
    theirs = twin(INPUT, HIDDEN, num_layers=2, bidirectional=True, batch_first=True)
    with torch.no_grad():
        for k, cell in enumerate(ours.cells):
            suffix = f"_l{k // 2}" + "_reverse" * (k % 2)
            getattr(theirs, "weight_ih" + suffix).copy_(cell.weight_ih)
            getattr(theirs, "weight_hh" + suffix).copy_(cell.weight_hh)
            getattr(theirs, "bias_ih" + suffix).copy_(cell.bias)
            bias_hh = getattr(theirs, "bias_hh" + suffix).zero_()
            if cell.bias_hn is not None:
                bias_hh[-HIDDEN:] = cell.bias_hn
    x = torch.randn(BATCH, TIME, INPUT)
    (outputs, state), (their_outputs, their_state) = ours(x), theirs(x)
    assert deviation(outputs, their_outputs) <= 1e-5
    assert max(map(deviation, parts(state), parts(their_state))) <= 1e-5


# ---- the equations ----


def unit(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_rnn_step_is_elmans_equation():
    x, h, W, U, b = (
        unit(2, 3, seed=0),
        unit(2, 4, seed=1),
        unit(4, 3, seed=2),
        unit(4, 4, seed=3),
        unit(4, seed=4),
    )
    after = rnn_step(x @ W.T + b, h, U)
    for row in range(2):
        for j in range(4):
            z = b[j] + sum(W[j, i] * x[row, i] for i in range(3)) + sum(U[j, i] * h[row, i] for i in range(4))
            assert after[row, j].item() == pytest.approx(math.tanh(z), abs=1e-14)


def test_lstm_step_is_the_equations_gate_by_gate():
    a, h, c, U = unit(2, 16, seed=0), unit(2, 4, seed=1), unit(2, 4, seed=2), unit(16, 4, seed=3)
    U_i, U_f, U_g, U_o = U.chunk(4)
    a_i, a_f, a_g, a_o = a.chunk(4, dim=1)
    i, f, o = (1 / (1 + torch.exp(-(a_k + h @ U_k.T))) for a_k, U_k in ((a_i, U_i), (a_f, U_f), (a_o, U_o)))
    c_after = f * c + i * torch.tanh(a_g + h @ U_g.T)
    ours_h, ours_c = lstm_step(a, h, c, U)
    assert deviation(ours_c, c_after) <= 1e-14
    assert deviation(ours_h, o * torch.tanh(c_after)) <= 1e-14
    gates = lstm_gates(a, h, U)
    assert max(map(deviation, gates, (i, f, torch.tanh(a_g + h @ U_g.T), o))) <= 1e-14


def test_lstm_with_open_forget_gate_and_closed_input_gate_remembers_for_ever():
    a = torch.tensor([[-40.0, 40.0, 3.0, 0.0]], dtype=torch.float64)  # i = 0, f = 1
    h, c = torch.zeros(1, 1, dtype=torch.float64), torch.full((1, 1), 0.7, dtype=torch.float64)
    for _ in range(1000):
        h, c = lstm_step(a, h, c, torch.zeros(4, 1, dtype=torch.float64))
    assert c.item() == pytest.approx(0.7, abs=1e-12)


def test_gru_update_gate_keeps():
    h = torch.tensor([[0.3]])
    U, b_hn = torch.zeros(3, 1), torch.zeros(1)
    keep, write = torch.tensor([[0.0, 50.0, 1.0]]), torch.tensor([[0.0, -50.0, 1.0]])  # z = 1, z = 0
    for step in (lambda a: gru_step(a, h, U, b_hn), lambda a: gru_step_reset_before(a, h, U)):
        assert step(keep).item() == pytest.approx(0.3)
        assert step(write).item() == pytest.approx(math.tanh(1.0))


def test_gru_variants_differ_where_the_reset_gate_stands():
    a, h, U, b_hn = unit(2, 12, seed=0), unit(2, 4, seed=1), unit(12, 4, seed=2), unit(4, seed=3)
    r, z = torch.sigmoid(a[:, :8] + h @ U[:8].T).chunk(2, dim=1)
    a_n, U_n = a[:, 8:], U[8:]
    before = (1 - z) * torch.tanh(a_n + (r * h) @ U_n.T) + z * h
    after = (1 - z) * torch.tanh(a_n + r * (h @ U_n.T + b_hn)) + z * h
    assert deviation(gru_step_reset_before(a, h, U), before) <= 1e-14
    assert deviation(gru_step(a, h, U, b_hn), after) <= 1e-14
    without_bias = gru_step(a, h, U, torch.zeros_like(b_hn))
    assert deviation(without_bias, before) > 1e-3


def test_gru_variants_agree_while_nothing_is_reset():
    a, h, U = unit(2, 12, seed=0), unit(2, 4, seed=1), unit(12, 4, seed=2)
    a[:, :4] = 100.0  # r = 1
    after = gru_step(a, h, U, torch.zeros(4, dtype=torch.float64))
    assert deviation(after, gru_step_reset_before(a, h, U)) <= 1e-14


def test_stepping_by_hand_equals_the_module():
    torch.manual_seed(0)
    lstm, x = LSTM(INPUT, HIDDEN), torch.randn(2, TIME, INPUT)
    cell = lstm.cells[0]
    h = c = torch.zeros(2, HIDDEN)
    for t in range(TIME):
        h, c = lstm_step(x[:, t] @ cell.weight_ih.T + cell.bias, h, c, cell.weight_hh)
    outputs, (final_h, final_c) = lstm(x)
    assert deviation(outputs[:, -1], h) <= 1e-6
    assert deviation(final_h[0], h) <= 1e-6
    assert deviation(final_c[0], c) <= 1e-6


def test_unroll_is_a_for_loop_in_both_orders():
    inputs = [torch.tensor([[1.0]]), torch.tensor([[2.0]]), torch.tensor([[3.0]])]

    def step(a, h):
        return (10 * h + a,)

    start = (torch.zeros(1, 1),)
    outputs, (final,) = unroll(step, inputs, start)
    assert outputs.flatten().tolist() == [1, 12, 123]
    assert final.item() == 123
    outputs, (final,) = unroll(step, inputs, start, reverse=True)
    assert outputs.flatten().tolist() == [321, 32, 3]
    assert final.item() == 321


def test_cell_state_passes_the_forget_gates_to_the_gradient():
    """The direct path has ∂c_T/∂c_0 = diag(Π f_t); with U = 0 there is no other path."""
    a = unit(6, 1, 16, seed=0)
    U = torch.zeros(16, 4, dtype=torch.float64)
    c_0 = unit(1, 4, seed=1).requires_grad_()
    h, c = torch.zeros(1, 4, dtype=torch.float64), c_0
    product = torch.ones(1, 4, dtype=torch.float64)
    for a_t in a:
        product = product * lstm_gates(a_t, h, U)[1]
        h, c = lstm_step(a_t, h, c, U)
    (gradient,) = torch.autograd.grad(c.sum(), c_0)
    assert deviation(gradient, product) <= 1e-14


# ---- size and start ----


@pytest.mark.parametrize(
    ("network", "twin", "gates"), [(RNN, nn.RNN, 1), (LSTM, nn.LSTM, 4), (GRU, nn.GRU, 3)]
)
def test_parameters_are_those_of_the_formula_and_torch_has_a_second_bias(network, twin, gates):
    ours = num_parameters(network(INPUT, HIDDEN))
    reset_bias = HIDDEN if network is GRU else 0  # b_hn, which does not merge with b_n
    assert ours == gates * HIDDEN * (INPUT + HIDDEN + 1) + reset_bias
    assert num_parameters(twin(INPUT, HIDDEN)) == gates * HIDDEN * (INPUT + HIDDEN + 2)


def test_gru_of_the_paper_has_exactly_three_times_the_parameters_of_an_rnn():
    assert num_parameters(cho_gru(INPUT, HIDDEN)) == 3 * num_parameters(RNN(INPUT, HIDDEN))


def test_forget_bias_sets_the_forget_gate_of_every_cell_and_no_other():
    lstm = LSTM(INPUT, HIDDEN, num_layers=2, bidirectional=True, forget_bias=1.0)
    expected = torch.tensor([0.0, 1.0, 0.0, 0.0]).repeat_interleave(HIDDEN)
    assert all(torch.equal(cell.bias, expected) for cell in lstm.cells)
    assert all(torch.equal(cell.bias, torch.zeros(4 * HIDDEN)) for cell in LSTM(INPUT, HIDDEN).cells)


# ---- time, padding, batch ----


@pytest.mark.parametrize("network", NETWORKS)
@settings(deadline=None, max_examples=15)
@given(change=st.integers(1, TIME - 1), num_layers=st.integers(1, 3), seed=st.integers(0, 1000))
def test_future_cannot_change_the_past(network, change, num_layers, seed):
    torch.manual_seed(seed)
    model, x = network(INPUT, HIDDEN, num_layers=num_layers), torch.randn(2, TIME, INPUT)
    changed = x.clone()
    changed[:, change:] = torch.randn(2, TIME - change, INPUT)
    before, after = model(x)[0], model(changed)[0]
    assert torch.equal(before[:, :change], after[:, :change])
    assert not torch.allclose(before[:, change], after[:, change])


@pytest.mark.parametrize("network", NETWORKS)
def test_both_directions_together_see_everything(network):
    torch.manual_seed(0)
    model = network(INPUT, HIDDEN, bidirectional=True)
    x = torch.randn(1, TIME, INPUT, requires_grad=True)
    outputs, _ = model(x)
    forward, backward = outputs[0, 3].chunk(2)
    (seen_forward,) = torch.autograd.grad(forward.sum(), x, retain_graph=True)
    (seen_backward,) = torch.autograd.grad(backward.sum(), x)
    reaches = [(g[0].abs().sum(-1) > 0).tolist() for g in (seen_forward, seen_backward)]
    assert reaches == [[True] * 4 + [False] * 3, [False] * 3 + [True] * 4]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("bidirectional", [False, True])
@settings(deadline=None, max_examples=15)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    padding=st.integers(0, 5),
    filling=st.sampled_from([0.0, 1e6, math.inf, math.nan]),
    num_layers=st.integers(1, 2),
    seed=st.integers(0, 1000),
)
def test_padding_is_invisible_and_a_batch_equals_its_members(
    network, bidirectional, lengths, padding, filling, num_layers, seed
):
    """Outputs, states, and the gradients of all weights: whatever the padding holds, however much it is."""
    torch.manual_seed(seed)
    model = network(INPUT, HIDDEN, num_layers=num_layers, bidirectional=bidirectional).double()
    x = torch.full((len(lengths), max(lengths) + padding, INPUT), filling, dtype=torch.float64)
    members = [torch.randn(1, length, INPUT, dtype=torch.float64) for length in lengths]
    for row, member in zip(x, members, strict=True):
        row[: member.shape[1]] = member[0]
    state = random_state(model, len(lengths))
    outputs, final = model(x, state, torch.tensor(lengths))
    loss = outputs.sum() + sum((part**2).sum() for part in parts(final))
    together = torch.autograd.grad(loss, list(model.parameters()))

    loss = 0.0
    for row, member in enumerate(members):
        own_state = tuple(part[:, row : row + 1] for part in parts(state))
        own_outputs, own_final = model(member, own_state if len(own_state) > 1 else own_state[0])
        assert deviation(outputs[row, : member.shape[1]], own_outputs[0]) <= 1e-13
        assert (outputs[row, member.shape[1] :] == 0).all()
        for part, own in zip(parts(final), parts(own_final), strict=True):
            assert deviation(part[:, row], own[:, 0]) <= 1e-13
        loss = loss + own_outputs.sum() + sum((part**2).sum() for part in parts(own_final))
    alone = torch.autograd.grad(loss, list(model.parameters()))
    assert max(map(deviation, together, alone)) <= 1e-12


@pytest.mark.parametrize("network", NETWORKS)
def test_padding_gets_no_gradient(network):
    torch.manual_seed(0)
    model = network(INPUT, HIDDEN, num_layers=2, bidirectional=True)
    x = torch.randn(BATCH, TIME, INPUT, requires_grad=True)
    outputs, _ = model(x, lengths=LENGTHS)
    (outputs**2).sum().backward()
    for row, length in enumerate(LENGTHS.tolist()):
        assert (x.grad[row, :length].abs().sum(-1) > 0).all()
        assert (x.grad[row, length:] == 0).all()


@pytest.mark.parametrize("network", NETWORKS)
def test_without_lengths_padding_leaks_into_the_final_state(network):
    """The trap of chapter 8, which `lengths` is there to avoid."""
    torch.manual_seed(0)
    model, x = network(INPUT, HIDDEN), torch.randn(1, 3, INPUT)
    padded = torch.cat([x, torch.zeros(1, 4, INPUT)], dim=1)
    alone, leaked = (parts(model(sequence)[1])[0] for sequence in (x, padded))
    hidden = parts(model(padded, lengths=torch.tensor([3]))[1])[0]
    assert deviation(leaked, alone) > 1e-2
    assert deviation(hidden, alone) <= 1e-6


@pytest.mark.parametrize("network", NETWORKS)
def test_a_sequence_may_be_read_in_pieces(network):
    torch.manual_seed(0)
    model, x = network(INPUT, HIDDEN, num_layers=2), torch.randn(2, TIME, INPUT)
    whole, whole_state = model(x)
    first, state = model(x[:, :3])
    second, state = model(x[:, 3:], state)
    assert deviation(torch.cat([first, second], dim=1), whole) <= 1e-6
    assert max(map(deviation, parts(state), parts(whole_state))) <= 1e-6


@pytest.mark.parametrize("network", NETWORKS)
def test_runs_in_bfloat16_autocast(network):
    torch.manual_seed(0)
    model, x = network(INPUT, HIDDEN, num_layers=2), torch.randn(BATCH, TIME, INPUT)
    with torch.autocast("cpu", torch.bfloat16):
        outputs, _ = model(x, lengths=LENGTHS)
    assert deviation(outputs.float(), model(x, lengths=LENGTHS)[0]) < 0.05


# ---- bad input ----


X = torch.zeros(BATCH, TIME, INPUT)
STATE = torch.zeros(1, BATCH, HIDDEN)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((X[0],), ValueError, r"x: expected shape \(batch, time, 6\), found \(7, 6\)"),
        ((X[..., :5],), ValueError, r"x: expected shape \(batch, time, 6\), found \(5, 7, 5\)"),
        ((X[:, :0],), ValueError, "x: expected at least one time step"),
        ((X.long(),), TypeError, "x: expected a floating-point tensor, found torch.int64"),
        ((X.double(),), TypeError, "x: expected torch.float32 as the weights have it, found torch.float64"),
        ((X.tolist(),), TypeError, "x: expected a tensor, found list"),
        ((X, STATE[0]), ValueError, r"state h: expected shape \(1, 5, 8\), found \(5, 8\)"),
        ((X, STATE[:, :4]), ValueError, r"state h: expected shape \(1, 5, 8\), found \(1, 4, 8\)"),
        ((X, STATE.double()), TypeError, "state h: expected torch.float32"),
        ((X, (STATE, STATE)), TypeError, "state h: expected a tensor, found tuple"),
        ((X, None, [7] * 5), TypeError, "lengths: expected an integer tensor, found list"),
        ((X, None, LENGTHS.float()), TypeError, "lengths: expected an integer tensor, found torch.float32"),
        ((X, None, LENGTHS > 2), TypeError, "lengths: expected an integer tensor, found torch.bool"),
        ((X, None, LENGTHS[:4]), ValueError, r"lengths: expected shape \(5,\), found \(4,\)"),
        ((X, None, LENGTHS - 1), ValueError, "lengths: expected 1 to 7 .*, found 0 to 6"),
        ((X, None, LENGTHS + 1), ValueError, "lengths: expected 1 to 7 .*, found 2 to 8"),
    ],
)
def test_bad_input_is_named(arguments, error, message):
    with pytest.raises(error, match=message):
        GRU(INPUT, HIDDEN)(*arguments)


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        (STATE, TypeError, r"state: expected the pair \(h, c\), found Tensor"),
        ((STATE,), TypeError, r"state: expected the pair \(h, c\), found a tuple of 1"),
        ((STATE, STATE[0]), ValueError, r"state c: expected shape \(1, 5, 8\), found \(5, 8\)"),
    ],
)
def test_lstm_wants_both_states(state, error, message):
    with pytest.raises(error, match=message):
        LSTM(INPUT, HIDDEN)(X, state)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, 4), ValueError, "input_size: expected a positive int, found 0"),
        ((4, -1), ValueError, "hidden_size: expected a positive int, found -1"),
        ((4, 4.0), TypeError, "hidden_size: expected a positive int, found 4.0"),
        ((4, 4, 0), ValueError, "num_layers: expected a positive int, found 0"),
    ],
)
def test_bad_sizes_are_named(network, arguments, error, message):
    with pytest.raises(error, match=message):
        network(*arguments)


@pytest.mark.parametrize(
    ("network", "module"),
    [
        (LSTM, nn.GRU(4, 4)),
        (LSTM, nn.LSTM(4, 4, bias=False)),
        (LSTM, nn.LSTM(4, 4, proj_size=2)),
        (GRU, nn.GRU(4, 4, num_layers=2, dropout=0.1)),
        (RNN, nn.RNN(4, 4, nonlinearity="relu")),
        (RNN, nn.Linear(4, 4)),
    ],
    ids=str,
)
def test_from_torch_refuses_what_it_cannot_copy(network, module):
    with pytest.raises(ValueError, match=rf"module: expected an nn\.{network.__name__} with bias"):
        network.from_torch(module)
