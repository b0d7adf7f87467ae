from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.paths import Paths
from support.supervise import kill_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits that only matter with a real engine."""
    monkeypatch.setattr("qwen_tui.services.observer._LAST_WORDS_S", 0.5)
    monkeypatch.setattr("qwen_tui.services.runs.LEASE_WAIT_S", 0.3)
    monkeypatch.setattr("qwen_tui.services.boot.RETRY_S", 0.1)


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[Paths]:
    """A home folder whose processes never outlive the test."""
    home = Paths(tmp_path / "config", tmp_path / "state", tmp_path / "cache")
    yield home
    kill_all(home)
