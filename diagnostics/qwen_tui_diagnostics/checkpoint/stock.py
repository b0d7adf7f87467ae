"""What the loaded files hold, grouped by module, with one canonical name per matrix.

Three name spaces meet here: keys as stored, the engine's module names, and what authors wrote into
lists. Canonical names drop ``model.language_model.``, ``language_model.model.`` and ``model.``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from qwen_tui_diagnostics.checkpoint.report import Inventory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from qwen_tui_diagnostics.checkpoint.headers import Shard
    from qwen_tui_profiles.safetensors_header import TensorEntry

__all__ = ["PREFIXES", "ExpertParts", "Stock", "Stored", "canonical", "take_stock"]

PREFIXES = ("model.language_model.", "language_model.model.", "model.")
_EXPERT = re.compile(r"(\d{1,6})\.([A-Za-z_]+)\.([A-Za-z0-9_.]+)")

ExpertParts = dict[str, dict[str, dict[tuple[str, tuple[int, ...]], list[int]]]]
"""Projection → suffix → (dtype, shape) → numbers of the experts stored so."""


class Stored(NamedTuple):
    """One stored tensor."""

    key: str
    file: str
    entry: TensorEntry


@dataclass(slots=True)
class Stock:
    """Everything that the engine is offered."""

    modules: dict[str, dict[str, Stored]] = field(default_factory=dict)
    """Canonical module → storage suffix → tensor."""
    experts: dict[str, ExpertParts] = field(default_factory=dict)
    """Canonical ``layers.N.mlp.experts`` → what is stored one by one."""
    expert_prefix: dict[str, str] = field(default_factory=dict)
    """The same → the container as it is written in the keys."""
    prefixes: dict[str, list[str]] = field(default_factory=dict)
    """Prefix of text tensors → keys with it (examples and number)."""
    inventory: Inventory = field(default_factory=Inventory)

    def tensor(self, module: str, suffix: str) -> Stored | None:
        """Return one tensor by its canonical name."""
        parts = self.modules.get(module)
        return None if parts is None else parts.get(suffix)

    def expert_key(self, container: str, number: int, part: str, suffix: str) -> str:
        """Return the key of one expert's tensor, as stored."""
        return f"{self.expert_prefix[container]}.{number}.{part}.{suffix}"


def canonical(key: str) -> tuple[str, str]:
    """Return the prefix and the canonical rest of a key or module name."""
    for prefix in PREFIXES:
        if key.startswith(prefix):
            rest = key[len(prefix) :]
            if rest.startswith(("visual.", "mtp.")):
                return "", rest
            return prefix, rest
    if key.startswith("language_model.lm_head."):
        return "language_model.", key.removeprefix("language_model.")
    return "", key


def take_stock(order: Iterable[str], shards: Mapping[str, Shard]) -> Stock:
    """Group the tensors of the loaded files; of two copies the later file's counts."""
    stock = Stock()
    sizes: dict[tuple[str, str], int] = {}
    counts: dict[str, int] = {}
    containers: dict[str, tuple[ExpertParts, str]] = {}
    seen: set[str] = set()
    names = list(order)
    several = len(names) > 1
    for name in reversed(names):
        header = shards[name].header
        if header is None:
            continue
        for key, entry in header.tensors.items():
            if several:
                if key in seen:
                    continue
                seen.add(key)
            at = key.find(".experts.")
            match = _EXPERT.fullmatch(key, at + 9) if at > 0 else None
            if match is None:
                part = _take(stock, Stored(key, name, entry))
            else:
                raw = key[: at + 8]
                known = containers.get(raw)
                if known is None:
                    known = containers[raw] = _container(stock, raw)
                parts, part = known
                number, projection, suffix = match.groups()
                parts.setdefault(projection, {}).setdefault(suffix, {}).setdefault(
                    entry[:2], []
                ).append(int(number))
            slot = (part, entry.dtype)
            sizes[slot] = sizes.get(slot, 0) + entry.end - entry.begin
            counts[part] = counts.get(part, 0) + 1
    by_part: dict[str, int] = {}
    dtypes: dict[str, dict[str, int]] = {}
    for (part, dtype), size in sorted(sizes.items()):
        by_part[part] = by_part.get(part, 0) + size
        dtypes.setdefault(part, {})[dtype] = size
    stock.inventory = Inventory(
        tensors=sum(counts.values()),
        bytes=sum(by_part.values()),
        shards=len(names),
        by_part={part: by_part.get(part, 0) for part in _PARTS if part in by_part or part in _ALL},
        tensors_by_part=counts,
        dtypes=dtypes,
    )
    return stock


_ALL = ("target", "mtp", "vision", "lm_head", "embed", "ple")
_PARTS = (*_ALL, "other")


def _take(stock: Stock, stored: Stored) -> str:
    prefix, rest = canonical(stored.key)
    head, dot, tail = rest.partition(".weight.")
    if dot:
        # bitsandbytes keeps its tables below the weight: `weight.absmax`.
        module, suffix = head, "weight." + tail
    else:
        module, _, suffix = rest.rpartition(".")
    stock.modules.setdefault(module, {})[suffix] = stored
    part = _part(rest)
    if part in {"target", "embed", "ple"}:
        stock.prefixes.setdefault(prefix, []).append(stored.key)
    return part


def _container(stock: Stock, raw: str) -> tuple[ExpertParts, str]:
    prefix, rest = canonical(raw)
    stock.expert_prefix[rest] = raw
    part = "mtp" if rest.startswith("mtp.") else "target"
    if part == "target":
        stock.prefixes.setdefault(prefix, []).append(raw)
    return stock.experts.setdefault(rest, {}), part


def _part(rest: str) -> str:
    if rest.startswith("layers."):
        return "ple" if "ngram_embedding" in rest else "target"
    if rest.startswith("mtp."):
        return "mtp"
    if rest.startswith("visual."):
        return "vision"
    if rest.startswith("lm_head."):
        return "lm_head"
    if rest.startswith("embed_tokens."):
        return "embed"
    if rest.startswith(("norm.", "hyper_connection_mixer.")):
        return "target"
    return "other"
