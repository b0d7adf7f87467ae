"""``python -m qwen_tui.services.front``: the process behind ``qwen-tui up --front PORT``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import uvicorn

from qwen_tui.services.front.gate import Gate
from qwen_tui.services.front.relay import Relay, build_app
from qwen_tui.services.front.service import FrontService
from qwen_tui.services.paths import Paths
from qwen_tui_profiles.errors import LaunchError

_GRACE_S = 5


def main() -> int:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(prog="qwen_tui.services.front")
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--hold", type=float, required=True)
    args = parser.parse_args()
    paths = Paths(args.state, args.state, args.state)
    try:
        FrontService(paths).register(args.host, args.port, args.hold)
    except LaunchError as error:
        print(error, file=sys.stderr)  # noqa: T201 - stderr is the front's log
        return 1
    except OSError as error:
        # A full disk: its launcher, if it lives, finds the same and ends this process.
        print(f"cannot be recorded: {error.strerror}", file=sys.stderr)  # noqa: T201
        return 1
    uvicorn.run(
        build_app(Relay(Gate(paths), hold_s=args.hold)),
        host=args.host,
        port=args.port,
        log_level="warning",
        access_log=False,
        # The answer is the engine's, down to its headers.
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=_GRACE_S,
    )
    return 0


sys.exit(main())
