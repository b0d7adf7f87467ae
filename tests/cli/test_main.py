"""The edge of the command line: errors of ours, errors of the program, broken pipes."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from qwen_tui import cli
from qwen_tui_profiles.errors import LaunchError, ProfileError
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def _raise(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def dispatch(_: list[str]) -> int:
        raise error

    monkeypatch.setattr(cli, "_dispatch", dispatch)


def test_an_error_of_ours_is_one_sentence_and_a_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _raise(monkeypatch, LaunchError(t("Port {port} is taken.", port=1), t("Take another.")))
    assert cli.main([]) == 1
    assert capsys.readouterr().err == "qwen-tui: Port 1 is taken.\n  → Take another.\n"
    _raise(monkeypatch, ProfileError(t("No profile.")))
    assert cli.main([]) == 2


def test_an_unexpected_error_becomes_a_redacted_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("QWEN_TUI_HOME", str(tmp_path))
    _raise(monkeypatch, RuntimeError("Bearer abcdefghijkl \x1b[31m"))
    assert cli.main([]) == 1
    said = capsys.readouterr().err
    assert "RuntimeError" in said
    assert "Traceback" not in said
    (crash,) = (tmp_path / "state" / "crashes").iterdir()
    assert str(crash) in said
    text = crash.read_text(encoding="utf-8")
    assert "Traceback" in text
    assert "abcdefghijkl" not in text
    assert "\x1b" not in text
    assert crash.stat().st_mode & 0o777 == 0o600
    assert crash.parent.stat().st_mode & 0o777 == 0o700


def test_an_interrupt_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    _raise(monkeypatch, KeyboardInterrupt())
    assert cli.main([]) == 130


def test_a_reader_that_goes_away_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "qwen_tui", "--help"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=30,
        check=False,
    )
    os.close(writer)
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
