"""Judging GPU memory: total, free, and who holds the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import failed, fix, ok, warned
from qwen_tui_diagnostics.checks.devices import name_of, selected
from qwen_tui_diagnostics.checks.needs import needs_of
from qwen_tui_diagnostics.checks.units import GIB, MIB, gib, listed
from qwen_tui_profiles.errors import QwenTuiError
from qwen_tui_profiles.plan.headers import StoredSizes
from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Verdict
    from qwen_tui_profiles.plan.result import Plan
    from qwen_tui_profiles.text import Text

__all__ = ["judge_free", "judge_holders", "judge_total", "plan_for"]

DEFAULT_FRACTION = 0.88
"""What the engines choose by themselves is near this; only used where the profile is silent."""
CUDA_SHARE = 0.984
"""The CUDA runtime offers about 1.6 % less than NVML's total (5090: 31.3 of 31.8 GiB)."""
UNIFIED_FLOOR_BYTES = 8 * GIB
"""What a unified-memory machine needs left, or it locks up instead of failing the process."""
HOLDER_BYTES = 200 * MIB


def plan_for(facts: Facts, target: Target, free_bytes: int, total_bytes: int) -> Plan | None:
    """Predict the launch from the checkpoint on disk; ``None`` when there is none yet.

    The prediction is arithmetic over facts: nothing is read here.

    Raises:
        MissingFact: the checkpoint is there, and its dimensions or sizes could not be read.
    """
    if target.engine != EngineKind.SGLANG.value or target.model_path is None:
        return None
    if not facts.flag("model.exists"):
        return None
    config = facts.tree("model.document")
    sizes = facts.tree("model.stored") if facts.integer("model.shards") else None
    from qwen_tui_profiles.plan.predict import predict
    from qwen_tui_profiles.plan.request import PlanRequest

    version = (
        facts.text("engine.installs.0.version") if facts.has("engine.installs.0.version") else None
    )
    try:
        plan = predict(
            PlanRequest(
                args=target.argv,
                config=config,
                engine=EngineKind.SGLANG,
                engine_version=version,
                stored=None if sizes is None else StoredSizes(**sizes),
                env=target.env,
                live_free_gib=free_bytes / GIB,
                total_gib=total_bytes / GIB,
            )
        )
    except (QwenTuiError, TypeError, ValueError):
        return None
    return plan


def judge_total(facts: Facts, target: Target) -> Verdict:
    """Is the card big enough for the model at all?"""
    needs = needs_of(target, facts)
    shared_by = target.gpus_a_replica
    lines = []
    for device in selected(facts, target):
        total = device.integer("memory_total_bytes")
        unified = device.flag("unified")
        shown = (
            t("{name}: {total}, shared with the processor", name=name_of(device), total=gib(total))
            if unified
            else t("{name}: {total}", name=name_of(device), total=gib(total))
        )
        lines.append(shown)
        if needs is None:
            continue
        floor = needs.gpu_floor_bytes // shared_by
        if total * CUDA_SHARE < floor:
            return failed(
                shown,
                expected=t("{floor} or more a GPU for this model", floor=gib(floor)),
                consequence=t("weights, draft, states and a small cache do not fit"),
                remedy=fix(
                    t("use a smaller quantization, leave the draft out, or use a bigger card")
                ),
            )
    return ok(lines[0], *lines[1:])


def judge_free(facts: Facts, target: Target) -> Verdict:
    """Is enough free for the fraction the profile asks, and for the plan?"""
    devices = selected(facts, target)
    verdicts = [_free_of(facts, target, device) for device in devices]
    return min(verdicts, key=lambda v: ("FAIL", "WARN", "SKIP", "OK").index(v.status.value))


