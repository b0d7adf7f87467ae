"""Methods with one scheme and a list: FP8, AWQ, GPTQ, auto-round, bitsandbytes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.checkpoint.declared.base import (
    UNQUANTIZED,
    Declared,
    Kind,
    Module,
    int_words,
)
from qwen_tui_diagnostics.checkpoint.declared.matching import Patterns, Runs, strings
from qwen_tui_diagnostics.checkpoint.storage import DENSE, Form, Scheme, Strategy
from qwen_tui_profiles.text import Text, t
from qwen_tui_profiles.versions import in_range

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["AutoRound", "Awq", "Fp8", "Gptq"]

_GPTQ_DROPPED = "0.5.20"
"""Plain ``gptq`` exists in 0.5.17 and 0.5.19 and is gone in 0.5.21."""
_REGEX_SIGNS = "*+?[](){}|^$\\"
"""What tells an expression from a module name."""


def _whole(config: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


class Fp8:
    """FP8, per block or per tensor. The head is never quantized."""

    def __init__(self, config: Mapping[str, Any], *, engine: str) -> None:
        self._sglang = engine == "sglang"
        self.entries = (
            *strings(config.get("modules_to_not_convert")),
            *strings(config.get("ignored_layers")),
        )
        bare = {entry.removeprefix("model.") for entry in self.entries}
        self._runs = Runs({*self.entries, *bare, *(f"model.{entry}" for entry in self.entries)})
        block = config.get("weight_block_size")
        self.problems: list[Text] = []
        static = config.get("activation_scheme") == "static"
        if (
            isinstance(block, list)
            and len(block) == 2
            and all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in block)
        ):
            self._scheme = Scheme(
                Form.FP8_BLOCK, 8, strategy=Strategy.BLOCK, block=(block[0], block[1]),
                words=f"FP8 {block[0]}x{block[1]}",
            )  # fmt: skip
            if static:
                self.problems.append(t("block scales need activation_scheme dynamic"))
        else:
            self._scheme = Scheme(
                Form.FP8, 8, strategy=Strategy.TENSOR, input_scale=static, words="FP8"
            )
        self.known = True
        self.words = f"fp8 {self._scheme.words}"

    def declare(self, module: Module) -> Declared:
        """Listed (in whole segments, shards agreeing), or quantized."""
        if module.kind is Kind.HEAD or (module.kind is Kind.MTP_FC and self._sglang):
            return UNQUANTIZED
        whole = self._runs.find(module.engine)
        if whole is not None:
            return Declared(DENSE, whole)
        found = [self._runs.find(name) for name in module.shards]
        hits = [shard for shard, e in zip(module.shards, found, strict=True) if e is not None]
        if hits and (len(hits) == len(module.shards) or module.kind is Kind.EXPERTS):
            return Declared(DENSE, next(e for e in found if e is not None))
        return Declared(None, split=tuple(hits)) if hits else Declared(self._scheme)

    def working_entry(self, module: Module) -> str:
        """Whole segments work: the shard names."""
        return ", ".join(f'"{name}"' for name in module.shards)


class Awq:
    """AWQ: entries are substrings of the engine's (fused) name."""

    def __init__(self, config: Mapping[str, Any], *, engine: str) -> None:
        self._sglang = engine == "sglang"
        # vLLM expands the substring test over the shards, SGLang does not.
        self._expands = not self._sglang
        self.entries: Sequence[str] = strings(config.get("modules_to_not_convert"))
        bits = _whole(config, "bits", "w_bit") or 4
        group = _whole(config, "group_size", "q_group_size") or 128
        self._scheme = Scheme(Form.AWQ, bits, group, words=int_words(bits, group))
        version = config.get("version")
        self.problems = (
            [t("version {version!r}: only gemm is supported", version=version)]
            if isinstance(version, str) and version.lower() not in {"gemm", "gemv"}
            else []
        )
        self.known = bits in {4, 8}
        self.words = f"awq {self._scheme.words}"

    def declare(self, module: Module) -> Declared:
        """Skipped by a substring, or quantized."""
        if module.kind in {Kind.HEAD, Kind.MTP_FC}:
            return UNQUANTIZED
        for entry in self.entries:
            if entry in module.engine:
                return Declared(DENSE, entry)
        if self._expands or module.kind is Kind.EXPERTS:
            for entry in self.entries:
                if any(entry in shard for shard in module.shards):
                    return Declared(DENSE, entry)
        return Declared(self._scheme)

    def working_entry(self, module: Module) -> str:
        """A piece of the fused name works."""
        return f'"{".".join(module.engine.split(".")[-2:])}"'


