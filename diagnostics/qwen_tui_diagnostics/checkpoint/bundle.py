"""One finding per cause: modules with the same trouble are gathered before they are reported."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from qwen_tui_diagnostics.checkpoint.phrases import group_names
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from qwen_tui_diagnostics.checkpoint.collect import Findings
    from qwen_tui_profiles.text import Text

__all__ = ["Bundles", "Where"]


@dataclass(slots=True)
class _Bundle:
    rule: str
    severity: Severity | None
    why: Text | None
    consequence: Text | None
    fields: dict[str, object]
    modules: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    files: dict[str, None] = field(default_factory=dict)
    count: int = 0
    rank: float = 0.0


class Where(NamedTuple):
    """The modules of a trouble, with one key and file of each stored part."""

    modules: Sequence[str]
    keys: Sequence[str]
    files: Sequence[str]
    draft: bool = False


class Bundles:
    """Troubles by rule and cause."""

    def __init__(self, found: Findings, *, speculative: bool) -> None:
        self._found = found
        self._draft = None if speculative else Severity.WARN
        self._bundles: dict[Hashable, _Bundle] = {}
        self.near: list[str] = []
        """List entries that mean such a module in another spelling."""

    def add(
        self,
        rule: str,
        cause: Hashable,
        *,
        where: Where | None = None,
        modules: Iterable[str] = (),
        keys: Iterable[str] = (),
        files: Iterable[str] = (),
        why: Text | None = None,
        consequence: Text | None = None,
        severity: Severity | None = None,
        draft: bool = False,
        count: int | None = None,
        rank: float = 0.0,
        **fields: object,
    ) -> None:
        """Add modules with one trouble; a draft's is a warning while nothing speculates."""
        if where is not None:
            modules, keys, files, draft = where
        level = severity
        if draft and severity in {None, Severity.ERROR}:
            level = self._draft or Severity.ERROR
        slot = (rule, cause, level)
        bundle = self._bundles.get(slot)
        if bundle is None:
            bundle = _Bundle(rule, level, why, consequence, dict(fields))
            self._bundles[slot] = bundle
        if rank > bundle.rank:
            # The worst case speaks for all.
            bundle.rank, bundle.why = rank, why
        names = list(modules)
        bundle.modules += names
        bundle.keys += keys
        bundle.files.update(dict.fromkeys(files))
        bundle.count += len(names) if count is None else count

    def modules_of(self, rule: str) -> set[str]:
        """Return the modules that have a trouble of this rule."""
        return {
            name
            for bundle in self._bundles.values()
            if bundle.rule == rule
            for name in bundle.modules
        }

    def report(self) -> None:
        """Turn every bundle into a finding."""
        for bundle in self._bundles.values():
            groups = group_names(dict.fromkeys(bundle.modules))
            shown = "; ".join(groups[:4]) + ("; …" if len(groups) > 4 else "")
            detail = (
                t("{modules}: {why}", modules=shown, why=bundle.why)
                if bundle.why is not None
                else t("{modules}", modules=shown)
            )
            self._found.add(
                bundle.rule,
                severity=bundle.severity,
                evidence=shown,
                detail=detail,
                consequence=bundle.consequence,
                tensors=bundle.keys or bundle.modules,
                count=bundle.count,
                files=list(bundle.files)[:8],
                fields=bundle.fields,
            )
