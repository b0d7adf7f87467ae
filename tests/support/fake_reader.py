"""A log reader that knows six lines: enough for supervisor tests that are not about logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.enginelog.report import Fatal, LogReport
from qwen_tui_profiles.findings import Evidence
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Sequence

_PHASES = (
    (b"server_args=", "args"),
    (b"Load weight begin", "load_weights"),
    (b"KV Cache is allocated", "kv_pool"),
    (b"fired up and ready", "ready"),
    (b"SIGTERM received", "stopping"),
)


class FakeReader:
    """Same shape as LogReader."""

    def __init__(self, asked: Sequence[str] | None = None) -> None:
        self.asked = tuple(asked or ())
        self.data = b""
        self.finished = False

    def feed(self, data: bytes) -> None:
        self.data += data

    def finish(self) -> None:
        self.finished = True

    def report(self) -> LogReport:
        phase = None
        for text, name in _PHASES:
            if text in self.data:
                phase = name
        fatal = None
        if b"CUDA out of memory" in self.data:
            fatal = Fatal(
                "cuda_oom",
                t("The GPU ran out of memory."),
                t("Lower --mem-fraction-static."),
                (Evidence(1, "torch.OutOfMemoryError: CUDA out of memory."),),
            )
        return LogReport(
            engine="sglang",
            engine_version=None,
            ready=b"fired up and ready" in self.data,
            phase=phase,
            fatal=fatal,
        )
