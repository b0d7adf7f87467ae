"""Raw outputs for a bundle: what a developer would ask for, so that an odd machine can be replayed.

Never read by a judge. Identifiers of the card are masked here, the rest by the bundle's redaction.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.probes.files import try_text
from qwen_tui_profiles.foreign import clean

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.facts import Gathered

__all__ = ["collect", "mask"]

_FILES = (
    "proc/meminfo", "proc/swaps", "proc/version", "proc/self/cgroup", "proc/self/mountinfo",
    "proc/self/limits", "proc/driver/nvidia/version", "proc/driver/nvidia/params",
    "proc/sys/kernel/io_uring_disabled", "etc/os-release",
)  # fmt: skip
_COMMANDS: tuple[tuple[str, tuple[str, ...], float], ...] = (
    ("nvidia-smi.txt", ("nvidia-smi",), 10),
    ("nvidia-smi-topo.txt", ("nvidia-smi", "topo", "-m"), 10),
    ("nvcc.txt", ("nvcc", "--version"), 5),
    ("compiler.txt", ("g++", "--version"), 5),
    ("lspci.txt", ("lspci", "-nn", "-d", "10de:"), 5),
    ("lsblk.txt", ("lsblk", "-o", "NAME,TYPE,FSTYPE,SIZE,ROTA,MODEL"), 5),
)
_MOST_CHARACTERS = 200_000
_UUID = re.compile(r"\b(GPU|MIG)-([0-9a-f]{8})-[0-9a-f-]{20,}")
_SERIAL = re.compile(r"(?im)^(\s*(?:Serial Number|Board ID|GPU Part Number)\s*:\s*).*$")


def collect(context: Context, found: Gathered) -> None:
    """Gather no facts, only raw texts."""
    for name in _FILES:
        text = try_text(context.path(name))
        if text is not None:
            found.raw[name] = mask(text)
    for name, argv, limit_s in _COMMANDS:
        tool = shutil.which(argv[0], path=context.env.get("PATH"))
        if tool is not None:
            found.raw[name] = mask(_output([tool, *argv[1:]], limit_s))


def mask(text: str) -> str:
    """Shorten UUIDs, drop serial numbers, strip control characters."""
    lines = "\n".join(clean(line) for line in text[:_MOST_CHARACTERS].splitlines())
    return _SERIAL.sub(r"\1<redacted>", _UUID.sub(r"\1-\2", lines))


def _output(argv: list[str], limit_s: float) -> str:
    try:
        done = subprocess.run(
            argv, capture_output=True, timeout=limit_s, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return f"(no answer within {limit_s:g} s)"
    except OSError as error:
        return f"({error.strerror})"
    text = (done.stdout + done.stderr).decode("utf-8", "replace")
    return text if done.returncode == 0 else f"(exit code {done.returncode})\n{text}"
