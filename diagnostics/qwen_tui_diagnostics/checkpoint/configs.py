"""``config.json`` and what stands beside it, read without trusting it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.checkpoint.architecture import ARCHITECTURES, section
from qwen_tui_diagnostics.checkpoint.index import read_json
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_diagnostics.checkpoint.architecture import ArchitectureRow
    from qwen_tui_diagnostics.checkpoint.collect import Findings
    from qwen_tui_diagnostics.checkpoint.source import Source

__all__ = ["Configs", "read_configs"]

_LARGEST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Configs:
    """What the checkpoint says about itself."""

    config: Mapping[str, Any] = field(default_factory=dict)
    architecture: str | None = None
    row: ArchitectureRow | None = None
    """None for an architecture that the verifier does not know."""
    hf_quant: Mapping[str, Any] | None = None
    """``hf_quant_config.json``, where it is there and readable."""
    readable: bool = False


def read_configs(source: Source, found: Findings) -> Configs:
    """Read the configs; what is wrong with them is recorded."""
    document, problem = read_json(source, "config.json", _LARGEST_BYTES)
    if problem is None and not isinstance(document, dict):
        problem = t("not a JSON object")
    if problem is not None:
        found.add("M01", evidence=problem, files=["config.json"])
        return Configs()
    names = document.get("architectures")
    name = names[0] if isinstance(names, list) and names else None
    if not isinstance(name, str) or not name:
        found.add("M01", evidence=t("no architectures"), files=["config.json"])
        return Configs(config=document)
    hf_quant, _ = read_json(source, "hf_quant_config.json", _LARGEST_BYTES)
    return Configs(
        config=document,
        architecture=clean(name)[:120],
        row=ARCHITECTURES.get(name),
        hf_quant=section({"x": hf_quant}, "x"),
        readable=True,
    )
