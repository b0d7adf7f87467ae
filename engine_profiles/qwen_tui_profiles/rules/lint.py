"""Applying the rules to one launch."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from qwen_tui_profiles.cmdline import read_arguments
from qwen_tui_profiles.findings import Finding, Severity
from qwen_tui_profiles.flags import flag_table, newest_version
from qwen_tui_profiles.foreign import REDACTED, is_secret_name, redact, redact_argv
from qwen_tui_profiles.plan.tokens import usable_context
from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.rules.data import RULES
from qwen_tui_profiles.rules.expression import UNKNOWN, evaluate
from qwen_tui_profiles.rules.facts import Facts
from qwen_tui_profiles.rules.flag_rules import flag_findings
from qwen_tui_profiles.text import Text
from qwen_tui_profiles.versions import in_range

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from qwen_tui_profiles.cmdline import EngineCommand
    from qwen_tui_profiles.flags import FlagTable
    from qwen_tui_profiles.rules.models import ModelFacts
    from qwen_tui_profiles.rules.rule import Rule

__all__ = ["FORK_BASES", "Judgement", "assumed_version", "fork_base", "judge", "rule_fires"]

FORK_BASES: Mapping[str, str] = MappingProxyType(
    {"SGLANG_QWEN4_PLE_NVME_": "0.5.20", "VLLM_PLE_MMAP": "0.29.0"}
)
"""Release that a fork or image is closest to, by the variables that only it reads.

The SM120 fork pins upstream snapshots of the Qwen4-Exp class, which 0.5.20 released; the DGX image
was built from the branch that 0.29.0 released.
"""

_RANK = {Severity.ERROR: 0, Severity.WARN: 1, Severity.INFO: 2}


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the rules say about one launch."""

    engine: EngineKind
    version: str
    """Version that was judged for."""
    version_stated: bool
    """False when the version was assumed."""
    findings: tuple[Finding, ...]
    """Worst first, in the order of the rules."""
    ignored: tuple[Finding, ...] = ()
    """Findings that the profile overrides."""
    model_kind: str | None = None
    """Kind of model that was judged for; ``None`` = not known, rules about models kept silent."""
    model_stated: bool = False
    """False when the kind was told from names and flags alone."""

    @property
    def failed(self) -> bool:
        """Whether there is an error."""
        return any(finding.severity is Severity.ERROR for finding in self.findings)


def assumed_version(command: EngineCommand) -> str:
    """Return the version to judge for when nobody names one."""
    if command.image_version is not None:
        return command.image_version
    return fork_base(command.env) or newest_version(command.engine)


def fork_base(env: Iterable[str]) -> str | None:
    """Return the release that the fork was made from whose variables are set; None = none."""
    for prefix, base in FORK_BASES.items():
        if any(name.startswith(prefix) for name in env):
            return base
    return None


def judge(
    command: EngineCommand,
    *,
    version: str | None = None,
    model: ModelFacts | None = None,
    card: int | None = None,
    card_gib: float | None = None,
    kv_tokens: int | None = None,
    fork: bool = False,
    ignore: Iterable[str] = (),
    table: FlagTable | None = None,
    rules: Iterable[Rule] = RULES,
) -> Judgement:
    """Apply every rule to a launch.

    Args:
        command: The launch.
        version: Engine version; ``None`` = the image's, else the newest known.
        model: What is known of the checkpoint beyond its name.
        card: Compute capability times ten, when known.
        card_gib: Memory of the card in GiB, when known.
        kv_tokens: Pool size as planned or measured, when known.
        fork: The engine is the build that the launch needs (a profile that names it).
        ignore: Rule ids to set apart.
        table: Flags of the engine as it is installed; ``None`` = those of the release.
        rules: The records to apply.

    Raises:
        InputError: ``version`` is not a version.
    """
    judged = version or assumed_version(command)
    known = table or flag_table(command.engine, judged)
    arguments = read_arguments(command.engine, command.argv, known)
    facts = Facts.of(
        command,
        arguments,
        judged,
        model=model,
        card=card,
        card_gib=card_gib,
        kv_tokens=kv_tokens,
        version_stated=version is not None or command.image_version is not None,
        fork=fork,
    )
    # The simulated engine is SGLang in everything that a command line says.
    owner = EngineKind.SGLANG if command.engine is EngineKind.DEMO else command.engine
    findings = list(flag_findings(command, arguments, known.version))
    findings += [_finding(rule, facts) for rule in rules if rule_fires(rule, facts, owner, judged)]
    findings.sort(key=lambda finding: _RANK[finding.severity])
    skipped = frozenset(ignore)
    return Judgement(
        command.engine,
        judged,
        version is not None or command.image_version is not None,
        tuple(finding for finding in findings if finding.rule not in skipped),
        tuple(finding for finding in findings if finding.rule in skipped),
        kind if isinstance(kind := facts.values["kind"], str) else None,
        model is not None and model.kind is not None,
    )


def rule_fires(rule: Rule, facts: Facts, engine: EngineKind, version: str) -> bool:
    """Tell whether a rule applies to this engine, version, model and card, and its condition holds.

    An unknown model keeps a rule about models silent; an unknown card does not keep a rule about
    cards silent, because its text names the cards.
    """
    if rule.engine is not None and rule.engine is not engine:
        return False
    if not in_range(version, rule.since, rule.until):
        return False
    if rule.models and facts.values["kind"] not in rule.models:
        return False
    card = facts.values["card"]
    if rule.cards and card is not UNKNOWN and card not in rule.cards:
        return False
    return evaluate(rule.when, facts.values, facts.calls) is True


def _finding(rule: Rule, facts: Facts) -> Finding:
    shown = _shown(facts)
    return Finding(
        rule=rule.id,
        severity=rule.severity,
        title=Text(rule.title.template, shown),
        evidence=_evidence(rule, facts),
        source=rule.source,
        since=rule.since,
        until=rule.until,
        remedy=None if rule.remedy is None else Text(rule.remedy.template, shown),
        detail=Text(rule.what.template, shown),
        checked=rule.checked,
    )


def _shown(facts: Facts) -> Mapping[str, object]:
    """Return the facts as sentences show them, with a few that only sentences need."""
    out = {name: _text(value) for name, value in facts.values.items()}
    pool = facts.values.get("kv_tokens")
    if isinstance(pool, int):
        out["context_usable"] = _text(usable_context(pool, pool))
    slots, per_request = facts.values.get("slots"), facts.values.get("per_request")
    requests = facts.values.get("requests")
    if isinstance(per_request, int) and isinstance(requests, (int, float)):
        out["slots_needed"] = str(int(per_request * requests) + 1)
    if isinstance(slots, (int, float)) and isinstance(per_request, int):
        out["slots_left"] = str(int(slots) % per_request)
    return MappingProxyType(out)


def _text(value: object) -> str:
    if value is UNKNOWN or value is None:
        return "—"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10_000:
        return f"{value:,}"
    return redact(str(value))


def _evidence(rule: Rule, facts: Facts) -> str:
    parts: list[str] = []
    for name in rule.shows:
        option = facts.arguments.by_name.get(name)
        if option is not None:
            parts.append(" ".join(redact_argv((option.spelled, *option.values))))
        elif name in facts.command.env:
            value = facts.command.env[name]
            parts.append(f"{name}={REDACTED if is_secret_name(name) else redact(value)}")
    return "  ".join(parts) or facts.command.entry
