from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from qwen_tui.services.history import Durations, History
from qwen_tui.services.runs import RunStore
from qwen_tui.services.watchdog import BootWatch, Sample, StuckDetector
from support.supervise import fake_profile, fake_supervisor, free_port

if TYPE_CHECKING:
    from qwen_tui.services.paths import Paths

BLANK = Sample(0.0, "load_weights", 100, 5 << 20, 1 << 30, 10 << 30, frozenset({1, 2}))
MOVES: list[dict[str, Any]] = [
    {"log_bytes": 101},
    {"phase": "kv_pool"},
    {"disk_bytes": (5 << 20) + (2 << 20)},
    {"gpu_bytes": (10 << 30) + (64 << 20)},
    {"host_bytes": (1 << 30) + (64 << 20)},
    {"processes": frozenset({1, 2, 3})},
]


def after(detector: StuckDetector, seconds: float, **changes: Any) -> str | None:
    text = detector.feed(replace(BLANK, at=seconds, **changes))
    return None if text is None else str(text)


def test_silence_longer_than_the_least_is_said() -> None:
    detector = StuckDetector({}, least_s=180)
    assert after(detector, 0) is None
    assert after(detector, 179) is None
    said = after(detector, 181)
    assert said is not None
    assert "load_weights" in said
    assert "181 s" in said
    assert "qwen-tui down" in said


@pytest.mark.parametrize("move", MOVES, ids=lambda m: next(iter(m)))
def test_anything_that_moves_is_progress(move: dict[str, Any]) -> None:
    detector = StuckDetector({}, least_s=180)
    after(detector, 0)
    assert after(detector, 170, **move) is None
    assert after(detector, 340, **move) is None
    assert after(detector, 351, **move) is not None


def test_a_desktop_that_flickers_is_no_progress() -> None:
    detector = StuckDetector({}, least_s=180)
    after(detector, 0)
    after(detector, 100, gpu_bytes=(10 << 30) + (4 << 20), disk_bytes=(5 << 20) + 4096)
    assert after(detector, 181) is not None


def test_a_compiler_is_progress_as_long_as_it_runs() -> None:
    detector = StuckDetector({}, least_s=180)
    for at in range(0, 2000, 100):
        assert after(detector, at, compilers=("nvcc",)) is None
    assert after(detector, 2070) is None


def test_a_phase_that_took_long_before_may_take_long_again() -> None:
    earlier = {"load_weights": Durations(500.0, 600.0, 3)}
    detector = StuckDetector(earlier, least_s=180)
    after(detector, 0)
    assert after(detector, 890) is None  # 600 s at most so far, half as much again is allowed
    said = after(detector, 901)
    assert said is not None
    assert "never took longer than 600 s" in said


def test_without_a_gpu_the_rest_decides() -> None:
    detector = StuckDetector({}, least_s=10)
    after(detector, 0, gpu_bytes=None)
    assert after(detector, 11, gpu_bytes=None) is not None


class NoGpu:
    async def read(self) -> None:
        return None


@pytest.mark.parametrize("fault", ["hangs-at-load", "spins-at-load"])
async def test_a_hanging_boot_is_said_even_if_a_core_spins(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr("qwen_tui.services.watchdog._EVERY_S", 0.05)
    supervisor = fake_supervisor(paths)
    await supervisor.start(fake_profile(port=free_port(), flags=("--fault", fault)))
    watch = BootWatch(History(paths.state / "h"), NoGpu(), least_s=0.5)
    record = RunStore(paths).latest()
    assert record is not None
    text = None
    async with asyncio.timeout(15):
        while text is None:
            phase = (await supervisor.snapshot()).phase
            text = await watch.look(record, phase)
            await asyncio.sleep(0.05)
    assert "Stuck in load_weights" in str(text)
    await supervisor.stop(timeout_s=5)
