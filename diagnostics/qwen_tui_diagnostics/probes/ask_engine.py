"""``--ask-engine``: let the installed engine read the command line itself, without starting it.

One flag that no release has is appended: when the engine complains about nothing else, every other
flag exists and has an allowed value. Its parser runs before any device is touched and ends with
exit code 2 after 8 to 18 s (SGLang 0.5.23, vLLM 0.32.0); torch is imported, so this is only done
when it is asked for.
"""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.probes.engine import search
from qwen_tui_diagnostics.result import SkipReason
from qwen_tui_profiles.flags import respell
from qwen_tui_profiles.foreign import clean, redact, redact_argv
from qwen_tui_profiles.launch import ENGINE_MODULES, MODEL_FLAGS
from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.facts import Gathered

__all__ = ["PROBE_FLAG", "collect", "complaint"]

LIMIT_S = 60.0
PROBE_FLAG = "--qwen-tui-no-such-flag"
_ERROR = re.compile(r"error: (.*)$")
_UNRECOGNISED = "unrecognized arguments: "


def collect(context: Context, found: Gathered) -> None:
    """Gather ``asked.*``."""
    if not context.ask_engine:
        found.lack("asked", SkipReason.DISABLED, t("needs --ask-engine"))
        return
    engines, _, _ = search(context)
    if not engines:
        found.lack("asked", SkipReason.NO_TOOL, t("no engine was found"))
        return
    engine = engines[0]
    kind = EngineKind(engine.engine)
    argv = respell(kind, context.target.argv, engine.packages[engine.engine].version)
    command = [
        str(engine.interpreter), "-m", ENGINE_MODULES[kind],
        # The command line is visible to everybody on this machine: secrets stay out of it.
        MODEL_FLAGS[kind], context.target.model_path or "none", *redact_argv(argv), PROBE_FLAG,
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=LIMIT_S, check=False, cwd="/",
            stdin=subprocess.DEVNULL, env=context.child_env,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        found.lack("asked", SkipReason.TIMEOUT, t("no answer within {s:g} s", s=LIMIT_S))
        return
    except OSError as error:
        found.lack("asked", SkipReason.NO_TOOL, error.strerror or t("cannot be started"))
        return
    text = done.stderr.decode("utf-8", "replace")
    answer = complaint(text)
    if done.returncode != 2 or answer is None:
        last = clean(text.strip().rpartition("\n")[2])
        detail = redact(last)[:300] or f"exit code {done.returncode}"
        found.lack("asked", SkipReason.UNSUPPORTED, detail)
        return
    found.put("asked.complaint", answer)


def complaint(text: str) -> str | None:
    """Return what the engine's parser objects to beside our own flag.

    Returns:
        ``""`` when it objects to nothing else; ``None`` when it never came so far.
    """
    for line in reversed(text.splitlines()):
        match = _ERROR.search(clean(line).strip())
        if match is None:
            continue
        message = match[1]
        if message.startswith(_UNRECOGNISED):
            others = [w for w in message.removeprefix(_UNRECOGNISED).split() if w != PROBE_FLAG]
            return f"unrecognized arguments: {' '.join(others)}" if others else ""
        return redact(message)[:300]
    return None
