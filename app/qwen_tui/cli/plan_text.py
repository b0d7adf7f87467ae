"""The plan as text: the verdict first, then what is not as asked, then where the memory goes."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from qwen_tui_profiles.citations import cited
from qwen_tui_profiles.plan.result import LIMITS
from qwen_tui_profiles.text import Text, joined, t, tr
from qwen_tui_profiles.wrapping import padded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qwen_tui_profiles.findings import Clamp, Value
    from qwen_tui_profiles.plan.result import Interval, Knob, Plan, Wanted

__all__ = ["plan_lines"]

_DASH = "—"


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the lines of the report."""
    yield tr(_verdict(plan))
    if plan.failure is not None:
        yield f"  {tr(plan.failure)}"
        if plan.minimum_fraction is not None:
            yield "  → " + tr(
                t("It would start at --mem-fraction-static {f}.", f=f"{plan.minimum_fraction:g}")
            )
    yield ""
    yield from _headline(plan)
    if plan.clamps:
        yield ""
        yield tr(t("Asked → got"))
        for clamp in plan.clamps:
            yield from _clamp_lines(clamp)
    if plan.adjustments:
        yield ""
        yield tr(t("Chosen by the engine"))
        for clamp in plan.adjustments:
            yield f"  {clamp.arg:<34}{_value(clamp.got):>12}   {tr(clamp.why)}"
    if plan.budget:
        yield ""
        yield tr(t("Memory, GiB"))
        for line in plan.budget:
            size = _DASH if line.gib is None else f"{line.gib:.2f}"
            yield f"  {size:>8}  {tr(line.title)}"
            yield f"            {tr(line.basis)}"
    if plan.wanted is not None:
        yield ""
        yield from _wanted_lines(plan.wanted)
    elif plan.knobs:
        yield ""
        yield tr(t("What a change buys"))
        for knob in plan.knobs:
            yield _knob_line(knob)
    if plan.findings:
        yield ""
        for finding in plan.findings:
            yield f"{finding.severity.value:<5} {tr(finding.title)}"
            if finding.remedy is not None:
                yield f"      → {tr(finding.remedy)}"
            yield f"      {finding.rule}: {cited(finding.source)}"
    if plan.calibration is not None and plan.calibration["error_pct"] is not None:
        yield ""
        error = plan.calibration["error_pct"]
        if plan.calibration["boots"] == 1:
            yield tr(t("The last boot here: error {error} %.", error=error))
        else:
            yield tr(
                t(
                    "Last {boots} boots here: error at most {error} %.",
                    boots=plan.calibration["boots"],
                    error=error,
                )
            )
    if plan.assumed:
        yield ""
        yield tr(t("Assumed"))
        for item in plan.assumed:
            value = "" if item.value is None else f" = {item.value}"
            yield f"  {item.name}{value}: {tr(item.reason)}"


def _wanted_lines(wanted: Wanted) -> Iterator[str]:
    wishes = []
    if wanted.context is not None:
        wishes.append(tr(t("{tokens} tokens for one request", tokens=f"{wanted.context:,}")))
    if wanted.requests is not None:
        wishes.append(tr(t("requests at once: {requests}", requests=wanted.requests)))
    yield tr(t("Wanted: {wishes}", wishes=joined(wishes)))
    if wanted.why is not None:
        yield f"  {tr(wanted.why)}"
    for step in wanted.steps:
        yield _knob_line(step)
    if wanted.reached:
        tokens = _DASH if wanted.tokens is None else f"{wanted.tokens:,}"
        yield "  " + tr(
            t(
                "Then: {tokens} tokens, requests at once: {requests}, {slack} GiB left to run in.",
                tokens=tokens,
                requests=_DASH if wanted.got_requests is None else wanted.got_requests,
                slack=_DASH if wanted.slack_gib is None else f"{wanted.slack_gib:.1f}",
            )
        )
        yield "  " + shlex.join(wanted.args)


