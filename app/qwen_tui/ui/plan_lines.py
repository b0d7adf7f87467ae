"""A plan as lines: the summary beside the knobs, and the detail below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from qwen_tui.ui import figures
from qwen_tui.ui.cells import bar, fit, wrapped
from qwen_tui.ui.findings import finding_lines
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.knobs import pairs
from qwen_tui_profiles.text import Text, t, tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qwen_tui_profiles.findings import Clamp
    from qwen_tui_profiles.plan.result import BudgetLine, Plan
    from qwen_tui_profiles.profile import EngineProfile

__all__ = ["budget_lines", "changed_keys", "clamp_lines", "plan_detail", "plan_summary"]

LABEL = 17
TITLE = 34
RESERVED = 8
TIGHT_GIB = 0.5
"""Left over below this, the next graph or workspace may not find room."""


def plan_summary(plan: Plan, base: Plan | None, width: int) -> list[Content]:
    """Return fit, pool, requests, context and slack, each beside what the profile alone gets."""
    before = base if base is not plan else None
    out = [
        _verdict(plan),
        _pool(plan, before, width),
        *_pool_bar(plan, before, width),
        _requests(plan, before),
        _context(plan, before, width),
        *_rest(plan),
    ]
    return [fit(line, width) for line in out]


def _pool_bar(plan: Plan, before: Plan | None, width: int) -> list[Content]:
    """Return the interval, and the pool as a share of the declared context."""
    pool = plan.kv_tokens
    out: list[Content] = []
    if pool.low is not None and pool.high is not None and pool.low != pool.high:
        text = t("{low} to {high}", low=figures.count(pool.low), high=figures.count(pool.high))
        line = _line(t("at worst, best"), (tr(text), "$foreground-muted"))
        if line.cell_length > width:
            line = _line(t("at worst"), (figures.count(pool.low), "$foreground-muted"))
        out.append(line)
    was = None if before is None else before.kv_tokens.value
    most = max(plan.context_declared or 0, pool.value or 0, was or 0)
    if pool.value is not None and most:
        room = max(4, min(46, width) - LABEL)
        out.append(Content.assemble(" " * LABEL, bar(pool.value / most, room, "$accent")))
    return out


def _requests(plan: Plan, before: Plan | None) -> Content:
    asked, got = plan.requests_asked, plan.requests
    text = f"{figures.count(asked)} {glyphs().arrow} {figures.count(got)}"
    short = asked is not None and got is not None and got < asked
    note = _delta(got, None if before is None else before.requests)
    return _line(t("requests"), (text, "bold $warning" if short else "bold"), note)


def _context(plan: Plan, before: Plan | None, width: int) -> Content:
    declared, got = plan.context_declared, plan.context_usable
    brief = f"{glyphs().arrow} {figures.count(got)}"
    text = f"{figures.count(declared)} {brief}"
    # The engine keeps a few tokens of the declared context for itself: that is no clamp.
    short = declared is not None and got is not None and got < declared - RESERVED
    note = _delta(got, None if before is None else before.context_usable)
    style = "bold $warning" if short else "bold"
    return _first_that_fits(width, t("context"), ((text, style), (brief, style)), note)


def _rest(plan: Plan) -> list[Content]:
    out: list[Content] = []
    if plan.state is not None:
        text = t(
            "{slots}, {per} a request",
            slots=figures.count(plan.state.slots),
            per=figures.count(plan.state.slots_per_request),
        )
        out.append(_line(t("state slots"), (tr(text), "bold")))
    if plan.slack_gib is not None:
        style = "bold $warning" if plan.slack_gib < TIGHT_GIB else "bold"
        out.append(_line(t("left over"), (f"{plan.slack_gib:.2f} GiB", style)))
    version = plan.engine_version or ""
    return [*out, _line(t("planned for"), (f"{plan.engine} {version}", "$foreground-muted"))]


def _verdict(plan: Plan) -> Content:
    marks = glyphs()
    if plan.fits is None:
        text = t("Whether it fits cannot be judged.")
        return Content.styled(f"{marks.unreachable} {tr(text)}", "bold $warning")
    if plan.fits:
        return Content.styled(f"{marks.ok} {tr(t('It fits.'))}", "bold $success")
    why = plan.failure or t("It does not fit.")
    return Content.styled(f"{marks.fail} {tr(why)}", "bold $error")


def _pool(plan: Plan, before: Plan | None, width: int) -> Content:
    brief = figures.count(plan.kv_tokens.value)
    text = tr(t("{tokens} tokens", tokens=brief))
    note = _delta(plan.kv_tokens.value, None if before is None else before.kv_tokens.value)
    style = "bold $accent"
    return _first_that_fits(width, t("KV pool"), ((text, style), (brief, style)), note)


def _first_that_fits(
    width: int, label: Text, values: tuple[tuple[str, str], ...], note: Content | None
) -> Content:
    """Return the line with the longest value that leaves room for the change beside it."""
    lines = [_line(label, value, note) for value in values]
    return next((line for line in lines if line.cell_length <= width), lines[-1])


def _line(label: Text, value: tuple[str, str], note: Content | None = None) -> Content:
    return Content.assemble(
        fit((tr(label), "$foreground-muted"), LABEL), value, "" if note is None else note
    )


def _delta(now: int | None, was: int | None) -> Content | None:
    if now is None or was is None or now == was:
        return None
    return Content.styled(f"  {now - was:+,}", "$success" if now > was else "$error")


def plan_detail(plan: Plan, width: int) -> list[Content]:
    """Return memory, clamps, findings, prices of the knobs and assumptions."""
    out = budget_lines(plan.budget, width)
    for clamp in plan.clamps:
        out += clamp_lines(clamp, width)
    for finding in plan.findings:
        out += finding_lines(finding, width)
    if plan.knobs:
        out.append(Content.styled(tr(t("What one step buys")), "bold"))
        for knob in plan.knobs:
            price = "" if knob.tokens is None else tr(t("{n} tokens", n=f"{knob.tokens:+,}"))
            if knob.requests:
                price += "  " + tr(t("{n} requests", n=f"{knob.requests:+}"))
            line = Content.assemble(
                fit(knob.flag, TITLE), fit((price, "bold"), 28), (tr(knob.change), "")
            )
            out.append(fit(line, width))
    if plan.assumed:
        out.append(Content.styled(tr(t("Assumed")), "bold"))
        for item in plan.assumed:
            value = figures.value(item.value)
            text = Content.assemble(
                f"{item.name} {value}  ", (tr(item.reason), "$foreground-muted")
            )
            out += wrapped(text, width, indent=2, most=2)
    return out


def budget_lines(budget: Sequence[BudgetLine], width: int) -> list[Content]:
    """Return one line per part of the card's memory, with a bar and its basis."""
    parts = [line for line in budget if line.where == "gpu"]
    total = sum(line.gib or 0.0 for line in parts) or 1.0
    room = max(0, min(40, width - TITLE - 12))
    out: list[Content] = []
    for line in parts:
        gib = figures.plain(None) if line.gib is None else f"{line.gib:.2f}"
        text = Content.assemble(
            fit(tr(line.title), TITLE),
            fit((f"{gib} GiB ", "bold"), 12, align="right"),
            bar(None if line.gib is None else line.gib / total, min(room, 20), "$primary"),
            "  ",
            (tr(line.basis), "$foreground-muted"),
        )
        out.append(fit(text, width))
    return out


