"""What ``verify`` says: findings, what was judged and how far, the inventory, the verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from collections.abc import Mapping


__all__ = [
    "MOST_EXAMPLES",
    "Assumed",
    "CheckpointFinding",
    "Inventory",
    "Judged",
    "Reach",
    "Verdict",
    "VerifyReport",
    "reach_words",
]

MOST_EXAMPLES = 3
"""Tensors named in one finding; ``count`` tells how many there are."""


class Verdict(StrEnum):
    """The one word about a checkpoint."""

    OK = "ok"
    WARN = "warn"
    ERROR = "error"
    UNKNOWN = "unknown"
    """Nothing wrong was found, but a pass could not be made: never shown as ok."""


class Reach(StrEnum):
    """How far a pass could be made."""

    FULL = "full"
    PARTIAL = "partial"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class CheckpointFinding:
    """One cause, with everything that it explains."""

    rule: str
    severity: Severity
    title: Text
    detail: Text | None
    evidence: Text | str
    """What was seen: names, figures, the entry of the config. Cleaned."""
    consequence: Text
    """What the engine does with it: what a user would see."""
    remedy: Text | None
    source: str
    """Where the knowledge comes from."""
    tensors: tuple[str, ...] = ()
    """At most three examples, as stored, cleaned."""
    count: int = 0
    """Tensors, modules or files concerned."""
    files: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        """Return the fields by name, texts in English."""
        return {
            "rule": self.rule,
            "severity": self.severity.value,
            "title": str(self.title),
            "detail": None if self.detail is None else str(self.detail),
            "evidence": str(self.evidence),
            "consequence": str(self.consequence),
            "remedy": None if self.remedy is None else str(self.remedy),
            "source": self.source,
            "tensors": list(self.tensors),
            "count": self.count,
            "files": list(self.files),
        }


_PASSES = {
    "files": t("files"),
    "index": t("index"),
    "model": t("model"),
    "quantization": t("quantization"),
    "content": t("content"),
}
_REACHES = {Reach.FULL: t("full"), Reach.PARTIAL: t("partial"), Reach.NONE: t("not judged")}


@dataclass(frozen=True, slots=True)
class Judged:
    """How far each pass went."""

    files: Reach
    index: Reach
    model: Reach
    quantization: Reach
    content: Reach

    def as_json(self) -> dict[str, object]:
        """Return ``{files, index, model, quantization, content}``."""
        return {
            "files": self.files.value,
            "index": self.index.value,
            "model": self.model.value,
            "quantization": self.quantization.value,
            "content": self.content.value,
        }


def reach_words(judged: Judged) -> tuple[Text, ...]:
    """Return ``files full``, ``index none``, … for people."""
    return tuple(
        t("{name} {reach}", name=word, reach=_REACHES[getattr(judged, name)])
        for name, word in _PASSES.items()
    )


@dataclass(frozen=True, slots=True)
class Inventory:
    """What the files hold, by part; the parts add up to the whole."""

    tensors: int = 0
    bytes: int = 0
    shards: int = 0
    """Files that the engine loads."""
    by_part: Mapping[str, int] = field(default_factory=dict)
    """Bytes of target (without head and embedding), mtp, vision, lm_head, embed, ple, other."""
    tensors_by_part: Mapping[str, int] = field(default_factory=dict)
    dtypes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Bytes by part and dtype."""

    def as_json(self) -> dict[str, object]:
        """Return ``{tensors, bytes, by_part, shards, tensors_by_part, dtypes}``."""
        return {
            "tensors": self.tensors,
            "bytes": self.bytes,
            "by_part": dict(self.by_part),
            "shards": self.shards,
            "tensors_by_part": dict(self.tensors_by_part),
            "dtypes": {part: dict(kinds) for part, kinds in self.dtypes.items()},
        }


@dataclass(frozen=True, slots=True)
class Assumed:
    """What the checkpoint was judged for."""

    engine: str
    engine_version: str
    speculative: bool
    language_only: bool = False
    stated: bool = False
    """The engine and its version were asked for; False = the newest known one was assumed."""

    def as_json(self) -> dict[str, object]:
        """Return the fields by name."""
        return {
            "engine": self.engine,
            "engine_version": self.engine_version,
            "speculative": self.speculative,
            "language_only": self.language_only,
            "stated": self.stated,
        }


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The document ``qwen-tui.verify/1``."""

    path: str
    judged: Judged
    architecture: str | None
    format: str | None
    """``safetensors``, ``gguf``, ``bin``; None when there are no weights at all."""
    quantization: str | None
    """Declared scheme in words, ``none`` when unquantized, None when not known."""
    inventory: Inventory
    findings: tuple[CheckpointFinding, ...]
    """Errors first; within a severity, causes before what follows from them."""
    assumed: Assumed
    seconds: float

    @property
    def verdict(self) -> Verdict:
        """The worst finding, or unknown where a pass could not be made."""
        severities = {finding.severity for finding in self.findings}
        if Severity.ERROR in severities:
            return Verdict.ERROR
        passes = (self.judged.files, self.judged.model, self.judged.quantization)
        if Reach.NONE in passes or self.judged.files is not Reach.FULL:
            return Verdict.UNKNOWN
        return Verdict.WARN if Severity.WARN in severities else Verdict.OK

    def as_json(self) -> dict[str, object]:
        """Return the document, texts in English."""
        return {
            "schema": "qwen-tui.verify/1",
            "path": clean(self.path),
            "verdict": self.verdict.value,
            "judged": self.judged.as_json(),
            "architecture": self.architecture,
            "format": self.format,
            "quantization": self.quantization,
            "inventory": self.inventory.as_json(),
            "findings": [finding.as_json() for finding in self.findings],
            "assumed": self.assumed.as_json(),
            "seconds": round(self.seconds, 4),
        }
