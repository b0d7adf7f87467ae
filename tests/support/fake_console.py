"""A world for the console that a test scripts: nothing here starts, reads or asks anything."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui.services.console import GpuView, LogChunk, ProfileList, Progress
from qwen_tui.services.settings import Settings
from qwen_tui.services.snapshots import (
    GpuSnapshot,
    LatencySummary,
    LiveSnapshot,
    ServerSnapshot,
    ServerState,
)
from qwen_tui_diagnostics.enginelog.report import Fatal, LogReport, PhaseSpan
from qwen_tui_diagnostics.result import CheckResult, Remedy, SkipReason, Status
from qwen_tui_profiles.errors import LaunchError, ProfileError
from qwen_tui_profiles.findings import Clamp, Evidence, Finding
from qwen_tui_profiles.profile import EngineKind, EngineMode, EngineProfile, ModelRef
from qwen_tui_profiles.text import t
from support.fake_desks import FakeFiles, FakeHistory, FakePlans
from support.fake_fleet import FakeFleet
from support.fake_models import FakeModels
from support.fake_probes import FakeProbes
from support.fake_repairs import FakeRepairs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from qwen_tui.services.desks import (
        FleetDesk,
        HistoryDesk,
        PlanDesk,
        ProbeDesk,
        ProfileDesk,
        RepairDesk,
    )
    from qwen_tui.services.model_desk import ModelDesk

NOW = 1_764_421_327.0
GIB = 1024**3

NO_GPU = GpuView(
    problem=t("The NVIDIA library libnvidia-ml.so.1 was not found."),
    remedy=t("Install the NVIDIA driver, or start the container with --gpus all."),
)

ONE_GPU = GpuView(
    gpus=(
        GpuSnapshot(
            index=0,
            name="NVIDIA GeForce RTX 5090",
            memory_total_bytes=int(31.8 * GIB),
            memory_used_bytes=int(31.2 * GIB),
            memory_ours_bytes=int(30.9 * GIB),
            utilisation=0.98,
            power_w=452.0,
            power_limit_w=575.0,
            temperature_c=71.0,
            throttle=None,
        ),
    )
)


def profile(
    name: str, mode: EngineMode, engine: EngineKind, pair: str, argv: tuple[str, ...]
) -> EngineProfile:
    demo = engine is EngineKind.DEMO
    return EngineProfile(
        name=name,
        title="Demo" if demo else "27B INT4 on a 32 GB card",
        engine=engine,
        mode=mode,
        argv=argv,
        pair=pair,
        model=ModelRef(
            path=None if demo else "~/models/Qwen3.8-27B-INT4",
            repo=None if demo else "RedHatAI/Qwen3.8-27B-INT4",
            served_name="qwen",
        ),
        needs_gpu=not demo,
    )


SPEED = (
    *("--context-length", "159776", "--max-running-requests", "4"),
    *("--max-mamba-cache-size", "8", "--mem-fraction-static", "0.97"),
    *("--speculative-algorithm", "EAGLE", "--speculative-num-steps", "5"),
)
CONTEXT = ("--context-length", "262144", "--max-running-requests", "1")

PROFILES = ProfileList(
    (
        profile("27b-int4-speed", EngineMode.SPEED, EngineKind.SGLANG, "27b-int4-context", SPEED),
        profile(
            "27b-int4-context", EngineMode.CONTEXT, EngineKind.SGLANG, "27b-int4-speed", CONTEXT
        ),
        profile("demo-speed", EngineMode.SPEED, EngineKind.DEMO, "demo-context", SPEED),
        profile("demo-context", EngineMode.CONTEXT, EngineKind.DEMO, "demo-speed", CONTEXT),
    ),
    (ProfileError(t("{path} line 3 column 7: not TOML.", path="mine.toml")),),
)

CLAMPS = (
    Clamp(
        "--max-running-requests",
        4,
        2,
        t("mamba state cache"),
        t("The state pool has 8 slots and each request holds 4 of them."),
        t("For 4 requests: --max-mamba-cache-size 17, at the price of 21,500 KV tokens."),
        Evidence(41, "max_running_requests is reduced to 2 by the mamba state cache"),
    ),
    Clamp(
        "--context-length",
        159_776,
        134_010,
        t("KV pool"),
        t("One request may use what the pool holds, 134,010 tokens."),
        t("Tell your client this figure, or lower --max-mamba-cache-size."),
        None,
    ),
)


def report(*, ready: bool = True, fatal: Fatal | None = None, phase: str = "serving") -> LogReport:
    return LogReport(
        engine="sglang",
        engine_version="0.5.23",
        ready=ready,
        phase=phase,
        facts={"kv_tokens": 134_016, "max_running_requests_effective": 2},
        clamps=CLAMPS,
        timeline=(
            PhaseSpan("args", NOW - 847, 1.2),
            PhaseSpan("load_weights", NOW - 846, 14.0),
            PhaseSpan("kv_pool", NOW - 832, 0.8),
            PhaseSpan("graph_capture", NOW - 831, 8.4),
            PhaseSpan("warmup", NOW - 823, 2.1),
        ),
        fatal=fatal,
    )


def running(name: str = "27b-int4-speed") -> ServerSnapshot:
    return ServerSnapshot(
        ServerState.RUNNING,
        phase="serving",
        ready=True,
        profile=name,
        engine="demo" if name.startswith("demo") else "sglang",
        engine_version="0.5.23",
        simulated=name.startswith("demo"),
        pid=4242,
        started=NOW - 847,
        url="http://127.0.0.1:30000",
        log_path=Path("/nowhere/engine.log"),
        report=report(),
    )


def starting(name: str = "27b-int4-speed") -> ServerSnapshot:
    return ServerSnapshot(
        ServerState.STARTING,
        phase="load_weights",
        profile=name,
        engine="demo" if name.startswith("demo") else "sglang",
        simulated=name.startswith("demo"),
        pid=4242,
        started=NOW - 9,
        url="http://127.0.0.1:30000",
        log_path=Path("/nowhere/engine.log"),
        report=LogReport(
            engine="sglang",
            engine_version="0.5.23",
            ready=False,
            phase="load_weights",
            timeline=(
                PhaseSpan("args", NOW - 9, 1.2),
                PhaseSpan("distributed", NOW - 8, 0.6),
                PhaseSpan("load_weights", NOW - 7, None),
            ),
        ),
    )


def died() -> ServerSnapshot:
    return ServerSnapshot(
        ServerState.FATAL,
        profile="27b-int4-speed",
        log_path=Path("/nowhere/engine.log"),
        engine="sglang",
        report=report(
            ready=False,
            phase="kv_pool",
            fatal=Fatal(
                "kv_pool_no_memory",
                t("The weights leave no room for a KV pool."),
                t("Raise --mem-fraction-static to {value}, or use a smaller model.", value="0.95"),
                (Evidence(57, "RuntimeError: Not enough memory. Please try to increase …"),),
            ),
        ),
        message=t("It exited with code {code} after {seconds} s.", code=1, seconds=12),
    )


def live(step: int = 0) -> LiveSnapshot:
    wave = (0.0, 0.3, 0.7, 1.0, 0.6, 0.2)[step % 6]
    return LiveSnapshot(
        at=NOW,
        source="sglang",
        running=2,
        queue=1,
        kv_used=0.46,
        kv_used_tokens=61_647,
        kv_tokens=134_016,
        mamba_used=1.0,
        mamba_used_slots=8,
        mamba_slots=8,
        decode_tok_s=120 + 40 * wave,
        accept_length=3.0 + wave / 2,
        draft_tokens=6,
        cache_hit_rate=0.92 - wave / 10,
        ttft=LatencySummary(380 + 200 * wave, 1200.0, 60.0, 34),
        max_running_requests=2,
        context_usable=134_010,
        bound_by=t("state slots: {used} of {total}, {waiting} waiting", used=8, total=8, waiting=1),
    )


CHECKS = (
    CheckResult(
        "driver.min",
        "driver",
        t("driver version"),
        Status.FAIL,
        t("570.86.10"),
        t("at least {version}", version="580"),
        consequence=t("SGLang 0.5.23 is built for CUDA 13 and will not start."),
        remedy=Remedy(t("Upgrade the driver."), ("sudo apt install nvidia-driver-580-open",)),
        required=True,
    ),
    CheckResult(
        "disk.space",
        "disk",
        t("free space"),
        Status.OK,
        t("{gib} GiB free", gib=812),
        required=True,
    ),
    CheckResult(
        "disk.bench",
        "disk",
        t("random reads"),
        Status.SKIP,
        t("not measured"),
        reason=SkipReason.DISABLED,
    ),
    CheckResult(
        "sys.swap", "sys", t("swap"), Status.WARN, t("none with 24 GiB of RAM"), t("some swap")
    ),
)


class FakeConsole:
    """A scripted :class:`~qwen_tui.services.console.ConsoleServices`."""

    def __init__(
        self,
        server: ServerSnapshot | None = None,
        *,
        gpu: GpuView = ONE_GPU,
        lives: int = 12,
        lines: tuple[str, ...] = (),
        remembered: str | None = None,
        seen: frozenset[str] = frozenset(),
    ) -> None:
        self.calls: list[str] = []
        self.gpu = gpu
        self.lives = lives
        self.remembered = remembered
        self.seen = seen
        self.profile_list = PROFILES
        self.start_error: LaunchError | None = None
        self.can_cancel = True
        self.prediction: int | None = None
        self.blockers: tuple[Finding, ...] = ()
        self.states: asyncio.Queue[ServerSnapshot] = asyncio.Queue()
        self.begins_running = server is not None and server.state is ServerState.RUNNING
        self.states.put_nowait(server or ServerSnapshot(ServerState.STOPPED))
        self.chunks: asyncio.Queue[LogChunk] = asyncio.Queue()
        if lines:
            self.chunks.put_nowait(LogChunk(lines))
        self.release = asyncio.Event()
        self.closed = False
        self.fake_history = FakeHistory()
        self.fake_plans = FakePlans()
        self.fake_files = FakeFiles()
        self.history: HistoryDesk = self.fake_history
        self.plans: PlanDesk = self.fake_plans
        self.files: ProfileDesk = self.fake_files
        self.fake_models = FakeModels()
        self.models: ModelDesk = self.fake_models
        self.fake_probes = FakeProbes(self.calls)
        self.probes: ProbeDesk = self.fake_probes
        self.fake_repairs = FakeRepairs(self.calls)
        self.repairs: RepairDesk = self.fake_repairs
        self.fake_fleet = FakeFleet()
        self.fleet: FleetDesk = self.fake_fleet
        self.fake_fleet_probes = FakeProbes(self.calls)
        self.fleet_probes: ProbeDesk = self.fake_fleet_probes
        self.guide: str | None = "done"
        self.chosen = Settings()
        self.rights: list[tuple[bool, int | None]] = [(True, None)]
        self.line_count = len(lines)

    @property
    def expected_lives(self) -> int:
        """Samples that a console which starts now will have seen."""
        return self.lives if self.begins_running else 0

    async def profiles(self) -> ProfileList:
        return self.profile_list

    async def settings(self) -> Settings:
        return replace(self.chosen, last_profile=self.remembered, guide=self.guide)

    async def remember(self, **changes: str | None) -> None:
        self.calls += [f"remember {name}={value}" for name, value in changes.items()]

    async def control(self) -> AsyncIterator[tuple[bool, int | None]]:
        for answer in self.rights:
            yield answer
        await asyncio.Event().wait()

    async def acknowledged(self) -> frozenset[str]:
        return self.seen

    async def acknowledge(self, keys: frozenset[str]) -> None:
        self.calls.append(f"acknowledge {len(keys)}")

    async def servers(self) -> AsyncIterator[ServerSnapshot]:
        while True:
            yield await self.states.get()

    async def preflight(self, profile: EngineProfile) -> tuple[Finding, ...]:
        return self.blockers

    async def start(self, profile: EngineProfile, force: str | None = None) -> None:
        self.calls.append(f"start {profile.name}" + ("" if force is None else f" ({force})"))
        if self.start_error is not None:
            raise self.start_error
        self.states.put_nowait(starting(profile.name))
        await self.release.wait()
        self.states.put_nowait(running(profile.name))

    async def stop(self) -> AsyncIterator[Progress]:
        self.calls.append("stop")
        yield Progress(t("Draining: {count} requests left", count=1))
        self.states.put_nowait(ServerSnapshot(ServerState.STOPPED))
        yield Progress(t("It drained and ended."), done=True)

    async def swap(self, target: EngineProfile, drain_s: float = 0.0) -> AsyncIterator[Progress]:
        self.calls.append(f"swap {target.name} draining {drain_s:g}")
        yield Progress(t("Stopping"))
        self.states.put_nowait(starting(target.name))
        await self.release.wait()
        self.states.put_nowait(running(target.name))
        yield Progress(t("{name} is ready.", name=target.name), done=True)

    def cancel_swap(self) -> bool:
        self.calls.append("cancel swap")
        return self.can_cancel

    def predicted_kv(self) -> int | None:
        return self.prediction

    async def live(self, url: str, interval_s: float) -> AsyncIterator[LiveSnapshot]:
        for step in range(self.lives):
            yield live(step)
        await asyncio.Event().wait()

    async def log(self, path: Path) -> AsyncIterator[LogChunk]:
        while True:
            yield await self.chunks.get()

    async def gpus(self) -> AsyncIterator[GpuView]:
        yield self.gpu
        await asyncio.Event().wait()

    async def checks(
        self, profile: EngineProfile | None, only: tuple[str, ...] = ()
    ) -> AsyncIterator[CheckResult]:
        name = None if profile is None else profile.name
        self.calls.append(" ".join(["checks", str(name), *only]))
        for check in CHECKS:
            if not only or check.id in only:
                yield check

    async def doctor_report(self) -> str:
        return "## qwen-tui doctor"

    async def close(self) -> None:
        self.closed = True
