"""ModelOpt: NVFP4, FP8 and mixtures, from ``config.json`` or ``hf_quant_config.json``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.checkpoint.declared.base import UNQUANTIZED, Declared, Kind, Module
from qwen_tui_diagnostics.checkpoint.declared.matching import Globs, Runs, strings
from qwen_tui_diagnostics.checkpoint.declared.select import flat_or_nested
from qwen_tui_diagnostics.checkpoint.storage import DENSE, Form, Scheme, Strategy
from qwen_tui_profiles.text import Text, t
from qwen_tui_profiles.versions import in_range

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ModelOpt"]

_W4A16_ALONE_SINCE = "0.5.18"
"""Read as: refused as the only algorithm up to 0.5.17, present in 0.5.19."""
_MTP_MIXED_SINCE = "0.5.21"
_BLOCK_MIXED_SINCE = "0.5.21"
_ALIASES = ("", "model.", "model.language_model.", "language_model.model.")

_SCHEMES = {
    "NVFP4": Scheme(Form.MO_NVFP4, 4, 16, input_scale=True, words="NVFP4"),
    "W4A16_NVFP4": Scheme(Form.MO_NVFP4, 4, 16, words="NVFP4 weights"),
    "NVFP4_AWQ": Scheme(Form.MO_NVFP4, 4, 16, input_scale=True, pre_scale=True, words="NVFP4_AWQ"),
    "FP8": Scheme(Form.FP8, 8, strategy=Strategy.TENSOR, input_scale=True, words="FP8"),
    "FP8_PB_WO": Scheme(Form.FP8_BLOCK, 8, strategy=Strategy.BLOCK, block=(128, 128),
                        words="FP8 block"),
    "MXFP8": Scheme(Form.MXFP8, 8, 32, words="MXFP8"),
}  # fmt: skip


class ModelOpt:
    """The config as SGLang or vLLM reads it."""

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        engine: str,
        version: str,
        beside: Mapping[str, Any] | None = None,
    ) -> None:
        part = {**config, **flat_or_nested(config)}
        self._sglang = engine == "sglang"
        algorithm = part.get("quant_algo")
        self.algorithm = str(algorithm or "").upper()
        self.mixed = self.algorithm == "MIXED_PRECISION"
        self.entries = (
            *strings(part.get("exclude_modules")),
            *strings(part.get("ignore")),
            *strings(part.get("modules_to_not_convert")),
        )
        self._runs = Runs(self.entries)
        self._globs = Globs.of(self.entries)
        layers = part.get("quantized_layers")
        if self.mixed and not isinstance(layers, dict) and beside is not None:
            layers = flat_or_nested(beside).get("quantized_layers")
        self._layers = _layers(layers)
        self._below: dict[str, set[str]] = {}
        for name, algo in self._layers.items():
            head = name
            while "." in head:
                head = head.rpartition(".")[0]
                self._below.setdefault(head, set()).add(algo)
        new = not self._sglang or in_range(version, _MTP_MIXED_SINCE, None)
        self._mtp_quantized = new and any(name.startswith("mtp.") for name in self._layers)
        self.problems = self._problems(version)
        self.known = (bool(self._layers) if self.mixed else self.algorithm in _SCHEMES) and all(
            algo in _SCHEMES for algo in self._layers.values()
        )
        self._scheme = _SCHEMES.get(self.algorithm)
        used = dict.fromkeys(
            _SCHEMES[algo].words for algo in self._layers.values() if algo in _SCHEMES
        )
        detail = " + ".join(sorted(used)) if self.mixed else self.algorithm
        self.words = f"modelopt {detail}".strip()

    def _problems(self, version: str) -> list[Text]:
        if not self._sglang:
            return []
        if self.algorithm == "W4A16_NVFP4" and not in_range(version, _W4A16_ALONE_SINCE, None):
            return [t("W4A16_NVFP4 as the only algorithm needs SGLang 0.5.19")]
        if "FP8_PB_WO" in self._layers.values() and not in_range(version, _BLOCK_MIXED_SINCE, None):
            return [t("FP8_PB_WO inside MIXED_PRECISION needs SGLang 0.5.21")]
        return []

    def declare(self, module: Module) -> Declared:
        """Excluded, listed, or quantized like everything else."""
        if module.kind is Kind.MTP_FC and self._sglang:
            return UNQUANTIZED
        if module.mtp and self._sglang:
            if self.mixed and not self._mtp_quantized:
                return UNQUANTIZED
            if not self.mixed and self.algorithm != "FP8":
                return UNQUANTIZED
        entry = self._globs.find(module.engine)
        if entry is None:
            found = [self._runs.find(name) for name in module.shards]
            hits = [shard for shard, e in zip(module.shards, found, strict=True) if e is not None]
            whole = self._runs.find(module.engine)
            if whole is not None:
                entry = whole
            elif module.kind is not Kind.EXPERTS and hits and len(hits) < len(module.shards):
                return Declared(None, split=tuple(hits))
            elif hits:
                entry = next(e for e in found if e is not None)
        if entry is not None:
            return Declared(DENSE, entry)
        return self._listed(module) if self.mixed else Declared(self._scheme)

    def working_entry(self, module: Module) -> str:
        """Whole names work, one for each shard."""
        return ", ".join(f'"{name}"' for name in module.shards)

    def _listed(self, module: Module) -> Declared:
        algo = self._lookup(module.engine)
        if algo is not None:
            return Declared(_SCHEMES.get(algo))
        if module.fused:
            algos = [self._lookup(shard) for shard in module.shards]
            if len(set(algos)) > 1:
                listed = [s for s, a in zip(module.shards, algos, strict=True) if a is not None]
                return Declared(None, split=tuple(listed))
            if algos[0] is not None:
                return Declared(_SCHEMES.get(algos[0]))
        for name in _spellings(module.engine):
            below = self._below.get(name)
            if below:
                return Declared(_SCHEMES.get(min(below)) if len(below) == 1 else None)
        return UNQUANTIZED

    def _lookup(self, name: str) -> str | None:
        for spelling in _spellings(name):
            algo = self._layers.get(spelling)
            if algo is not None:
                return algo
        return None


def _spellings(name: str) -> list[str]:
    bare = name
    for prefix in ("model.language_model.", "language_model.model.", "model."):
        if name.startswith(prefix):
            bare = name[len(prefix) :]
            break
    return [name, *(prefix + bare for prefix in _ALIASES if prefix + bare != name)]


def _layers(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    found: dict[str, str] = {}
    for name, entry in value.items():
        algo = entry.get("quant_algo") if isinstance(entry, dict) else entry
        if isinstance(algo, str):
            found[str(name)] = algo.upper()
    return found
