"""The tensors of one quantized matrix: companions, dtypes, packed shapes, group sizes, kernels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checkpoint.storage import FORMS, Form, Strategy
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qwen_tui_diagnostics.checkpoint.bundle import Bundles
    from qwen_tui_diagnostics.checkpoint.declared.base import Module
    from qwen_tui_diagnostics.checkpoint.stock import Stored
    from qwen_tui_diagnostics.checkpoint.storage import Companion, Scheme
    from qwen_tui_diagnostics.checkpoint.values import ValueReader
    from qwen_tui_profiles.text import Text

__all__ = ["check_kernels", "check_scalars", "check_tensors", "kernel_refuses_gates"]

_MARLIN_GROUPS = frozenset({None, -1, 32, 64, 128})
_MARLIN = frozenset({Form.CT_INT, Form.AWQ, Form.GPTQ})
_GLOBAL_SCALES = ("weight_scale_2", "weight_global_scale")


def check_tensors(
    name: str,
    parts: Mapping[str, Stored],
    scheme: Scheme,
    rows: int | None,
    columns: int | None,
    bundles: Bundles,
    *,
    draft: bool = False,
    whole: bool = True,
    count: int = 1,
) -> None:
    """Judge the stored tensors of a matrix against its declared scheme.

    Args:
        name: Canonical name, for the report.
        parts: Storage suffix → tensor.
        scheme: What the engine builds.
        rows: N of the config; None = not told.
        columns: K.
        bundles: Where trouble is gathered.
        draft: The matrix belongs to the MTP head.
        whole: Absent companions count (every file could be read).
        count: Matrices that this one stands for (experts alike).
    """
    form = FORMS.get(scheme.form)
    if form is None:
        return
    row = form[0]
    main = parts.get(row.main)
    if main is None:
        return
    if main.entry.dtype not in row.dtypes:
        bundles.add(
            "Q08", (row.main, main.entry.dtype), modules=[name], keys=[main.key],
            files=[main.file], draft=draft, count=count,
            why=t("{suffix} is {dtype}, {wanted} is expected", suffix=row.main,
                  dtype=main.entry.dtype, wanted="/".join(sorted(row.dtypes))),
        )  # fmt: skip
        return
    sized = rows is not None and columns is not None
    if sized:
        wanted = row.shape(rows or 0, columns or 0, scheme)
        if main.entry.shape != wanted:
            bundles.add(
                "Q09", (row.main, main.entry.shape, wanted), modules=[name], keys=[main.key],
                files=[main.file], draft=draft, count=count,
                why=t("{suffix} is {have}; {words} of [{n}, {k}] is {wanted}", suffix=row.main,
                      have=str(list(main.entry.shape)), words=scheme.words, n=rows, k=columns,
                      wanted=str(list(wanted))),
            )  # fmt: skip
            return
    for companion in row.companions:
        stored = parts.get(companion.suffix)
        if stored is None:
            if whole and companion.needed(scheme):
                bundles.add(
                    "Q06", companion.suffix, modules=[name], keys=[main.key], files=[main.file],
                    severity=Severity.WARN if companion.soft else None, draft=draft, count=count,
                    why=t("no {suffix} beside {main}", suffix=companion.suffix, main=row.main),
                )  # fmt: skip
            continue
        if stored.entry.dtype not in companion.dtypes:
            bundles.add(
                "Q08", (companion.suffix, stored.entry.dtype), modules=[name], keys=[stored.key],
                files=[stored.file], draft=draft, count=count,
                why=t("{suffix} is {dtype}, {wanted} is expected", suffix=companion.suffix,
                      dtype=stored.entry.dtype, wanted="/".join(sorted(companion.dtypes))),
            )  # fmt: skip
            continue
        if sized:
            _check_shape(name, stored, companion, scheme, rows or 0, columns or 0, bundles,
                         draft=draft, count=count)  # fmt: skip


def _check_shape(
    name: str,
    stored: Stored,
    companion: Companion,
    scheme: Scheme,
    rows: int,
    columns: int,
    bundles: Bundles,
    *,
    draft: bool,
    count: int,
) -> None:
    legal = companion.shapes(rows, columns, scheme)
    shape = stored.entry.shape
    if not legal or shape in legal:
        return
    if companion.grouped:
        if name in bundles.modules_of("Q10"):
            return
        have = _words_of(scheme, shape, rows, columns)
        bundles.add(
            "Q10", (str(have), scheme.words), modules=[name], keys=[stored.key],
            files=[stored.file], draft=draft, count=count,
            why=t("{suffix} is {shape}: made for {have}, declared is {declared}",
                  suffix=companion.suffix, shape=str(list(shape)), have=have,
                  declared=_declared_words(scheme)),
        )  # fmt: skip
        return
    bundles.add(
        "Q09", (companion.suffix, shape), modules=[name], keys=[stored.key], files=[stored.file],
        draft=draft, count=count,
        why=t("{suffix} is {shape}, {wanted} is expected", suffix=companion.suffix,
              shape=str(list(shape)), wanted=str(list(legal[0]))),
    )  # fmt: skip


def _declared_words(scheme: Scheme) -> Text:
    if scheme.block is not None:
        return t("blocks of {shape}", shape="x".join(map(str, scheme.block)))
    if scheme.strategy is Strategy.GROUP:
        return t("group size {size}", size=scheme.group) if scheme.group else t("one scale a row")
    whole = scheme.strategy.value == "tensor"
    return t("one scale a matrix") if whole else t("one scale a row")


def _group(size: int) -> Text:
    return t("group size {size}", size=size)


def _words_of(scheme: Scheme, shape: tuple[int, ...], rows: int, columns: int) -> Text:
    """Say what group or block size a scale of this shape was made for."""
    if math.prod(shape) == 1:
        return t("one scale a matrix")
    if len(shape) != 2 or 0 in shape:
        return t("another matrix")
    down, across = shape
    transposed = scheme.form in {Form.AWQ, Form.GPTQ}
    if transposed:
        down, across = across, down
        if across and columns % across == 0:
            return _group(columns // across)
        return t("another matrix")
    if down == rows:
        if across == 1:
            return t("one scale a row")
        return _group(columns // across) if columns % across == 0 else t("another matrix")
    if rows % down == 0 and columns % across == 0:
        return t("blocks of {shape}", shape=f"{rows // down}x{columns // across}")
    return t("another matrix")


def kernel_refuses_gates(module: Module, scheme: Scheme) -> bool:
    """Whether these are the delta net's gates in a form whose kernels need more rows."""
    if not module.engine.endswith(".in_proj_ba"):
        return False
    return (
        scheme.form in _MARLIN
        or scheme.form is Form.INT8
        or (scheme.strategy is Strategy.BLOCK and scheme.block is not None)
    )


