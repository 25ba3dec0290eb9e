"""Chapter 13, positional encoding."""

import math

import torch
from torch import Tensor

from attnbook.exercises.core import Exercise, Slip, Symptom
from attnbook.position import (
    apply_rotary,
    frequencies,
    half_split_order,
    rotation_matrix,
    sinusoidal_encoding,
)


def sinusoidal(length: int, d_model: int) -> Tensor:
    """The encoding of the positions 0 … length − 1: (length, d_model)."""
    return sinusoidal_encoding(length, d_model)


def rotation(k: float, omega: float) -> Tensor:
    """The matrix that turns (sin ωp, cos ωp) into (sin ω(p + k), cos ω(p + k))."""
    return rotation_matrix(k * omega, d_model=2)


def rotary(x: Tensor, positions: Tensor) -> Tensor:
    """Each interleaved pair of features, turned by its position times its frequency."""
    return apply_rotary(x, positions)


def wavelength(i: int, d_model: int) -> float:
    """Positions that pair i takes for a whole turn."""
    return 2 * math.pi / frequencies(d_model)[i].item()


def _sinusoids(length: int, exponent: Tensor, base: float = 10000.0, first: int = 0) -> tuple[Tensor, Tensor]:
    """Sines and cosines (length, d_model / 2) of the positions `first` … at the frequencies "
    "base^−exponent."""
    angle = torch.arange(first, first + length)[:, None] * base ** -exponent.double()
    return angle.sin().float(), angle.cos().float()


def _pairs(d_model: int) -> Tensor:
    return torch.arange(0, d_model, 2) / d_model


def _interleave(first: Tensor, second: Tensor) -> Tensor:
    return torch.stack([first, second], dim=-1).flatten(-2)


def _own_frequency_for_each_feature(length: int, d_model: int) -> Tensor:
    sin = _sinusoids(length, _pairs(d_model))[0]
    cos = _sinusoids(length, _pairs(d_model) + 1 / d_model)[1]
    return _interleave(sin, cos)


def _no_minus(k: float, omega: float) -> Tensor:
    cos, sin = math.cos(k * omega), math.sin(k * omega)
    return torch.tensor([[cos, sin], [sin, cos]])


def _turned(x: Tensor, positions: Tensor, omega: Tensor) -> Tensor:
    """Interleaved pairs turned by the angles positions · omega, for any frequencies."""
    angle = positions[:, None] * omega
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    return _interleave(x[..., 0::2] * cos - x[..., 1::2] * sin, x[..., 0::2] * sin + x[..., 1::2] * cos)


def _overwritten(x: Tensor, positions: Tensor) -> Tensor:
    angle = positions[:, None] * frequencies(x.shape[-1])
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first = x[..., 0::2] * cos - x[..., 1::2] * sin
    return _interleave(first, first * sin + x[..., 1::2] * cos)


def _not_exchanged(x: Tensor, positions: Tensor) -> Tensor:
    angle = positions[:, None] * frequencies(x.shape[-1]).repeat_interleave(2)
    return x * angle.cos().to(x.dtype) + x * angle.sin().to(x.dtype)


def _rotary_cases():
    random = torch.Generator().manual_seed(13)
    plain = torch.tensor([[1.0, 0, 1, 0], [1.0, 2, 3, 4]])
    return [
        (plain, torch.tensor([2, 5])),
        (torch.randn(2, 3, 8, generator=random), torch.tensor([0, 1, 2])),
        (torch.randn(2, 2, 3, 6, generator=random, dtype=torch.float64), torch.tensor([7, 3, 11])),
    ]


def _keeps_length(turned: Tensor, x: Tensor, *_: Tensor) -> bool:
    return torch.allclose(turned.norm(dim=-1), x.double().norm(dim=-1), atol=1e-4)


