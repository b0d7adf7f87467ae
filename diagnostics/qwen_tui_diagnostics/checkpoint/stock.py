"""What the loaded files hold, grouped by module, with one canonical name per matrix.

Three name spaces meet here: keys as stored, the engine's module names, and what authors wrote into
lists. Canonical names drop ``model.language_model.``, ``language_model.model.`` and ``model.``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from qwen_tui_diagnostics.checkpoint.report import Inventory
from qwen_tui_profiles.safetensors_header import DTYPE_BITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from qwen_tui_diagnostics.checkpoint.headers import Shard
    from qwen_tui_profiles.safetensors_header import TensorEntry

__all__ = ["PREFIXES", "ExpertParts", "Stock", "Stored", "canonical", "take_stock"]

PREFIXES = ("model.language_model.", "language_model.model.", "model.")

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
    claimed: set[str] = field(default_factory=set)
    """Canonical modules that the index promises in files that could not be read or are not here.

    They are neither stored nor missing: the file is what is wrong, and it was reported.
    """
    inventory: Inventory = field(default_factory=Inventory)

    def claim(self, keys: Iterable[str]) -> None:
        """Note keys that are known by name only."""
        for key in keys:
            rest = canonical(key)[1]
            head, inside, _ = rest.partition(".experts.")
            self.claimed.add(f"{head}.experts" if inside else rest.rpartition(".")[0])

    def tensor(self, module: str, suffix: str) -> Stored | None:
        """Return one tensor by its canonical name."""
        parts = self.modules.get(module)
        return None if parts is None else parts.get(suffix)

    def expert_key(self, container: str, number: int, part: str, suffix: str) -> str:
        """Return the key of one expert's tensor, as stored."""
        return f"{self.expert_prefix[container]}.{number}.{part}.{suffix}"


def canonical(key: str) -> tuple[str, str]:
    """Return the prefix and the canonical rest of a key or module name."""
    if key.startswith("model.language_model."):
        return PREFIXES[0], key[21:]
    if key.startswith("model."):
        rest = key[6:]
        return ("", rest) if rest.startswith(("visual.", "mtp.")) else (PREFIXES[2], rest)
    if key.startswith("language_model."):
        if key.startswith("model.", 15):
            return PREFIXES[1], key[21:]
        if key.startswith("lm_head.", 15):
            return "language_model.", key[15:]
    return "", key


def take_stock(order: Iterable[str], shards: Mapping[str, Shard]) -> Stock:
    """Group the tensors of the loaded files; of two copies the later file's counts."""
    stock = Stock()
    tally = _Tally()
    containers: dict[str, dict[str, _Kinds]] = {}
    names = list(order)
    headers = [shards[name].header for name in names]
    total = sum(len(header.tensors) for header in headers if header is not None)
    keys: set[str] = set()
    keys.update(*(header.tensors for header in headers if header is not None))
    seen: set[str] | None = set() if len(keys) < total else None
    for name, header in zip(reversed(names), reversed(headers), strict=True):
        if header is None:
            continue
        for key, entry in header.tensors.items():
            if seen is not None:
                if key in seen:
                    continue
                seen.add(key)
            at = key.find(".experts.")
            dot = key.find(".", at + 9) if at > 0 else -1
            number = key[at + 9 : dot]
            if dot < 0 or not number.isdecimal() or len(number) > 6:
                tally.add(_take(stock, Stored(key, name, entry)), entry.dtype, entry.size_bytes)
                continue
            raw, tail = key[: at + 8], key[dot + 1 :]
            kinds = containers.get(raw)
            if kinds is None:
                kinds = containers[raw] = {}
            numbers = kinds.get(tail)
            if numbers is None:
                numbers = kinds[tail] = {}
            kind = entry[:2]
            if kind in numbers:
                numbers[kind].append(int(number))
            else:
                numbers[kind] = [int(number)]
    for raw, kinds in containers.items():
        _take_experts(stock, raw, kinds, tally)
    stock.inventory = tally.inventory(len(names))
    return stock


_Kinds = dict[tuple[str, tuple[int, ...]], list[int]]


@dataclass(slots=True)
class _Tally:
    """Bytes and numbers of tensors by part and dtype."""

    sizes: dict[tuple[str, str], int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, part: str, dtype: str, size: int, count: int = 1) -> None:
        slot = (part, dtype)
        self.sizes[slot] = self.sizes.get(slot, 0) + size
        self.counts[part] = self.counts.get(part, 0) + count

    def inventory(self, files: int) -> Inventory:
        by_part: dict[str, int] = {}
        dtypes: dict[str, dict[str, int]] = {}
        for (part, dtype), size in sorted(self.sizes.items()):
            by_part[part] = by_part.get(part, 0) + size
            dtypes.setdefault(part, {})[dtype] = size
        return Inventory(
            tensors=sum(self.counts.values()),
            bytes=sum(by_part.values()),
            shards=files,
            by_part={p: by_part.get(p, 0) for p in _PARTS if p in by_part or p in _ALL},
            tensors_by_part=self.counts,
            dtypes=dtypes,
        )


def _take_experts(stock: Stock, raw: str, kinds: dict[str, _Kinds], tally: _Tally) -> None:
    """Sort in what one container holds: projection → suffix → kind → numbers."""
    prefix, rest = canonical(raw)
    stock.expert_prefix[rest] = raw
    part = "mtp" if rest.startswith("mtp.") else "target"
    if part == "target":
        stock.prefixes.setdefault(prefix, []).append(raw)
    parts = stock.experts.setdefault(rest, {})
    for tail, numbers in kinds.items():
        projection, _, suffix = tail.partition(".")
        merged = parts.setdefault(projection, {}).setdefault(suffix, {})
        for kind, found in numbers.items():
            merged.setdefault(kind, []).extend(found)
            size = prod(kind[1]) * DTYPE_BITS[kind[0]] // 8
            tally.add(part, kind[0], size * len(found), len(found))


_TEXT_PARTS = frozenset({"target", "embed", "ple"})
_ALL = ("target", "mtp", "vision", "lm_head", "embed", "ple")
_PARTS = (*_ALL, "other")


def _take(stock: Stock, stored: Stored) -> str:
    prefix, rest = canonical(stored.key)
    module, _, suffix = rest.rpartition(".")
    if ".weight." in rest:
        # bitsandbytes keeps its tables below the weight: `weight.absmax`.
        module, _, tail = rest.partition(".weight.")
        suffix = "weight." + tail
    parts = stock.modules.get(module)
    if parts is None:
        stock.modules[module] = {suffix: stored}
    else:
        parts[suffix] = stored
    part = _part(rest)
    if part in _TEXT_PARTS:
        stock.prefixes.setdefault(prefix, []).append(stored.key)
    return part


_PART_OF = {
    "layers": "target", "norm": "target", "hyper_connection_mixer": "target", "mtp": "mtp",
    "visual": "vision", "lm_head": "lm_head", "embed_tokens": "embed",
}  # fmt: skip


def _part(rest: str) -> str:
    if "ngram_embedding" in rest:
        return "ple"
    return _PART_OF.get(rest[: rest.find(".")], "other")
