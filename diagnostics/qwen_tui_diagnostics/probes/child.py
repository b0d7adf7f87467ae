"""The child process that runs collectors: context on stdin, one JSON line a collector on stdout.

Each collector has a thread of its own; one that hangs does not hold up the others, and the parent
kills the process when the last limit has passed.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.context import Context
from qwen_tui_diagnostics.facts import Gathered
from qwen_tui_diagnostics.result import SkipReason

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main", "run_collector"]


def run_collector(name: str, module: str, context: Context) -> dict[str, Any]:
    """Run one collector here and return ``{name, values, absent, raw, ms}``.

    A collector that raises leaves its facts absent, with the exception's class as the reason.
    """
    found = Gathered()
    began = time.perf_counter()
    try:
        collect: Callable[[Context, Gathered], None] = importlib.import_module(
            f"qwen_tui_diagnostics.probes.{module}"
        ).collect
        collect(context, found)
    except Exception as error:  # noqa: BLE001 - the edge of the check runner: becomes a finding
        line = " ".join(str(error).split())[:200]
        found.lack(name, SkipReason.UNSUPPORTED, f"{type(error).__name__}: {line}")
    return {
        "name": name,
        "values": found.values,
        "absent": {path: absence.as_json() for path, absence in found.absent.items()},
        "raw": found.raw,
        "ms": (time.perf_counter() - began) * 1000,
    }


def main() -> int:
    """Serve one request of the parent."""
    request = json.loads(sys.stdin.buffer.readline())
    context = Context.from_json(request["context"])
    lock = threading.Lock()
    # Keep stdout for our lines alone: whatever a library prints goes to stderr.
    channel = os.dup(1)
    os.dup2(2, 1)

    def serve(name: str, module: str) -> None:
        line = json.dumps(run_collector(name, module, context)).encode() + b"\n"
        with lock:
            _write_all(channel, line)

    threads = [
        threading.Thread(target=serve, args=(name, module), daemon=True)
        for name, module in request["collectors"]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0


def _write_all(channel: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(channel, view) :]


if __name__ == "__main__":
    sys.exit(main())