EXERCISES = [
    Exercise(
        name="permutation",
        truth=half_split_order(8),
        shown=(
            "两种配对方式只差一次重排：换了约定却不重排权重，模型就会出错。",
            "The two pairings differ by a reordering only; change the convention without reordering the "
            "weights, and a model breaks.",
        ),
        slips=[
            Slip(
                "inverse",
                half_split_order(8).argsort(),
                "这是反方向的重排：从前后对半变回交错。`x[..., order]` 的第 j 个特征取自 `x` 的第 "
                "`order[j]` 个。",
                "This is the way back, from half-split to interleaved. Feature j of `x[..., order]` is "
                "feature `order[j]` of `x`.",
            ),
            Slip(
                "identity",
                torch.arange(8),
                "这个顺序什么也没有改变。交错时特征 0 和 1 是一对；对半时特征 0 和 4 是一对。",
                "This order changes nothing. Interleaved, features 0 and 1 are a pair; half-split, 0 and 4 "
                "are.",
            ),
            Slip(
                "reversed",
                torch.arange(7, -1, -1),
                "倒过来之后，相邻的两个特征仍然是一对，只是交换了先后。",
                "Reversed, two neighbours are still a pair, only in the other order.",
            ),
            Slip(
                "second halves first",
                torch.tensor([1, 3, 5, 7, 0, 2, 4, 6]),
                "配对对了，但每一对里的两个特征交换了位置，旋转方向就反了。",
                "The pairs are right, but the two features of each have changed places, so they would turn "
                "the other way.",
            ),
            Slip(
                "counted from 1",
                half_split_order(8) + 1,
                "思路对了，但下标从 0 开始数。",
                "The idea is right, but indices count from 0.",
            ),
        ],
        symptoms=[
            Symptom(
                "not a permutation",
                lambda order: sorted(order.tolist()) == list(range(8)),
                "重排要用到 0 到 7 的每个下标，各用一次。",
                "A reordering uses each index from 0 to 7 exactly once.",
            ),
        ],
    ),
    Exercise(
        name="wavelength",
        truth=wavelength,
        cases=[(1, 8), (0, 8), (3, 8), (5, 64), (255, 512)],
        shown=(
            "波长从 2π 起按等比数列增长，接近 10000 · 2π：快的钟分辨邻居，慢的钟记住远近。",
            "Wavelengths grow geometrically from 2π to nearly 10000 · 2π: fast clocks tell neighbours "
            "apart, slow ones keep the distance.",
        ),
        slips=[
            Slip(
                "without 2π",
                lambda i, d_model: wavelength(i, d_model) / (2 * math.pi),
                "这是角频率的倒数，即转过 1 弧度要多少个位置。转一整圈是多少弧度？",
                "This is one over the angular frequency: the positions for one radian. How many radians is "
                "a turn?",
            ),
            Slip(
                "exponent i/d",
                lambda i, d_model: 2 * math.pi * 10000 ** (i / d_model),
                "指数小了一半：i 是第几对特征，每一对占两个特征。",
                "The exponent is half of what it should be: i counts pairs, and a pair takes two features.",
            ),
            Slip(
                "shrinks with i",
                lambda i, d_model: 2 * math.pi * 10000 ** (-2 * i / d_model),
                "指数的符号反了：i 越大，频率越低，波长应该越长。",
                "The exponent has the wrong sign: a larger i is a lower frequency, so a longer wave.",
            ),
            Slip(
                "frequency",
                lambda i, d_model: 1 / wavelength(i, d_model),
                "这是每个位置转多少圈（频率）；波长是它的倒数。",
                "This is turns a position, a frequency; the wavelength is its reciprocal.",
            ),
            Slip(
                "angular frequency",
                lambda i, d_model: 10000 ** (-2 * i / d_model),
                "这是角频率 ω，每个位置转过的弧度。转满一圈 2π 要多少个位置？",
                "This is the angular frequency ω, radians a position. How many positions make a whole turn "
                "of 2π?",
            ),
            Slip(
                "one pair too early",
                lambda i, d_model: 2 * math.pi * 10000 ** (2 * (i - 1) / d_model),
                "i 从 0 开始数：第 0 对的波长就是 2π。",
                "i counts from 0: pair 0 has the wavelength 2π.",
            ),
            Slip(
                "one pair too late",
                lambda i, d_model: 2 * math.pi * 10000 ** (2 * (i + 1) / d_model),
                "i 从 0 开始数：第 0 对的波长就是 2π。",
                "i counts from 0: pair 0 has the wavelength 2π.",
            ),
        ],
    ),
    Exercise(
        name="sinusoidal",
        truth=sinusoidal,
        cases=[(3, 4), (10, 8), (50, 6)],
        shown=(
            "每一对特征是一只钟，所有的钟同时从 (0, 1) 出发，各走各的速度。",
            "Each pair of features is a clock; all start at (0, 1) together, and each runs at its own speed.",
        ),
        slips=[
            Slip(
                "halves, not interleaved",
                lambda length, d_model: torch.cat(_sinusoids(length, _pairs(d_model)), dim=-1),
                "数值都对，排列不同：你把 sin 放在前一半，cos 放在后一半；这里要求交错排列。",
                "The numbers are right, in another order: sines in the first half and cosines in the "
                "second; here they should be interleaved.",
            ),
            Slip(
                "exponent i/d",
                lambda length, d_model: _interleave(*_sinusoids(length, _pairs(d_model) / 2)),
                "频率降得太慢：指数里是 2i，i 是第几对。",
                "The frequencies fall too slowly: the exponent has 2i, where i counts pairs.",
            ),
            Slip(
                "exponent 4i/d",
                lambda length, d_model: _interleave(*_sinusoids(length, _pairs(d_model) * 2)),
                "频率降得太快：`arange(0, d_model, 2)` 已经是 2i，不要再乘 2。",
                "The frequencies fall too fast: `arange(0, d_model, 2)` is 2i already; do not double it "
                "again.",
            ),
            Slip(
                "sine and cosine exchanged",
                lambda length, d_model: _interleave(*_sinusoids(length, _pairs(d_model))[::-1]),
                "sin 和 cos 的位置反了：偶数下标是 sin，所以位置 0 的编码是 0, 1, 0, 1, …",
                "Sine and cosine have changed places: even features are sines, so position 0 is 0, 1, 0, "
                "1, …",
            ),
            Slip(
                "frequencies upside down",
                lambda length, d_model: _interleave(*_sinusoids(length, -_pairs(d_model))),
                "频率随 i 升高了：角度应该除以 10000^(2i/d)，而不是乘。",
                "The frequencies rise with i: divide the position by 10000^(2i/d), do not multiply.",
            ),
            Slip(
                "positions from 1",
                lambda length, d_model: _interleave(*_sinusoids(length, _pairs(d_model), first=1)),
                "位置从 1 开始了；第一个位置是 0。",
                "The positions start at 1; the first one is 0.",
            ),
            Slip(
                "a frequency for each feature",
                _own_frequency_for_each_feature,
                "同一对的 sin 和 cos 要用同一个频率。你的奇数特征用了自己的下标 2i + 1，"
                "这样旋转矩阵就不存在了。",
                "The sine and cosine of a pair share one frequency. Your odd features take their own index "
                "2i + 1, and then there is no rotation matrix.",
            ),
            Slip(
                "transposed",
                lambda length, d_model: sinusoidal(length, d_model).T,
                "行和列反了：每一行是一个位置。",
                "Rows and columns have changed places: each row is a position.",
            ),
        ],
        symptoms=[
            Symptom(
                "position 0",
                lambda encoding, length, d_model: torch.allclose(
                    encoding[0], torch.tensor([0.0, 1.0]).double().repeat(d_model // 2), atol=1e-4
                ),
                "先看位置 0：它的角度全是 0，所以应该是 0, 1, 0, 1, …",
                "Look at position 0 first: all its angles are 0, so it should be 0, 1, 0, 1, …",
            ),
            Symptom(
                "not on the circle",
                lambda encoding, length, d_model: torch.allclose(
                    encoding.unflatten(-1, (-1, 2)).norm(dim=-1), torch.ones(()).double(), atol=1e-4
                ),
                "每一对 (sin, cos) 应该满足 sin² + cos² = 1，你的不满足：两个角度不同。",
                "Each pair (sin, cos) should have sin² + cos² = 1, and yours has not: its two angles differ.",
            ),
        ],
    ),
    Exercise(
        name="rotation",
        truth=rotation,
        cases=[(3, 0.4), (2, 0.1), (-4, 0.25), (0, 1.0)],
        shown=(
            "平移 k 个位置是一次旋转，矩阵里没有 p：模型用一个线性变换就能表示“往后 k 个”。",
            "A shift by k positions is a rotation, and p is not in the matrix: one linear map says “k "
            "further on”.",
        ),
        slips=[
            Slip(
                "transposed",
                lambda k, omega: rotation(k, omega).T,
                "sin 的符号反了。可以有两种理解：这是向回转的 M(−k)；或者这是 (cos, sin) 顺序的矩阵，"
                "而这里的顺序是 (sin, cos)。用加法公式展开 sin ω(p + k) 核对第一行。",
                "The signs of the sines are exchanged. Read it either way: this is M(−k), which turns "
                "back; or it is the matrix for the order (cos, sin), and here the order is (sin, cos). "
                "Expand sin ω(p + k) by the addition formula and compare the first row.",
            ),
            Slip(
                "k is missing",
                lambda k, omega: rotation(1, omega),
                "转过的角度只用到了 ω；平移 k 个位置要转多少？",
                "The angle has only ω in it; how far does a shift by k positions turn?",
            ),
            Slip(
                "omega is missing",
                lambda k, omega: rotation(k, 1),
                "转过的角度只用到了 k；这只钟每个位置走 ω 弧度。",
                "The angle has only k in it; this clock moves by ω radians a position.",
            ),
            Slip(
                "sum instead of product",
                lambda k, omega: rotation(k + omega, 1),
                "角度用的是 k + ω；每个位置转 ω，k 个位置转多少？",
                "The angle is k + ω; a clock that turns by ω a position turns by how much in k of them?",
            ),
            Slip(
                "degrees",
                lambda k, omega: rotation(k, math.radians(omega)),
                "角度被当成度数换算了一次；ω 的单位已经是弧度。",
                "The angle was converted from degrees; ω is in radians already.",
            ),
            Slip(
                "sines on the diagonal",
                lambda k, omega: rotation(k, omega)[:, [1, 0]],
                "sin 和 cos 的位置反了：k = 0 时矩阵应该是单位矩阵。",
                "Sine and cosine have changed places: for k = 0 the matrix should be the identity.",
            ),
            Slip(
                "no minus sign",
                _no_minus,
                "没有负号的矩阵不是旋转。cos ω(p + k) 的加法公式里有一个减号。",
                "Without a minus sign it is no rotation. The addition formula of cos ω(p + k) has a minus.",
            ),
        ],
        symptoms=[
            Symptom(
                "not a rotation",
                lambda matrix, k, omega: torch.allclose(
                    matrix @ matrix.T, torch.eye(2, dtype=torch.float64), atol=1e-4
                ),
                "旋转不改变长度：M Mᵀ 应该是单位矩阵，你的不是：",
                "A rotation keeps lengths: M Mᵀ should be the identity, and yours is not:",
            ),
        ],
    ),
    Exercise(
        name="rotary",
        truth=rotary,
        cases=_rotary_cases(),
        shown=(
            "位置成了旋转：长度不变，两个旋转后的向量的点积只取决于位置之差。",
            "Position has become rotation: lengths stay, and the dot product of two turned vectors depends "
            "on the distance only.",
        ),
        slips=[
            Slip(
                "half-split pairs",
                lambda x, positions: apply_rotary(x, positions, interleaved=False),
                "旋转是对的，配对方式不同：你把特征 j 和 j + d/2 配成一对，这里要求 (0, 1), (2, 3), …",
                "The rotation is right, the pairing is another: you pair feature j with j + d/2; here the "
                "pairs are (0, 1), (2, 3), …",
            ),
            Slip(
                "opposite direction",
                lambda x, positions: apply_rotary(x, -positions),
                "方向转反了：正的位置应该按 (cos, −sin; sin, cos) 转。",
                "It turns the other way: a positive position turns a pair by (cos, −sin; sin, cos).",
            ),
            Slip(
                "one angle for all pairs",
                lambda x, positions: _turned(x, positions, torch.ones(x.shape[-1] // 2)),
                "所有的特征对转了同样的角度；第 i 对有自己的频率 ω_i。",
                "All pairs turn by one angle; pair i has its own frequency ω_i.",
            ),
            Slip(
                "positions ignored",
                lambda x, positions: apply_rotary(x),
                "没有用到 `positions`：转角是按 0, 1, 2, … 算的。",
                "`positions` is not used: the angles are those of 0, 1, 2, …",
            ),
            Slip(
                "positions off by one",
                lambda x, positions: apply_rotary(x, positions + 1),
                "每个位置都多转了一步：位置 0 不应该转动。",
                "Every position turns one step too far: position 0 should not turn at all.",
            ),
            Slip(
                "exponent i/d",
                lambda x, positions: _turned(x, positions, frequencies(x.shape[-1]).sqrt()),
                "频率降得太慢：指数里是 2i，i 是第几对。",
                "The frequencies fall too slowly: the exponent has 2i, where i counts pairs.",
            ),
            Slip(
                "overwritten",
                _overwritten,
                "每一对的第二个特征用到了已经转过的第一个特征。两个新值都要从旧值算出，所以长度也变了。",
                "The second feature of each pair is computed from the first one after its turn. Both new "
                "values come from the old ones; that is why lengths change too.",
            ),
            Slip(
                "pairs not exchanged",
                _not_exchanged,
                "每个特征只和自己相乘。旋转会把一对里的两个特征混在一起：sin 乘的是另一个。",
                "Each feature meets only itself. A rotation mixes the two of a pair: the sine multiplies "
                "the other.",
            ),
            Slip(
                "added, not turned",
                lambda x, positions: x + sinusoidal_encoding(positions, x.shape[-1], dtype=x.dtype),
                "这是把正弦编码加上去；RoPE 不加任何东西，而是旋转。",
                "This adds the sinusoidal encoding; RoPE adds nothing, it turns.",
            ),
        ],
        symptoms=[
            Symptom(
                "length changes",
                _keeps_length,
                "旋转不应该改变向量的长度，你的结果改变了：",
                "A rotation must not change the length of a vector, and here it does:",
            ),
        ],
    ),
]
