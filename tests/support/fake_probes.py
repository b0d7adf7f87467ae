"""Probes that come back at once, of every kind; a gateway when a test configures one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from qwen_tui.services.desks import ProbeMenu, ProbeReport
from qwen_tui.services.probe.compare import Comparison
from qwen_tui.services.probe_desk import probe_kinds
from qwen_tui.services.snapshots import LatencySummary, ProbeResult
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui.services.desks import ProbeKind
    from qwen_tui_profiles.errors import QwenTuiError

GATEWAY = "http://127.0.0.1:4000"

PROBED = ProbeResult(
    ttft_ms=412.0,
    ttfo_ms=2310.0,
    tokens=128,
    decode_tok_s=148.2,
    cached_tokens=12,
    prompt_tokens=36,
    accept_length=3.39,
    chunks=38,
    chunk_gap_p50_ms=22.4,
    chunk_gap_p95_ms=31.0,
    chunk_gap_max_ms=48.0,
    ms_per_token=6.75,
    reasoning_tokens=90,
    model="qwen",
)
THROUGH = replace(PROBED, ttft_ms=437.0, ttfo_ms=2405.0, decode_tok_s=141.0)
BOUNDARY = ProbeResult(
    ttft_ms=None,
    ttfo_ms=None,
    tokens=None,
    decode_tok_s=None,
    cached_tokens=None,
    prompt_tokens=None,
    accept_length=None,
    kind="boundary",
    detail=t("134,002 tokens answered, 134,011 refused with 400, and it still generates."),
)


class FakeProbes:
    """Answers every kind, and notes what was sent."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls
        self.vision = True
        self.gateway: str | None = None
        self.error: QwenTuiError | Exception | None = None
        self.answer = asyncio.Event()
        self.answer.set()

    def kinds(self) -> tuple[ProbeKind, ...]:
        return probe_kinds()

    async def menu(self, url: str) -> ProbeMenu:
        kinds = tuple(k for k in self.kinds() if self.vision or k.name != "image")
        return ProbeMenu(kinds, 134_010, self.gateway)

    async def send(self, url: str, kind: str) -> ProbeReport:
        self.calls.append(f"probe {kind} {url}")
        await self.answer.wait()
        if self.error is not None:
            raise self.error
        if kind == "boundary":
            return ProbeReport(url, BOUNDARY)
        result = replace(PROBED, kind=kind)
        if self.gateway is None:
            return ProbeReport(url, result)
        waited = LatencySummary(p50_ms=3.0, p95_ms=6.0, window_s=None, n=2, mean_ms=4.0)
        comparison = Comparison((result,), (replace(THROUGH, kind=kind),), waited)
        return ProbeReport(url, result, self.gateway, comparison)

    async def curl(self, url: str, kind: str) -> str:
        return f"curl -N {url}/v1/chat/completions  # {kind}"
