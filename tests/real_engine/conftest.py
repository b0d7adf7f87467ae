"""A real engine on the CPU: where it is, and a home folder whose server never outlives the test."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PROFILE = """\
title = "Tiny GPT-2 on the CPU, pool of {tokens} tokens"
engine = "sglang"
mode = "{mode}"
pair = "{pair}"
port = {port}
needs-gpu = false

[launch]
interpreter = "{interpreter}"

[model]
path = "{model}"
served-name = "tiny-gpt2"

[args]
device = "cpu"
attention-backend = "torch_native"
sampling-backend = "pytorch"
disable-overlap-schedule = true
max-running-requests = 4
max-total-tokens = {tokens}
context-length = 4096
enable-metrics = true
enable-cache-report = true
"""

VLLM_PROFILE = """\
title = "Tiny GPT-2 on vLLM's CPU build, context {context}"
engine = "vllm"
mode = "{mode}"
pair = "{pair}"
port = {port}
needs-gpu = false

[launch]
interpreter = "{interpreter}"

[model]
path = "{model}"
served-name = "tiny-gpt2"

[env]
VLLM_CPU_KVCACHE_SPACE = "1"
HF_HUB_OFFLINE = "1"

[args]
max-model-len = {context}
max-num-seqs = 4
dtype = "float32"
enable-prompt-tokens-details = true
"""
VLLM_VARIABLE = "QWEN_TUI_VLLM_PYTHON"
"""Names the Python of a vLLM that runs on this machine's CPU."""


@dataclass
class RealEngine:
    """A home folder of our own, the CLI run in it, and what was observed for the record."""

    home: Path
    interpreter: Path
    model: Path
    port: int
    observed: dict[str, Any] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "QWEN_TUI_HOME": str(self.home), "HF_HUB_OFFLINE": "1"}

    def write_profile(self, name: str, *, tokens: int, mode: str, pair: str) -> None:
        self._write(name, PROFILE, tokens=tokens, mode=mode, pair=pair)

    def write_vllm_profile(self, name: str, *, context: int, mode: str, pair: str) -> None:
        self._write(name, VLLM_PROFILE, context=context, mode=mode, pair=pair)

    def _write(self, name: str, template: str, **values: object) -> None:
        folder = self.home / "config" / "profiles"
        folder.mkdir(parents=True, exist_ok=True)
        places = {"port": self.port, "interpreter": self.interpreter, "model": self.model}
        text = template.format(**values, **places)
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")

    def cli(self, *argv: str, timeout_s: float = 400) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "qwen_tui", *argv],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self.cli("status", "--json", timeout_s=60).stdout))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def processes_of(home: Path) -> list[psutil.Process]:
    """Running processes that were started with this home folder in their environment."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("QWEN_TUI_HOME") == str(home):
                found.append(process)
    return found


def engine_folder() -> Path:
    """Where setup.sh put the engine and the tiny model."""
    folder = os.environ.get("QWEN_TUI_REAL_ENGINE", "~/.cache/qwen-tui-real-engine")
    return Path(folder).expanduser()


@pytest.fixture
def real_engine(tmp_path: Path) -> Iterator[RealEngine]:
    folder = engine_folder()
    interpreter = folder / "venv" / "bin" / "python"
    model = folder / "tiny-gpt2"
    if not interpreter.exists() or not (model / "config.json").exists():
        pytest.skip(
            f"no real SGLang in {folder}: run tests/real_engine/setup.sh, then make test-real"
        )
    yield from using(RealEngine(tmp_path / "home", interpreter, model, free_port()))


@pytest.fixture
def real_vllm(tmp_path: Path) -> Iterator[RealEngine]:
    named = os.environ.get(VLLM_VARIABLE)
    if not named or not Path(named).exists():
        pytest.skip(f"{VLLM_VARIABLE} names no Python of a vLLM for this CPU")
    model = engine_folder() / "tiny-gpt2"
    if not (model / "config.json").exists():
        model = tmp_path / "tiny-gpt2"
        maker = Path(__file__).with_name("make_tiny_model.py")
        subprocess.run([named, str(maker), str(model)], check=True, timeout=300)
    yield from using(RealEngine(tmp_path / "home", Path(named), model, free_port()))


def using(engine: RealEngine) -> Iterator[RealEngine]:
    """Lend the engine, and leave nothing of it behind."""
    yield engine
    engine.cli("down", timeout_s=120)
    for process in processes_of(engine.home):
        process.kill()
