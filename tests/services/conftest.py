from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.paths import Paths
from support.supervise import kill_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[Paths]:
    """A home folder whose processes never outlive the test."""
    home = Paths(tmp_path / "config", tmp_path / "state", tmp_path / "cache")
    yield home
    kill_all(home)
