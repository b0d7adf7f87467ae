"""What ``--fix`` may do: reversible, local, unprivileged. Everything else is printed, not run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.facts import Facts
from qwen_tui_diagnostics.result import Status
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qwen_tui_diagnostics.result import Report

__all__ = ["Fixes", "plan_fixes"]

_OWN_ROLES = frozenset({"model", "logs", "cache", "ple"})


@dataclass(frozen=True, slots=True)
class Fixes:
    """Everything that can be done for one report."""

    folders: tuple[str, ...]
    """To create."""
    env: tuple[tuple[str, str], ...]
    """To set for the engine, in a copy of the profile."""
    port: int | None
    """To write into the copy of the profile."""
    profile: str | None
    jit_caches: tuple[str, ...]
    """Kernel caches of other FlashInfer versions; deleted only after they were shown."""
    by_hand: tuple[tuple[str, tuple[str, ...]], ...]
    """Id of a finding → the commands that are for the user to run."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.folders or self.env or self.port or self.jit_caches)

    def lines(self) -> Sequence[Text]:
        """Say what would be done, one line each."""
        said: list[Text] = [t("create the folder {path}", path=path) for path in self.folders]
        if self.profile is not None and self.port is not None:
            said.append(t("set port {port} in a copy of {profile}", port=self.port,
                          profile=self.profile))  # fmt: skip
        if self.profile is not None:
            said += [
                t("set {name}={value} in a copy of {profile}", name=name, value=value,
                  profile=self.profile)
                for name, value in self.env
            ]  # fmt: skip
        said += [t("delete the kernel cache {path}", path=path) for path in self.jit_caches]
        return said


def plan_fixes(report: Report) -> Fixes:
    """Collect what can be done from the findings and the facts of a report."""
    env: dict[str, str] = {}
    port: int | None = None
    by_hand: list[tuple[str, tuple[str, ...]]] = []
    for result in report.results:
        if result.status not in {Status.FAIL, Status.WARN} or result.remedy is None:
            continue
        env.update(result.remedy.env)
        port = result.remedy.port if result.remedy.port is not None else port
        if not result.remedy.auto and result.remedy.commands and result.counted:
            by_hand.append((result.id, result.remedy.commands))
    facts = Facts(report.facts)
    profile = report.target.get("profile")
    return Fixes(
        folders=_folders(facts),
        env=tuple(env.items()) if isinstance(profile, str) else (),
        port=port if isinstance(profile, str) else None,
        profile=profile if isinstance(profile, str) else None,
        jit_caches=_stale_caches(facts),
        by_hand=tuple(by_hand),
    )


def _folders(facts: Facts) -> tuple[str, ...]:
    if not facts.has("disk.paths"):
        return ()
    return tuple(
        entry.text("path")
        for entry in facts.rows("disk.paths")
        if not entry.flag("exists")
        and entry.integer("write_errno") == 0
        and _OWN_ROLES & set(entry.texts("roles"))
    )


def _stale_caches(facts: Facts) -> tuple[str, ...]:
    """Return FlashInfer's cache folders of versions other than the installed one."""
    if not facts.has("toolkit.caches"):
        return ()
    package = "engine.installs.0.packages.flashinfer-python"
    if not facts.has(package):
        return ()
    installed = facts.text(package).partition("+")[0]
    for row in facts.rows("toolkit.caches"):
        if row.text("name") == "flashinfer" and row.has("versions"):
            return tuple(
                f"{row.text('path')}/{version}"
                for version in row.texts("versions")
                if version != installed
            )
    return ()
