"""The quantization config itself: is it one the engine takes, and do its entries mean anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.checkpoint.architecture import section
from qwen_tui_diagnostics.checkpoint.declared.matching import strings
from qwen_tui_diagnostics.checkpoint.declared.select import flat_or_nested
from qwen_tui_diagnostics.checkpoint.stock import canonical
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import Text, listing, t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_diagnostics.checkpoint.bundle import Bundles
    from qwen_tui_diagnostics.checkpoint.declared.base import Method, Module
    from qwen_tui_diagnostics.checkpoint.quant_context import QuantContext

__all__ = ["check_config", "related_entries", "say_unused_entries"]

_MOST_TESTED = 4000
_FAMILY = frozenset({
    "visual", "vision_tower", "mtp", "experts", "shared_expert", "shared_expert_gate", "lm_head",
    "embed_tokens", "gate", "router", "conv1d", "ple", "indexer",
})  # fmt: skip


def check_config(c: QuantContext) -> bool:
    """Judge the config; False when the schemes are not known and nothing can be compared."""
    selection = c.selection
    if selection.nested_only:
        c.found.add(
            "Q17",
            evidence=f"text_config.quantization_config: {selection.name}",
            files=["config.json"],
            fields={"method": selection.name or "METHOD"},
        )
    elif selection.nested_differs:
        c.found.add(
            "Q17",
            severity=Severity.WARN,
            evidence=t("quantization_config at the top level and under text_config differ"),
            consequence=t("The engine follows the top level; other tools may not."),
            files=["config.json"],
            fields={"method": selection.name or "METHOD"},
        )
    _check_two_configs(c)
    _check_kv(c)
    if selection.refused is not None:
        c.found.add(
            "Q01",
            severity=Severity.WARN if selection.warned else Severity.ERROR,
            evidence=f"quant_method {selection.name}",
            detail=t("{format} is not for these models in this engine.", format=selection.refused),
            files=["config.json"],
        )
        return False
    if selection.bitsandbytes:
        c.found.add(
            "Q01",
            severity=Severity.WARN if c.assumed.speculative else Severity.INFO,
            evidence="quant_method bitsandbytes",
            consequence=t("It loads on a slow path, and the MTP head cannot be used."),
            files=["config.json"],
        )
        return True
    method = selection.method
    if method is None:
        if selection.name is None:
            return True
        c.found.add("Q00", evidence=f"quant_method {selection.name}", files=["config.json"])
        return False
    if method.problems:
        rule = "Q16" if selection.name == "compressed-tensors" else "Q01"
        c.found.add(rule, evidence=listing(method.problems[:3]), files=["config.json"])
    if selection.name in {"gptq", "gptq_marlin"} and _is_slow(method):
        c.found.add(
            "Q01",
            severity=Severity.WARN,
            evidence=t("sym is not true, desc_act is absent, or bits are not 4 or 8"),
            consequence=t("SGLang falls back to plain gptq: slow, FP16 activations only."),
            files=["config.json"],
        )
    if not method.known:
        c.found.add("Q00", evidence=clean(method.words), files=["config.json"])
        return False
    return True


def _is_slow(method: Method) -> bool:
    from qwen_tui_diagnostics.checkpoint.declared.lists import Gptq

    return isinstance(method, Gptq) and method.slow


def _check_two_configs(c: QuantContext) -> None:
    """``config.json`` against ``hf_quant_config.json``."""
    beside = c.configs.hf_quant
    top = section(c.configs.config, "quantization_config")
    if beside is None or top is None:
        return
    ours, theirs = flat_or_nested(top), flat_or_nested(beside)
    differences: list[Text | str] = []
    algorithm, other = ours.get("quant_algo"), theirs.get("quant_algo")
    if c.selection.name is not None and not c.selection.name.startswith("modelopt"):
        differences.append(f"quant_method {c.selection.name} / quant_algo {other}")
    elif algorithm is not None and other is not None and algorithm != other:
        differences.append(f"quant_algo {algorithm} / {other}")
    if _list_of(ours) is not None and _list_of(theirs) is not None:
        only = set(_list_of(ours) or ()) ^ set(_list_of(theirs) or ())
        if only:
            differences.append(
                t(
                    "list entry {entry!r} in one only ({count})",
                    entry=clean(str(min(only))),
                    count=len(only),
                )
            )
    kv, other_kv = _kv_words(ours), _kv_words(theirs)
    if kv is not None and other_kv is not None and kv != other_kv:
        differences.append(t("KV cache {kv} / {other}", kv=kv, other=other_kv))
    layers, other_layers = ours.get("quantized_layers"), theirs.get("quantized_layers")
    if isinstance(layers, dict) and isinstance(other_layers, dict):
        changed = [n for n in {*layers, *other_layers} if layers.get(n) != other_layers.get(n)]
        if changed:
            differences.append(f"quantized_layers[{min(changed)!r}] ({len(changed)})")
    if differences:
        c.found.add(
            "Q18",
            evidence=listing([d if isinstance(d, Text) else clean(d) for d in differences]),
            files=["config.json", "hf_quant_config.json"],
        )


def _list_of(config: Mapping[str, Any]) -> tuple[str, ...] | None:
    for name in ("ignore", "exclude_modules", "modules_to_not_convert"):
        if isinstance(config.get(name), list):
            return strings(config.get(name))
    return None


def _kv_words(config: Mapping[str, Any]) -> str | None:
    algorithm = config.get("kv_cache_quant_algo")
    if isinstance(algorithm, str):
        return algorithm.upper()
    scheme = section(config, "kv_cache_scheme")
    if scheme is None:
        return None
    if scheme.get("type") == "float" and scheme.get("num_bits") == 8:
        return "FP8"
    return f"{scheme.get('type')}{scheme.get('num_bits')}"


def _check_kv(c: QuantContext) -> None:
    scales = [
        stored.key
        for module, parts in c.stock.modules.items()
        if ".self_attn" in module
        for suffix, stored in parts.items()
        if suffix in {"k_scale", "v_scale"}
    ]
    declared = False
    for config in (c.selection.config, c.configs.hf_quant):
        if config is not None and _kv_words(flat_or_nested(config)) == "FP8":
            declared = True
    if declared and not scales and c.whole and not c.stock.claimed:
        c.found.add("Q19", evidence=t("KV cache FP8 declared, no k_scale or v_scale stored"))
    elif scales and not declared:
        c.found.add(
            "Q19",
            severity=Severity.WARN,
            evidence=t("k_scale and v_scale stored, no FP8 KV cache declared"),
            tensors=scales,
            count=len(scales),
        )


def related_entries(c: QuantContext, method: Method, module: Module) -> list[str]:
    """Return entries that would mean the module under another prefix or a shard's name."""
    wanted = {canonical(name)[1] for name in (module.engine, *module.shards)}
    wanted |= {canonical(name.removeprefix("language_model."))[1] for name in wanted}
    near = []
    for entry in method.entries[:_MOST_TESTED]:
        bare = entry.rstrip("*").rstrip(".")
        rest = canonical(bare.removeprefix("re:").removeprefix("-:").lstrip("^"))[1]
        if rest in wanted or rest.replace("\\.", ".") in wanted:
            near.append(clean(entry))
    return near


