"""Collect what the memory plan needs (profile, checkpoint, engine version, GPU) and run it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from qwen_tui.services.engines import DEMO_VERSION
from qwen_tui.services.launch_gpu import LiveGpu, launch_environment, live_gpu
from qwen_tui.services.learning import learned
from qwen_tui.services.plan_sources import (
    demo_checkpoint,
    demo_flags,
    demo_free_gib,
    find_checkpoint,
)
from qwen_tui_profiles.cmdline import EngineCommand, parse_words
from qwen_tui_profiles.errors import EngineError, UsageError
from qwen_tui_profiles.findings import Finding, Severity
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.plan.arguments import read_sglang, read_vllm
from qwen_tui_profiles.plan.predict import PlanRequest, predict
from qwen_tui_profiles.plan.result import Assumption
from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.rules import command_of, judge, model_facts
from qwen_tui_profiles.rules.lint import fork_base
from qwen_tui_profiles.text import t
from qwen_tui_profiles.versions import Version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui.services.paths import Paths
    from qwen_tui.services.plan_sources import Checkpoint
    from qwen_tui_profiles.plan.result import Plan
    from qwen_tui_profiles.profile import EngineProfile

__all__ = [
    "PlanOptions",
    "engine_and_version",
    "make_plan",
    "plan_request",
    "prediction_of",
    "refusal_of",
]

_GIB = float(1 << 30)


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What the user gave; everything that is None is looked up or assumed."""

    args: tuple[str, ...] = ()
    """Engine arguments, after those of the profile."""
    engine: str | None = None
    """``sglang==0.5.17``, ``vllm`` or a bare engine name."""
    model: str | None = None
    """Checkpoint folder, or its config.json."""
    free_gib: float | None = None
    total_gib: float | None = None
    card: int | None = None
    """Compute capability times ten of the card that ``total_gib`` is of."""
    weights_gib: float | None = None
    draft_gib: float | None = None
    kv_memory_gib: float | None = None
    want_context: int | None = None
    want_requests: int | None = None
    gpu_index: int | None = None
    """None = the one that the profile's environment names, else the first."""


def make_plan(options: PlanOptions, profile: EngineProfile | None, paths: Paths) -> Plan:
    """Plan a profile, a command line, or both.

    Raises:
        QwenTuiError: An input is missing or unusable.
    """
    options, env = _unwrapped(options)
    request, assumed = _collect(options, profile, paths, env)
    if profile is not None and _is_own_model(options, request):
        request = replace(request, calibration=learned(profile, request, paths))
    plan = predict(request)
    return replace(
        plan,
        findings=_with_rules(plan, request, profile, options),
        assumed=(*plan.assumed, *assumed),
        live_free_gib=request.live_free_gib,
        engine=EngineKind.DEMO.value if _simulated(profile) else plan.engine,
    )


def _is_own_model(options: PlanOptions, request: PlanRequest) -> bool:
    """Whether the plan is for the profile's own checkpoint, which its boots say something about."""
    named = read_sglang(options.args) if request.engine is EngineKind.SGLANG else None
    return options.model is None and (named is None or named.model_path is None)


def refusal_of(plan: Plan) -> Finding | None:
    """Return why the engine will not start, where the whole interval says so; else None."""
    if plan.failure is None or not plan.failure_certain:
        return None
    remedy = None
    if plan.minimum_fraction is not None:
        remedy = t("It would start at --mem-fraction-static {f}.", f=f"{plan.minimum_fraction:g}")
    return Finding(
        rule="plan-does-not-fit",
        severity=Severity.ERROR,
        title=plan.failure,
        evidence=plan.failure_class or t("memory plan"),
        source="memory plan",
        since=None,
        until=None,
        remedy=remedy,
    )


def prediction_of(plan: Plan) -> Mapping[str, int | float | None]:
    """Return what a launch keeps of its plan, to be scored against the boot; empty = nothing."""
    tokens = plan.kv_tokens
    if tokens.value is None:
        return {}
    return {
        "kv_tokens": tokens.value,
        "kv_tokens_low": tokens.low,
        "kv_tokens_high": tokens.high,
        "max_running_requests": plan.requests,
        "mamba_slots": None if plan.state is None else plan.state.slots,
        "context_usable": plan.context_usable,
        "live_free_gib": plan.live_free_gib,
    }


def _unwrapped(options: PlanOptions) -> tuple[PlanOptions, Mapping[str, str]]:
    """Take the engine's own arguments out of a pasted command line."""
    if not options.args or options.args[0].startswith("-"):
        return options, {}
    command = parse_words(options.args)
    engine = options.engine
    if engine is None:
        version = "" if command.image_version is None else f"=={command.image_version}"
        engine = f"{command.engine.value}{version}"
    return replace(options, args=command.argv, engine=engine), command.env


_SAID_BY_A_RULE = {"plan-draft-overcharge": "draft-path-fivefold"}
"""Findings of the arithmetic that a rule states with more words."""


