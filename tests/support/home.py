"""A home folder with two quick profiles of the simulated engine, and the command line in it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from qwen_tui.cli import main
from qwen_tui.services.paths import Paths
from support.supervise import free_port

PROFILE = """\
title = "Quick {name}"
engine = "demo"
mode = "{mode}"
pair = "{pair}"
port = {port}
needs-gpu = false

[args]
context-length = 159776
max-running-requests = 4
max-mamba-cache-size = 8
mamba-radix-cache-strategy = "extra_buffer_lazy"
kv-cache-dtype = "fp8_e4m3"
mem-fraction-static = 0.97
speculative-algorithm = "EAGLE"
speculative-num-steps = 5
speculative-eagle-topk = 1
speculative-num-draft-tokens = 6
enable-metrics = true
demo-load-seconds = {load}
demo-drain-poll-seconds = 0.05
demo-crash-seconds = 0.2
{more}
"""


class Home:
    """A home folder with two profiles, and the command line in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths = Paths(root / "config", root / "state", root / "cache")
        self.port = free_port()
        self.started: list[subprocess.Popen[str]] = []
        self.write("quick", "speed", "long")
        self.write("long", "context", "quick")

    def write(self, name: str, mode: str, pair: str, *, load: float = 0.0, more: str = "") -> None:
        self.paths.profiles.mkdir(parents=True, exist_ok=True)
        (self.paths.profiles / f"{name}.toml").write_text(
            PROFILE.format(name=name, mode=mode, pair=pair, port=self.port, load=load, more=more)
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "qwen_tui", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "QWEN_TUI_HOME": str(self.root)},
        )
        self.started.append(process)
        return process

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run one command line in this process: the same code, without its start-up time."""
        out, err = io.StringIO(), io.StringIO()
        with (
            pytest.MonkeyPatch.context() as patch,
            Path(os.devnull).open() as nothing,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            patch.setenv("QWEN_TUI_HOME", str(self.root))
            patch.setattr("sys.stdin", nothing)
            try:
                code = main(arguments)
            except SystemExit as usage:  # argparse
                code = int(str(usage.code))
        assert "Traceback" not in err.getvalue()
        return code, out.getvalue(), err.getvalue()

    def json(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        returned, out, err = self.run(*arguments, "--json")
        assert returned == code, err
        document = json.loads(out)
        assert next(iter(document)) == "schema"
        return document  # type: ignore[no-any-return]
