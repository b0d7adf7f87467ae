"""Scripted desks for the console: a past, real arithmetic on fixed inputs, and files in memory."""

from __future__ import annotations

import json
import shlex
from types import MappingProxyType
from typing import TYPE_CHECKING

from qwen_tui.services.desks import Past, PlanQuestion, ProfileSheet
from qwen_tui.services.history import BootRow, Durations, SwapRow
from qwen_tui.services.known_models import KNOWN_MODELS
from qwen_tui_profiles.compare import compare
from qwen_tui_profiles.findings import Clamp
from qwen_tui_profiles.launch import build_launch
from qwen_tui_profiles.plan.predict import PlanRequest, predict
from qwen_tui_profiles.plan.result import (
    Assumption,
    BudgetLine,
    Interval,
    Knob,
    Plan,
    StatePlan,
)
from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.rules import judge_profile
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_profiles.compare import Comparison
    from qwen_tui_profiles.errors import QwenTuiError
    from qwen_tui_profiles.profile import EngineProfile

THEN = 1_764_400_000.0


def boot_row(number: int, *, cause: str | None = None) -> BootRow:
    ready = None if cause else 25.0 + number
    return BootRow(
        run=f"{number:06d}-x",
        started=THEN + 3600 * number,
        profile="27b-int4-speed",
        engine="sglang",
        engine_version="0.5.23",
        asked=("--context-length", "159776", "--max-running-requests", "4"),
        facts=MappingProxyType({"kv_tokens": 134_016}),
        clamps=(MappingProxyType({"arg": "--max-running-requests", "asked": 4, "got": 2}),),
        phases=(MappingProxyType({"phase": "load_weights", "seconds": 14.0 + number}),),
        ready_s=ready,
        first_token_s=None if cause else 0.4,
        predicted_kv_tokens=134_203 - 50 * number,
        kv_tokens=None if cause else 134_016,
        state="fatal" if cause else "stopped",
        how=None,
        message=t("It exited with code 1.") if cause else None,
        cause=cause,
        ended=THEN + 3600 * number + 600,
        prints=MappingProxyType({}),
    )


PAST = Past(
    boots=(boot_row(3, cause="cuda_oom"), boot_row(2), boot_row(1), boot_row(0)),
    swaps=(
        SwapRow(
            started=THEN + 9000,
            before="27b-int4-speed",
            target="27b-int4-context",
            outcome="swapped",
            message=t("27b-int4-context serves at http://127.0.0.1:30000."),
            seconds=41.2,
            down_s=38.5,
            predicted_s=40.0,
            lost=0,
            held=None,
        ),
    ),
)


class FakeHistory:
    """A past that never changes."""

    def __init__(self, past: Past = PAST) -> None:
        self.the_past = past

    async def past(self, limit: int = 100) -> Past:
        return self.the_past

    async def phases(self, profile: str) -> Mapping[str, Durations]:
        return {"load_weights": Durations(13.2, 15.0, 4)} if self.the_past.boots else {}

    async def down(self, target: str) -> Durations | None:
        return Durations(38.5, 40.1, 3) if self.the_past.swaps else None


FROZEN_PLAN = Plan(
    fits=True,
    failure=None,
    failure_class=None,
    minimum_fraction=None,
    kv_tokens=Interval(134_203, 131_000, 134_400),
    requests_asked=4,
    requests=2,
    limited_by="mamba state slots",
    state=StatePlan(8, 4, 0.66, 1.29, 74.8, "extra_buffer_lazy"),
    weights_gib=18.59,
    draft_gib=0.79,
    kv_gib=4.1,
    context_declared=159_776,
    context_usable=134_197,
    slack_gib=5.56,
    budget=(
        BudgetLine("weights", 18.59, t("from the headers"), t("Target weights on the card")),
        BudgetLine("state", 0.66, t("8 slots and one for padding"), t("State slots")),
        BudgetLine("kv_cache", 4.1, t("134,203 tokens of 32,768 B"), t("KV cache")),
    ),
    clamps=(
        Clamp(
            "--max-running-requests",
            4,
            2,
            t("mamba state slots"),
            t("8 state slots, 4 a request."),
            t("Set --max-mamba-cache-size 16."),
            None,
        ),
    ),
    adjustments=(),
    findings=(),
    assumed=(Assumption("total_gib", 31.84, t("no GPU here; a 32 GB card")),),
    engine="sglang",
    engine_version="0.5.23",
    fraction=0.97,
    knobs=(
        Knob("--max-mamba-cache-size", t("one slot more"), -2400, None),
        Knob("--max-running-requests", t("one request more"), -23_968, 1),
    ),
)
"""For snapshots, which must not change when the arithmetic learns something."""


class FakePlans:
    """The planner's own arithmetic for SGLang 0.5.23 on a card with 30.77 GiB free."""

    def __init__(self) -> None:
        self.asked: list[PlanQuestion] = []
        self.error: QwenTuiError | None = None
        self.frozen: Plan | None = None

    async def plan(self, question: PlanQuestion) -> Plan:
        self.asked.append(question)
        if self.error is not None:
            raise self.error
        if self.frozen is not None:
            return self.frozen
        model = KNOWN_MODELS[0]
        config = json.loads((model.folder / "config.json").read_text())
        drafts = "--speculative-algorithm" in question.profile.argv
        return predict(
            PlanRequest(
                args=(*question.profile.argv, *question.args),
                config=config,
                engine=EngineKind.SGLANG,
                engine_version="0.5.23",
                free_gib=30.768 if question.total_gib is None else None,
                total_gib=question.total_gib,
                weights_gib=model.weights_gib,
                draft_gib=model.draft_gib if drafts else None,
            )
        )


class FakeFiles:
    """Profiles whose changes are noted, not written."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.error: QwenTuiError | None = None

    async def sheet(self, profile: EngineProfile) -> ProfileSheet:
        spec = build_launch(profile, interpreter="/opt/sglang/bin/python", engine_version="0.5.23")
        findings = judge_profile(profile, version="0.5.23").findings
        return ProfileSheet(profile, shlex.join(spec.argv), spec.env, findings, None)

    async def compare(self, before: EngineProfile, after: EngineProfile) -> Comparison:
        return compare(before, after)

    async def change(self, name: str, changes: Mapping[str, str | None]) -> None:
        if self.error is not None:
            raise self.error
        self.calls.append(f"change {name} {dict(changes)}")

    async def new(self, name: str, base: str) -> None:
        self.calls.append(f"new {name} from {base}")
