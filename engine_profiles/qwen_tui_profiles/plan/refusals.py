"""Launches that a release refuses before it sizes anything, as far as the planner must know them.

The rules say the same with more words; here only the verdict counts, because numbers for a launch
that never starts would mislead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_profiles.text import Text, t
from qwen_tui_profiles.versions import in_range

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from qwen_tui_profiles.plan.model import ModelFacts
    from qwen_tui_profiles.plan.settings import Settings

__all__ = ["Refusal", "refused"]

_LONGER = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the engine exits before the pools."""

    kind: str
    """Fatal class of the log reader."""
    why: Text
    remedy: Text


@dataclass(frozen=True, slots=True)
class _Row:
    since: str | None
    until: str | None
    kind: str
    applies: Callable[[Settings, ModelFacts], bool]
    why: Text
    remedy: Text
    evidence: str


_ROWS: tuple[_Row, ...] = (
    _Row(
        "0.5.13",
        "0.5.16",
        "bad_argument",
        lambda s, f: (
            f.state is not None
            and s.strategy.name == "extra_buffer_lazy"
            and s.speculative is not None
        ),
        t("This release refuses extra_buffer_lazy together with speculative decoding."),
        t("Use extra_buffer, or SGLang 0.5.17 or later."),
        "assertions of 0.5.13 and 0.5.14",
    ),
    _Row(
        "0.5.10",
        "0.5.13",
        "bad_argument",
        lambda s, f: (
            f.state is not None
            and s.strategy.name == "no_buffer"
            and s.speculative is not None
            and s.radix_cache
        ),
        t("This release refuses no_buffer with speculative decoding and a radix cache."),
        t("Set --mamba-scheduler-strategy extra_buffer."),
        "ValueError of 0.5.10 to 0.5.13",
    ),
    _Row(
        "0.5.13",
        None,
        "bad_argument",
        lambda s, f: (
            f.state is not None
            and s.strategy.name == "extra_buffer_lazy"
            and not s.strategy.overlap
        ),
        t("extra_buffer_lazy needs the overlap schedule."),
        t("Take --disable-overlap-schedule away, or use extra_buffer."),
        "assertion of 0.5.13 and later",
    ),
)


def refused(settings: Settings, facts: ModelFacts, env: Mapping[str, str]) -> Refusal | None:
    """Return why the launch is refused, or None."""
    since = None if facts.known is None else facts.known.sglang_since
    if since is not None and not in_range(settings.version, since, None):
        return Refusal(
            "bad_argument",
            t(
                "{name} needs SGLang {since}; this is {version}.",
                name=facts.architecture or "?",
                since=since,
                version=settings.version,
            ),
            t("Install SGLang {since} or later.", since=since),
        )
    if settings.context > facts.context and env.get(_LONGER) not in {"1", "true", "True"}:
        return Refusal(
            "context_too_long",
            t(
                "--context-length {asked} is more than the {derived} that the checkpoint declares.",
                asked=settings.context,
                derived=facts.context,
            ),
            t(
                "Ask for at most {derived}, or set {variable}=1 if you know what it does.",
                derived=facts.context,
                variable=_LONGER,
            ),
        )
    for row in _ROWS:
        if in_range(settings.version, row.since, row.until) and row.applies(settings, facts):
            return Refusal(row.kind, row.why, row.remedy)
    return None
