"""Findings from the flag tables: what the engine's own parser would refuse or complain about.

These rules have no condition of their own; their knowledge is the table of every release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_profiles.cmdline import TroubleKind
from qwen_tui_profiles.findings import Finding, Severity
from qwen_tui_profiles.flags import history, known_versions
from qwen_tui_profiles.foreign import is_secret_name, redact, redact_argv
from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.text import t
from qwen_tui_profiles.versions import Version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from qwen_tui_profiles.cmdline import Arguments, EngineCommand, Option, Trouble
    from qwen_tui_profiles.flags import Period
    from qwen_tui_profiles.text import Text

__all__ = ["FLAG_RULES", "flag_findings"]

FLAG_RULES = (
    *("flag-removed", "flag-too-new", "flag-unknown", "flag-ambiguous", "flag-choice"),
    *(
        "flag-number",
        "flag-value-missing",
        "flag-refused",
        "flag-deprecated",
        "flag-twice",
        "stray-word",
    ),
    "typographic-dash",
)
"""Ids of the findings that are made here."""

_SOURCE = "flag tables of the released packages"


def flag_findings(command: EngineCommand, arguments: Arguments, version: str) -> Iterator[Finding]:
    """Yield what the engine's argument parser would say about a command."""
    for trouble in arguments.troubles:
        if command.engine is EngineKind.DEMO and trouble.kind is TroubleKind.UNKNOWN:
            continue  # the simulation has flags of its own beside SGLang's
        yield _of_trouble(command, trouble, version)
    for option in arguments.options:
        spec = option.spec
        if spec is None:
            continue
        if spec.refused is not None:
            yield _finding(
                "flag-refused",
                Severity.ERROR,
                t("{flag} is no longer supported", flag=option.spelled),
                option.text,
                t("The engine stops with: {reason}", reason=spec.refused),
                t("Remove the flag, or write what the message says."),
                version,
            )
        elif spec.use is not None:
            yield _deprecated(command, option.spelled, option.text, spec.use, version)
    yield from _given_twice(arguments, version)
    yield from _strays(command, arguments, version)
    for word in command.oddities:
        yield _finding(
            "typographic-dash",
            Severity.ERROR,
            t("{word} is written with a typographic dash or quote", word=redact(word)),
            redact(word),
            t("A text editor changed it; the engine takes the word for something else."),
            t("Write it with plain characters: -- and straight quotes."),
            version,
        )


def _given_twice(arguments: Arguments, version: str) -> Iterator[Finding]:
    """A flag with two different values: the parser takes the last one without a word."""
    seen: dict[str, Option] = {}
    for option in arguments.options:
        before = seen.get(option.name)
        grows = option.values and option.values[0].startswith("{")
        if before is not None and before.values != option.values and not grows:
            yield _finding(
                "flag-twice",
                Severity.WARN,
                t("{flag} is given twice; the last one counts", flag=option.name),
                " ".join(
                    word
                    for given in (before, option)
                    for word in redact_argv((given.spelled, *given.values))
                ),
                t("The first value is dropped without a word."),
                t("Keep the one that is meant."),
                version,
            )
        seen[option.name] = option


def _strays(command: EngineCommand, arguments: Arguments, version: str) -> Iterator[Finding]:
    """Words that belong to no flag; vLLM takes one, the model."""
    allowed = 1 if command.engine is EngineKind.VLLM else 0
    strays = [word for word in arguments.positionals if "$" not in word][allowed:]
    if strays and all(trouble.kind is not TroubleKind.UNKNOWN for trouble in arguments.troubles):
        shown = redact(" ".join(strays[:3]))
        yield _finding(
            "stray-word",
            Severity.ERROR,
            t("{words} belongs to no flag", words=repr(shown)),
            shown,
            t("The engine stops while it reads its arguments (exit code 2)."),
            t("Remove it, or write the flag that it is the value of."),
            version,
        )


def _of_trouble(command: EngineCommand, trouble: Trouble, version: str) -> Finding:
    name = trouble.name
    periods = history(command.engine).get(name, ())
    if trouble.kind is TroubleKind.CHOICE:
        return _choice(command, trouble, periods, version)
    if trouble.kind is TroubleKind.NUMBER:
        whole = "int" in trouble.choices
        value = repr(redact(trouble.value or ""))
        return _finding(
            "flag-number",
            Severity.ERROR,
            t("{flag} takes a whole number, not {value}", flag=name, value=value)
            if whole
            else t("{flag} takes a number, not {value}", flag=name, value=value),
            " ".join(redact_argv((name, trouble.value or ""))),
            t("The engine stops while it reads its arguments (exit code 2)."),
            t("Write digits alone, without unit or separator."),
            version,
        )
    if trouble.kind is TroubleKind.MISSING_VALUE:
        return _finding(
            "flag-value-missing",
            Severity.ERROR,
            t("{flag} needs a value", flag=name),
            name,
            t("The engine stops while it reads its arguments (exit code 2)."),
            t("Write the value behind the flag."),
            version,
        )
    if trouble.kind is TroubleKind.AMBIGUOUS and not periods:
        return _finding(
            "flag-ambiguous",
            Severity.ERROR,
            t("{flag} could mean several flags", flag=name),
            name,
            t("The engine stops: it could match {names}.", names=", ".join(trouble.choices)),
            t("Write the whole name."),
            version,
        )
    if periods:
        return _out_of_range(command, trouble, periods, version)
    near = ", ".join(trouble.choices)
    return _finding(
        "flag-unknown",
        Severity.ERROR,
        t(
            "{engine} {version} has no flag {flag}",
            engine=command.engine.value,
            version=version,
            flag=name,
        ),
        name,
        t(
            "No release from {first} on has it: the engine stops while it reads its arguments "
            "(exit code 2).",
            first=known_versions(command.engine)[0],
        ),
        t("Did you mean {names}?", names=near) if near else t("Remove it, or check its spelling."),
        version,
    )


