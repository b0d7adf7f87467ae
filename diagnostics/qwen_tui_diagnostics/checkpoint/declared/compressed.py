"""compressed-tensors: groups with targets, a list ``ignore``, formats per group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.checkpoint.declared.base import (
    UNQUANTIZED,
    Declared,
    Kind,
    Module,
    int_words,
)
from qwen_tui_diagnostics.checkpoint.declared.matching import EntryList, strings
from qwen_tui_diagnostics.checkpoint.storage import DENSE, Form, Scheme, Strategy
from qwen_tui_profiles.text import Text, t
from qwen_tui_profiles.versions import in_range

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CompressedTensors"]

_HEAD_SINCE = "0.5.19"
"""First SGLang with a quantized head, where a target names it."""


@dataclass(frozen=True, slots=True)
class _Group:
    targets: tuple[str, ...]
    names: EntryList
    scheme: Scheme | None


class CompressedTensors:
    """The config as SGLang or vLLM reads it."""

    def __init__(self, config: Mapping[str, Any], *, engine: str, version: str) -> None:
        self._sglang = engine == "sglang"
        self._head = not self._sglang or in_range(version, _HEAD_SINCE, None)
        self.entries = strings(config.get("ignore"))
        # vLLM has no suffix rule: a plain entry must be the whole name.
        self._ignore = EntryList(self.entries, suffixes=self._sglang)
        problems: list[Text] = [
            t("{key}: {entry!r} is not usable", key="ignore", entry=entry)
            for entry in self._ignore.patterns.broken
        ]
        self._groups: list[_Group] = []
        declared = config.get("config_groups")
        overall = config.get("format")
        for name, group in declared.items() if isinstance(declared, dict) else ():
            if not isinstance(group, dict):
                continue
            form = group.get("format") or overall
            if form == "mixed-precision":
                problems.append(t("config_groups.{name} has no format of its own", name=name))
            targets = strings(group.get("targets"))
            names = EntryList(targets, suffixes=False)
            self._groups.append(_Group(targets, names, _scheme(group, str(form or ""))))
        self.problems = problems
        schemes = [g.scheme for g in self._groups]
        self.known = bool(schemes) and None not in schemes
        parts = dict.fromkeys(s.words for s in schemes if s is not None)
        self.words = " ".join(["compressed-tensors", " + ".join(parts)]).strip()

    def declare(self, module: Module) -> Declared:
        """Ignored, covered by a group, or refused."""
        if module.kind is Kind.MTP_FC and self._sglang:
            return UNQUANTIZED
        if module.kind is Kind.HEAD and not self._head:
            return UNQUANTIZED
        ignored, entry, split = self._ignored(module)
        if split:
            return Declared(None, split=split)
        if ignored:
            return Declared(DENSE, entry)
        if module.kind is Kind.HEAD:
            return self._declare_head(module)
        if module.kind is Kind.EXPERTS:
            return self._declare_experts(module)
        for group in self._groups:
            if group.names.find(module.engine):
                return Declared(group.scheme)
        for group in self._groups:
            if any(target.lower() in module.class_name.lower() for target in group.targets):
                return Declared(group.scheme)
        chosen = [self._by_name(shard) for shard in module.shards]
        if module.fused and all(group is not None for group in chosen):
            schemes = {group.scheme for group in chosen if group is not None}
            if len(schemes) > 1:
                return Declared(None, split=module.shards)
            return Declared(schemes.pop())
        return Declared(None, uncovered=True)

    def working_entry(self, module: Module) -> str:
        """Shard names work in full, and so does an expression on the part."""
        return ", ".join(f'"{name}"' for name in module.shards)

    def _by_name(self, name: str) -> _Group | None:
        return next((group for group in self._groups if group.names.find(name)), None)

    def _declare_head(self, module: Module) -> Declared:
        # `Linear` does not count for the head: a target must name it.
        group = self._by_name(module.engine)
        return UNQUANTIZED if group is None else Declared(group.scheme)

    def _declare_experts(self, module: Module) -> Declared:
        for name in (module.engine, *module.shards):
            group = self._by_name(name)
            if group is not None:
                return Declared(group.scheme)
        for group in self._groups:
            if any(target.lower() in "linear" or "moe" in target.lower()
                   for target in group.targets if target):  # fmt: skip
                return Declared(group.scheme)
        return Declared(None)

    def _ignored(self, module: Module) -> tuple[bool, str | None, tuple[str, ...]]:
        if module.kind is Kind.EXPERTS:
            found = [self._ignore.find(name) for name in (module.engine, *module.shards)]
            entry = next((e for e in found if e), None)
            return entry is not None, entry, ()
        if not module.fused or module.engine in self._ignore.plain:
            entry = self._ignore.find(module.engine)
            return entry is not None, entry, ()
        entries = [self._ignore.find(shard) for shard in module.shards]
        named = [shard for shard, e in zip(module.shards, entries, strict=True) if e is not None]
        if named and len(named) < len(module.shards):
            return False, None, tuple(named)
        return bool(named), entries[0], ()


def _scheme(group: Mapping[str, Any], form: str) -> Scheme | None:
    weights = group.get("weights")
    if weights is None:
        return DENSE
    if not isinstance(weights, dict):
        return None
    bits = weights.get("num_bits")
    kind = weights.get("type", "int")
    activations = group.get("input_activations")
    static = isinstance(activations, dict) and activations.get("dynamic") is False
    strategy, size, block = _strategy(weights)
    symmetric = weights.get("symmetric", True) is not False
    if kind == "float" and bits == 4:
        if size == 32:
            return Scheme(Form.CT_MXFP4, 4, 32, words="MXFP4")
        # A group size of 16 is part of the format; the activations' global scale is its own.
        return Scheme(
            Form.CT_NVFP4, 4, size or 16, input_scale=activations is not None, words="NVFP4"
        )
    if kind == "float" and bits == 8:
        return Scheme(
            Form.FP8, 8, size, strategy, block, input_scale=static, words=f"FP8 {strategy.value}"
        )
    if kind == "int" and bits == 8 and (activations is not None or form == "int-quantized"):
        return Scheme(Form.INT8, 8, size, strategy, input_scale=static, words="int8")
    if kind == "int" and bits in {2, 3, 4, 8}:
        return Scheme(
            Form.CT_INT, bits, size, strategy, symmetric=symmetric, words=int_words(bits, size)
        )
    return None


def _strategy(
    weights: Mapping[str, Any],
) -> tuple[Strategy, int | None, tuple[int, int] | None]:
    size = weights.get("group_size")
    group = size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None
    block = weights.get("block_structure")
    if (
        isinstance(block, list)
        and len(block) == 2
        and all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in block)
    ):
        return Strategy.BLOCK, None, (block[0], block[1])
    name = weights.get("strategy")
    if name in {"tensor", "channel"}:
        return Strategy(name), None, None
    if name in {"group", "tensor_group"} or group:
        return Strategy.GROUP, group, None
    return Strategy.TENSOR, None, None
