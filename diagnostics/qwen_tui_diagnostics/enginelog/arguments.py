"""Arguments as logs print them (reprs of objects and dicts) and as people type them (argv).

The reprs are not always Python literals (nested objects, enums, functions) and may be cut, so they
are split at top-level commas instead of being evaluated. Secrets never leave this module.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.enginelog.grammar import number
from qwen_tui_profiles.foreign import REDACTED, is_secret_name, redact

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from qwen_tui_profiles.findings import Value

__all__ = ["FIELD_TYPES", "is_open", "parse_argv", "parse_repr"]

_TOKEN = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[\[({]|[\])}]|,|[^'"\[\](){},]+|['"]""", re.DOTALL
)
_KEYWORD = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*=(?!=)\s*")
_MEMBER = re.compile(r"""\s*(?P<quote>['"])(?P<name>[\w.-]+)(?P=quote)\s*:\s*""")
_MAX_FIELDS = 2000
_NEARLY_NONE = re.compile(r".one|N.ne|No.e|Non.")
_QUOTED = re.compile(r"""['"]([^'"]{4,})['"]""")


_ANY = (str, int, float, bool)
_NUMBER = (int, float)
FIELD_TYPES: Mapping[str, type | tuple[type, ...]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "context_length", "max_running_requests", "max_total_tokens", "tp_size", "dp_size",
                "pp_size", "page_size", "port", "chunked_prefill_size", "speculative_num_steps",
                "speculative_num_draft_tokens", "max_mamba_cache_size", "max_num_seqs",
                "tensor_parallel_size", "max_num_batched_tokens", "max_seq_len",
            ),
            int,
        ),
        "mem_fraction_static": _NUMBER,
        "gpu_memory_utilization": _NUMBER,
        "model_path": str,
        "model": str,
        "speculative_algorithm": str,
        "speculative_draft_model_path": str,
    }
)  # fmt: skip
"""Types of the fields that become facts; a value of another type is damage and reads as unknown."""


def parse_repr(
    text: str, secrets: set[str] | None = None, *, bare_words: bool = False
) -> dict[str, Value]:
    """Parse ``Name(a=1, b='x', …)`` or ``{'a': 1, …}``; what cannot be read is left out.

    Nested values stay text. With ``bare_words`` an unquoted word is text too (vLLM's configuration
    line); a repr has none, so there one means damage. Values of secret names read as
    :data:`REDACTED`; ``secrets`` collects what they were. A field that the input's end cuts is
    left out.
    """
    start = re.match(r"\s*(?:[\w.]+\(|\{)", text)
    if start is None:
        return {}
    found: dict[str, Value] = {}
    for piece in _pieces(text, start.end()):
        match = _KEYWORD.match(piece) or _MEMBER.match(piece)
        if match is None or len(found) >= _MAX_FIELDS:
            continue
        name = match["name"]
        raw = piece[match.end() :].strip()
        value = _literal(raw, bare_words=bare_words)
        if value is not None and not isinstance(value, FIELD_TYPES.get(name, _ANY)):
            value = None  # damage: the field is never of that type
        if _secret(name) and value is not None:
            if secrets is not None:
                secrets.update(_QUOTED.findall(raw))
            value = REDACTED
        found[name] = value
    return found


def is_open(text: str) -> bool:
    """Tell whether the repr's closing bracket is missing: cut, or wrapped onto further lines."""
    start = re.match(r"\s*(?:[\w.]+\(|\{)", text)
    if start is None:
        return False
    depth = 0
    for match in _TOKEN.finditer(text, start.end()):
        depth += (match[0] in "[({") - (match[0] in "])}")
        if depth < 0:
            return False
    return True


def _secret(name: str) -> bool:
    return is_secret_name(name) or is_secret_name(name.removesuffix("s"))


def _pieces(text: str, start: int) -> Iterator[str]:
    """Yield what stands between the top-level commas, up to the closing bracket."""
    depth = 0
    begin = start
    for match in _TOKEN.finditer(text, start):
        token = match[0]
        if token in "[({":
            depth += 1
        elif token in "])}":
            depth -= 1
            if depth < 0:
                yield text[begin : match.start()]
                return
        elif token == "," and depth == 0:
            yield text[begin : match.start()]
            begin = match.end()
    # No closing bracket: the rest is cut, and so may be its last value.


