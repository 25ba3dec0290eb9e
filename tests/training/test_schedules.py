import math

import pytest

from attnbook.training.schedules import warmup_cosine, warmup_inverse_sqrt


def test_papers_schedule_peaks_at_the_end_of_the_warm_up():
    rates = [warmup_inverse_sqrt(step, 512, 4000) for step in range(1, 20001)]
    assert rates.index(max(rates)) + 1 == 4000
    assert max(rates) == pytest.approx(512**-0.5 * 4000**-0.5)  # 0.0006987


def test_papers_schedule_rises_linearly_and_falls_with_the_root():
    assert warmup_inverse_sqrt(1000, 512) == pytest.approx(10 * warmup_inverse_sqrt(100, 512))
    assert warmup_inverse_sqrt(16000, 512) == pytest.approx(warmup_inverse_sqrt(4000, 512) / 2)


def test_papers_schedule_is_equation_3():
    for step in (1, 399, 400, 401, 5000):
        expected = 256**-0.5 * min(1 / math.sqrt(step), step / 400**1.5)
        assert warmup_inverse_sqrt(step, 256, 400) == pytest.approx(expected)


def test_cosine_goes_up_then_down_to_zero_and_stays_there():
    rates = [warmup_cosine(step, 1000, 2e-3, 100) for step in range(1, 1101)]
    assert rates[0] == pytest.approx(2e-5)
    assert rates[99] == max(rates) == pytest.approx(2e-3)
    assert all(later < earlier for earlier, later in zip(rates[99:999], rates[100:1000], strict=True))
    assert rates[549] == pytest.approx(1e-3)  # half way down
    assert rates[999:] == pytest.approx([0.0] * 101)


@pytest.mark.parametrize(
    "call",
    [
        lambda: warmup_inverse_sqrt(0, 512),
        lambda: warmup_inverse_sqrt(1, 0),
        lambda: warmup_cosine(1, 100, 1e-3, 100),
        lambda: warmup_cosine(1, 100, 0.0, 10),
    ],
)
def test_schedules_refuse_what_makes_no_sense(call):
    with pytest.raises(ValueError, match="expected"):
        call()
