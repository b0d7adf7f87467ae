"""The model pass: the tensors that the architecture needs exist, with the right shape (rules M)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint.layout import (
    Experts,
    Need,
    mtp_needs,
    text_needs,
    vision_needs,
)
from qwen_tui_diagnostics.checkpoint.optional_parts import check_head, check_mtp, check_vision
from qwen_tui_diagnostics.checkpoint.phrases import group_names, layer_spans
from qwen_tui_diagnostics.checkpoint.presence import (
    is_stored,
    missing_experts,
    wrong_experts,
    wrong_shapes,
)
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.checkpoint.architecture import Dims
    from qwen_tui_diagnostics.checkpoint.collect import Findings
    from qwen_tui_diagnostics.checkpoint.configs import Configs
    from qwen_tui_diagnostics.checkpoint.report import Assumed
    from qwen_tui_diagnostics.checkpoint.stock import Stock

__all__ = ["ModelPass", "check_model"]


@dataclass(slots=True)
class ModelPass:
    """What the model pass hands on to the quantization pass."""

    linear: dict[str, Need] = field(default_factory=dict)
    """Canonical name of every matrix that may be quantized."""
    experts: list[Experts] = field(default_factory=list)
    text: list[Need | Experts] = field(default_factory=list)
    """What the target needs, without the output head."""
    draft: list[Need | Experts] = field(default_factory=list)
    tower: list[Need] = field(default_factory=list)
    usable: bool = True
    """False when the tensors cannot be told apart at all (prefix, layers): nothing more is said."""
    skipped_layers: set[int] = field(default_factory=set)


def check_model(
    stock: Stock, dims: Dims, configs: Configs, found: Findings, assumed: Assumed, *, whole: bool
) -> ModelPass:
    """Compare tensors and config.

    Args:
        stock: The loaded tensors.
        dims: Dimensions from the config.
        configs: The config, for the architecture.
        found: Where broken rules are recorded.
        assumed: What the checkpoint is judged for.
        whole: Every file could be read; absent tensors are reported only then.
    """
    result = ModelPass()
    _check_prefixes(stock, configs, found, assumed, result)
    _check_fused_names(stock, found)
    if result.usable:
        _check_layers(stock, dims, found, result, whole=whole)
    _collect(dims, configs, result)
    if not result.usable:
        return result
    fused = found.has("M08")
    missing, shapes = _compare(stock, dims, result, fused=fused)
    if missing and whole:
        _say_missing(missing, found)
    if shapes:
        _say_shapes(shapes, found)
    check_head(stock, dims, found, whole=whole)
    check_mtp(stock, dims, result, found, assumed, whole=whole)
    check_vision(stock, dims, result, found, assumed, whole=whole)
    return result


def _check_prefixes(
    stock: Stock, configs: Configs, found: Findings, assumed: Assumed, result: ModelPass
) -> None:
    used = {prefix: keys for prefix, keys in stock.prefixes.items() if prefix}
    wrapped = configs.row is not None and configs.row.wrapped
    loads = {"model.language_model.", "model."} if wrapped else {"model."}
    if assumed.engine == "vllm":
        loads = {"model.language_model.", "model.", "language_model.model."}
    foreign = {prefix: keys for prefix, keys in used.items() if prefix not in loads}
    bare = stock.prefixes.get("", [])
    if bare and not used:
        foreign[""] = bare
    if foreign:
        keys = [key for group in foreign.values() for key in group]
        found.add(
            "M07",
            evidence=f"{configs.architecture}: {keys[0]}",
            detail=t(
                "{architecture} loads keys that begin with {prefixes}.",
                architecture=configs.architecture or "?",
                prefixes=", ".join(sorted(loads)),
            ),
            tensors=keys,
            count=len(keys),
        )
        result.usable = False
    elif len(used) > 1:
        rare = min(used.values(), key=len)
        found.add(
            "M07",
            evidence=" + ".join(sorted(used)),
            detail=t("Two prefixes are mixed in one checkpoint."),
            tensors=rare,
            count=len(rare),
        )


def _check_fused_names(stock: Stock, found: Findings) -> None:
    fused = (".in_proj_qkvz", ".in_proj_ba")
    names = [
        stored.key
        for module, parts in stock.modules.items()
        if module.endswith(fused)
        for stored in parts.values()
    ]
    names += [module for module in sorted(stock.claimed) if module.endswith(fused)]
    if names:
        found.add("M08", evidence=names[0], tensors=names, count=len(names))


def _layers_stored(stock: Stock) -> dict[int, set[str]]:
    """Return the kinds of layer that the tensors of each layer number belong to."""
    layers: dict[int, set[str]] = {}
    for module in (*stock.modules, *stock.experts, *stock.claimed):
        if not module.startswith("layers."):
            continue
        number, _, rest = module[7:].partition(".")
        if number.isascii() and number.isdigit() and len(number) < 7:
            kinds = layers.setdefault(int(number), set())
            if rest.startswith("linear_attn"):
                kinds.add("linear_attention")
            elif rest.startswith("self_attn"):
                kinds.add("full_attention")
    return layers


def _check_layers(
    stock: Stock, dims: Dims, found: Findings, result: ModelPass, *, whole: bool
) -> None:
    stored = _layers_stored(stock)
    if dims.layers is None:
        return
    if dims.kinds and len(dims.kinds) != dims.layers:
        found.add(
            "M04",
            evidence=f"num_hidden_layers {dims.layers}, layer_types {len(dims.kinds)}",
            detail=t("layer_types has another length than num_hidden_layers."),
            count=1,
            files=["config.json"],
        )
        result.skipped_layers.update(range(dims.layers))
        return
    beyond = sorted(number for number in stored if number >= dims.layers)
    absent = [number for number in range(dims.layers) if number not in stored] if whole else []
    other = [
        number
        for number, kinds in sorted(stored.items())
        if number < len(dims.kinds) and kinds and dims.kinds[number] not in kinds
    ]
    result.skipped_layers.update(absent, other)
    for numbers, what in (
        (beyond, t("stored, but config.json has {count} layers", count=dims.layers)),
        (absent, t("declared, but no tensor of them is stored")),
        (other, t("linear and full attention are swapped against layer_types")),
    ):
        if numbers:
            found.add(
                "M04",
                evidence=f"layers.{layer_spans(numbers)}",
                detail=t("Layers {layers}: {what}.", layers=layer_spans(numbers), what=what),
                count=len(numbers),
            )


def _collect(dims: Dims, configs: Configs, result: ModelPass) -> None:
    """List what the architecture needs, for this pass and the quantization pass."""
    row = configs.row
    if row is None:
        return
    needs = result.text
    needs.append(Need("embed_tokens", "weight", (dims.vocab, dims.hidden)))
    if row.flash:
        needs += [
            Need("hyper_connection_mixer", name, None, loose=True)
            for name in ("hc_norm", "input_mix_weight_down", "input_mix_weight_up")
        ]
    else:
        needs.append(Need("norm", "weight", (dims.hidden,)))
    for layer in range(dims.layers or 0):
        if layer not in result.skipped_layers:
            needs += text_needs(row, dims, layer)
    if dims.mtp_layers:
        result.draft += mtp_needs(row, dims)
    result.tower += vision_needs(dims)
    head = Need("lm_head", "weight", (dims.vocab, dims.hidden), linear=True)
    for need in (*needs, *result.draft, head):
        if isinstance(need, Experts):
            result.experts.append(need)
        elif need.linear:
            result.linear[need.module] = need


def _compare(
    stock: Stock, dims: Dims, result: ModelPass, *, fused: bool
) -> tuple[list[Need | Experts], list[tuple[str, Need, tuple[int, ...]]]]:
    """Return what the target lacks and what has another shape (plain tensors only)."""
    needs = result.text
    if fused:
        needs = [need for need in needs if ".linear_attn.in_proj_" not in need.module]
    missing: list[Need | Experts] = [need for need in needs if not is_stored(stock, need)]
    missing += missing_experts(
        stock, [need for need in result.experts if not need.module.startswith("mtp.")]
    )
    shapes = wrong_shapes(stock, needs)
    if not dims.tied:
        shapes += wrong_shapes(stock, [result.linear["lm_head"]])
    shapes += wrong_shapes(stock, result.draft)
    shapes += wrong_shapes(stock, result.tower)
    shapes += wrong_experts(stock, result.experts)
    return missing, shapes


def _say_missing(missing: list[Need | Experts], found: Findings) -> None:
    names = [
        f"{need.module}.*" if isinstance(need, Experts) else f"{need.module}.{need.suffix}"
        for need in missing
    ]
    found.add(
        "M03",
        evidence="; ".join(group_names(names)[:6]),
        detail=t("Missing: {names}.", names="; ".join(group_names(names)[:6])),
        tensors=names,
        count=len(names),
    )


def _say_shapes(shapes: list[tuple[str, Need, tuple[int, ...]]], found: Findings) -> None:
    groups: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for _, need, have in shapes:
        name = f"{need.module}.{need.suffix}"
        wanted = ", ".join("?" if d is None else str(d) for d in need.shape or ())
        groups.setdefault((f"config [{wanted}]", have), []).append(name)
    lines = [
        f"{', '.join(group_names(names)[:2])}: file {list(have)}, {wanted}"
        for (wanted, have), names in groups.items()
    ]
    found.add(
        "M05",
        evidence="; ".join(lines[:4]),
        detail=t("{lines}", lines="; ".join(lines[:4])),
        tensors=[key for key, _, _ in shapes],
        count=len(shapes),
    )