def _free_of(facts: Facts, target: Target, device: Facts) -> Verdict:
    total = device.integer("memory_total_bytes")
    free = device.integer("memory_free_bytes")
    own = _own_bytes(device, target)
    usable = min(total, free + own)
    if device.flag("unified"):
        return _unified(facts, target, device, usable)
    fraction = target.memory_fraction or DEFAULT_FRACTION
    wanted = int(fraction * total * CUDA_SHARE)
    holders = _holders(device, target)
    shown = t("{name}: {free} of {total} free", name=name_of(device), free=gib(usable),
              total=gib(total))  # fmt: skip
    if own:
        shown = t("{shown} once our own server has stopped", shown=shown)
    detail = [t("held by {who}", who=who) for who in holders[:4]]
    if own:
        detail.append(t("{own} of our own server counted as free", own=gib(own)))
    plan = plan_for(facts, target, usable, total)
    tokens = None if plan is None else plan.kv_tokens.value
    if plan is not None and plan.fits and tokens:
        detail.append(t("predicted KV pool: {tokens} tokens", tokens=f"{tokens:,.0f}"))
    remedy = fix(
        t("close what holds the memory, or lower the fraction; after a stop, look again in 10 s"),
        "qwen-tui doctor --only gpu.vram_free",
    )
    if plan is not None and plan.fits is False and target.gpus_a_replica == 1:
        return failed(
            shown,
            *detail,
            *((plan.failure,) if plan.failure is not None else ()),
            expected=t("room for weights, states and a KV pool"),
            consequence=t("the engine stops while it sizes its pools"),
            remedy=fix(
                t("see where the memory goes, then free some or change the profile"),
                f"qwen-tui plan {target.profile}" if target.profile else "qwen-tui plan",
            ),
        )
    needs = needs_of(target, facts)
    if plan is None and needs is not None:
        floor = needs.gpu_floor_bytes // target.gpus_a_replica
        if usable < floor:
            return failed(
                shown,
                *detail,
                expected=t("{floor} for weights, states and a small cache", floor=gib(floor)),
                consequence=t("out of memory while loading"),
                remedy=remedy,
            )
    if usable < wanted:
        return warned(
            shown,
            *detail,
            expected=t("{wanted} ({percent} % of the card)", wanted=gib(wanted),
                       percent=round(fraction * 100)),
            consequence=t("the pool gets smaller than on an empty card, or the start fails"),
            remedy=remedy,
        )  # fmt: skip
    return ok(shown, *detail)


def _unified(facts: Facts, target: Target, device: Facts, available: int) -> Verdict:
    """One memory for both: engines see ``MemFree``, so page cache counts as used for them."""
    total = device.integer("memory_total_bytes")
    really_free = facts.integer("gpu.host_free_bytes")
    plan = int((target.memory_fraction or DEFAULT_FRACTION) * total)
    shown = t("{name}: {free} free and {available} available of {total}", name=name_of(device),
              free=gib(really_free), available=gib(available), total=gib(total))  # fmt: skip
    overrun = t("an overrun locks the whole machine up instead of failing the process")
    docs = "https://github.com/vllm-project/vllm/issues/56824"
    if available < plan:
        return failed(
            shown,
            expected=t("{plan} for the engine", plan=gib(plan)),
            consequence=overrun,
            remedy=fix(t("close other programs, or lower the fraction"), docs=docs),
        )
    if really_free < plan:
        return warned(
            shown,
            expected=t("{plan} free, not only available", plan=gib(plan)),
            consequence=t("the engine takes page cache for used memory and sizes a smaller pool"),
            remedy=fix(
                t("drop the page cache right before the start"),
                "sync; echo 3 | sudo tee /proc/sys/vm/drop_caches",
                privileged=True,
                docs="https://github.com/vllm-project/vllm/issues/48140",
            ),
        )
    if available - plan < UNIFIED_FLOOR_BYTES:
        return warned(
            shown,
            expected=t("8 GiB left for the machine beside the engine's {plan}", plan=gib(plan)),
            consequence=overrun,
            remedy=fix(t("close other programs, or lower the fraction"), docs=docs),
        )
    return ok(shown)


def judge_holders(facts: Facts, target: Target) -> Verdict:
    """Does another compute process use the card?"""
    others: list[Text] = []
    silent = 0
    devices = selected(facts, target)
    for device in devices:
        gpu = device.integer("index")
        for process in device.rows("processes"):
            if process.integer("pid") in target.own_pids:
                continue
            compute = "compute" in process.text("kind")
            if not process.has("used_bytes"):
                silent += 1
                others.append(_holder(process, gpu if len(devices) > 1 else None))
            elif compute and process.integer("used_bytes") > HOLDER_BYTES:
                others.append(_holder(process, gpu if len(devices) > 1 else None))
    if others:
        return warned(
            t("{who}", who=listed(others)),
            *((t("{count} with a size that is not reported", count=silent),) if silent else ()),
            expected=t("no other compute process"),
            consequence=t("its memory is missing from the pool, its kernels slow yours down"),
            remedy=fix(t("stop it, or choose another card"), "nvidia-smi"),
        )
    return ok(t("no other compute process"))


def _own_bytes(device: Facts, target: Target) -> int:
    if not target.own_pids or not device.has("processes"):
        return 0
    return sum(
        process.integer("used_bytes")
        for process in device.rows("processes")
        if process.integer("pid") in target.own_pids and process.has("used_bytes")
    )


def _holders(device: Facts, target: Target) -> Sequence[Text]:
    if not device.has("processes"):
        return ()
    return [
        _holder(process)
        for process in device.rows("processes")
        if process.integer("pid") not in target.own_pids
    ]


def _holder(process: Facts, gpu: int | None = None) -> Text:
    who = t(
        "{name} ({pid}) {size}",
        name=process.text("name") if process.has("name") else t("process"),
        pid=process.integer("pid"),
        size=gib(process.integer("used_bytes"))
        if process.has("used_bytes")
        else t("size not reported"),
    )
    return who if gpu is None else t("GPU {index}: {who}", index=gpu, who=who)
