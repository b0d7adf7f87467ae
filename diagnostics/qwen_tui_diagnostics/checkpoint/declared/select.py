"""Which quantization method an engine takes from a checkpoint's configs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.checkpoint.architecture import section
from qwen_tui_profiles.foreign import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_diagnostics.checkpoint.configs import Configs
    from qwen_tui_diagnostics.checkpoint.declared.base import Method
    from qwen_tui_diagnostics.checkpoint.report import Assumed

__all__ = ["Selection", "flat_or_nested", "select_method"]

_REFUSED = {
    "exl2": "EXL2", "exl3": "EXL3", "gguf": "GGUF", "mlx": "MLX", "bitnet": "BitNet",
    "quark": "Quark", "modelslim": "ModelSlim", "torchao": "torchao",
}  # fmt: skip
"""Recognised, and not for these models in these engines."""
_WARNED = frozenset({"quark", "modelslim", "torchao", "bitnet"})

_MODELOPT = frozenset({"modelopt", "modelopt_fp4", "modelopt_fp8", "modelopt_mixed"})
_VLLM_PREFIXES = (
    ("model.language_model.", "language_model.model."),
    ("model.visual.", "visual."),
    ("lm_head", "language_model.lm_head"),
)
"""vLLM renames lists to its own names first (wrapped classes)."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What the engine would make of the configs."""

    method: Method | None = None
    name: str | None = None
    """The method as declared; None when nothing is declared."""
    config: Mapping[str, Any] | None = None
    refused: str | None = None
    """A format that the engine does not take."""
    warned: bool = False
    """Refused for these models only, as far as known."""
    nested_only: bool = False
    """Declared under ``text_config`` only."""
    nested_differs: bool = False
    bitsandbytes: bool = False


def select_method(configs: Configs, assumed: Assumed, *, quantization: str | None) -> Selection:
    """Follow the engine: top level, ``compression_config``, ``hf_quant_config.json``."""
    config = configs.config
    top = section(config, "quantization_config")
    if top is None:
        top = section(config, "compression_config")
    text = section(config, "text_config")
    nested = None if text is None else section(text, "quantization_config")
    if top is None and configs.hf_quant is not None:
        top = configs.hf_quant
    mlx = section(config, "quantization")
    if mlx is not None and "bits" in mlx and "group_size" in mlx:
        method = top.get("quant_method") if top else None
        if method is None or "mode" in mlx:
            return Selection(name="mlx", config=mlx, refused="MLX")
    if top is None and nested is None:
        return Selection()
    chosen = top if top is not None else nested
    if chosen is None:
        return Selection()
    if assumed.engine == "vllm" and configs.row is not None and configs.row.wrapped:
        chosen = _renamed(chosen)
    name = _method_name(chosen)
    base = Selection(
        name=name,
        config=chosen,
        nested_only=top is None and quantization is None and assumed.engine == "sglang",
        nested_differs=top is not None and nested is not None and dict(top) != dict(nested),
        bitsandbytes=name == "bitsandbytes",
    )
    if name in _REFUSED:
        return replace(base, refused=_REFUSED[name], warned=name in _WARNED)
    return replace(base, method=_build(name, chosen, configs, assumed))


def _build(
    name: str, config: Mapping[str, Any], configs: Configs, assumed: Assumed
) -> Method | None:
    """Return the method of a config; modules are imported only for what is declared."""
    engine, version = assumed.engine, assumed.engine_version
    if name == "compressed-tensors":
        from qwen_tui_diagnostics.checkpoint.declared.compressed import CompressedTensors

        return CompressedTensors(config, engine=engine, version=version)
    if name in _MODELOPT:
        from qwen_tui_diagnostics.checkpoint.declared.modelopt import ModelOpt

        return ModelOpt(config, engine=engine, version=version, beside=configs.hf_quant)
    from qwen_tui_diagnostics.checkpoint.declared.lists import AutoRound, Awq, Fp8, Gptq

    if name == "fp8":
        return Fp8(config, engine=engine)
    if name in {"awq", "awq_marlin"}:
        return Awq(config, engine=engine)
    if name in {"gptq", "gptq_marlin"}:
        return Gptq(config, engine=engine, version=version)
    return AutoRound(config) if name == "auto-round" else None


def flat_or_nested(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a ModelOpt config that holds the settings, in either shape."""
    nested = config.get("quantization")
    return nested if isinstance(nested, dict) else config


def _method_name(config: Mapping[str, Any]) -> str:
    declared = config.get("quant_method")
    if isinstance(declared, str) and declared:
        return clean(declared).lower()[:60]
    if "quant_algo" in flat_or_nested(config):
        return "modelopt"
    if "config_groups" in config:
        return "compressed-tensors"
    return "?"


def _renamed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Map lists and keys to vLLM's names."""

    def name_of(entry: object) -> object:
        if isinstance(entry, str):
            for old, new in _VLLM_PREFIXES:
                if entry.startswith(old):
                    return new + entry[len(old) :]
        return entry

    out: dict[str, Any] = {}
    for key, value in config.items():
        if key in {"ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers"}:
            out[key] = [name_of(entry) for entry in value] if isinstance(value, list) else value
        elif key == "quantized_layers" and isinstance(value, dict):
            out[key] = {str(name_of(name)): entry for name, entry in value.items()}
        elif key == "block_name_to_quantize":
            names = value.split(",") if isinstance(value, str) else value
            out[key] = [name_of(x) for x in names] if isinstance(names, list) else value
        elif key == "extra_config" and isinstance(value, dict):
            out[key] = {str(name_of(name)): entry for name, entry in value.items()}
        elif key == "quantization" and isinstance(value, dict):
            out[key] = _renamed(value)
        elif key == "config_groups" and isinstance(value, dict):
            out[key] = {
                name: {**group, "targets": [name_of(x) for x in group["targets"]]}
                if isinstance(group, dict) and isinstance(group.get("targets"), list)
                else group
                for name, group in value.items()
            }
        else:
            out[key] = value
    return out
