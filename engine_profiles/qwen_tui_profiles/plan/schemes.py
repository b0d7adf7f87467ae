"""How many bytes a linear module takes under the quantization that ``config.json`` declares.

Only sizes are judged here; whether the declaration is true of the files is the verifier's business.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from qwen_tui_profiles.plan.fields import optional_whole, section, words
from qwen_tui_profiles.plan.fusing import FUSED

__all__ = ["DENSE_BYTES", "NVFP4", "Quantization", "Scheme", "read_quantization"]

DENSE_BYTES = 2.0
"""Bytes of one unquantized parameter (bfloat16 or float16)."""

_PREFIXES = ("", "model.", "model.language_model.", "language_model.model.", "language_model.")


@dataclass(frozen=True, slots=True)
class Scheme:
    """Storage of one quantized matrix."""

    name: str
    weight_bits: float
    scale_bits: float = 0.0
    """Bits of one scale; scales are kept per group of columns, per row, or not at all."""
    group: int | None = None
    """Columns that share a scale; None = one scale a row."""
    block: tuple[int, int] | None = None
    """Rows and columns that share a scale (FP8 blocks); wins over ``group``."""

    def bytes_of(self, rows: int, columns: int) -> float:
        """Bytes of a ``rows`` × ``columns`` matrix with its scales."""
        return sum(self.parts_of(rows, columns))

    def parts_of(self, rows: int, columns: int) -> tuple[float, float]:
        """Bytes of the weights and of the scales, which are tensors of their own."""
        if self.block is not None:
            scales = -(-rows // self.block[0]) * -(-columns // self.block[1])
        elif self.group is not None:
            scales = rows * -(-columns // self.group)
        else:
            scales = rows
        return rows * columns * self.weight_bits / 8, scales * self.scale_bits / 8


@dataclass(frozen=True, slots=True)
class Quantization:
    """The declared scheme of every linear module."""

    method: str
    known: bool
    """False for a method whose sizes the planner does not know."""
    scheme_of: Callable[[str], Scheme | None]
    """Scheme of a module by name; None = left in the model's own dtype."""


NVFP4 = Scheme("NVFP4", 4, 8, 16)
_FP8_TENSOR = Scheme("FP8", 8)
_FP8_BLOCK = Scheme("FP8 128x128", 8, 32, None, (128, 128))


def read_quantization(config: Mapping[str, object]) -> Quantization:
    """Read a ``quantization_config`` (an empty mapping = unquantized)."""
    if not config:
        return Quantization("none", True, lambda _: None)
    method = str(config.get("quant_method", "modelopt" if "quant_algo" in config else "unknown"))
    if method == "compressed-tensors":
        return _compressed_tensors(config)
    if method.startswith("modelopt"):
        return _modelopt(config)
    if method == "fp8":
        block = config.get("weight_block_size")
        scheme = _FP8_BLOCK if isinstance(block, list) else _FP8_TENSOR
        skip = _matcher(words(config, "modules_to_not_convert") + words(config, "ignored_layers"))
        return Quantization(method, True, _linears(scheme, skip))
    if method in {"awq", "gptq", "awq_marlin", "gptq_marlin", "auto-round"}:
        bits = optional_whole(config, "bits", "w_bit") or 4
        group = optional_whole(config, "group_size", "q_group_size") or 128
        # One half-precision scale and, for AWQ, packed zero points per group.
        zeros = bits if config.get("zero_point") is True else 0
        scheme = Scheme(f"{method} {bits}-bit", bits, 16 + zeros, group)
        skip = _matcher(words(config, "modules_to_not_convert"))
        head = config.get("lm_head") is True
        return Quantization(method, True, _linears(scheme, skip, head=head))
    return Quantization(method, False, lambda _: None)


def _linears(
    scheme: Scheme, skip: Callable[[str], bool], *, head: bool = False
) -> Callable[[str], Scheme | None]:
    def scheme_of(name: str) -> Scheme | None:
        if name == "lm_head" and not head:
            return None
        if name.startswith("mtp.") or skip(name) or _never(name):
            return None
        return scheme

    return scheme_of


def _never(name: str) -> bool:
    # The gates' projections have too few rows for any packed kernel; releases keep them dense.
    return name.endswith(("in_proj_a", "in_proj_b"))