def _with_rules(
    plan: Plan, request: PlanRequest, profile: EngineProfile | None, options: PlanOptions
) -> tuple[Finding, ...]:
    """Add what the rules say about the same launch."""
    if profile is not None:
        command = command_of(profile, version=request.engine_version)
        command = replace(command, argv=(*command.argv, *options.args))
    else:
        command = EngineCommand(request.engine, tuple(request.args), "flags", request.env)
    judged = judge(
        command,
        version=plan.engine_version,
        model=model_facts(request.config),
        card=request.card,
        card_gib=request.total_gib,
        kv_tokens=plan.kv_tokens.value,
        fork=profile is not None and profile.build is not None,
        ignore=() if profile is None else profile.ignore,
    )
    rules = {finding.rule for finding in judged.findings}
    own = [f for f in plan.findings if _SAID_BY_A_RULE.get(f.rule) not in rules]
    return (*own, *judged.findings)


def plan_request(
    options: PlanOptions,
    profile: EngineProfile | None,
    paths: Paths,
    env: Mapping[str, str] | None = None,
) -> PlanRequest:
    """Collect the inputs of a plan.

    Raises:
        UsageError: No model is named, or the GPU does not exist.
        InputError: The checkpoint cannot be read.
    """
    return _collect(options, profile, paths, env or {})[0]


def _collect(
    options: PlanOptions,
    profile: EngineProfile | None,
    paths: Paths,
    env: Mapping[str, str],
) -> tuple[PlanRequest, tuple[Assumption, ...]]:
    """Return the request, and what had to be assumed for it."""
    variables = {**(profile.env if profile is not None else {}), **env}
    own = profile.argv if profile is not None else ()
    if profile is not None and profile.simulated:
        # The planner knows no simulated engine: it is asked about what that one imitates.
        kind = EngineKind.SGLANG
        version: str | None = DEMO_VERSION
        args = demo_flags((*own, *options.args))
        source = _checkpoint(options, profile, kind) if options.model else demo_checkpoint(profile)
        if options.free_gib is None and options.total_gib is None:
            options = replace(options, free_gib=demo_free_gib(profile))
    else:
        kind, version = engine_and_version(options.engine, options.args, profile, paths)
        args = (*own, *options.args)
        source = _checkpoint(options, profile, kind)
    if version is None:
        version = _told_version(profile, variables)
        if version is not None:
            note = t("The release that the image or the fork was made from.")
            source = replace(
                source, assumed=(Assumption("engine_version", version, note), *source.assumed)
            )
    live = LiveGpu()
    if options.free_gib is None and options.total_gib is None:
        live = live_gpu(options.gpu_index, launch_environment(variables))
    request = PlanRequest(
        args=args,
        config=source.config,
        engine=kind,
        engine_version=version,
        stored=source.stored,
        env=variables,
        free_gib=options.free_gib,
        live_free_gib=live.free_gib,
        total_gib=options.total_gib if options.total_gib is not None else live.total_gib,
        card=options.card if options.card is not None else live.card,
        weights_gib=options.weights_gib,
        published_gib=source.published_gib,
        published_source=source.published_source,
        draft_gib=options.draft_gib,
        kv_memory_gib=options.kv_memory_gib,
        want_context=options.want_context,
        want_requests=options.want_requests,
    )
    return request, source.assumed


def _told_version(profile: EngineProfile | None, env: Mapping[str, str]) -> str | None:
    """Return the version that a launch itself tells: by its image, or by a fork's variables."""
    image = None if profile is None else command_of(profile).image_version
    return image or fork_base(env)


def _simulated(profile: EngineProfile | None) -> bool:
    return profile is not None and profile.simulated


def engine_and_version(
    spec: str | None, args: tuple[str, ...], profile: EngineProfile | None, paths: Paths
) -> tuple[EngineKind, str | None]:
    """Return engine and version: as given, as found, or None for the newest known.

    Raises:
        UsageError: ``spec`` is not an engine, with or without ``==VERSION``.
    """
    if spec is not None:
        name, separator, version = spec.partition("==")
        try:
            kind = EngineKind(name.strip().lower())
        except ValueError:
            raise UsageError(
                t("{spec} is not an engine.", spec=clean(spec)[:60]),
                t("Write sglang==0.5.17, vllm==0.33.0, or the name alone."),
            ) from None
        if separator:
            Version.parse(version)
            return kind, version.strip()
        return kind, _found_version(kind, profile, paths)
    if profile is not None:
        return profile.engine, _found_version(profile.engine, profile, paths)
    kind = EngineKind.VLLM if any("vllm" in word for word in args[:8]) else EngineKind.SGLANG
    return kind, _found_version(kind, None, paths)


def _found_version(kind: EngineKind, profile: EngineProfile | None, paths: Paths) -> str | None:
    from qwen_tui.services.engines import find_engines, resolve_interpreter

    if profile is not None and profile.engine is kind:
        try:
            return resolve_interpreter(profile, paths).version
        except EngineError:
            # Planning for an engine that is not installed yet is the normal case.
            return None
    found = [engine.version for engine in find_engines(paths) if engine.kind is kind]
    return found[0] if found else None


def _checkpoint(
    options: PlanOptions, profile: EngineProfile | None, kind: EngineKind
) -> Checkpoint:
    if options.model is not None:
        return find_checkpoint(options.model, True, profile)
    if kind is EngineKind.VLLM:
        named = read_vllm(options.args).model
    else:
        named = read_sglang(options.args).model_path
    if named is not None:
        return find_checkpoint(named, False, None)
    return find_checkpoint(None if profile is None else profile.model.path, False, profile)
