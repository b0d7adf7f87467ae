"""Routed experts: thousands of matrices that are alike, judged by their kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint.modules import expert_module
from qwen_tui_diagnostics.checkpoint.quant_tensors import check_tensors
from qwen_tui_diagnostics.checkpoint.stock import Stored
from qwen_tui_diagnostics.checkpoint.storage import FORMS, Form, form_of
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.safetensors_header import TensorEntry
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_diagnostics.checkpoint.bundle import Bundles
    from qwen_tui_diagnostics.checkpoint.declared.base import Method
    from qwen_tui_diagnostics.checkpoint.layout import Experts
    from qwen_tui_diagnostics.checkpoint.quant_context import QuantContext
    from qwen_tui_diagnostics.checkpoint.storage import Scheme

__all__ = ["check_experts"]

_KEY_ERROR = t("The loader stops: KeyError on the experts' mapped name, or the output is garbage.")
_FP8 = frozenset({Form.FP8, Form.FP8_BLOCK, Form.MXFP8})


def check_experts(c: QuantContext, method: Method | None, bundles: Bundles, used: set[str]) -> None:
    """Compare declared and stored form of every layer's experts."""
    row = c.configs.row
    if row is None or method is None:
        return
    for need in c.model.experts:
        module = expert_module(need.module, row, c.assumed.engine)
        declared = method.declare(module)
        if declared.entry is not None:
            used.add(declared.entry)
        scheme = declared.scheme
        if scheme is None or declared.split:
            continue
        parts = c.stock.experts.get(need.module)
        if parts is None:
            if not scheme.dense and need.module in c.stock.modules:
                bundles.add(
                    "Q03", "experts", modules=[need.module],
                    keys=[s.key for s in c.stock.modules[need.module].values()],
                    entry=method.working_entry(module), draft=module.mtp,
                    why=t("declared {scheme}, the experts are stored fused in bf16",
                          scheme=scheme.words),
                )  # fmt: skip
            continue
        for projection, suffixes in parts.items():
            _check_projection(c, need, projection, suffixes, scheme, declared.entry, bundles,
                              draft=module.mtp, entry=method.working_entry(module))  # fmt: skip


def _check_projection(
    c: QuantContext,
    need: Experts,
    projection: str,
    suffixes: Mapping[str, dict[tuple[str, tuple[int, ...]], list[int]]],
    scheme: Scheme,
    excluded: str | None,
    bundles: Bundles,
    *,
    draft: bool,
    entry: str,
) -> None:
    name = f"{need.module}.*.{projection}"
    rows, columns = (
        (need.hidden, need.width) if projection == "down_proj" else (need.width, need.hidden)
    )
    sample = {
        suffix: Stored(
            c.stock.expert_key(need.module, kinds[kind][0], projection, suffix), "",
            TensorEntry(kind[0], kind[1], 0, 0),
        )
        for suffix, kinds in suffixes.items()
        for kind in [max(kinds, key=lambda k: len(kinds[k]))]
    }  # fmt: skip
    form = form_of(sample, rows, columns)
    key = next(iter(sample.values())).key
    count = need.number
    if scheme.dense:
        if form not in {Form.DENSE, Form.UNKNOWN}:
            bundles.add(
                "Q02", excluded, modules=[name], keys=[key], draft=draft, count=count,
                why=t("the config leaves the experts unquantized, they are stored as {form}",
                      form=form.value),
            )  # fmt: skip
        return
    if form is Form.DENSE:
        bundles.add(
            "Q03", "experts", modules=[name], keys=[key], draft=draft, entry=entry, count=count,
            why=t("declared {scheme}, stored bf16", scheme=scheme.words),
        )  # fmt: skip
        return
    if form is not scheme.form and not {form, scheme.form} <= _FP8:
        bundles.add(
            "Q21", ("form", form, scheme.form), modules=[name], keys=[key], draft=draft,
            severity=Severity.ERROR, consequence=_KEY_ERROR, count=count,
            why=t("declared {declared}, stored {stored}", declared=scheme.words,
                  stored=form.value),
        )  # fmt: skip
        return
    whole = c.whole and need.module not in c.stock.claimed
    check_tensors(
        name, sample, scheme, rows, columns, bundles, draft=draft, whole=whole, count=count
    )
    _check_alike(c, need, projection, suffixes, scheme, bundles, draft=draft)


def _check_alike(
    c: QuantContext,
    need: Experts,
    projection: str,
    suffixes: Mapping[str, dict[tuple[str, tuple[int, ...]], list[int]]],
    scheme: Scheme,
    bundles: Bundles,
    *,
    draft: bool,
) -> None:
    """Every expert has every companion, in the same dtype and shape."""
    name = f"{need.module}.*.{projection}"
    main = FORMS[scheme.form][0].main
    have = {number for numbers in suffixes.get(main, {}).values() for number in numbers}
    for suffix, kinds in suffixes.items():
        if len(kinds) > 1:
            usual = max(kinds, key=lambda k: len(kinds[k]))
            odd = [(k, n) for k, numbers in kinds.items() if k != usual for n in numbers]
            (dtype, shape), number = odd[0]
            bundles.add(
                "Q08" if dtype != usual[0] else "Q09", ("experts", suffix, dtype, shape),
                modules=[name], draft=draft, count=len(odd),
                keys=[c.stock.expert_key(need.module, n, projection, suffix) for _, n in odd[:3]],
                why=t("expert {number}: {suffix} is {dtype} {shape}, the others are {usual}",
                      number=number, suffix=suffix, dtype=dtype, shape=str(list(shape)),
                      usual=f"{usual[0]} {list(usual[1])}"),
            )  # fmt: skip
        if suffix == main or not c.whole or need.module in c.stock.claimed:
            continue
        lacking = sorted(have - {n for numbers in kinds.values() for n in numbers})
        if lacking:
            bundles.add(
                "Q06", ("experts", suffix), modules=[name], draft=draft, count=len(lacking),
                keys=[c.stock.expert_key(need.module, n, projection, main) for n in lacking[:3]],
                consequence=_KEY_ERROR,
                why=t("no {suffix} for experts {numbers}", suffix=suffix,
                      numbers=", ".join(map(str, lacking[:5]))),
            )  # fmt: skip
