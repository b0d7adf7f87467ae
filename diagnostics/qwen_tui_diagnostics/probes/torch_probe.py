"""``--cuda-probe``: import torch in the engine's interpreter and ask what it can run.

Costs seconds and some hundred megabytes of GPU memory, so it runs only when asked for, in a child
with a limit. Nothing of the engine itself is imported.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.probes.engine import first_install
from qwen_tui_diagnostics.result import SkipReason
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from pathlib import Path

    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.facts import Gathered

__all__ = ["collect"]

LIMIT_S = 60.0

_PROGRAM = """
import json, os, time
began = time.time()
import torch
out = {"version": torch.__version__, "cuda": torch.version.cuda,
       "import_s": round(time.time() - began, 1)}
try:
    out["arch_flags"] = torch._C._cuda_getArchFlags()
except Exception as error:
    out["arch_error"] = type(error).__name__
try:
    out["available"] = torch.cuda.is_available()
    if out["available"]:
        out["devices"] = torch.cuda.device_count()
        for number in range(out["devices"]):
            out["device"] = number
            x = torch.ones(1024, device="cuda:%d" % number)
            out["sum"] = float((x * 2).sum().item())
            if out["sum"] != 2048.0:
                break
        free, total = torch.cuda.mem_get_info()
        out["free_bytes"], out["total_bytes"] = free, total
except Exception as error:
    out["kernel_error"] = type(error).__name__ + ": " + str(error).splitlines()[0][:200]
print(json.dumps(out))
"""


def collect(context: Context, found: Gathered) -> None:
    """Gather ``torch.*``."""
    if not context.cuda_probe:
        found.lack("torch", SkipReason.DISABLED, t("asked for with --cuda-probe"))
        return
    interpreter = first_install(context)
    if interpreter is None:
        found.lack("torch", SkipReason.NO_TOOL, t("no engine was found"))
        return
    answer = _ask(context, interpreter)
    if isinstance(answer, str):
        reason = SkipReason.TIMEOUT if answer == "timeout" else SkipReason.UNSUPPORTED
        found.put("torch.error", answer)
        found.lack("torch.version", reason, answer)
        return
    for name, value in answer.items():
        found.put(f"torch.{name}", clean(value) if isinstance(value, str) else value)


def _ask(context: Context, interpreter: Path) -> dict[str, Any] | str:
    try:
        done = subprocess.run(
            # Without -I: a launch sees PYTHONPATH and the packages in the home folder too.
            [str(interpreter), "-X", "utf8", "-c", _PROGRAM],
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
            env=context.child_env,
            cwd="/",
        )
    except subprocess.TimeoutExpired:
        return "timeout"
    except OSError as error:
        return error.strerror or "cannot be started"
    try:
        answer: Any = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return clean(last)[:300] or f"exit code {done.returncode}"
    return answer if isinstance(answer, dict) else "no answer"
