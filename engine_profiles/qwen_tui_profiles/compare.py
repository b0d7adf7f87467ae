"""Two profiles side by side: what differs, what follows, which rules come and go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_profiles.cmdline import read_arguments
from qwen_tui_profiles.consequences import CONSEQUENCES, Step
from qwen_tui_profiles.flags import flag_table, newest_version
from qwen_tui_profiles.foreign import REDACTED, is_secret_name, redact
from qwen_tui_profiles.rules import judge_profile
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qwen_tui_profiles.findings import Finding
    from qwen_tui_profiles.profile import EngineProfile
    from qwen_tui_profiles.text import Text

__all__ = ["Change", "Comparison", "compare"]

_GIB = 1 << 30
_SLOT_BYTES = {True: 78_446_592, False: 153_944_064}
"""One state slot of the 27B: with bfloat16 states, with float32 (48 linear layers)."""
_STATE_FLAGS = frozenset(
    {"--max-mamba-cache-size", "--max-running-requests", "--mamba-ssm-dtype",
     "--mem-fraction-static"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """One difference."""

    key: str
    """Flag with its dashes, variable, or the name of a field."""
    step: Step
    before: str | None
    after: str | None
    consequence: Text | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that differs between two profiles."""

    changes: tuple[Change, ...]
    appeared: tuple[Finding, ...] = ()
    """Findings that only the second one has."""
    gone: tuple[Finding, ...] = ()
    """Findings that only the first one has."""

    @property
    def same(self) -> bool:
        """Whether both launch the same thing."""
        return not self.changes


def compare(before: EngineProfile, after: EngineProfile) -> Comparison:
    """Compare what two profiles launch."""
    changes = [*_fields(before, after)]
    old, new = _flags(before), _flags(after)
    for key in (*old, *(key for key in new if key not in old)):
        if old.get(key) != new.get(key):
            changes.append(_change(key, old.get(key), new.get(key), before, after))
    for name in sorted({*before.env, *after.env}):
        first, second = before.env.get(name), after.env.get(name)
        if first != second:
            changes.append(_change(name, _shown(name, first), _shown(name, second), before, after))
    first_findings = judge_profile(before).findings
    second_findings = judge_profile(after).findings
    had = {finding.rule for finding in first_findings}
    has = {finding.rule for finding in second_findings}
    return Comparison(
        tuple(changes),
        tuple(finding for finding in second_findings if finding.rule not in had),
        tuple(finding for finding in first_findings if finding.rule not in has),
    )


def _fields(before: EngineProfile, after: EngineProfile) -> Iterator[Change]:
    pairs = (
        ("engine", before.engine.value, after.engine.value),
        ("model", before.model.path or before.model.repo, after.model.path or after.model.repo),
        ("host", before.host, after.host),
        ("port", str(before.port), str(after.port)),
        ("build", before.build, after.build),
        ("engine-versions", before.engine_versions, after.engine_versions),
    )
    for key, old, new in pairs:
        if old != new:
            yield _change(key, old, new, before, after)


def _flags(profile: EngineProfile) -> dict[str, str]:
    """Return flag → values as text, by canonical name."""
    table = flag_table(profile.engine, newest_version(profile.engine))
    arguments = read_arguments(profile.engine, profile.argv, table)
    out: dict[str, str] = {}
    for option in arguments.options:
        shown = REDACTED if is_secret_name(option.name) else redact(" ".join(option.values))
        out[option.name] = "off" if option.negated else shown or "on"
    return out


def _shown(name: str, value: str | None) -> str | None:
    if value is None:
        return None
    return REDACTED if is_secret_name(name) else redact(value)


def _change(
    key: str,
    before: str | None,
    after: str | None,
    first: EngineProfile,
    second: EngineProfile,
) -> Change:
    step = _step(before, after)
    priced = _priced(key, before, after, second) if key in _STATE_FLAGS else None
    if priced is not None:
        return Change(key, step, before, after, priced, "cache arithmetic for the 27B")
    for row in CONSEQUENCES:
        if row.key != key or step not in row.steps:
            continue
        if row.engine not in {None, second.engine}:
            continue
        if row.value is not None and row.value != (before if step is Step.REMOVED else after):
            continue
        return Change(key, step, before, after, row.text, row.source)
    return Change(key, step, before, after)


def _step(before: str | None, after: str | None) -> Step:
    if before is None:
        return Step.ADDED
    if after is None:
        return Step.REMOVED
    old, new = _number(before), _number(after)
    if old is None or new is None:
        return Step.CHANGED
    return Step.RAISED if new > old else Step.LOWERED


def _priced(key: str, before: str | None, after: str | None, profile: EngineProfile) -> Text | None:
    """Say in tokens of the 27B's KV pool what a state or memory flag costs or gives."""
    if (
        "27b"
        not in f"{profile.model.path} {profile.model.repo} {profile.model.served_name}".lower()
    ):
        return None
    flags = _flags(profile)
    narrow = flags.get("--mamba-ssm-dtype") in {"bfloat16", "float16"}
    cell = 32_768 if flags.get("--kv-cache-dtype", "").startswith("fp8") else 65_536
    slot = _SLOT_BYTES[narrow]
    old, new = _number(before), _number(after)
    if key == "--mem-fraction-static" and old is not None and new is not None:
        tokens = round(abs(new - old) * 30 * _GIB / cell)
        if new > old:
            return t(
                "About {tokens:,} tokens more on a 32 GB card; less left beside the pool.",
                tokens=tokens,
            )
        return t(
            "About {tokens:,} tokens fewer on a 32 GB card; more left beside the pool.",
            tokens=tokens,
        )
    if key == "--max-mamba-cache-size" and old is not None and new is not None:
        tokens = round(abs(new - old) * slot / cell)
        if new > old:
            return t("{tokens:,} tokens of context go to state slots.", tokens=tokens)
        return t("{tokens:,} tokens of context come back from state slots.", tokens=tokens)
    if key == "--max-running-requests" and old is not None and new is not None:
        drafts = _number(flags.get("--speculative-num-draft-tokens"))
        if drafts is None:
            return t("More or fewer at once, as far as the state slots allow; no KV tokens.")
        tokens = round(abs(new - old) * drafts * slot / cell)
        if new > old:
            return t(
                "{tokens:,} tokens of context go to rollback states, if the slots serve them.",
                tokens=tokens,
            )
        return t("{tokens:,} tokens of context come back from rollback states.", tokens=tokens)
    if key == "--mamba-ssm-dtype":
        return t(
            "A state slot costs {tokens:,} tokens of context with this.", tokens=round(slot / cell)
        )
    return None


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
