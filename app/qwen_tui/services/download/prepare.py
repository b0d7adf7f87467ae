"""From what the user typed to a request: profile, folder, patterns, and the last speed seen."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwen_tui.services.download.hosts import host_of
from qwen_tui.services.download.request import DownloadRequest
from qwen_tui.services.paths import write_private
from qwen_tui_profiles.errors import UsageError
from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qwen_tui.services.paths import Paths
    from qwen_tui_profiles.profile import EngineProfile

__all__ = ["parse_rate", "prepare", "remember_speed"]

DEFAULT_ENDPOINT = "https://huggingface.co"
_REPO = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_REVISION = re.compile(r"(?!.*\.\.)[\w][\w./+@-]{0,254}")
"""What git allows and a file name below ``refs`` may be."""
_LANGUAGE_ONLY = frozenset({"--language-only", "--language-model-only"})
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmMgG]?)(?:i?[bB])?(?:/s)?")
_SPEED_FILE = "download-speeds.json"


def parse_rate(text: str) -> int:
    """Return bytes a second of ``20M``, ``500k``, ``1.5G`` (decimal).

    Raises:
        UsageError: It is no speed.
    """
    match = _RATE.fullmatch(text.strip())
    number = 0.0
    if match is not None:
        scale = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}[match.group(2).lower()]
        number = float(match.group(1)) * scale
    if number < 1024:
        raise UsageError(
            t("{text} is no speed limit.", text=text),
            t("Give bytes a second with k, M or G, for example --limit-rate 20M."),
        )
    return int(number)


def prepare(
    paths: Paths,
    *,
    repo: str | None,
    profile: EngineProfile | None,
    environment: Mapping[str, str],
    revision: str | None = None,
    dest: str | None = None,
    endpoint: str | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    workers: int = 4,
    limit_rate: str | None = None,
) -> DownloadRequest:
    """Build the request.

    With a profile, its repository, revision and model folder are the defaults, and weights that no
    engine opens are left out.

    Raises:
        UsageError: No repository is named, or a value cannot be used.
    """
    if profile is not None and repo is None:
        repo = profile.model.repo
    if repo is None:
        raise UsageError(
            t("No repository is named."),
            t("Give organisation/name, or a profile that has one with --for."),
        )
    if _REPO.fullmatch(repo) is None:
        raise UsageError(
            t("{repo} is no repository name; expected organisation/name.", repo=repr(repo)),
            t("Copy the name from the model page, for example RedHatAI/Qwen3.8-27B-INT4."),
        )
    if workers < 1:
        raise UsageError(t("--workers must be at least 1, got {n}.", n=workers))
    if dest is None and profile is not None and repo == profile.model.repo:
        # Another repository does not belong into the profile's model folder.
        dest = profile.model.path
    if endpoint is not None and re.match(r"https?://[^/\s]+", endpoint) is None:
        raise UsageError(
            t("{endpoint} is no address of a mirror.", endpoint=repr(endpoint)),
            t("Give a URL such as https://hf-mirror.com."),
        )
    if revision is not None and _REVISION.fullmatch(revision) is None:
        raise UsageError(
            t("{revision} is no revision.", revision=repr(revision)),
            t("Give a branch, a tag or a commit, for example --revision main."),
        )
    return DownloadRequest(
        repo=repo,
        revision=revision or "main",
        dest=None if dest is None else str(Path(dest).expanduser().absolute()),
        endpoint=endpoint,
        include=tuple(include),
        exclude=tuple(exclude),
        loaded_only=profile is not None,
        workers=workers,
        limit_bytes_s=None if limit_rate is None else parse_rate(limit_rate),
        known_bytes_s=_speeds(paths).get(_endpoint_host(endpoint, environment)),
        **_judged_for(profile),
    )


def _judged_for(profile: EngineProfile | None) -> dict[str, Any]:
    """Return what the checkpoint is judged for: the profile's own launch."""
    if profile is None or profile.engine is EngineKind.DEMO:
        return {}
    argv = profile.argv
    return {
        "engine": profile.engine.value,
        "speculative": any(a.startswith("--speculative-") for a in argv),
        "language_only": any(a in _LANGUAGE_ONLY for a in argv),
        "quantization": _flag(argv, "--quantization"),
    }


def _flag(argv: Sequence[str], flag: str) -> str | None:
    for item, following in itertools.pairwise((*argv, "")):
        name, equals, value = item.partition("=")
        if name == flag:
            return value if equals else following or None
    return None


def remember_speed(paths: Paths, result: Mapping[str, Any], endpoint: str) -> None:
    """Note the speed of a finished download; the next plan's estimate rests on it."""
    seconds, fetched = result.get("seconds"), result.get("fetched_bytes")
    if not isinstance(seconds, int | float) or not isinstance(fetched, int):
        return
    if seconds < 1.0 or fetched < 10_000_000:
        return
    speeds = _speeds(paths) | {host_of(endpoint): fetched / seconds}
    with contextlib.suppress(OSError):
        paths.make(paths.cache)
        write_private(paths.cache / _SPEED_FILE, json.dumps(speeds).encode())


def _endpoint_host(endpoint: str | None, environment: Mapping[str, str]) -> str:
    return host_of(endpoint or environment.get("HF_ENDPOINT") or DEFAULT_ENDPOINT)


def _speeds(paths: Paths) -> dict[str, float]:
    try:
        values = json.loads((paths.cache / _SPEED_FILE).read_bytes())
        return {str(k): float(v) for k, v in values.items() if float(v) > 0}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
