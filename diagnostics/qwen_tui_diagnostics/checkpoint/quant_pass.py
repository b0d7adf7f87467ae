"""The quantization pass: what the engine would build for each module against what is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint.bundle import Bundles, Where
from qwen_tui_diagnostics.checkpoint.declared.base import Declared, Kind, Module
from qwen_tui_diagnostics.checkpoint.modules import engine_modules
from qwen_tui_diagnostics.checkpoint.quant_config import (
    check_config,
    related_entries,
    say_unused_entries,
)
from qwen_tui_diagnostics.checkpoint.quant_context import QuantContext, Seen
from qwen_tui_diagnostics.checkpoint.quant_experts import check_experts
from qwen_tui_diagnostics.checkpoint.quant_odd import check_odd
from qwen_tui_diagnostics.checkpoint.quant_tensors import (
    check_kernels,
    check_scalars,
    check_tensors,
    kernel_refuses_gates,
)
from qwen_tui_diagnostics.checkpoint.quant_whole import (
    FP8_STORES,
    check_other_method,
    check_undeclared,
    same_store,
)
from qwen_tui_diagnostics.checkpoint.report import Reach
from qwen_tui_diagnostics.checkpoint.storage import (
    COMPANIONS,
    FORMS,
    Form,
    Strategy,
    form_of,
)
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_diagnostics.checkpoint.declared.base import Method
    from qwen_tui_diagnostics.checkpoint.stock import Stored

__all__ = ["check_quantization"]

_CAST = t(
    "FP8 weights are cast without their scale: the server starts, answers HTTP 200 and the output "
    "is garbage."
)
_PLAIN = frozenset({"BF16", "F16", "F32", "F64", "I64", "BOOL"})
_OTHER = t(
    "The engine builds the declared form: the stored tensors do not fit it, and it stops or the "
    "output is garbage."
)


def check_quantization(c: QuantContext) -> Reach:
    """Run the pass and return how far it went."""
    if not check_config(c):
        return Reach.NONE
    method = c.selection.method
    bundles = Bundles(c.found, speculative=c.assumed.speculative)
    if method is None and not c.selection.bitsandbytes and _all_plain(c):
        _say_plain_leftovers(c, bundles)
        check_odd(c, bundles)
        bundles.report()
        return _reach(c)
    _check_never_quantized(c, bundles)
    seen = [_look(c, module, method) for module in _modules(c)]
    if c.selection.bitsandbytes:
        bundles.report()
        return Reach.PARTIAL
    wrong = check_undeclared(c, seen) if method is None else check_other_method(c, seen, method)
    if wrong:
        bundles.report()
        return Reach.FULL
    used: set[str] = set()
    for item in seen:
        if item.declared.entry is not None:
            used.add(item.declared.entry)
        if item.present and method is None:
            _say_leftovers(item, bundles)
        elif item.present:
            _compare(c, item, method, bundles)
    check_experts(c, method, bundles, used)
    check_odd(c, bundles)
    if method is not None:
        say_unused_entries(c, method, used, bundles)
    bundles.report()
    return _reach(c)


def _reach(c: QuantContext) -> Reach:
    full = c.whole and c.values.usable and not c.stock.claimed
    return Reach.FULL if full else Reach.PARTIAL


def _all_plain(c: QuantContext) -> bool:
    """Whether no tensor has a dtype that quantized weights are stored in."""
    return all(_PLAIN.issuperset(kinds) for kinds in c.stock.inventory.dtypes.values())


def _say_plain_leftovers(c: QuantContext, bundles: Bundles) -> None:
    for name in c.model.linear:
        parts = c.stock.modules.get(name)
        if parts is not None and len(parts) > 1:
            _say_leftover(name, parts, bundles)


def _modules(c: QuantContext) -> list[Module]:
    row = c.configs.row
    if row is None:
        return []
    modules = list(engine_modules(c.model.linear, row, c.assumed.engine))
    if "mtp.fc" in c.stock.modules:
        modules.append(
            Module("mtp.fc", Kind.MTP_FC, ("mtp.fc",), ("mtp.fc",), "ReplicatedLinear", mtp=True)
        )
    return modules


def _look(c: QuantContext, module: Module, method: Method | None) -> Seen:
    declared = Declared(None) if method is None else method.declare(module)
    parts: list[Mapping[str, Stored]] = []
    forms: list[Form | None] = []
    shapes: list[tuple[int | None, int | None]] = []
    for name in module.stored:
        need = c.model.linear.get(name)
        shape = None if need is None else need.shape
        rows, columns = (shape[0], shape[1]) if shape is not None else (None, None)
        found = c.stock.modules.get(name, {})
        form = form_of(found, rows, columns) if found else None
        parts.append(found)
        forms.append(None if form is Form.UNKNOWN and "weight" not in found else form)
        shapes.append((rows, columns))
    return Seen(module, declared, parts, forms, shapes)


def _check_never_quantized(c: QuantContext, bundles: Bundles) -> None:
    """Embedding and vision tower: no engine builds them quantized."""
    for name, parts in c.stock.modules.items():
        vision = name.startswith("visual.")
        if not vision and name != "embed_tokens":
            continue
        form = form_of(parts, None, None)
        if form in {Form.DENSE, Form.UNKNOWN} or c.selection.bitsandbytes:
            continue
        first = next(iter(parts.values()))
        bundles.add(
            "Q13", (vision, form), modules=[name], keys=[first.key], files=[first.file],
            why=t("stored as {form}", form=form.value),
        )  # fmt: skip


def _compare(c: QuantContext, item: Seen, method: Method | None, bundles: Bundles) -> None:
    module, declared = item.module, item.declared
    present = item.present
    where = Where(module.stored, item.keys, item.files, module.mtp)
    if module.kind is Kind.HEAD and _check_text_head(c, item, bundles):
        return
    if declared.uncovered:
        bundles.add("Q16", "uncovered", where=where)
        return
    if declared.split:
        bundles.add(
            "Q05", "declared", where=where,
            why=t("the config names {names} and not the other parts of {fused}",
                  names=", ".join(n.rpartition(".")[2] for n in declared.split),
                  fused=module.engine.rpartition(".")[2]),
        )  # fmt: skip
        return
    quantized = item.quantized
    if quantized and len(quantized) < len(present):
        bundles.add(
            "Q05", "stored", where=where,
            why=t("some parts of {fused} are stored quantized, others are not",
                  fused=module.engine.rpartition(".")[2]),
        )  # fmt: skip
        return
    scheme = declared.scheme
    if scheme is None:
        return
    if scheme.dense and quantized:
        _say_stored_quantized(item, quantized[0], bundles)
    elif not scheme.dense and not quantized:
        _say_declared_quantized(c, item, method, bundles)
    elif not scheme.dense:
        _judge_quantized(c, item, bundles)
    else:
        _say_leftovers(item, bundles)


def _check_text_head(c: QuantContext, item: Seen, bundles: Bundles) -> bool:
    """Text-only classes load ``lm_head.weight`` and nothing beside it."""
    row = c.configs.row
    if row is None or row.wrapped or c.assumed.engine != "sglang":
        return False
    extra = [suffix for suffix in item.parts[0] if suffix != "weight"]
    if not extra and item.present[0] is Form.DENSE:
        return False
    bundles.add(
        "Q12", "text", modules=["lm_head"], keys=item.keys, files=item.files,
        why=t("{architecture} loads lm_head.weight only; {suffix} is lost",
              architecture=row.name, suffix=(extra or ["a packed weight"])[0]),
    )  # fmt: skip
    return True


def _say_stored_quantized(item: Seen, form: Form, bundles: Bundles) -> None:
    module, entry = item.module, item.declared.entry
    where = Where(module.stored, item.keys, item.files, module.mtp)
    if module.mtp:
        bundles.add(
            "Q15", "stored", where=where, entry="—",
            why=t("stored as {form}, the engine builds it unquantized", form=form.value),
        )  # fmt: skip
        return
    if module.kind is Kind.HEAD and entry is None:
        bundles.add(
            "Q12", form, where=where,
            why=t("stored as {form}, the engine builds it unquantized", form=form.value),
        )  # fmt: skip
        return
    suffix = next((s for s in item.parts[0] if s != "weight"), "weight")
    why = (
        t("the config excludes it through entry {entry}, the file holds {suffix}",
          entry=repr(entry), suffix=suffix)
        if entry is not None
        else t("the config does not list it, the file holds {suffix} ({form})", suffix=suffix,
               form=form.value)
    )  # fmt: skip
    bundles.add(
        "Q02", entry, where=where, why=why, consequence=_CAST if form in FP8_STORES else None
    )


def _say_declared_quantized(
    c: QuantContext, item: Seen, method: Method | None, bundles: Bundles
) -> None:
    module, scheme = item.module, item.declared.scheme
    if method is None or scheme is None:
        return
    entry = method.working_entry(module)
    near = related_entries(c, method, module)
    bundles.near += near
    where = Where(module.stored, item.keys, item.files, module.mtp)
    if near:
        why = t(
            "declared {scheme}, stored bf16. The list has {near}, which does not match {name} in "
            "{engine}", scheme=scheme.words, near=repr(near[0]), name=module.engine,
            engine=c.assumed.engine,
        )  # fmt: skip
    else:
        why = t("declared {scheme}, stored bf16", scheme=scheme.words)
    if module.mtp:
        bundles.add("Q15", ("declared", bool(near)), where=where, entry=entry, why=why)
    else:
        cause = (bool(near), module.engine.rpartition(".")[2] if near else "")
        bundles.add("Q03", cause, where=where, entry=entry, why=why)


def _judge_quantized(c: QuantContext, item: Seen, bundles: Bundles) -> None:
    module, scheme = item.module, item.declared.scheme
    if scheme is None:
        return
    where = Where(module.stored, item.keys, item.files, module.mtp)
    if kernel_refuses_gates(module, scheme):
        bundles.add(
            "Q14", "gates", where=where,
            why=t("{rows} rows quantized as {scheme}: the kernels need more",
                  rows=item.shapes[0][0] or "?", scheme=scheme.words),
        )  # fmt: skip
        return
    if module.kind is Kind.HEAD and scheme.strategy is Strategy.BLOCK and scheme.block is not None:
        bundles.add(
            "Q12", "block", where=where, why=t("block scales are not supported for the output head")
        )
        return
    for name, parts, form, (rows, columns) in zip(
        module.stored, item.parts, item.forms, item.shapes, strict=True
    ):
        if form is None:
            continue
        if not same_store(scheme.form, form) and not _odd_dtype(parts, scheme.form):
            first = next(iter(parts.values()))
            bundles.add(
                "Q21", ("form", form, scheme.form), modules=[name], keys=[first.key],
                files=[first.file], draft=module.mtp, severity=Severity.ERROR, consequence=_OTHER,
                why=t("declared {declared}, stored {stored}", declared=scheme.words,
                      stored=form.value),
            )  # fmt: skip
            continue
        check_tensors(
            name,
            parts,
            scheme,
            rows,
            columns,
            bundles,
            draft=module.mtp,
            whole=c.whole and name not in c.stock.claimed,
        )
    check_kernels(module, scheme, item.shapes, bundles)
    check_scalars(module, item.parts, item.shapes, c.values, bundles)


def _odd_dtype(parts: Mapping[str, Stored], form: Form) -> bool:
    """Whether the main tensor is there, in a dtype that no form has under its name."""
    rows = FORMS.get(form)
    if not rows or rows[0].main not in parts:
        return False
    main = rows[0].main
    legal = {dtype for row in FORMS.values() if row[0].main == main for dtype in row[0].dtypes}
    return parts[main].entry.dtype not in legal


def _say_leftovers(item: Seen, bundles: Bundles) -> None:
    """Scales beside an unquantized weight."""
    for name, parts in zip(item.module.stored, item.parts, strict=True):
        _say_leftover(name, parts, bundles)


def _say_leftover(name: str, parts: Mapping[str, Stored], bundles: Bundles) -> None:
    extra = [suffix for suffix in parts if suffix in COMPANIONS]
    if extra:
        bundles.add(
            "Q07", extra[0], modules=[name], keys=[parts[s].key for s in extra],
            files=[parts[extra[0]].file],
            why=t("{suffix} beside an unquantized weight", suffix=extra[0]),
        )  # fmt: skip
