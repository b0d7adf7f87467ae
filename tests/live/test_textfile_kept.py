"""A text file that nobody renews any more must not go on saying that a server is up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.live import textfile
from qwen_tui.services.live.textfile import TextfileKeeper
from qwen_tui_profiles.errors import ConfigError
from support.supervise import free_port, wait_until

if TYPE_CHECKING:
    from pathlib import Path


def test_a_disk_that_fills_up_takes_the_file_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "q.prom"
    keeper = TextfileKeeper(path)
    assert keeper.write("a 1\n")
    with monkeypatch.context() as patch:

        def full(path: Path, data: bytes, *, mode: int) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr(textfile, "write_private", full)
        assert not keeper.write("a 2\n")  # the first of them: to be said
        assert "No space left" in str(keeper.problem)
        assert keeper.write("a 3\n")  # said already
        assert not path.exists()
    assert keeper.write("a 4\n")
    assert keeper.problem is None
    assert path.read_text() == "a 4\n"


def test_a_file_that_cannot_be_written_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no/such"):
        TextfileKeeper(tmp_path / "no/such/q.prom").write("a 1\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_end_of_watch_takes_the_file_away(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "q.prom"
    url = f"http://127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "qwen_tui", "watch", "--no-gpu", "--url", url]
    watch = subprocess.Popen(
        [*command, "--textfile", str(path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "QWEN_TUI_HOME": str(tmp_path / "home")},
    )
    try:
        assert wait_until(path.exists)
        assert "qwen_tui_up" in path.read_text()
        watch.send_signal(number)
        _, said = watch.communicate(timeout=20)
        assert (watch.returncode, said) == (130, "")
        assert not path.exists()
    finally:
        watch.kill()
        watch.communicate()