def check_kernels(
    module: Module,
    scheme: Scheme,
    shapes: Sequence[tuple[int | None, int | None]],
    bundles: Bundles,
) -> None:
    """Judge whole matrices (TP 1) against what the kernels can take."""
    rows = [n for n, _ in shapes]
    columns = shapes[0][1] if shapes else None
    if columns is None or any(n is None for n in rows):
        return
    total = sum(n for n in rows if n is not None)
    why = None
    severity = None
    if scheme.form in _MARLIN and scheme.bits in {4, 8}:
        if total % 64 or columns % 128:
            why = t(
                "{rows} x {columns}: Marlin needs rows in steps of 64 and columns in steps of 128",
                rows=total,
                columns=columns,
            )
        elif scheme.group not in _MARLIN_GROUPS and scheme.group != columns:
            why = t("group size {group}: Marlin takes 32, 64, 128 or whole rows",
                    group=scheme.group)  # fmt: skip
        if scheme.form is Form.AWQ:
            severity = Severity.WARN
    elif scheme.form in {Form.MO_NVFP4, Form.CT_NVFP4} and columns % 16:
        why = t("{columns} columns: NVFP4 needs steps of 16", columns=columns)
    elif scheme.block is not None and module.fused:
        size = scheme.block[0]
        if any(n is not None and n % size for n in rows):
            why = t(
                "rows {rows}: parts of a fused matrix must be multiples of {block}",
                rows=", ".join(map(str, rows)),
                block=size,
            )
    if why is not None:
        bundles.add(
            "Q14", (str(why), severity), modules=module.stored, why=why, severity=severity,
            draft=module.mtp,
            consequence=None if severity is None else t(
                "AWQ falls back to a slow kernel that takes FP16 activations only."
            ),
        )  # fmt: skip


def check_scalars(
    module: Module,
    parts: Sequence[Mapping[str, Stored]],
    shapes: Sequence[tuple[int | None, int | None]],
    values: ValueReader,
    bundles: Bundles,
) -> None:
    """Read what the headers do not hold: stored shapes, and global scales of siblings."""
    for name, stored_parts, (rows, columns) in zip(module.stored, parts, shapes, strict=True):
        stored = stored_parts.get("weight_shape")
        have = None if stored is None else values.numbers(stored)
        if stored is None or have is None or rows is None or columns is None:
            continue
        if name in bundles.modules_of("Q09"):
            continue
        if tuple(have) != (rows, columns):
            bundles.add(
                "Q09", ("weight_shape", have), modules=[name], keys=[stored.key],
                files=[stored.file], draft=module.mtp,
                why=t("weight_shape holds {have}, the matrix is {wanted}",
                      have=str([int(x) for x in have]), wanted=str([rows, columns])),
            )  # fmt: skip
    if not module.fused:
        return
    for suffix in _GLOBAL_SCALES:
        tensors = [p[suffix] for p in parts if suffix in p]
        if len(tensors) < 2:
            continue
        numbers = [values.numbers(stored) for stored in tensors]
        scales = [n[0] for n in numbers if n]
        if len(scales) < 2 or not all(math.isfinite(s) and s > 0 for s in scales):
            continue
        ratio = max(scales) / min(scales)
        if ratio > 1 + 1e-6:
            bundles.add(
                "Q11", suffix, modules=module.stored, keys=[s.key for s in tensors],
                files=[s.file for s in tensors], count=1, rank=ratio,
                why=t("{suffix} differs by up to a factor of {ratio}", suffix=suffix,
                      ratio=f"{ratio:.4g}"),
            )  # fmt: skip
