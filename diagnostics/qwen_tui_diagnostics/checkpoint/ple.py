"""The n-gram table of Flash-Next: shards, widths and rows (rule M12)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from qwen_tui_diagnostics.checkpoint.architecture import Dims
    from qwen_tui_diagnostics.checkpoint.collect import Findings
    from qwen_tui_diagnostics.checkpoint.stock import Stock, Stored

__all__ = ["check_table", "table_rows"]

_SHARD = re.compile(r"layers\.(\d{1,4})\.ple\.ple_embedding\.ngram_embedding\.shard_(\d{1,6})")
_UNSPLIT = re.compile(r"layers\.(\d{1,4})\.ple\.ple_embedding\.ngram_embedding")
_LARGEST_BASE = 1 << 31
_MOST_HEADS = 256


def check_table(stock: Stock, dims: Dims, found: Findings, *, whole: bool) -> None:
    """Judge the table of every PLE layer."""
    text = dims.text
    layers = text.get("ple_layer_ids")
    if not isinstance(layers, list):
        return
    # The ids count from one.
    wanted = [i - 1 for i in layers if isinstance(i, int) and not isinstance(i, bool) and i > 0]
    shards: dict[int, dict[int, Stored]] = {}
    for module, parts in stock.modules.items():
        if "ngram_embedding" not in module or "weight" not in parts:
            continue
        match = _SHARD.fullmatch(module)
        if match is not None:
            shards.setdefault(int(match[1]), {})[int(match[2])] = parts["weight"]
        elif _UNSPLIT.fullmatch(module):
            key = parts["weight"].key
            found.add(
                "M12",
                evidence=key,
                detail=t("The table is one tensor; the loader expects numbered shards."),
                tensors=[key],
            )
            return
    for order, layer in enumerate(sorted(set(wanted))):
        _check_layer(layer, order, shards.get(layer, {}), text, found, stock.claimed, whole=whole)


def _check_layer(
    layer: int,
    order: int,
    shards: Mapping[int, Stored],
    text: Mapping[str, Any],
    found: Findings,
    claimed: set[str],
    *,
    whole: bool,
) -> None:
    parts = _number(text, "split_ngram_parts", 1 << 16)
    if parts is None:
        return
    table = f"layers.{layer}.ple.ple_embedding.ngram_embedding."
    whole = whole and not any(module.startswith(table) for module in claimed)
    absent = [number for number in range(parts) if number not in shards]
    beyond = [number for number in shards if number >= parts]
    if (absent and whole) or beyond:
        numbers = absent if absent and whole else beyond
        found.add(
            "M12",
            evidence=t(
                "layers.{layer}: {count} shards, split_ngram_parts {parts}",
                layer=layer,
                count=len(shards),
                parts=parts,
            ),
            detail=t("Shards {numbers} are missing.", numbers=", ".join(map(str, numbers[:8])))
            if numbers is absent
            else t("Shards {numbers} are too many.", numbers=", ".join(map(str, numbers[:8]))),
            tensors=[
                f"layers.{layer}.ple.ple_embedding.ngram_embedding.shard_{n}.weight"
                for n in numbers[:3]
            ],
            count=len(numbers),
        )
        return
    if absent or not shards:
        return
    kinds = {(s.entry.dtype, s.entry.shape[-1] if s.entry.shape else 0) for s in shards.values()}
    if len(kinds) > 1:
        found.add(
            "M12",
            evidence=f"layers.{layer}: " + ", ".join(f"{d} wide {w}" for d, w in sorted(kinds)),
            detail=t("The shards differ in dtype or width."),
            tensors=[s.key for s in shards.values()],
            count=len(shards),
        )
        return
    _check_rows(layer, order, parts, shards, text, found)


def _check_rows(
    layer: int,
    order: int,
    parts: int,
    shards: Mapping[int, Stored],
    text: Mapping[str, Any],
    found: Findings,
) -> None:
    heads = _heads(text)
    width = _number(text, "ple_embed_dim", 1 << 20)
    stored_width = next(iter(shards.values())).entry.shape[-1]
    if heads and width and width % heads == 0 and stored_width != width // heads:
        found.add(
            "M12",
            evidence=t(
                "layers.{layer}: rows are {stored_width} wide, config {width}",
                layer=layer,
                stored_width=stored_width,
                width=width // heads,
            ),
            detail=t("The table's rows have another width than the config gives them."),
            count=parts,
        )
        return
    rows = table_rows(text, order)
    if rows is None:
        return
    each = -(-rows // parts)
    wrong = [
        number
        for number, stored in shards.items()
        if stored.entry.shape[0] != min(each, rows - number * each)
        and not (number == parts - 1 and stored.entry.shape[0] == each)
    ]
    if wrong:
        number = min(wrong)
        found.add(
            "M12",
            evidence=t(
                "layers.{layer}.shard_{number}: {shape} rows, {each} expected",
                layer=layer,
                number=number,
                shape=shards[number].entry.shape[0],
                each=min(each, rows - number * each),
            ),
            detail=t(
                "The config gives the table {rows} rows in {parts} shards of {each}.",
                rows=f"{rows:,}",
                parts=parts,
                each=f"{each:,}",
            ),
            tensors=[shards[n].key for n in sorted(wrong)],
            count=len(wrong),
        )


def table_rows(text: Mapping[str, Any], order: int) -> int | None:
    """Return the rows of the ``order``-th PLE layer's table; None where the config is silent.

    The sum of the next primes from ``ngram_vocab_size_base`` on, one for each head, rounded up.
    """
    heads, base = _heads(text), _number(text, "ngram_vocab_size_base", _LARGEST_BASE)
    if heads is None or base is None or order > 8:
        return None
    primes: list[int] = []
    number = base
    while len(primes) < heads * (order + 1):
        if _is_prime(number):
            primes.append(number)
        number += 1
    rows = sum(primes[heads * order :])
    step = _number(text, "make_ngram_vocab_size_divisible_by", 1 << 24) or 1
    return -(-rows // step) * step


def _heads(text: Mapping[str, Any]) -> int | None:
    size = _number(text, "ngram_size", 64)
    each = _number(text, "heads_per_ngram", 1024)
    if size is None or each is None:
        return None
    heads = (size - 1) * each
    return heads if 0 < heads <= _MOST_HEADS else None


def _number(text: Mapping[str, Any], name: str, most: int) -> int | None:
    value = text.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
        return None
    return value


def _is_prime(number: int) -> bool:
    """Miller and Rabin with the bases that decide every number below 3.2 · 10^9."""
    if number < 2:
        return False
    for small in (2, 3, 5, 7, 11, 13):
        if number % small == 0:
            return number == small
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7):
        power = pow(base, odd, number)
        if power in {1, number - 1}:
            continue
        for _ in range(twos - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True
