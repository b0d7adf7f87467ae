"""A check: a row of data with a pure judge. Judges never probe, probes never judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.result import Remedy, SkipReason, Status, Verdict
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts

    Judge = Callable[[Facts, Target], Verdict]
    Applies = Callable[[Facts, Target], Text | None]
    Required = Callable[[Target], bool]
    Wanted = Callable[[Target], Text | None]

__all__ = ["Check", "always", "failed", "never", "not_applicable", "ok", "skipped", "warned"]


def always(target: Target) -> bool:
    """Required for every launch."""
    del target
    return True


def never(target: Target) -> bool:
    """Advisory for every launch."""
    del target
    return False


def every_launch(target: Target) -> Text | None:
    """Apply to every launch."""
    del target
    return None


def every_machine(facts: Facts, target: Target) -> Text | None:
    """Apply to every machine."""
    del facts, target
    return None


def with_gpu(target: Target) -> Text | None:
    """Apply to launches that use a GPU."""
    return None if target.needs_gpu else t("the profile does not use a GPU")


def required_with_gpu(target: Target) -> bool:
    """Required for every launch that uses a GPU."""
    return target.needs_gpu


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the doctor's table."""

    id: str
    """``group.name``; stable, used by ``--only``, ``--skip``, ``--explain``."""
    title: Text
    judge: Judge
    sources: tuple[str, ...]
    """Collectors whose facts the judge reads; they run because of it."""
    why: Text
    """What goes wrong when it is not so; shown by ``--explain``."""
    required: Required = never
    wanted: Wanted = every_launch
    """Returns why the check does not apply to this launch (then nothing is collected for it)."""
    applies: Applies = every_machine
    """Returns why the check does not apply to this machine, from the facts."""
    explained_by: tuple[str, ...] = ()
    """Checks whose failure explains this one's."""
    uses: tuple[str, ...] = ()
    """Collectors that are read only when another check makes them run."""
    evidence: tuple[str, ...] = ()
    """Public reports and documents behind the row."""

    @property
    def group(self) -> str:
        """The part of the id before the dot."""
        return self.id.partition(".")[0]


def ok(observed: Text, *detail: Text, expected: Text | None = None) -> Verdict:
    """Return OK with what was seen."""
    return Verdict(Status.OK, observed, expected, detail)


def warned(
    observed: Text,
    *detail: Text,
    expected: Text | None = None,
    consequence: Text | None = None,
    remedy: Remedy | None = None,
) -> Verdict:
    """Return WARN."""
    return Verdict(Status.WARN, observed, expected, detail, consequence, remedy)


def failed(
    observed: Text,
    *detail: Text,
    expected: Text,
    consequence: Text,
    remedy: Remedy,
) -> Verdict:
    """Return FAIL; expectation, consequence and remedy are not optional."""
    return Verdict(Status.FAIL, observed, expected, detail, consequence, remedy)


def skipped(reason: SkipReason, observed: Text, remedy: Remedy | None = None) -> Verdict:
    """Return SKIP with its reason."""
    return Verdict(Status.SKIP, observed, reason=reason, remedy=remedy)


def not_applicable(observed: Text) -> Verdict:
    """Return SKIP because the subject does not exist here."""
    return skipped(SkipReason.NOT_APPLICABLE, observed)


def fix(
    text: Text,
    *commands: str,
    privileged: bool = False,
    env: Mapping[str, str] | None = None,
    port: int | None = None,
    docs: str | None = None,
) -> Remedy:
    """Return a remedy."""
    return Remedy(text, commands, tuple((env or {}).items()), port, privileged, docs)
