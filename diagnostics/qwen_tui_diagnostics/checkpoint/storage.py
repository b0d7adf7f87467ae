"""Storage forms of a quantized matrix: which tensors, of which dtype and shape.

One table, used both ways: to tell a stored form by its tensors, and to judge the tensors of a
declared one. N = rows (outputs), K = columns (inputs).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qwen_tui_diagnostics.checkpoint.stock import Stored

__all__ = [
    "COMPANIONS",
    "DENSE",
    "FORMS",
    "MAIN_SUFFIXES",
    "Companion",
    "Form",
    "FormRow",
    "Scheme",
    "Strategy",
    "form_of",
]


class Form(StrEnum):
    """How a matrix is stored."""

    DENSE = "bf16"
    CT_INT = "pack-quantized"
    CT_NVFP4 = "nvfp4-pack-quantized"
    CT_MXFP4 = "mxfp4-pack-quantized"
    MO_NVFP4 = "NVFP4"
    FP8 = "FP8"
    FP8_BLOCK = "FP8 block"
    MXFP8 = "MXFP8"
    INT8 = "int8"
    AWQ = "AWQ"
    GPTQ = "GPTQ"
    BNB = "bitsandbytes"
    MLX = "MLX"
    EXL = "EXL"
    UNKNOWN = "unknown"


class Strategy(StrEnum):
    """What shares one scale."""

    TENSOR = "tensor"
    CHANNEL = "channel"
    GROUP = "group"
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Scheme:
    """What the engine builds for a matrix."""

    form: Form
    bits: int = 16
    group: int | None = None
    """Columns per scale; None or -1 = the whole row."""
    strategy: Strategy = Strategy.GROUP
    block: tuple[int, int] | None = None
    symmetric: bool = True
    input_scale: bool = False
    """A static activation scale belongs to it."""
    order: bool = True
    """GPTQ's row order (``g_idx``) is part of the export."""
    pre_scale: bool = False
    """AWQ's per-column scale before the matrix (NVFP4_AWQ)."""
    words: str = ""
    """For people: ``int4 g128``."""

    @property
    def dense(self) -> bool:
        """Not quantized at all."""
        return self.form is Form.DENSE


DENSE = Scheme(Form.DENSE, words="bf16")

Shape = tuple[int, ...]
Shapes = Callable[[int, int, Scheme], tuple[Shape, ...]]


@dataclass(frozen=True, slots=True)
class Companion:
    """A tensor beside the weights."""

    suffix: str
    dtypes: frozenset[str]
    shapes: Shapes
    """Legal shapes; none given = any."""
    needed: Callable[[Scheme], bool] = lambda _: True
    soft: bool = False
    """Its absence is a warning."""
    grouped: bool = False
    """A wrong shape means another group or block size."""


@dataclass(frozen=True, slots=True)
class FormRow:
    """One storage form."""

    form: Form
    main: str
    dtypes: frozenset[str]
    shape: Callable[[int, int, Scheme], Shape]
    companions: tuple[Companion, ...] = ()


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _groups(k: int, s: Scheme) -> int:
    return 1 if s.group is None or s.group <= 0 else _ceil(k, s.group)


def _scalar(n: int, k: int, s: Scheme) -> tuple[Shape, ...]:
    del n, k, s
    return ((), (1,))


def _any(n: int, k: int, s: Scheme) -> tuple[Shape, ...]:
    del n, k, s
    return ()


def _row_groups(n: int, k: int, s: Scheme) -> tuple[Shape, ...]:
    return ((n, _groups(k, s)), (n,)) if _groups(k, s) == 1 else ((n, _groups(k, s)),)


def _fp8_scale(n: int, k: int, s: Scheme) -> tuple[Shape, ...]:
    if s.strategy is Strategy.BLOCK and s.block is not None:
        return ((_ceil(n, s.block[0]), _ceil(k, s.block[1])),)
    if s.strategy is Strategy.CHANNEL:
        return ((n, 1), (n,))
    if s.strategy is Strategy.GROUP and s.group:
        return _row_groups(n, k, s)
    return ((), (1,), (1, 1))


