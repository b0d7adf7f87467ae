"""What it costs to get the running requests that were asked for, from the log's own figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.enginelog.boot import Boot
    from qwen_tui_profiles.text import Text

__all__ = ["price_of_requests", "slots_remedy"]


def slots_remedy(boot: Boot, asked: int, otherwise: Text | None) -> Text | None:
    """Return the remedy for requests capped by the state cache, with its numbers.

    One slot more than the admission rule needs, because a chunk boundary may hold one more for a
    moment (sgl-project/sglang#37066). ``otherwise`` is the answer where the log lacks a figure.
    """
    slots = boot.facts.get("mamba_slots")
    per = boot.facts.get("mamba_slots_per_request")
    if per is None or not isinstance(per.value, int) or slots is None:
        return otherwise
    need = per.value * asked + 1
    price = price_of_requests(boot, asked, need)
    half = boot.args.get("mamba_ssm_dtype") not in {"bfloat16", "float16"} and bool(boot.args)
    if price is None:
        remedy = t(
            "To get {asked}: --max-mamba-cache-size {need} ({per} slots a request, and one more).",
            asked=asked,
            need=need,
            per=per.value,
        )
    else:
        remedy = t(
            "To get {asked}: --max-mamba-cache-size {need} ({per} slots a request, and one more), "
            "for about {price} tokens of the KV pool.",
            asked=asked,
            need=need,
            per=per.value,
            price=f"{price:,}",
        )
    if not half:
        return remedy
    return t("{remedy} --mamba-ssm-dtype bfloat16 halves the price of a slot.", remedy=remedy)


def price_of_requests(boot: Boot, asked: int, need: int) -> int | None:
    """Return about how many tokens of the KV pool more slots and requests cost.

    Slots × state bytes, and with speculation one intermediate state a request and drafted token
    (SGLang 0.5.13 and later charge both to the pool), over the bytes of one token; all as printed
    with two decimals, so the result has two digits. ``None`` where a figure is missing, with a
    draft path, which up to 0.5.17 changes what a token is charged, and where --max-total-tokens,
    not memory, may limit the pool.
    """
    figures = [
        _number(boot, name)
        for name in ("mamba_slots", "mamba_conv_gb", "mamba_ssm_gb", "kv_gb", "kv_tokens")
    ]
    got = _number(boot, "max_running_requests_effective")
    if None in figures or got is None:
        return None
    if boot.args.get("speculative_draft_model_path") or boot.args.get("max_total_tokens"):
        return None
    slots, conv_gib, ssm_gib, kv_gib, tokens = (float(f) for f in figures if f is not None)
    if not boot.args or kv_gib <= 0 or tokens <= 0:
        return None
    drafted = boot.args.get("speculative_num_draft_tokens") or 0
    if not isinstance(drafted, int):
        return None
    slot_gib = (conv_gib + ssm_gib) / (slots + 1)
    extra = need - slots + drafted * (asked - got)
    price = extra * slot_gib * tokens / kv_gib
    digits = 10 ** max(len(str(int(price))) - 2, 0)
    return round(price / digits) * digits if price > 0 else None


def _number(boot: Boot, name: str) -> float | None:
    fact = boot.facts.get(name)
    value = None if fact is None else fact.value
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
