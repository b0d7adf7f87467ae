"""Asked → got: clamps and adjustments of one boot, announced and silent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.enginelog.changes import ChangeKind, ChangeSeen
from qwen_tui_diagnostics.enginelog.prices import slots_remedy
from qwen_tui_diagnostics.enginelog.sglang_pools import MAMBA_REMEDY
from qwen_tui_diagnostics.enginelog.silent import silent_sglang, silent_vllm
from qwen_tui_profiles.findings import Clamp, Evidence
from qwen_tui_profiles.foreign import REDACTED, redact
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qwen_tui_diagnostics.enginelog.boot import Boot
    from qwen_tui_diagnostics.enginelog.lines import LogLine
    from qwen_tui_profiles.findings import Value
    from qwen_tui_profiles.text import Text

__all__ = [
    "Changes",
    "asked_requests",
    "changes_of",
    "evidence_of",
    "safe_text",
    "usable_context",
]

_MAX_TEXT = 600
_KEY_LIST = re.compile(r"""((?i:api_key|hf_token|token)['"]?\s*[=:]\s*)\[[^\]]*\]?""")
# A storage backend's credentials inside a nested configuration.
_MEMBER = re.compile(
    r"""(?i)(["']\w*(?:secret|passw|(?:access|auth|bearer)_?token)\w*\\?["']\s*:\s*)"""
    r"""(?:"[^"]*"|'[^']*')"""
)
_RESERVED = 6
"""Tokens that SGLang keeps of a request: max_req_input_len = min(context, pool) − 6."""
_SPEC_DEFAULT = 48
"""--max-running-requests that SGLang fills in with speculation (0.5.4..)."""


def evidence_of(line: LogLine, secrets: Iterable[str] = ()) -> Evidence:
    """Quote a line: cleaned, redacted, not endless."""
    text = safe_text(line.text, secrets)
    return Evidence(line.number, text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + " …")


def safe_text(text: str, secrets: Iterable[str] = ()) -> str:
    """Take secrets out of a line: known values, lists of keys, members of nested values."""
    text = _KEY_LIST.sub(rf"\1{REDACTED}", redact(text, secrets))
    return _MEMBER.sub(rf"\1{REDACTED}", text)


class Changes:
    """The two lists under construction; the first entry for an argument stands."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = tuple(secrets)
        self.clamps: list[Clamp] = []
        self.adjustments: list[Clamp] = []

    def announced(self, arg: str) -> bool:
        """Tell whether the argument has an entry."""
        return any(c.arg == arg for c in (*self.clamps, *self.adjustments))

    def add(
        self,
        arg: str,
        asked: Value,
        got: Value,
        by: Text,
        why: Text,
        remedy: Text | None,
        line: LogLine | None,
        *,
        clamp: bool,
    ) -> None:
        """Add an entry unless the argument has one of that kind already."""
        entries = self.clamps if clamp else self.adjustments
        if any(c.arg == arg for c in entries):
            return
        entries.append(
            Clamp(
                arg, asked, got, by, why, remedy, evidence_of(line, self._secrets) if line else None
            )
        )


def changes_of(boot: Boot) -> Changes:
    """Compare what was asked with what is, and add what the engine announced."""
    out = Changes(boot.secrets)
    requested = boot.requested()
    if boot.printed_by == "vllm":
        _announced(boot, out, requested)
        silent_vllm(boot, out, requested)
    else:
        _requests(boot, out, requested)
        _context(boot, out)
        _pool(boot, out, requested)
        _announced(boot, out, requested)
        silent_sglang(boot, out, requested)
        if boot.asked_argv is not None:
            _resolved(boot, out, requested or {})
    return out


# --- SGLang: running requests ---------------------------------------------------------------


def asked_requests(boot: Boot) -> Value:
    """Return --max-running-requests as the operator set it; ``None`` = not set or not known."""
    requested = boot.requested()
    if requested is not None:
        return requested.get(
            "max_num_seqs" if boot.printed_by == "vllm" else "max_running_requests"
        )
    if any(c.change.name == "reset_48" for c in boot.changes):
        return None
    value = boot.args.get("max_running_requests")
    if value is None:
        stated = [c.asked for c in boot.changes if c.change.arg == "--max-running-requests"]
        value = next((a for a in stated if a is not None), None)
    if (
        value == _SPEC_DEFAULT
        and boot.args.get("speculative_algorithm", "cut") is not None
        and not boot.launcher_seen
    ):
        # The notice that 48 is the default may have stood before this log begins.
        return None
    return value


def _requests(boot: Boot, out: Changes, requested: dict[str, Value] | None) -> None:
    asked = asked_requests(boot)
    got_fact = boot.facts.get("max_running_requests_effective")
    seen = [
        c
        for c in boot.changes
        if c.change.arg == "--max-running-requests" and c.change.name != "reset_48"
    ]
    announced = next((c for c in seen if c.change.kind is ChangeKind.ASKED), None)
    got = got_fact.value if got_fact is not None else (seen[-1].got if seen else None)
    if got is None:
        return
    if asked is None:
        default = boot.args.get("max_running_requests")
        reset = any(c.change.name == "reset_48" for c in boot.changes)
        known = reset or boot.args_line is not None or requested is not None
        if announced is not None and known:
            out.add(
                "--max-running-requests", None, got, announced.change.by,
                t("None was asked; the engine's default of {default} does not fit the state cache.",
                  default=str(default or announced.asked)),
                MAMBA_REMEDY, announced.line, clamp=False,
            )  # fmt: skip
        elif announced is not None:
            out.add(
                "--max-running-requests", None, got, announced.change.by, announced.change.why,
                announced.change.remedy, announced.line, clamp=True,
            )  # fmt: skip
        elif known and got_fact is not None:
            out.add(
                "--max-running-requests", None, got, t("engine default"),
                t("None was asked; the engine derives it from its pools."), None, got_fact.line,
                clamp=False,
            )  # fmt: skip
        return
    share = asked
    if isinstance(asked, int):
        share = asked // boot.attention_replicas
    if not isinstance(got, int) or not isinstance(share, int) or got >= share:
        return
    if announced is not None:
        by, why, line = announced.change.by, announced.change.why, announced.line
        remedy = announced.change.remedy
    else:
        by, why, remedy = _silent_cause(boot, got)
        line = got_fact.line if got_fact is not None else seen[-1].line
    if remedy is MAMBA_REMEDY:
        remedy = slots_remedy(boot, share, remedy)
    why = _in_replicas(boot, share, why)
    out.add("--max-running-requests", asked, got, by, why, remedy, line, clamp=True)


def _in_replicas(boot: Boot, share: int, why: Text) -> Text:
    """Say in how many data-parallel replicas it is so: their GPUs may have unequal room."""
    each = [fact.value for fact in boot.of_replicas("max_running_requests_effective")]
    clamped = sum(isinstance(got, int) and got < share for got in each)
    if len(each) < 2:
        return why
    if clamped == len(each):
        return t("{why} So it is in each of {replicas} replicas.", why=why, replicas=clamped)
    return t(
        "{why} So it is in {n} of {replicas} replicas.", why=why, n=clamped, replicas=len(each)
    )


def _silent_cause(boot: Boot, got: int) -> tuple[Text, Text, Text | None]:
    slots = boot.facts.get("mamba_slots")
    if slots is not None and isinstance(slots.value, int):
        return (
            t("mamba state cache"),
            t("The cache has {slots} state slots; this version does not say that they set the "
              "limit, but each request needs several.", slots=slots.value),
            MAMBA_REMEDY,
        )  # fmt: skip
    tokens = boot.facts.get("kv_tokens")
    if tokens is not None and isinstance(tokens.value, int) and got == tokens.value // 2:
        return (
            t("KV pool"),
            t("Requests are limited to half the tokens of the KV pool."),
            t("Enlarge the KV pool."),
        )
    return t("engine"), t("The engine lowered it without saying why."), None


# --- SGLang: context and pool ---------------------------------------------------------------


def usable_context(boot: Boot) -> int | None:
    """Return how long one request may really be, in tokens; ``None`` while it is not known."""
    context = boot.facts.get("context_len")
    tokens = boot.facts.get("kv_tokens")
    declared = context.value if context is not None else boot.args.get("context_length")
    if boot.printed_by == "vllm" or (tokens is not None and tokens.engine == "vllm"):
        # vLLM refuses a context that does not fit; its token figure says nothing about it.
        fits = boot.facts.get("max_concurrency")
        return declared if isinstance(declared, int) and fits is not None else None
    if not isinstance(declared, int) or tokens is None or not isinstance(tokens.value, int):
        return None
    return max(min(declared, tokens.value) - _RESERVED, 0)


def _context(boot: Boot, out: Changes) -> None:
    usable = usable_context(boot)
    context, tokens = boot.facts.get("context_len"), boot.facts.get("kv_tokens")
    said = next((c for c in boot.changes if c.change.name == "context"), None)
    declared = context.value if context is not None else boot.args.get("context_length")
    if usable is None or not isinstance(declared, int) or usable >= declared - _RESERVED:
        return
    requested = boot.requested()
    asked: Value = declared
    if requested is not None or boot.args:
        source = requested if requested is not None else boot.args
        asked = source.get("context_length")
    line = said.line if said is not None else (tokens.line if tokens is not None else None)
    out.add(
        "--context-length", asked, usable, t("KV pool"),
        t("The declared context is {declared} tokens and the KV pool holds {pool}: a longer "
          "request is refused.", declared=f"{declared:,}",
          pool=f"{tokens.value:,}" if tokens is not None else "—"),
        t("Tell clients {usable}, or enlarge the KV pool (8-bit KV cache, fewer state slots, a "
          "larger static share).", usable=f"{usable:,}"),
        line,
        clamp=asked is not None,
    )  # fmt: skip


def _pool(boot: Boot, out: Changes, requested: dict[str, Value] | None) -> None:
    source = requested if requested is not None else boot.args
    asked = source.get("max_total_tokens")
    tokens = boot.facts.get("kv_tokens")
    if tokens is None or not isinstance(tokens.value, int) or not isinstance(asked, int):
        return
    got = tokens.value
    if got >= asked:
        return
    page = boot.args.get("page_size")
    rounded = isinstance(page, int) and page > 1 and got == asked // page * page
    announced = next((c for c in boot.changes if c.change.name == "max_total_tokens"), None)
    if announced is not None:
        out.add(
            "--max-total-tokens", asked, got, announced.change.by, announced.change.why,
            announced.change.remedy, announced.line, clamp=True,
        )  # fmt: skip
    else:
        out.add(
            "--max-total-tokens", asked, got, t("page size") if rounded else t("KV pool"),
            t("The pool is rounded down to whole pages.")
            if rounded
            else t("The memory left for the pool holds fewer tokens."),
            None, tokens.line, clamp=not rounded,
        )  # fmt: skip


# --- announced changes ----------------------------------------------------------------------

_LIMITS = {"mamba_cap", "kv_cap", "post_capture_cap", "max_num_reqs", "context"}
"""Announcements that the limits above already used."""

# Values without a flag of their own → the field that asks for them.
_ASKED_BY = {"attention_block_size": "block_size", "cudagraph_mode": "compilation_config"}


def _announced(boot: Boot, out: Changes, requested: dict[str, Value] | None) -> None:
    for seen in boot.changes:
        change = seen.change
        if change.name in _LIMITS or _wanted(boot, seen):
            continue
        given = None if change.kind is ChangeKind.KEPT else _given(seen, requested)
        # "auto" asks for what fits: the text names the limit that does not.
        open_ended = given in _OPEN and seen.asked is not None
        asked = seen.asked if given is None or open_ended else given
        got = _got(boot, seen)
        if asked == got and asked is not None:
            continue
        if change.kind is ChangeKind.ASKED:
            clamp = True
        elif change.name == "page_size" and requested is None:
            # Without the command line, only a size other than the default shows that it was set.
            clamp = isinstance(seen.asked, int) and seen.asked > 1
        else:
            clamp = given is not None and given not in _OPEN
        out.add(
            change.arg, asked, got, change.by, change.why, change.remedy, seen.line, clamp=clamp
        )


def _given(seen: ChangeSeen, requested: dict[str, Value] | None) -> Value:
    """Return what the operator set for the argument; ``None`` = nothing, or not known."""
    if requested is None:
        return None
    arg = seen.change.arg
    value = requested.get(_ASKED_BY.get(arg, _field(arg)))
    if arg == "cudagraph_mode":
        named = isinstance(value, str) and "cudagraph_mode" in value
        return seen.asked if named else requested.get("cudagraph_mode")
    return value


def _got(boot: Boot, seen: ChangeSeen) -> Value:
    """Return the new value: as announced, else as the engine's arguments show it."""
    if seen.got is not None or not seen.change.args_phase:
        return seen.got
    return boot.args.get(_field(seen.change.arg))


def _wanted(boot: Boot, seen: ChangeSeen) -> bool:
    """Tell whether the arguments show that the operator asked for what the line announces."""
    if seen.change.name == "num_blocks":
        return seen.asked == 0  # vLLM's own profiling of graphs, not an override
    if seen.change.name == "prefill_graph":
        return (
            boot.args.get("cuda_graph_backend_prefill") == "disabled"
            or boot.args.get("disable_cuda_graph") is True
            or boot.args.get("disable_prefill_cuda_graph") is True
        )
    return False


def _field(arg: str) -> str:
    return arg.removeprefix("--").replace("-", "_")


# --- our own command line against the resolved arguments ------------------------------------

_HANDLED = {
    "max_running_requests", "context_length", "max_total_tokens", "model_path", "host", "port",
    "served_model_name", "api_key", "admin_api_key", "config",
}  # fmt: skip
_OPEN = {"auto", "default", "Auto", -1}
_RENAMED = {("NEXTN", "EAGLE")}


def _resolved(boot: Boot, out: Changes, requested: dict[str, Value]) -> None:
    """Compare argv with ``server_args``: what argument resolution changed without a word."""
    line = boot.args_line
    if line is None:
        return
    for name, asked in requested.items():
        if name in _HANDLED or name not in boot.args:
            continue
        got = boot.args[name]
        if _same(asked, got) or (isinstance(asked, str) and asked.startswith(("{", "["))):
            continue
        refined = isinstance(asked, str) and isinstance(got, str) and got.startswith(asked)
        chosen = refined or asked in _OPEN or (asked, got) in _RENAMED
        out.add(
            "--" + name.replace("_", "-"), asked, got, t("argument resolution"),
            t("The engine chose the value.") if chosen
            else t("The engine changed it while it resolved its arguments."),
            None, line, clamp=not chosen,
        )  # fmt: skip


def _same(asked: Value, got: Value) -> bool:
    if asked == got:
        return True
    if isinstance(asked, bool) or isinstance(got, bool):
        return str(asked).lower() == str(got).lower()
    if isinstance(asked, int | float) and isinstance(got, int | float):
        return abs(asked - got) < 1e-9
    if (isinstance(got, str) and got.startswith(("[", "(", "{", "<"))) or got is None:
        # A nested value, or one that lives under another name: nothing to compare.
        return True
    return str(asked) == str(got)
