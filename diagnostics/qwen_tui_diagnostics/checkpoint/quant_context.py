"""What the quantization pass works on, and what it knows of each module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint.storage import Form

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_diagnostics.checkpoint.architecture import Dims
    from qwen_tui_diagnostics.checkpoint.collect import Findings
    from qwen_tui_diagnostics.checkpoint.configs import Configs
    from qwen_tui_diagnostics.checkpoint.declared.base import Declared, Module
    from qwen_tui_diagnostics.checkpoint.declared.select import Selection
    from qwen_tui_diagnostics.checkpoint.model_pass import ModelPass
    from qwen_tui_diagnostics.checkpoint.report import Assumed
    from qwen_tui_diagnostics.checkpoint.stock import Stock, Stored
    from qwen_tui_diagnostics.checkpoint.values import ValueReader

__all__ = ["QuantContext", "Seen"]


@dataclass(frozen=True, slots=True)
class QuantContext:
    """What the pass works on."""

    stock: Stock
    model: ModelPass
    dims: Dims
    configs: Configs
    selection: Selection
    found: Findings
    assumed: Assumed
    values: ValueReader
    whole: bool
    """Every file could be read: absent tensors count."""


@dataclass(slots=True)
class Seen:
    """A module with what is declared and what is stored for it."""

    module: Module
    declared: Declared
    parts: list[Mapping[str, Stored]]
    forms: list[Form | None]
    shapes: list[tuple[int | None, int | None]]

    @property
    def present(self) -> list[Form]:
        """Forms of the shards that are there."""
        return [form for form in self.forms if form is not None]

    @property
    def quantized(self) -> list[Form]:
        """Forms of the shards that are stored quantized."""
        return [form for form in self.present if form is not Form.DENSE]

    @property
    def keys(self) -> list[str]:
        """A key of every shard that is there."""
        return [next(iter(parts.values())).key for parts in self.parts if parts]

    @property
    def files(self) -> list[str]:
        """Files of these keys."""
        return [next(iter(parts.values())).file for parts in self.parts if parts]
