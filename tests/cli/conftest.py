"""A home folder for each test of the commands; nothing that was started in it outlives the test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.home import Home
from support.supervise import kill_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    for process in made.started:
        process.kill()
        process.communicate()
    kill_all(made.paths)
