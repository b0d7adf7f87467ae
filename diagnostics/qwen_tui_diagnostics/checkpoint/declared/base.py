"""A module as the engine names it, and what a quantization method declares for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from qwen_tui_diagnostics.checkpoint.storage import Form, Scheme

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qwen_tui_profiles.text import Text

__all__ = ["UNQUANTIZED", "Declared", "Kind", "Method", "Module", "int_words"]


class Kind(StrEnum):
    """What a module is to the engine."""

    LINEAR = "linear"
    HEAD = "head"
    MTP = "mtp"
    """A matrix of a draft layer."""
    MTP_FC = "mtp_fc"
    EXPERTS = "experts"


@dataclass(frozen=True, slots=True)
class Module:
    """One matrix of the engine; fused ones have several shards in the files."""

    engine: str
    """The name that lists are tested against."""
    kind: Kind
    shards: tuple[str, ...]
    """The engine's spelling of each stored shard; one for a matrix that is not fused."""
    stored: tuple[str, ...]
    """Canonical names of the shards."""
    class_name: str
    mtp: bool = False
    """Belongs to the draft."""

    @property
    def fused(self) -> bool:
        """Several stored matrices make one."""
        return len(self.shards) > 1


@dataclass(frozen=True, slots=True)
class Declared:
    """What the engine would build."""

    scheme: Scheme | None
    """None: not known; nothing is then compared."""
    entry: str | None = None
    """The list entry that decided."""
    split: tuple[str, ...] = ()
    """Shards that are treated differently, which the engine refuses."""
    uncovered: bool = False
    """No target covers it, which the engine refuses."""


UNQUANTIZED = Declared(Scheme(Form.DENSE, words="bf16"))


class Method(Protocol):
    """A quantization method as one engine reads it."""

    @property
    def words(self) -> str:
        """For people: ``compressed-tensors int4 g128``."""
        ...

    @property
    def entries(self) -> Sequence[str]:
        """The list of unquantized modules, as written."""
        ...

    @property
    def problems(self) -> Sequence[Text]:
        """What makes the engine refuse the config itself."""
        ...

    @property
    def known(self) -> bool:
        """False: the schemes are not known; nothing is compared."""
        ...

    def declare(self, module: Module) -> Declared:
        """Return what the engine builds for a module."""
        ...

    def working_entry(self, module: Module) -> str:
        """Return an entry that would leave the module unquantized in this engine."""
        ...


def int_words(bits: int, group: int | None) -> str:
    """Return ``int4 g128`` or ``int4`` for one scale a row."""
    return f"int{bits} g{group}" if group and group > 0 else f"int{bits}"
