"""The checkpoint of a launch, judged from its headers before it is loaded, and remembered."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui.services.paths import write_private
from qwen_tui_profiles.errors import ConfigError, InputError
from qwen_tui_profiles.findings import Finding, Severity
from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.text import as_record, from_record

if TYPE_CHECKING:
    from qwen_tui.services.paths import Paths
    from qwen_tui_profiles.profile import EngineProfile

__all__ = ["checkpoint_findings"]

_FORMAT = 1
_LANGUAGE_ONLY = frozenset({"--language-only", "--language-model-only"})


def checkpoint_findings(
    profile: EngineProfile, engine_version: str | None, paths: Paths
) -> tuple[Finding, ...]:
    """Return what is wrong with the profile's checkpoint for its engine.

    Empty when all is well, and when there is nothing to judge: no local folder, a simulated
    engine, an architecture that we do not know, ``--load-format dummy`` (it reads no weights).
    """
    if profile.engine is EngineKind.DEMO or profile.model.path is None:
        return ()
    if _value(profile.argv, "--load-format") == "dummy":
        return ()
    folder = Path(profile.model.path).expanduser()
    speculative = any(a.startswith("--speculative-alg") for a in profile.argv)
    language_only = any(a in _LANGUAGE_ONLY for a in profile.argv)
    question = (profile.engine.value, engine_version, speculative, language_only)
    state = _state(folder)
    if state is None:
        return ()
    key = hashlib.sha256(json.dumps([_FORMAT, str(folder), question, state]).encode()).hexdigest()
    kept = paths.cache / "verify" / f"{key[:24]}.json"
    known = _load(kept)
    if known is not None:
        return known
    from qwen_tui_diagnostics.checkpoint import verify

    try:
        report = verify(
            folder,
            engine=profile.engine.value,
            engine_version=engine_version,
            speculative=speculative,
            language_only=language_only,
            quantization=_value(profile.argv, "--quantization"),
        )
    except InputError:
        return ()
    findings = tuple(
        Finding(f.rule, f.severity, f.title, f.evidence, f.source, None, None, f.remedy)
        for f in report.findings
        if f.severity is not Severity.INFO
    )
    _store(paths, kept, findings)
    return findings


def _state(folder: Path) -> list[tuple[str, int, int]] | None:
    """Return what tells a changed folder: names, sizes and times of its files."""
    try:
        entries = [(e.name, e.stat()) for e in os.scandir(folder) if e.is_file()]
    except OSError:
        return None
    return sorted((name, found.st_size, found.st_mtime_ns) for name, found in entries)


def _value(argv: tuple[str, ...], flag: str) -> str | None:
    for item, following in itertools.pairwise((*argv, "")):
        name, equals, value = item.partition("=")
        if name == flag:
            return value if equals else following
    return None


def _load(path: Path) -> tuple[Finding, ...] | None:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return tuple(
            Finding(
                row["rule"],
                Severity(row["severity"]),
                from_record(row["title_parts"], row["title"]),
                row["evidence"],
                row["source"],
                None,
                None,
                None if row["remedy"] is None else from_record(row["remedy_parts"], row["remedy"]),
            )
            for row in rows
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _store(paths: Paths, path: Path, findings: tuple[Finding, ...]) -> None:
    with contextlib.suppress(OSError, ConfigError):
        paths.make(path.parent)
        write_private(path, json.dumps([_row(f) for f in findings]).encode())


def _row(finding: Finding) -> dict[str, object]:
    remedy = finding.remedy
    return {
        **finding.as_json(),
        "title_parts": as_record(finding.title),
        "remedy_parts": None if remedy is None else as_record(remedy),
    }
