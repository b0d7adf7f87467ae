"""A hub per test, and a way to run whole downloads against it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from support.download_bench import Bench
from support.fake_hub import FakeHub, fake_hub

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    files: dict[str, Any] = {
        "config.json": b'{"architectures": ["Qwen3_5ForConditionalGeneration"]}',
        "model.safetensors": os.urandom(1 << 20),
    }
    with fake_hub(files=files) as hub:
        yield hub


@pytest.fixture
def bench(hub: FakeHub, tmp_path: Path) -> Bench:
    home = tmp_path / "home"
    home.mkdir()
    return Bench(hub, home, tmp_path / "model")
