"""A hub per test, and a way to run whole downloads against it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from qwen_tui.services.download import session
from support.download_bench import Bench
from support.fake_hub import FakeHub, fake_hub
from support.warm_worker import nursery

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    files: dict[str, Any] = {
        "config.json": b'{"architectures": ["Qwen3_5ForConditionalGeneration"]}',
        "model.safetensors": os.urandom(1 << 20),
    }
    with fake_hub(files=files) as hub:
        yield hub


@pytest.fixture(scope="session")
def warm() -> Iterator[tuple[str, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        yield from nursery(Path(folder))


@pytest.fixture(scope="session")
def memory() -> Iterator[Path]:
    """A folder in memory where there is one: hundreds of syncs wait for nobody's disk."""
    root = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=root, prefix="qwen-tui-test-") as folder:
        yield Path(folder)


@pytest.fixture
def quick_path(memory: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture
def cold_bench(hub: FakeHub, quick_path: Path) -> Bench:
    """Its workers are started as users start them."""
    home = quick_path / "home"
    home.mkdir()
    return Bench(hub, home, quick_path / "model")


@pytest.fixture
def bench(cold_bench: Bench, warm: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Workers that this process starts come from the nursery; whatever else is real."""
    monkeypatch.setattr(session, "WORKER_COMMAND", warm)
    return cold_bench
