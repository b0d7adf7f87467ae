"""Checkpoints in memory, and a download that a test drives event by event."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui.services.download import DownloadRequest
from qwen_tui.services.download.job import (
    DownloadJob,
    DownloadPhase,
    DownloadSnapshot,
    FileProgress,
)
from qwen_tui.services.model_desk import ModelFolder, TensorRow
from qwen_tui.services.paths import Paths
from qwen_tui_diagnostics.checkpoint.report import (
    Assumed,
    CheckpointFinding,
    Inventory,
    Judged,
    Reach,
    VerifyReport,
)
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from qwen_tui_profiles.profile import EngineProfile

GIB = 1024**3
REPO = "RedHatAI/Qwen3.8-27B-INT4"
HERE = ModelFolder(Path("/models/Qwen3.8-27B-INT4"), ("27b-int4-speed",), REPO, True, 18 * GIB)
CHINESE = ModelFolder(Path("/models/通义千问-27B-量化"), (), None, True, 17 * GIB)
MISSING = ModelFolder(Path("/models/Flash-Next"), ("flash-next-upstream",), None, False, None)

REPORT = VerifyReport(
    path="/models/Qwen3.8-27B-INT4",
    judged=Judged(Reach.FULL, Reach.FULL, Reach.FULL, Reach.FULL, Reach.NONE),
    architecture="Qwen3_5ForConditionalGeneration",
    format="safetensors",
    quantization="compressed-tensors pack-quantized",
    inventory=Inventory(
        tensors=1199,
        bytes=18 * GIB,
        shards=4,
        by_part={"target": 13 * GIB, "lm_head": 2 * GIB, "embed": 2 * GIB, "mtp": GIB},
    ),
    findings=(
        CheckpointFinding(
            rule="Q7",
            severity=Severity.ERROR,
            title=t("The ignore list names {n} modules that no tensor has.", n=48),
            detail=None,
            evidence="model.layers.*.linear_attn.in_proj_a",
            consequence=t("It loads, answers HTTP 200, and the output is garbage."),
            remedy=t("Take a package whose ignore list carries the real names."),
            source="vllm#40252",
            tensors=("model.layers.0.linear_attn.in_proj_a.weight",),
            count=48,
        ),
    ),
    assumed=Assumed("sglang", "0.5.23", speculative=True),
    seconds=0.0124,
)

TENSORS = tuple(
    TensorRow(f"model.layers.{n}.mlp.{part}", "BF16", (5120, 17408), 178_257_920, "model-1.st")
    for n in range(40)
    for part in ("down_proj.weight", "up_proj.weight")
)

PLAN: dict[str, object] = {
    "repo": REPO,
    "folder": "/models/Qwen3.8-27B-INT4",
    "files": [{"path": "model-1.safetensors", "size": 10**9, "state": "missing"}],
}
ASKING = DownloadSnapshot(DownloadPhase.ASKING, PLAN, notes=(t("to fetch {gb} GB", gb=1.0),))
RUNNING = DownloadSnapshot(
    DownloadPhase.RUNNING,
    PLAN,
    done_bytes=250_000_000,
    total_bytes=10**9,
    bytes_s=50_000_000.0,
    eta_s=15.0,
    files=(FileProgress("model-1.safetensors", 250_000_000, 10**9, "running"),),
)


class FakeDownload(DownloadJob):
    """Comes to what it is told at once; never transfers anything."""

    def __init__(self) -> None:
        super().__init__(DownloadRequest(REPO), Paths(*(Path("/nowhere"),) * 3))
        self.queue: asyncio.Queue[DownloadSnapshot] = asyncio.Queue()
        self.told: list[str] = []
        self.queue.put_nowait(ASKING)

    async def snapshots(self) -> AsyncIterator[DownloadSnapshot]:
        while True:
            snapshot = await self.queue.get()
            yield snapshot
            if snapshot.phase.over:
                return

    def agree(self) -> None:
        self.told.append("agree")
        self.queue.put_nowait(RUNNING)

    def pause(self) -> None:
        self.told.append("pause")
        self.queue.put_nowait(replace(RUNNING, phase=DownloadPhase.PAUSED))

    def resume(self) -> None:
        self.told.append("resume")
        self.queue.put_nowait(RUNNING)

    def cancel(self) -> None:
        self.told.append("cancel")
        self.queue.put_nowait(DownloadSnapshot(DownloadPhase.CANCELLED, PLAN))


class FakeModels:
    """Three folders: a judged one, one with a Chinese name, one that is not there."""

    def __init__(self) -> None:
        self.list = (HERE, CHINESE, MISSING)
        self.calls: list[str] = []
        self.fetched: list[FakeDownload] = []

    async def folders(self, profiles: Iterable[EngineProfile]) -> tuple[ModelFolder, ...]:
        return self.list

    async def verify(self, folder: Path) -> VerifyReport:
        self.calls.append(f"verify {folder.name}")
        return REPORT

    async def tensors(self, folder: Path) -> tuple[TensorRow, ...]:
        return TENSORS

    def download(self, repo: str | None, profile: EngineProfile | None) -> DownloadJob:
        self.calls.append(f"fetch {repo} for {None if profile is None else profile.name}")
        self.fetched.append(FakeDownload())
        return self.fetched[-1]