def _literal(text: str, *, bare_words: bool) -> Value:
    if text in {"None", "null", ""}:
        return None
    if text in {"True", "true"}:
        return True
    if text in {"False", "false"}:
        return False
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return redact(text[1:-1].replace("\\'", "'").replace('\\"', '"').replace("\\\\", "\\"))
    enum = re.fullmatch(r"<[\w.]+: '?([^'>]*)'?>", text)
    if enum is not None:
        return redact(enum[1])
    exponent = re.fullmatch(r"-?[\d.]+e-?\d+", text)
    if exponent is not None:
        return float(text)
    value = number(text) if len(text) < 40 else text
    if not isinstance(value, str):
        return value
    nested = value.endswith((")", "]", "}", ">"))
    if nested or (bare_words and _NEARLY_NONE.fullmatch(value) is None):
        return redact(value)
    return None


# Spellings that mean one field: short forms, aliases and names of other versions.
_CANONICAL: Mapping[str, str] = {
    "model": "model_path",
    "tp": "tp_size",
    "tensor_parallel_size": "tp_size",
    "dp": "dp_size",
    "data_parallel_size": "dp_size",
    "pp": "pp_size",
    "pipeline_parallel_size": "pp_size",
    "ep": "ep_size",
    "expert_parallel_size": "ep_size",
    "mem_frac": "mem_fraction_static",
    "context_len": "context_length",
    "mamba_scheduler_strategy": "mamba_radix_cache_strategy",
    "cuda_graph_max_bs": "cuda_graph_max_bs_decode",
    "speculative_draft_model": "speculative_draft_model_path",
    "speculative_algo": "speculative_algorithm",
}
_VLLM_CANONICAL: Mapping[str, str] = {
    "tp": "tensor_parallel_size",
    "dp": "data_parallel_size",
    "pp": "pipeline_parallel_size",
    "q": "quantization",
    "kv_cache_memory": "kv_cache_memory_bytes",
    "spec_tokens": "num_speculative_tokens",
    "model_tag": "model",
}
_SUFFIX = re.compile(r"(\d+(?:\.\d+)?)([kKmMgG])")
_SCALE: Mapping[str, int] = {
    "k": 1_000, "m": 1_000_000, "g": 1_000_000_000, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30,
}  # fmt: skip


def canonical(name: str, engine: str | None) -> str:
    """Return the engine's field for a flag, dest or alias."""
    bare = name.lstrip("-").replace("-", "_")
    table = _VLLM_CANONICAL if engine == "vllm" else _CANONICAL
    return table.get(bare, bare)


def parse_argv(argv: Sequence[str], engine: str | None) -> dict[str, Value]:
    """Return what an engine's command line asks for, by field name.

    ``--flag`` alone is ``True``; ``--no-flag`` is ``False`` for ``flag``. Items before the first
    flag (interpreter, module, ``serve``) are skipped, a positional model of ``vllm serve`` is read.
    """
    found: dict[str, Value] = {}
    items = list(argv)
    index = 0
    while index < len(items):
        item = items[index]
        index += 1
        if item == "serve" and index < len(items) and not items[index].startswith("-"):
            found[canonical("model", engine)] = items[index]
            continue
        if not item.startswith("--"):
            if item == "-tp" and index < len(items):
                found[canonical("tp", engine)] = number(items[index])
            continue
        name, equals, text = item.partition("=")
        value: Value
        if equals:
            value = _typed(text)
        elif index < len(items) and not _is_flag(items[index]):
            value = _typed(items[index])
            index += 1
        else:
            value = True
        field = canonical(name, engine)
        if value is True and field.startswith("no_"):
            field, value = field.removeprefix("no_"), False
        found[field] = REDACTED if _secret(name) else value
    return found


def _is_flag(item: str) -> bool:
    return item.startswith("-") and not re.fullmatch(r"-\d+(?:\.\d+)?", item)


def _typed(text: str) -> Value:
    suffix = _SUFFIX.fullmatch(text)
    if suffix is not None:
        return int(float(suffix[1]) * _SCALE[suffix[2]])
    if text in {"True", "true"}:
        return True
    if text in {"False", "false"}:
        return False
    value = number(text)
    return redact(value) if isinstance(value, str) else value
