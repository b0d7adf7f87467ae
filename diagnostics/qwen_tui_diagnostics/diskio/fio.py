"""fio as a second opinion: the same loads on the same file, where it is installed."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.diskio.measure import RANDOM_BYTES, SEQUENTIAL_BYTES, SEQUENTIAL_DEPTH
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FioError", "measure", "version"]

_EXTRA_S = 20.0
_VERSION_S = 5.0


class FioError(Exception):
    """fio gave no figure; the reason says why."""

    def __init__(self, reason: Text) -> None:
        super().__init__(str(reason))
        self.reason = reason


def version(program: str) -> str | None:
    """Return what ``fio --version`` says, or ``None``."""
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, check=True, timeout=_VERSION_S, text=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return clean(done.stdout.strip())[:40] or None


def measure(
    program: str, descriptor: int, depth: int | None, seconds: float, env: Mapping[str, str]
) -> dict[str, Any]:
    """Let fio read an open file and return ``{method, depth, reads_per_s, bytes_per_s}``.

    Only reads, past the page cache, at fresh offsets. The file may have no name (a scratch file
    that is already unlinked): it is opened by its descriptor.

    Args:
        program: Path of fio.
        descriptor: Open in this process.
        depth: Reads of 4 KiB at random in flight; ``None`` = 1 MiB in order.
        seconds: Length of the run.
        env: Environment of the child.

    Raises:
        FioError: fio failed or completed no reads.
    """
    reason = Text("")
    for method in ("psync",) if depth == 1 else ("io_uring", "libaio"):
        command = [
            program, "--name=probe", f"--filename=/proc/{os.getpid()}/fd/{descriptor}",
            "--readonly", "--direct=1", "--randrepeat=0", "--norandommap", "--thread",
            f"--rw={'read' if depth is None else 'randread'}",
            f"--bs={SEQUENTIAL_BYTES if depth is None else RANDOM_BYTES}",
            f"--ioengine={method}", f"--iodepth={depth or SEQUENTIAL_DEPTH}",
            f"--runtime={seconds:g}", "--time_based", "--output-format=json",
        ]  # fmt: skip
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=seconds + _EXTRA_S, check=False,
                stdin=subprocess.DEVNULL, env=dict(env), cwd="/",
            )  # fmt: skip
            answer: Any = json.loads(done.stdout)
            read = answer["jobs"][0]["read"]
            reads_per_s, bytes_per_s = float(read["iops"]), float(read["bw_bytes"])
        except subprocess.TimeoutExpired:
            limit = f"{seconds + _EXTRA_S:g}"
            raise FioError(t("no answer within {seconds} s", seconds=limit)) from None
        except OSError as error:
            why = Text(error.strerror) if error.strerror else t("cannot be started")
            raise FioError(why) from error
        except (ValueError, LookupError, TypeError):
            last = clean(done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2])
            reason = Text(last[:200]) if last else t("exit code {code}", code=done.returncode)
            continue
        if done.returncode == 0 and reads_per_s > 0:
            return {
                "method": method,
                "depth": depth or SEQUENTIAL_DEPTH,
                "reads_per_s": round(reads_per_s, 1),
                "bytes_per_s": round(bytes_per_s),
            }
        reason = t(
            "exit code {code}, {reads} reads/s", code=done.returncode, reads=f"{reads_per_s:g}"
        )
    raise FioError(reason)
