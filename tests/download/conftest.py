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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes minutes, unless it is asked for with ``-m slow``."""
    if "slow" in (config.getoption("-m") or ""):
        return
    for item in items:
        if "slow" in item.keywords and "download" in item.path.parts:
            item.add_marker(pytest.mark.skip(reason="minutes long: run with -m slow"))


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
