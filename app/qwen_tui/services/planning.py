"""Collect what the memory plan needs (profile, checkpoint, engine version, GPU) and run it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui.services.learning import learned
from qwen_tui_profiles.cmdline import EngineCommand, parse_words
from qwen_tui_profiles.errors import (
    EngineError,
    InputError,
    ProbeError,
    QwenTuiError,
    UsageError,
)
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.plan.arguments import read_sglang, read_vllm
from qwen_tui_profiles.plan.headers import has_weights, read_stored_sizes
from qwen_tui_profiles.plan.model import read_config
from qwen_tui_profiles.plan.predict import PlanRequest, predict
from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.rules import command_of, judge, model_facts
from qwen_tui_profiles.text import t
from qwen_tui_profiles.versions import Version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui.services.paths import Paths
    from qwen_tui_profiles.findings import Finding
    from qwen_tui_profiles.plan.result import Plan
    from qwen_tui_profiles.profile import EngineProfile

__all__ = ["PlanOptions", "engine_and_version", "make_plan", "plan_request", "predict_launch"]

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
    weights_gib: float | None = None
    draft_gib: float | None = None
    kv_memory_gib: float | None = None
    want_context: int | None = None
    want_requests: int | None = None
    gpu_index: int = 0


def make_plan(options: PlanOptions, profile: EngineProfile | None, paths: Paths) -> Plan:
    """Plan a profile, a command line, or both.

    Raises:
        QwenTuiError: An input is missing or unusable.
    """
    options, env = _unwrapped(options)
    request = plan_request(options, profile, paths, env)
    if profile is not None:
        request = replace(request, calibration=learned(profile.name, request, paths))
    plan = predict(request)
    return replace(plan, findings=_with_rules(plan, request, profile, options))


def predict_launch(profile: EngineProfile, paths: Paths) -> Mapping[str, int | float | None] | None:
    """Predict a launch for its record; None where nothing can be predicted.

    Never stands in the way of a launch: what cannot be read or judged is not an error here.
    """
    try:
        plan = make_plan(PlanOptions(), profile, paths)
    except QwenTuiError:
        return None
    tokens = plan.kv_tokens
    if tokens.value is None:
        return None
    return {
        "kv_tokens": tokens.value,
        "kv_tokens_low": tokens.low,
        "kv_tokens_high": tokens.high,
        "max_running_requests": plan.requests,
        "mamba_slots": None if plan.state is None else plan.state.slots,
        "context_usable": plan.context_usable,
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
        UsageError: No model is named, or no memory size can be had.
        InputError: The checkpoint cannot be read.
    """
    kind, version = engine_and_version(options.engine, options.args, profile, paths)
    args = (*(profile.argv if profile is not None else ()), *options.args)
    variables = {**(profile.env if profile is not None else {}), **(env or {})}
    folder = _model_folder(options, profile, kind)
    config = read_config(folder)
    stored = read_stored_sizes(folder) if folder.is_dir() and has_weights(folder) else None
    live_gib = total_gib = None
    if options.free_gib is None and options.total_gib is None:
        live_gib, total_gib = _live_gpu(options.gpu_index)
    return PlanRequest(
        args=args,
        config=config,
        engine=kind,
        engine_version=version,
        stored=stored,
        env=variables,
        free_gib=options.free_gib,
        live_free_gib=live_gib,
        total_gib=options.total_gib if options.total_gib is not None else total_gib,
        weights_gib=options.weights_gib,
        draft_gib=options.draft_gib,
        kv_memory_gib=options.kv_memory_gib,
        want_context=options.want_context,
        want_requests=options.want_requests,
    )


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


def _model_folder(options: PlanOptions, profile: EngineProfile | None, kind: EngineKind) -> Path:
    named = options.model
    if named is None:
        if kind is EngineKind.VLLM:
            named = read_vllm(options.args).model
        else:
            named = read_sglang(options.args).model_path
    if named is None and profile is not None:
        named = profile.model.path
    if named is None:
        raise UsageError(
            t("No checkpoint is named."),
            t("Give --model DIR; a folder with config.json alone is enough."),
        )
    folder = Path(named).expanduser()
    if not folder.exists():
        raise InputError(
            t("{path} does not exist.", path=clean(str(folder))),
            t("Give the checkpoint's folder with --model; config.json alone is enough."),
        )
    return folder


def _live_gpu(index: int) -> tuple[float | None, float | None]:
    """Return free and total GiB of a GPU of this machine; None where there is none."""
    from qwen_tui_diagnostics.probes.nvml import Nvml

    try:
        with Nvml() as nvml:
            devices = nvml.devices()
    except ProbeError:
        return None, None
    if index >= len(devices):
        return None, None
    free, total = devices[index].memory_free_bytes, devices[index].memory_total_bytes
    return (
        None if free is None else free / _GIB,
        None if total is None else total / _GIB,
    )
