"""Is this boot stuck? Judged by progress, not by a clock.

Progress is anything that moves: log lines, phases, bytes read or written, GPU memory, memory of the
processes, new processes, a running compiler. A core that spins is no progress: an offload that
hangs does just that. Silence in all of them for longer than this phase ever took is reported;
nothing is ever stopped from here.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui.services.process import family_of
from qwen_tui.services.stopping import log_size
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from qwen_tui.services.history import Durations, History
    from qwen_tui.services.process import ProcessId
    from qwen_tui.services.records import RunRecord
    from qwen_tui.services.vram import MemoryProbe
    from qwen_tui_profiles.text import Text

__all__ = ["BootWatch", "Sample", "StuckDetector"]

LEAST_S = 180.0
"""Silence that is never reported. Importing an engine from a cold disk takes a minute and more."""
_FACTOR = 1.5
"""How much longer than the longest boot so far a phase may be silent."""
_EVERY_S = 2.0
_DISK_BYTES = 1 << 20
_MEMORY_BYTES = 32 << 20
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_COMPILERS = frozenset(
    {"nvcc", "cicc", "ptxas", "nvlink", "fatbinary", "cudafe++", "ninja", "gcc", "g++", "cc1plus"}
    | {"clang", "clang++", "ld", "lld", "as"}
)
"""Process names that show a compilation; read for telling, never for killing."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Everything that can move, at one moment."""

    at: float
    """Monotonic seconds."""
    phase: str | None
    log_bytes: int
    disk_bytes: int
    """Read and written by the processes of the run."""
    host_bytes: int
    """Resident memory of the processes."""
    gpu_bytes: int | None
    """Used on all GPUs; ``None`` = no GPU is asked."""
    processes: frozenset[int]
    compilers: tuple[str, ...] = ()


class StuckDetector:
    """Remembers when something moved last. Pure: samples in, a verdict out."""

    def __init__(self, earlier: Mapping[str, Durations], *, least_s: float = LEAST_S) -> None:
        self._earlier = earlier
        self._least_s = least_s
        self._moved: Sample | None = None

    def feed(self, sample: Sample) -> Text | None:
        """Return what to say when the boot seems stuck, else ``None``."""
        if self._moved is None or _moves(self._moved, sample):
            self._moved = sample
            return None
        silent_s = sample.at - self._moved.at
        earlier = self._earlier.get(sample.phase or "")
        longest_s = None if earlier is None else earlier.longest_s
        if silent_s <= max(self._least_s, (longest_s or 0.0) * _FACTOR):
            return None
        if longest_s is None:
            return t(
                "Stuck in {phase}? For {seconds:.0f} s there was no log line and no movement on "
                "disk, GPU or in memory. It may be stopped: qwen-tui down",
                phase=sample.phase or t("start-up"),
                seconds=silent_s,
            )
        return t(
            "Stuck in {phase}? For {seconds:.0f} s there was no log line and no movement on disk, "
            "GPU or in memory; this phase never took longer than {longest:.0f} s. "
            "It may be stopped: qwen-tui down",
            phase=sample.phase or t("start-up"),
            seconds=silent_s,
            longest=longest_s,
        )


class BootWatch:
    """Takes the samples of one boot after the other."""

    def __init__(
        self,
        history: History,
        memory: MemoryProbe,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        least_s: float = LEAST_S,
    ) -> None:
        self._history = history
        self._memory = memory
        self._monotonic = monotonic
        self._least_s = least_s
        self._run = ""
        self._detector = StuckDetector({})
        self._next_at = 0.0
        self._said: Text | None = None

    async def look(self, record: RunRecord, phase: str | None) -> Text | None:
        """Return what to say about a boot that seems stuck; cheap between samples."""
        now = self._monotonic()
        if record.id != self._run:
            self._run = record.id
            earlier = self._history.phase_seconds(record.profile)
            self._detector = StuckDetector(earlier, least_s=self._least_s)
            self._next_at = 0.0
            self._said = None
        if now >= self._next_at:
            self._next_at = now + _EVERY_S
            gpus = await self._memory.read()
            family = frozenset() if record.main is None else family_of(record.main)
            self._said = self._detector.feed(
                Sample(
                    at=now,
                    phase=phase,
                    log_bytes=log_size(record.log_path),
                    disk_bytes=sum(_disk_bytes(p.pid) for p in family),
                    host_bytes=sum(_resident_bytes(p.pid) for p in family),
                    gpu_bytes=None if not gpus else sum(g.used_bytes or 0 for g in gpus),
                    processes=frozenset(p.pid for p in family),
                    compilers=tuple(_compilers(family)),
                )
            )
        return self._said


def _moves(before: Sample, now: Sample) -> bool:
    return bool(
        now.compilers
        or now.phase != before.phase
        or now.log_bytes != before.log_bytes
        or now.processes != before.processes
        or abs(now.disk_bytes - before.disk_bytes) >= _DISK_BYTES
        or abs(now.host_bytes - before.host_bytes) >= _MEMORY_BYTES
        or abs((now.gpu_bytes or 0) - (before.gpu_bytes or 0)) >= _MEMORY_BYTES
    )


def _disk_bytes(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines()
        fields = dict(line.split(": ", 1) for line in lines)
        return int(fields["read_bytes"]) + int(fields["write_bytes"])
    return 0


def _resident_bytes(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * _PAGE_BYTES
    return 0


def _compilers(family: Iterable[ProcessId]) -> Iterable[str]:
    for process in family:
        with contextlib.suppress(OSError):
            name = Path(f"/proc/{process.pid}/comm").read_text(errors="replace").strip()
            if name in _COMPILERS:
                yield name