def say_unused_entries(c: QuantContext, method: Method, used: set[str], bundles: Bundles) -> None:
    """Report list entries that mean nothing in these files, or only under another prefix."""
    entries = [entry for entry in method.entries[:_MOST_TESTED] if entry not in used]
    if not entries:
        return
    names = {*c.stock.modules, *c.stock.experts}
    heads: set[str] = {"model", "model.language_model", "language_model", "language_model.model"}
    segments: set[str] = set()
    for name in names:
        parts = name.split(".")
        segments.update(parts)
        for count in range(1, len(parts) + 1):
            heads.add(".".join(parts[:count]))
    idle = [entry for entry in entries if not _means_something(entry, heads, segments)]
    if idle:
        c.found.add(
            "Q04",
            evidence=clean(", ".join(repr(entry) for entry in idle[:3])),
            detail=t("{count} entries match nothing in these files.", count=len(idle)),
            count=len(idle),
            files=["config.json"],
        )
    missed = list(dict.fromkeys(bundles.near))
    if missed:
        c.found.add(
            "Q04",
            severity=Severity.WARN,
            evidence=clean(", ".join(repr(entry) for entry in missed[:3])),
            detail=t(
                "With another prefix, or with the fused name opened, they would match modules that "
                "are stored unquantized."
            ),
            consequence=t("They do not match in this engine, which then quantizes the modules."),
            count=len(missed),
            files=["config.json"],
        )


def _means_something(entry: str, heads: set[str], segments: set[str]) -> bool:
    # Expressions are written for a whole family; one that has nothing to do here is no sign.
    if entry.startswith(("re:", "-:", "block_")) or any(sign in entry for sign in "*?[]()|^$"):
        return True
    # So are the names of parts that only some members of the family have.
    if _FAMILY & set(entry.split(".")) or entry.endswith(".mlp.gate"):
        return True
    rest = canonical(entry)[1].removeprefix("language_model.")
    return (
        rest in heads
        or entry in segments
        or any(name.endswith("." + rest) or f".{rest}." in name for name in heads)
    )