def _compressed_tensors(config: Mapping[str, object]) -> Quantization:
    ignored = _matcher(words(config, "ignore"))
    groups: list[tuple[Callable[[str], bool], bool, Scheme]] = []
    for entry in section(config, "config_groups").values():
        if not isinstance(entry, Mapping):
            continue
        targets = words(entry, "targets")
        scheme = _weights_scheme(section(entry, "weights"))
        if scheme is not None:
            groups.append((_matcher(targets), "Linear" in targets, scheme))

    def scheme_of(name: str) -> Scheme | None:
        if ignored(name):
            return None
        for matches, every, scheme in groups:
            if matches(name) or (every and name != "lm_head"):
                return scheme
        return None

    return Quantization("compressed-tensors", bool(groups), scheme_of)


def _weights_scheme(weights: Mapping[str, object]) -> Scheme | None:
    bits = optional_whole(weights, "num_bits")
    if bits is None:
        return None
    group = optional_whole(weights, "group_size") if weights.get("group_size") != -1 else None
    if weights.get("type") == "float" and bits == 4:
        return Scheme("NVFP4", 4, 8, group or 16)
    block = weights.get("block_structure")
    if isinstance(block, list) and len(block) == 2:
        return Scheme(f"{bits}-bit block", bits, 32, None, (int(block[0]), int(block[1])))
    return Scheme(f"{bits}-bit", bits, 16 if bits < 8 else 32, group)


def _modelopt(config: Mapping[str, object]) -> Quantization:
    nested = section(config, "quantization") or config
    algorithm = str(nested.get("quant_algo", config.get("quant_algo", ""))).upper()
    excluded = _matcher(words(nested, "exclude_modules") + words(nested, "ignore"))
    if algorithm == "MIXED_PRECISION":
        layers = {
            _bare(name): _modelopt_scheme(str(entry.get("quant_algo", "")).upper())
            for name, entry in section(nested, "quantized_layers").items()
            if isinstance(entry, Mapping)
        }
        return Quantization("modelopt_mixed", bool(layers), layers.get)
    scheme = _modelopt_scheme(algorithm)

    def scheme_of(name: str) -> Scheme | None:
        # SGLang builds the MTP head unquantized for NVFP4 whatever the list says.
        if name.startswith("mtp.") or excluded(name) or _never(name):
            return None
        return scheme

    return Quantization(f"modelopt {algorithm or '?'}", scheme is not None, scheme_of)


def _modelopt_scheme(algorithm: str) -> Scheme | None:
    if "NVFP4" in algorithm:
        return NVFP4
    if algorithm.startswith("FP8_PB"):
        return _FP8_BLOCK
    if algorithm.startswith("FP8"):
        return _FP8_TENSOR
    if algorithm.startswith("MXFP8"):
        return Scheme("MXFP8", 8, 8, 32)
    if algorithm.startswith("W4A8") or algorithm.startswith("INT4"):
        return Scheme("4-bit", 4, 16, 128)
    return None


def _bare(name: str) -> str:
    for prefix in sorted(_PREFIXES, key=len, reverse=True):
        if prefix and name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def _matcher(entries: tuple[str, ...]) -> Callable[[str], bool]:
    """Match module names against a list of names, prefixes, globs and ``re:`` expressions."""
    exact = {_bare(entry) for entry in entries if not entry.startswith("re:") and "*" not in entry}
    globs = tuple(entry for entry in entries if "*" in entry and not entry.startswith("re:"))
    expressions: list[re.Pattern[str]] = []
    for entry in entries:
        if entry.startswith("re:"):
            try:
                expressions.append(re.compile(entry[3:]))
            except re.error:
                # A broken expression matches nothing here; the verifier reports it.
                continue

    def matches(name: str) -> bool:
        parts = name.split(".")
        candidates = {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
        fused = FUSED.get(parts[-1])
        if fused is not None:
            candidates.add(".".join((*parts[:-1], fused)))
        candidates.add(parts[-1])
        if candidates & exact:
            return True
        spelt = [prefix + name for prefix in _PREFIXES]
        if fused is not None:
            spelt += [prefix + ".".join((*parts[:-1], fused)) for prefix in _PREFIXES]
        return any(fnmatchcase(text, glob) for text in spelt for glob in globs) or any(
            expression.match(text) for text in spelt for expression in expressions
        )

    return matches
