"""The container runtime of a profile that runs in one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.result import SkipReason
from qwen_tui_profiles.foreign import clean

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.facts import Gathered

__all__ = ["collect"]

LIMIT_S = 3.0


def collect(context: Context, found: Gathered) -> None:
    """Gather ``container.*``."""
    runtime = context.target.runtime or "docker"
    tool = shutil.which(runtime, path=context.env.get("PATH"))
    found.put("container.runtime", runtime)
    found.put("container.tool", tool or "")
    toolkit = shutil.which("nvidia-ctk", path=context.env.get("PATH"))
    found.put("container.toolkit", toolkit or "")
    folders = [context.path(folder) for folder in ("etc/cdi", "var/run/cdi", "run/cdi")]
    found.put(
        "container.cdi",
        any(path for folder in folders if folder.is_dir() for path in folder.glob("nvidia*")),
    )
    if tool is None:
        return
    found.put("container.snap", "/snap/" in os.path.realpath(tool))
    answer = _ask([tool, "info", "--format", "{{json .}}"])
    if isinstance(answer, str):
        reason = SkipReason.TIMEOUT if answer == "timeout" else SkipReason.NOT_PERMITTED
        found.put("container.daemon_error", answer)
        found.lack("container.runtimes", reason, answer)
        return
    runtimes = answer.get("Runtimes")
    found.put("container.runtimes", sorted(runtimes) if isinstance(runtimes, dict) else [])
    if context.target.image:
        image = _ask([tool, "image", "inspect", "--format", "{{json .}}", context.target.image])
        found.put("container.image_present", isinstance(image, dict))


def _ask(argv: list[str]) -> dict[str, Any] | str:
    """Return the JSON object that a command prints, or why there is none."""
    try:
        done = subprocess.run(
            argv, capture_output=True, timeout=LIMIT_S, check=False, stdin=subprocess.DEVNULL,
            cwd=Path("/"),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "timeout"
    except OSError as error:
        return error.strerror or "cannot be started"
    if done.returncode != 0:
        text = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        return clean(text)[:200] or f"exit code {done.returncode}"
    try:
        answer: Any = json.loads(done.stdout)
    except ValueError:
        return "not JSON"
    return answer if isinstance(answer, dict) else "not an object"