def _static(s: Scheme) -> bool:
    return s.input_scale


_HALF = frozenset({"BF16", "F16"})
_FLOATS = frozenset({"BF16", "F16", "F32"})
_F32 = frozenset({"F32"})
_INTS = frozenset({"I32", "I64"})
_E4M3 = frozenset({"F8_E4M3"})
_BYTES = frozenset({"U8", "F8_E8M0"})
_INPUT = Companion("input_scale", _FLOATS, _scalar, _static)

FORMS: Mapping[Form, tuple[FormRow, ...]] = {
    Form.DENSE: (FormRow(Form.DENSE, "weight", _FLOATS, lambda n, k, _: (n, k)),),
    Form.CT_INT: (
        FormRow(
            Form.CT_INT, "weight_packed", frozenset({"I32"}),
            lambda n, k, s: (n, _ceil(k * s.bits, 32)),
            (
                Companion("weight_scale", _FLOATS, _row_groups, grouped=True),
                Companion("weight_shape", _INTS, lambda n, k, s: ((2,),), lambda _: False),
                Companion(
                    "weight_zero_point", frozenset({"I32"}),
                    lambda n, k, s: ((_ceil(n * s.bits, 32), _groups(k, s)),),
                    lambda s: not s.symmetric, grouped=True,
                ),
                Companion("weight_g_idx", _INTS, lambda n, k, s: ((k,),), lambda _: False),
            ),
        ),
    ),
    Form.CT_NVFP4: (
        FormRow(
            Form.CT_NVFP4, "weight_packed", frozenset({"U8"}), lambda n, k, _: (n, k // 2),
            (
                Companion("weight_scale", _E4M3, _row_groups, grouped=True),
                Companion("weight_global_scale", _F32, _scalar),
                Companion("input_global_scale", _F32, _scalar, _static),
            ),
        ),
    ),
    Form.CT_MXFP4: (
        FormRow(
            Form.CT_MXFP4, "weight_packed", frozenset({"U8"}), lambda n, k, _: (n, k // 2),
            (Companion("weight_scale", _BYTES, _row_groups, grouped=True),),
        ),
    ),
    Form.MO_NVFP4: (
        FormRow(
            Form.MO_NVFP4, "weight", frozenset({"U8"}), lambda n, k, _: (n, k // 2),
            (
                Companion("weight_scale", _E4M3, _row_groups, grouped=True),
                Companion("weight_scale_2", _F32, _scalar),
                Companion("input_scale", _F32, _scalar, _static),
                Companion("pre_quant_scale", _FLOATS, lambda n, k, s: ((k,),),
                          lambda s: s.pre_scale),
            ),
        ),
    ),
    Form.FP8: (
        FormRow(
            Form.FP8, "weight", _E4M3, lambda n, k, _: (n, k),
            (Companion("weight_scale", _FLOATS, _fp8_scale, grouped=True), _INPUT),
        ),
    ),
    Form.FP8_BLOCK: (
        FormRow(
            Form.FP8_BLOCK, "weight", _E4M3, lambda n, k, _: (n, k),
            (Companion("weight_scale_inv", _FLOATS | {"F8_E8M0"}, _fp8_scale, grouped=True),),
        ),
    ),
    Form.MXFP8: (
        FormRow(
            Form.MXFP8, "weight", _E4M3, lambda n, k, _: (n, k),
            (Companion("weight_scale", _BYTES, _row_groups, grouped=True),),
        ),
    ),
    Form.INT8: (
        FormRow(
            Form.INT8, "weight", frozenset({"I8"}), lambda n, k, _: (n, k),
            (Companion("weight_scale", _FLOATS, _fp8_scale, grouped=True), _INPUT),
        ),
    ),
    Form.AWQ: (
        FormRow(
            Form.AWQ, "qweight", frozenset({"I32"}), lambda n, k, s: (k, _ceil(n * s.bits, 32)),
            (
                Companion("qzeros", frozenset({"I32"}),
                          lambda n, k, s: ((_groups(k, s), _ceil(n * s.bits, 32)),), grouped=True),
                Companion("scales", _HALF, lambda n, k, s: ((_groups(k, s), n),), grouped=True),
            ),
        ),
    ),
    Form.GPTQ: (
        FormRow(
            Form.GPTQ, "qweight", frozenset({"I32"}), lambda n, k, s: (_ceil(k * s.bits, 32), n),
            (
                Companion("qzeros", frozenset({"I32"}),
                          lambda n, k, s: ((_groups(k, s), _ceil(n * s.bits, 32)),), grouped=True),
                Companion("scales", _HALF, lambda n, k, s: ((_groups(k, s), n),), grouped=True),
                Companion("g_idx", _INTS, lambda n, k, s: ((k,),), lambda s: s.order, soft=True),
            ),
        ),
    ),
}  # fmt: skip
"""By form; a form that is not in the table is recognised but not judged."""

MAIN_SUFFIXES = ("weight_packed", "qweight", "q_weight", "trellis", "weight.absmax")
"""Main tensors of quantized forms that are not called ``weight``."""

COMPANIONS = frozenset({
    "weight_scale", "weight_scale_2", "weight_scale_inv", "weight_global_scale", "weight_shape",
    "weight_zero_point", "weight_g_idx", "input_scale", "input_global_scale", "input_zero_point",
    "pre_quant_scale", "qzeros", "scales", "g_idx",
})  # fmt: skip
"""What lies beside weights and means nothing alone."""


def form_of(parts: Mapping[str, Stored], rows: int | None, columns: int | None) -> Form:
    """Tell the stored form by the tensors; their sizes decide where names do not."""
    if "weight_packed" in parts:
        if parts["weight_packed"].entry.dtype == "I32":
            return Form.CT_INT
        scale = parts.get("weight_scale")
        if scale is not None and scale.entry.dtype in _BYTES and "weight_global_scale" not in parts:
            return Form.CT_MXFP4
        return Form.CT_NVFP4
    if "qweight" in parts:
        return _awq_or_gptq(parts, rows, columns)
    if "trellis" in parts or "q_weight" in parts:
        return Form.EXL
    if "weight.absmax" in parts or "weight.quant_map" in parts:
        return Form.BNB
    weight = parts.get("weight")
    if weight is None:
        return Form.UNKNOWN
    dtype = weight.entry.dtype
    if dtype in _FLOATS or dtype == "F64":
        return Form.DENSE
    if dtype == "U32":
        return Form.MLX
    if dtype == "I8":
        return Form.INT8
    if dtype.startswith("F8_"):
        if "weight_scale_inv" in parts:
            return Form.FP8_BLOCK
        scale = parts.get("weight_scale")
        if scale is not None and scale.entry.dtype in _BYTES:
            return Form.MXFP8
        return Form.FP8
    if dtype == "U8":
        return Form.MO_NVFP4
    return Form.UNKNOWN


def _awq_or_gptq(parts: Mapping[str, Stored], rows: int | None, columns: int | None) -> Form:
    """AWQ packs columns of the transposed matrix, GPTQ rows: the orientation tells them apart."""
    if "g_idx" in parts:
        return Form.GPTQ
    shape = parts["qweight"].entry.shape
    scales = parts.get("scales")
    if scales is not None and len(scales.entry.shape) == 2 and len(shape) == 2:
        # Scales are [K/g, N] in both: GPTQ's qweight has as many columns, AWQ's fewer.
        return Form.GPTQ if scales.entry.shape[1] == shape[1] else Form.AWQ
    if len(shape) == 2 and rows is not None and columns is not None:
        return Form.GPTQ if shape[1] == rows and shape[0] != columns else Form.AWQ
    return Form.AWQ