class Gptq:
    """GPTQ: rules of ``dynamic`` on the engine's (fused) name."""

    def __init__(self, config: Mapping[str, Any], *, engine: str, version: str) -> None:
        dynamic = config.get("dynamic")
        rules = dynamic if isinstance(dynamic, dict) else {}
        self.entries = tuple(key for key in rules if key.startswith("-:"))
        self._skip = Patterns((key, key[2:]) for key in self.entries)
        self._override = {
            key: value for key, value in rules.items()
            if not key.startswith("-:") and isinstance(value, dict)
        }  # fmt: skip
        self._overrides = Patterns((key, key.removeprefix("+:")) for key in self._override)
        bits = _whole(config, "bits", "w_bit") or 4
        group = _whole(config, "group_size") or 128
        self._scheme = Scheme(Form.GPTQ, bits, group, words=int_words(bits, group))
        self._head = config.get("lm_head") is True
        self.problems = _gptq_problems(config, bits, engine, version)
        self.problems += [
            t("{key}: {entry!r} is not usable", key="dynamic", entry=entry)
            for entry in self._skip.broken
        ]
        self.slow = engine == "sglang" and not self.problems and not _marlin(config, bits)
        self.known = bits in {2, 3, 4, 8}
        self.words = f"gptq {self._scheme.words}"

    def declare(self, module: Module) -> Declared:
        """Skipped by a rule, overridden by one, or quantized."""
        if module.kind is Kind.MTP_FC:
            return UNQUANTIZED
        if module.kind is Kind.HEAD and not self._head:
            return UNQUANTIZED
        names = (module.engine, *module.shards) if module.kind is Kind.EXPERTS else (module.engine,)
        for name in names:
            entry = self._skip.find(name)
            if entry is not None:
                return Declared(DENSE, entry)
        rule = self._overrides.find(module.engine)
        if rule is None:
            return Declared(self._scheme)
        override = self._override[rule]
        bits = _whole(override, "bits") or self._scheme.bits
        group = _whole(override, "group_size") or self._scheme.group
        return Declared(
            replace(self._scheme, bits=bits, group=group, words=int_words(bits, group)), rule
        )

    def working_entry(self, module: Module) -> str:
        """A rule on the fused name works."""
        part = ".".join(module.engine.split(".")[-2:]).replace(".", r"\.")
        return f'"-:.*{part}$"'


def _marlin(config: Mapping[str, Any], bits: int) -> bool:
    return bits in {4, 8} and config.get("sym") is True and "desc_act" in config


def _gptq_problems(config: Mapping[str, Any], bits: int, engine: str, version: str) -> list[Text]:
    if engine != "sglang" or _marlin(config, bits):
        return []
    if in_range(version, None, _GPTQ_DROPPED):
        return []
    return [
        t(
            "bits {bits}, sym {sym}, desc_act {state}: gptq_marlin does not take it and plain gptq "
            "is not registered in SGLang {version}",
            bits=bits,
            sym=config.get("sym"),
            state=t("present") if "desc_act" in config else t("absent"),
            version=version,
        )
    ]


class AutoRound:
    """auto-round: quantized only below the named blocks, with overrides per layer."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        bits = _whole(config, "bits") or 4
        group = _whole(config, "group_size") or 128
        packing = str(config.get("packing_format") or "auto_round:auto_gptq").lower()
        form = Form.AWQ if "awq" in packing else Form.GPTQ
        self._scheme = Scheme(form, bits, group, order=False, words=int_words(bits, group))
        blocks = config.get("block_name_to_quantize")
        if isinstance(blocks, str):
            blocks = blocks.split(",")
        self._blocks = tuple(block.strip() for block in strings(blocks) if block.strip())
        extra = config.get("extra_config")
        self._extra = {
            str(name): entry
            for name, entry in (extra.items() if isinstance(extra, dict) else ())
            if isinstance(entry, dict)
        }
        self._patterns = Patterns(
            (name, name) for name in self._extra if any(c in _REGEX_SIGNS for c in name)
        )
        self.entries = tuple(self._extra)
        self.problems: list[Text] = []
        self.known = bits in {2, 3, 4, 8}
        self.words = f"auto-round {self._scheme.words}"

    def declare(self, module: Module) -> Declared:
        """Outside the blocks, overridden, or quantized."""
        if module.kind in {Kind.HEAD, Kind.MTP_FC}:
            return UNQUANTIZED
        if self._blocks and not module.engine.startswith(self._blocks):
            return Declared(DENSE, f"block_name_to_quantize {', '.join(self._blocks)}")
        found = [self._override(name) for name in module.shards]
        chosen = {scheme for scheme, _ in found}
        if len(chosen) > 1:
            return Declared(None, split=module.shards)
        return Declared(chosen.pop(), found[0][1])

    def _override(self, name: str) -> tuple[Scheme, str | None]:
        rule = name if name in self._extra else self._patterns.find(name)
        if rule is None:
            return self._scheme, None
        bits = _whole(self._extra[rule], "bits") or self._scheme.bits
        if bits >= 16:
            return DENSE, rule
        group = _whole(self._extra[rule], "group_size") or self._scheme.group
        return replace(self._scheme, bits=bits, group=group, words=int_words(bits, group)), rule

    def working_entry(self, module: Module) -> str:
        """An override with 16 bits for each shard."""
        return ", ".join(f'"{name}": {{"bits": 16}}' for name in module.shards)
