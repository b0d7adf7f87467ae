"""The last resort: an error that nobody expected becomes a redacted file and one sentence."""

from __future__ import annotations

import datetime
import traceback
from typing import TYPE_CHECKING

from qwen_tui.services.paths import Paths, write_private
from qwen_tui_profiles.errors import ConfigError, QwenTuiError
from qwen_tui_profiles.foreign import clean, redact
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["as_user_error", "write_crash_file"]


def write_crash_file(error: BaseException, *, version: str, paths: Paths | None = None) -> Path:
    """Write the traceback, cleaned and redacted, into the state folder and return its path.

    Raises:
        ConfigError: the state folder cannot be made.
        OSError: the file cannot be written.
    """
    paths = Paths.default() if paths is None else paths
    now = datetime.datetime.now(datetime.UTC)
    folder = paths.make(paths.state / "crashes")
    path = folder / f"crash-{now:%Y%m%dT%H%M%S%f}.txt"
    lines = "".join(traceback.format_exception(error)).splitlines()
    body = [f"qwen-tui {version}  {now.isoformat()}", *(redact(clean(line)) for line in lines)]
    write_private(path, ("\n".join(body) + "\n").encode("utf-8", "backslashreplace"))
    return path


def as_user_error(error: Exception, *, version: str) -> QwenTuiError:
    """Return what a user is told about an error of the program itself."""
    name = type(error).__name__
    try:
        path = write_crash_file(error, version=version)
    except (OSError, ConfigError):
        return QwenTuiError(
            t("An error of qwen-tui itself: {name}. No crash file could be written.", name=name),
            t("Make the state folder writable and repeat the command."),
        )
    return QwenTuiError(
        t("An error of qwen-tui itself: {name}.", name=name),
        t("Report it with the file {path} (secrets are taken out of it).", path=str(path)),
    )
