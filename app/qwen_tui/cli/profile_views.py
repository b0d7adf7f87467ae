"""How profiles look on paper: lines for people, documents for programs."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from qwen_tui.services.words import MODES
from qwen_tui_profiles.citations import cited
from qwen_tui_profiles.errors import EngineError
from qwen_tui_profiles.foreign import REDACTED, is_secret_name, redact, redact_argv
from qwen_tui_profiles.launch import LaunchSpec, build_launch
from qwen_tui_profiles.profile import ContainerLaunch
from qwen_tui_profiles.text import t, tr, tr_shipped
from qwen_tui_profiles.wrapping import columns, padded, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from qwen_tui.services.engines import EngineFound
    from qwen_tui.services.paths import Paths
    from qwen_tui_profiles.loader import ProfileSet
    from qwen_tui_profiles.profile import EngineProfile
    from qwen_tui_profiles.rules import Judgement
    from qwen_tui_profiles.text import Text

__all__ = ["list_document", "list_lines", "show_document", "show_lines", "spec_of"]


def spec_of(
    profile: EngineProfile, paths: Paths
) -> tuple[LaunchSpec, EngineFound | None, EngineError | None]:
    """Return the launch of a profile with secrets hidden, and the engine it would use.

    Without an engine on this machine the command is shown all the same, with ``python`` in the
    place of the interpreter and flags as the profile writes them; the error says why.
    """
    from qwen_tui.services.engines import resolve_interpreter

    engine: EngineFound | None = None
    problem: EngineError | None = None
    try:
        engine = resolve_interpreter(profile, paths)
    except EngineError as error:
        problem = error
    spec = build_launch(
        profile,
        interpreter=engine.interpreter if engine else "python",
        engine_version=engine.version if engine else None,
    )
    return LaunchSpec(redact_argv(spec.argv), _redacted(spec.env)), engine, problem


def list_document(profiles: ProfileSet) -> dict[str, object]:
    """Return the JSON document of ``profiles list``."""
    return {
        "schema": "qwen-tui.profiles/1",
        "profiles": [
            {
                "name": p.name,
                "title": p.title,
                "engine": p.engine.value,
                "mode": p.mode.value,
                "pair": p.pair,
                "simulated": p.simulated,
                "needs_gpu": p.needs_gpu,
                "engine_versions": p.engine_versions,
                "build": p.build,
                "origin": {"kind": p.origin.kind, "path": p.origin.path},
                "ignore": list(p.ignore),
            }
            for p in profiles.profiles.values()
        ],
        "problems": [
            {
                "path": getattr(problem, "path", None),
                "line": getattr(problem, "line", None),
                "column": getattr(problem, "column", None),
                "message": str(problem.message),
                "remedy": None if problem.remedy is None else str(problem.remedy),
            }
            for problem in profiles.problems
        ],
    }


def list_lines(profiles: ProfileSet) -> Iterator[str]:
    """Yield a table: name, engine, mode, origin, title."""
    rows = list(profiles.profiles.values())
    width = max((len(p.name) for p in rows), default=0)
    for p in rows:
        # The user's own stand out; a shipped profile is the normal case and needs no word.
        origin = tr(t("yours")) if p.origin.kind == "user" else ""
        line = f"{p.name:<{width}}  {p.engine.value:<6}  {padded(tr(MODES[p.mode]), 7)}  "
        line += f"{padded(origin, 5)}  {tr_shipped(p.title)}"
        if p.ignore:
            line += "  [" + tr(t("overrides {rules}", rules=", ".join(p.ignore))) + "]"
        yield line


def show_document(
    profile: EngineProfile, spec: LaunchSpec, engine: EngineFound | None, judged: Judgement
) -> dict[str, object]:
    """Return the JSON document of ``profiles show``."""
    launch = profile.launch
    published = profile.published
    return {
        "schema": "qwen-tui.profile/1",
        "name": profile.name,
        "title": profile.title,
        "engine": profile.engine.value,
        "mode": profile.mode.value,
        "pair": profile.pair,
        "host": profile.host,
        "port": profile.port,
        "url": profile.url,
        "simulated": profile.simulated,
        "needs_gpu": profile.needs_gpu,
        "engine_versions": profile.engine_versions,
        "build": profile.build,
        "thinking": profile.thinking,
        "extends": profile.extends,
        "origin": {"kind": profile.origin.kind, "path": profile.origin.path},
        "launch": {
            "kind": "container" if isinstance(launch, ContainerLaunch) else "python",
            "image": launch.image if isinstance(launch, ContainerLaunch) else None,
            "interpreter": engine.interpreter if engine else None,
            "engine_version": engine.version if engine else None,
            "engine_build": engine.build if engine else None,
            "found_by": engine.source if engine else None,
        },
        "model": {
            "path": profile.model.path,
            "repo": profile.model.repo,
            "served_name": profile.model.served_name,
        },
        "argv": list(spec.argv),
        "env": dict(spec.env),
        "notes": list(profile.notes),
        "ignore": [
            {"rule": rule, "reason": profile.ignore_reasons.get(rule)} for rule in profile.ignore
        ],
        "findings": [finding.as_json() for finding in judged.findings],
        "judged_for": judged.version,
        "provenance": {
            key: {"source": p.source, "date": p.date, "figure": p.figure, "note": p.note}
            for key, p in profile.provenance.items()
        },
        "published": None
        if published is None
        else {
            "source": published.source,
            "argv": list(redact_argv(published.argv)),
            "env": dict(_redacted(published.env)),
            "differences": dict(published.differences),
        },
    }


def show_lines(
    profile: EngineProfile, spec: LaunchSpec, engine: EngineFound | None, judged: Judgement
) -> Iterator[str]:
    """Yield the profile for reading: facts, flags with their origin, what was changed, notes."""
    yield f"{profile.name}: {tr_shipped(profile.title)}"
    yield from _facts(profile, engine)
    yield ""
    yield tr(t("Flags"))
    yield from _flags(profile)
    if spec.env:
        yield ""
        yield tr(t("Environment"))
        for name, value in spec.env.items():
            yield f"  {name}={value}"
            yield from _origin(profile, f"env.{name}")
    if profile.published is not None:
        yield ""
        yield tr(
            t(
                "Published differently by {source}; what was changed and why",
                source=cited(profile.published.source),
            )
        )
        for flag, reason in profile.published.differences.items():
            yield from _wrapped(f"{flag}: {tr_shipped(reason)}", "  ")
    if profile.ignore:
        yield ""
        yield tr(t("Rules overridden by this profile"))
        for rule in profile.ignore:
            reason = tr_shipped(profile.ignore_reasons.get(rule) or "") or tr(t("no reason given"))
            yield from _wrapped(f"{rule}: {reason}", "  ")
    if judged.findings:
        yield ""
        yield tr(
            t(
                "What the rules say for {engine} {version} (more with `qwen-tui lint`)",
                engine=judged.engine.value,
                version=judged.version,
            )
        )
        for finding in judged.findings:
            yield from _wrapped(f"{finding.severity.value}: {tr(finding.title)}", "  ")
    if profile.notes:
        yield ""
        yield tr(t("Notes"))
        for note in profile.notes:
            yield from _wrapped(tr_shipped(note), "  - ")


def _facts(profile: EngineProfile, engine: EngineFound | None) -> Iterator[str]:
    if profile.simulated:
        yield "  " + tr(t("simulated engine: no GPU and no model are used"))
    rows = [(tr(label), value) for label, value in _fact_rows(profile, engine) if value]
    width = max(columns(label) for label, _ in rows) + 2
    for label, value in rows:
        yield from _wrapped(value, f"  {padded(label, width)}")


def _fact_rows(profile: EngineProfile, engine: EngineFound | None) -> Iterator[tuple[Text, str]]:
    launch, model = profile.launch, profile.model
    if isinstance(launch, ContainerLaunch):
        yield t("image"), launch.image
    yield t("engine"), f"{profile.engine.value} {profile.engine_versions or ''}".rstrip()
    found = tr(t("not found on this machine"))
    if engine is not None:
        found = f"{engine.version or '—'}  {engine.interpreter}  ({cited(engine.source)})"
    yield t("found"), found
    yield t("build"), tr_shipped(profile.build or "")
    yield t("model"), model.path or model.repo or "—"
    if model.path and model.repo:
        yield t("from"), model.repo
    mode = tr(MODES[profile.mode])
    yield t("address"), f"{profile.host}:{profile.port}"
    yield t("mode"), f"{mode}  ↔ {profile.pair}" if profile.pair else mode
    yield t("file"), str(profile.origin.path)


def _flags(profile: EngineProfile) -> Iterator[str]:
    argv = redact_argv(profile.argv)
    starts = [i for i, item in enumerate(argv) if item.startswith("--")]
    for start, end in zip(starts, [*starts[1:], len(argv)], strict=True):
        yield "  " + " ".join(argv[start:end])
        yield from _origin(profile, f"args.{argv[start][2:].partition('=')[0]}")


def _origin(profile: EngineProfile, key: str) -> Iterator[str]:
    p = profile.provenance.get(key)
    if p is not None:
        parts = [cited(p.source), p.date, tr_shipped(p.figure or ""), tr_shipped(p.note or "")]
        yield from _wrapped("; ".join(part for part in parts if part), "      ")


def _wrapped(text: str, indent: str) -> list[str]:
    width = min(shutil.get_terminal_size((100, 24)).columns, 110)
    return wrapped(text, width, indent)


def _redacted(env: Mapping[str, str]) -> dict[str, str]:
    return {
        name: REDACTED if is_secret_name(name) else redact(value) for name, value in env.items()
    }