def clamp_lines(clamp: Clamp, width: int) -> list[Content]:
    """Return a predicted clamp: what would be asked, what would be got, why, what to do."""
    marks = glyphs()
    head = Content.assemble(
        (f"{marks.warn} ", "bold $warning"),
        clamp.arg,
        f"  {figures.value(clamp.asked)}",
        (f" {marks.arrow} ", "$foreground-muted"),
        (figures.value(clamp.got), "bold $warning"),
        "  ",
        tr(clamp.why),
    )
    out = wrapped(head, width, most=3)
    if clamp.remedy is not None:
        remedy = Content.assemble((f"{marks.remedy} ", "$accent"), tr(clamp.remedy))
        out += wrapped(remedy, width, indent=2, most=3)
    return out


def changed_keys(profile: EngineProfile, argv: Sequence[str]) -> list[tuple[str, str | None]]:
    """Return the profile keys that lead from its arguments to ``argv``, for the user's file.

    A flag that is taken away is written as ``false``: that is how a file that extends another one
    removes what the other one sets.
    """
    before, after = pairs(profile.argv), pairs(argv)
    changes: list[tuple[str, str | None]] = []
    for flag in dict.fromkeys([*before, *after]):
        if before.get(flag) != after.get(flag):
            changes.append((f"args.{flag.removeprefix('--')}", after.get(flag, "false")))
    return changes
