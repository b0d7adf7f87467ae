"""Windows: resets, restarts, busy time, and that a window is what happened in it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qwen_tui.services.live.measures import decode_tok_s
from qwen_tui.services.live.normalise import Buckets, Reading
from qwen_tui.services.live.quantiles import bucket_of, quantile
from qwen_tui.services.live.windows import History

S1 = (("dp_rank", "0"),)
S2 = (("dp_rank", "1"),)


def reading(**counters: dict[tuple[tuple[str, str], ...], float]) -> Reading:
    return Reading("sglang", gauges={"running": 1.0}, counters=counters)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("grow"), st.integers(0, 1000), st.integers(0, 1000)),
        # One replica restarts and has already counted a little; the other goes on growing.
        st.tuples(st.just("restart"), st.integers(0, 50), st.integers(1, 100)),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=300, deadline=None)
@given(steps)
def test_totals_survive_the_restarts_of_one_replica(
    moves: list[tuple[str, int, int]],
) -> None:
    one, two, expected = 500.0, 500.0, 1000.0
    history = History()
    history.feed(reading(decoded={S1: one, S2: two}), 0.0)
    for at, (kind, a, b) in enumerate(moves, 1):
        if kind == "grow":
            one += a
            two += b
            expected += a + b
        elif a < one:  # a restart shows only when the new count is below the old one
            one = float(a)
            two += b
            expected += a + b
        else:
            continue
        history.feed(reading(decoded={S1: one, S2: two}), float(at))
    start = history.since_start()
    assert start is not None
    assert start.totals["decoded"] == expected
    assert history.boots == 1
    window = history.window(1e9)
    if window is not None:
        assert window.totals["decoded"] == expected - 1000


def test_a_window_is_what_happened_in_it() -> None:
    history = History()
    total = 0.0
    for second in range(400):
        total += 5 if second >= 390 else 1
        history.feed(reading(decoded={S1: total}), float(second))
    ten, minute, five = (history.window(s) for s in (10, 60, 300))
    assert ten is not None
    assert minute is not None
    assert five is not None
    assert (ten.seconds, ten.totals["decoded"]) == (10, 50)
    assert (minute.seconds, minute.totals["decoded"]) == (60, 50 + 50)
    # Marks older than a minute are five seconds apart; the window says how long it really is.
    assert five.seconds is not None
    assert 300 <= five.seconds < 305
    assert five.totals["decoded"] == five.seconds - 10 + 50


def test_a_late_answer_says_nothing_about_the_speed() -> None:
    """Seen on a busy vLLM: an answer after three seconds, the next at once, 200 tokens apart."""
    history = History()
    for second in range(5):
        history.feed(reading(decoded={S1: 100.0 * second}), float(second))
    history.feed(reading(decoded={S1: 500.0}), 7.0, slack_s=1.5)
    history.feed(reading(decoded={S1: 700.0}), 7.02, slack_s=0.005)
    window = history.window(10)
    assert window is not None
    assert decode_tok_s(window) == pytest.approx(100)


def test_a_short_past_gives_a_short_window_and_says_so() -> None:
    history = History()
    for second in range(4):
        history.feed(reading(decoded={S1: float(second)}), float(second))
    window = history.window(60)
    assert window is not None
    assert window.seconds == 3


def test_memory_stays_bounded() -> None:
    history = History()
    for second in range(5000):
        history.feed(reading(decoded={S1: float(second)}), float(second))
    assert len(history._marks) <= 120
    window = history.window(300)
    assert window is not None
    assert window.seconds is not None
    assert 300 <= window.seconds < 305


def test_a_new_boot_is_seen_by_its_fingerprint_even_when_the_counters_are_higher() -> None:
    """After a long silence a new boot may have counted more than the old one had."""
    history = History()
    old = Reading("sglang", counters={"decoded": {S1: 10.0}}, boot=(1.5, 20.0))
    new = Reading("sglang", counters={"decoded": {S1: 900.0}}, boot=(1.7, 21.0))
    history.feed(old, 0.0)
    assert history.feed(old, 1.0) is False
    assert history.feed(new, 100.0) is True
    assert history.boots == 2
    assert history.window(300) is None
    start = history.since_start()
    assert start is not None
    assert start.totals["decoded"] == 900


def test_a_new_boot_is_seen_when_everything_fell() -> None:
    history = History()
    history.feed(reading(decoded={S1: 10.0}, requests={S1: 3.0}), 0.0)
    assert history.feed(reading(decoded={S1: 2.0}, requests={S1: 1.0}), 1.0) is True


def test_a_histogram_that_was_reset_counts_from_zero() -> None:
    bounds = (0.1, 0.2, math.inf)

    def with_ttft(counts: tuple[float, ...], total: float, other: float) -> Reading:
        return Reading(
            "sglang",
            counters={"decoded": {S2: other}},
            histograms={"ttft": {S1: Buckets(bounds, counts, total)}},
        )

    history = History()
    history.feed(with_ttft((5, 8, 10), 1.5, 1), 0.0)
    history.feed(with_ttft((1, 1, 2), 0.5, 2), 1.0)  # below the old counts: restarted
    window = history.window(10)
    assert window is not None
    assert window.distributions["ttft"].counts == (1, 1, 2)
    assert window.distributions["ttft"].total == 0.5


def busy(history: History, at: float, tokens: float, itl_n: float, itl_s: float) -> None:
    history.feed(
        Reading(
            "sglang",
            gauges={"running": 1.0},
            counters={"decoded": {S1: tokens}},
            histograms={"itl": {S1: Buckets((0.1, math.inf), (itl_n, itl_n), itl_s)}},
        ),
        at,
    )


def test_a_request_that_fills_a_third_of_an_interval_is_not_three_times_slower() -> None:
    """30 tokens in 0.3 s inside a scrape interval of 1 s are 100 tok/s, not 30."""
    history = History()
    busy(history, 0, 0, 0, 0.0)
    busy(history, 1, 30, 29, 0.29)
    window = history.window(10)
    assert window is not None
    assert window.totals["busy_tokens"] == 30
    assert window.totals["busy_s"] == pytest.approx(0.29)


def test_idle_time_between_requests_is_not_decoding() -> None:
    history = History()
    busy(history, 0, 0, 0, 0.0)
    for second in range(1, 11):
        # 100 tokens in the first of every five seconds.
        tokens = 100.0 * ((second + 4) // 5)
        busy(history, second, tokens, tokens - 1, 0.99 * ((second + 4) // 5))
    window = history.window(10)
    assert window is not None
    assert window.totals["busy_tokens"] / window.totals["busy_s"] == pytest.approx(101, rel=0.02)


def test_two_streams_at_once_are_not_counted_as_twice_the_time() -> None:
    history = History()
    busy(history, 0, 0, 0, 0.0)
    busy(history, 1, 200, 198, 1.98)  # stream-seconds are capped by the interval
    window = history.window(10)
    assert window is not None
    assert window.totals["busy_s"] == 1


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=3, max_size=12), st.floats(0, 1))
def test_quantiles_lie_in_their_bucket_and_rise_with_q(per_bucket: list[int], q: float) -> None:
    bounds = [0.1 * 2**i for i in range(len(per_bucket) - 1)] + [math.inf]
    counts = [float(sum(per_bucket[: i + 1])) for i in range(len(per_bucket))]
    value = quantile(q, bounds, counts)
    if counts[-1] == 0:
        assert value is None
        return
    assert value is not None
    higher = quantile(min(1.0, q + 0.1), bounds, counts)
    assert higher is not None
    assert higher >= value
    bucket = bucket_of(value, bounds)
    assert bucket is not None
    assert bucket[0] <= value
    assert bucket[1] is None or value <= bucket[1]


def test_quantile_by_hand() -> None:
    # 10 samples: 2 up to 0.1, 6 more up to 0.2, 2 above 0.4.
    bounds, counts = [0.1, 0.2, 0.4, math.inf], [2, 8, 8, 10]
    assert quantile(0.5, bounds, counts) == pytest.approx(0.1 + 0.1 * (5 - 2) / 6)
    assert quantile(0.1, bounds, counts) == pytest.approx(0.05)
    assert quantile(0.95, bounds, counts) == 0.4  # in the open bucket: at least this
    assert bucket_of(0.4, bounds) == (0.4, None)
    assert quantile(0.5, bounds, [2, 1, 8, 10]) is None  # contradicts itself
    assert quantile(0.5, [], []) is None
    assert quantile(0.5, [0.1], [3]) is None  # no open bucket: not a histogram