def _out_of_range(
    command: EngineCommand, trouble: Trouble, periods: Sequence[Period], version: str
) -> Finding:
    """A flag that another release has: removed, or not there yet."""
    first, last = periods[0].since, periods[-1].until
    have = Version.parse(version)
    if have < Version.parse(first):
        return _finding(
            "flag-too-new",
            Severity.ERROR,
            t("{flag} exists only from {since} on", flag=trouble.name, since=first),
            trouble.name,
            t("The engine stops while it reads its arguments (exit code 2)."),
            _replacement(command, trouble.name, version)
            or t(
                "Use {engine} {since} or newer, or remove it.",
                engine=command.engine.value,
                since=first,
            ),
            version,
            until=_before(command, first),
        )
    use = next((period.spec.use for period in reversed(periods) if period.spec.use), None)
    remedy = t("Write {flag} instead.", flag=use) if use else t("Remove it.")
    return _finding(
        "flag-removed",
        Severity.ERROR,
        t("{flag} was removed after {until}", flag=trouble.name, until=last or "—"),
        trouble.name,
        t("The engine stops while it reads its arguments (exit code 2)."),
        _replacement(command, trouble.name, version) or remedy,
        version,
        since=_after(command, last),
    )


def _choice(
    command: EngineCommand, trouble: Trouble, periods: Sequence[Period], version: str
) -> Finding:
    value = trouble.value or ""
    accepted = [
        period for period in periods if period.spec.choices and value in period.spec.choices
    ]
    if accepted:
        detail = t(
            "{flag} took {value} from {since} to {until}.",
            flag=trouble.name,
            value=value,
            since=accepted[0].since,
            until=accepted[-1].until or t("the newest"),
        )
    else:
        detail = t("The engine stops while it reads its arguments (exit code 2).")
    known = ", ".join(trouble.choices[:12])
    return _finding(
        "flag-choice",
        Severity.ERROR,
        t(
            "{flag} does not take {value} in {version}",
            flag=trouble.name,
            value=repr(redact(value)),
            version=version,
        ),
        " ".join(redact_argv((trouble.name, value))),
        detail,
        t("Choose one of {choices}.", choices=known),
        version,
        since=_after(command, accepted[-1].until) if accepted else None,
    )


def _deprecated(command: EngineCommand, name: str, written: str, use: str, version: str) -> Finding:
    periods = [p for p in history(command.engine).get(name, ()) if p.spec.use is not None]
    until = periods[-1].until if periods else None
    detail = (
        t("It works up to {until} and is an error after it.", until=until)
        if until
        else t("It still works; the engine prints a notice.")
    )
    return _finding(
        "flag-deprecated",
        Severity.INFO,
        t("{flag} is an old name", flag=name),
        written if not is_secret_name(name) else name,
        detail,
        t("Write {flag}.", flag=use),
        version,
        since=periods[0].since if periods else None,
        until=until,
    )


def _replacement(command: EngineCommand, name: str, version: str) -> Text | None:
    from qwen_tui_profiles.flags import RENAMES, respell

    for rename in RENAMES:
        if rename.engine is command.engine and name in {rename.old, rename.new}:
            written = respell(command.engine, (name, rename.old_value or ""), version)
            shown = " ".join(word for word in written if word)
            if shown.split()[0] != name:
                return t("Write {flag} instead.", flag=shown)
    return None


def _after(command: EngineCommand, until: str | None) -> str | None:
    versions = known_versions(command.engine)
    if until in versions and versions.index(until) + 1 < len(versions):
        return versions[versions.index(until) + 1]
    return None


def _before(command: EngineCommand, since: str) -> str | None:
    versions = known_versions(command.engine)
    return versions[versions.index(since) - 1] if since in versions[1:] else None


def _finding(
    rule: str,
    severity: Severity,
    title: Text,
    evidence: str,
    detail: Text,
    remedy: Text | None,
    checked: str,
    *,
    since: str | None = None,
    until: str | None = None,
) -> Finding:
    return Finding(
        rule=rule,
        severity=severity,
        title=title,
        evidence=redact(evidence),
        source=_SOURCE,
        since=since,
        until=until,
        remedy=remedy,
        detail=detail,
        checked=checked,
    )