def _knob_line(knob: Knob) -> str:
    tokens = _DASH if knob.tokens is None else f"{knob.tokens:+,}"
    requests = "" if not knob.requests else tr(t(", {n} requests", n=f"{knob.requests:+}"))
    return f"  {knob.flag:<32}{tokens:>10} {tr(t('tokens'))}{requests}   {tr(knob.change)}"


def _verdict(plan: Plan) -> Text:
    engine = f"{plan.engine} {plan.engine_version or _DASH}"
    if plan.fits is None:
        return t("Not judged ({engine}).", engine=engine)
    if plan.fits:
        return t("Fits ({engine}).", engine=engine)
    return t("Does not fit ({engine}).", engine=engine)


def _headline(plan: Plan) -> Iterator[str]:
    yield _row(t("KV pool"), _interval(plan.kv_tokens))
    asked = _DASH if plan.requests_asked is None else f"{plan.requests_asked:,}"
    got = _DASH if plan.requests is None else f"{plan.requests:,}"
    change = got if asked == got else f"{asked} → {got}"
    if plan.limited_by is not None:
        change = tr(t("{change}, {limit}", change=change, limit=LIMITS[plan.limited_by]))
    yield _row(t("Requests at once"), change)
    usable = _DASH if plan.context_usable is None else f"{plan.context_usable:,}"
    declared = _DASH if plan.context_declared is None else f"{plan.context_declared:,}"
    yield _row(
        t("Usable context"), tr(t("{usable} of {declared}", usable=usable, declared=declared))
    )
    if "vllm" in plan.details:
        yield from _block_rows(plan.details["vllm"])
    elif plan.state is not None:
        slots = _DASH if plan.state.slots is None else f"{plan.state.slots}"
        per_request = plan.state.slots_per_request
        yield _row(
            t("State slots"),
            tr(
                t(
                    "{slots}, {per_request} a request ({strategy})",
                    slots=slots,
                    per_request=_DASH if per_request is None else per_request,
                    strategy=plan.state.strategy or _DASH,
                )
            ),
        )


def _block_rows(details: object) -> Iterator[str]:
    """Blocks, what a request pins of them, and how many requests of a length run at once."""
    if not isinstance(details, dict):
        return
    blocks = details["blocks"]
    yield _row(
        t("Blocks"),
        tr(
            t(
                "{blocks} of {tokens} tokens; every request pins {fixed}",
                blocks=f"{blocks['value']:,}",
                tokens=f"{details['block_tokens']:,}",
                fixed=details["fixed_blocks_per_request"],
            )
        ),
    )
    lengths = ", ".join(
        f"{count} × {int(length):,}" for length, count in details["at_once"].items()
    )
    yield _row(t("At once"), tr(t("{lengths} tokens", lengths=lengths)))
    yield _row(t("The engine's figure"), str(details["tokens_mean"]))


def _row(label: Text, value: str) -> str:
    return f"  {padded(tr(label), 22)}{value}"


def _interval(interval: Interval) -> str:
    if interval.value is None:
        return _DASH
    text = tr(t("{tokens} tokens", tokens=f"{interval.value:,}"))
    if interval.low is None or interval.high is None or interval.low == interval.high:
        return text
    return text + tr(t(" ({low} to {high})", low=f"{interval.low:,}", high=f"{interval.high:,}"))


def _clamp_lines(clamp: Clamp) -> Iterator[str]:
    change = f"{_value(clamp.asked)} → {_value(clamp.got)}"
    yield f"! {clamp.arg:<32}{change:>22}   {tr(clamp.why)}"
    if clamp.remedy is not None:
        yield f"    → {tr(clamp.remedy)}"


def _value(value: Value) -> str:
    if value is None:
        return _DASH
    if isinstance(value, bool) or not isinstance(value, int):
        return str(value)
    return f"{value:,}"
