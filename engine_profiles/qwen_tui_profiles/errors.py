"""The one family of errors: what was observed and expected, and what to do.

::

    QwenTuiError
    ├── UsageError          the command line or a setting is wrong        (exit 2)
    ├── ConfigError         a file of ours cannot be read or written      (exit 2)
    │   └── ProfileError    a profile is unknown, broken or contradictory (exit 2)
    ├── InputError          a file or argument given to us is unusable    (exit 2)
    ├── EngineError         the engine cannot be found, started or asked  (exit 1)
    │   ├── LaunchError     a launch was refused or failed
    │   └── StopError       a stop did not end as it should
    ├── ProbeError          a measurement could not be made               (exit 1)
    └── DownloadError       a transfer failed                             (exit 1)

Services raise them; the CLI and the console show them once. Nothing else reaches a user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from qwen_tui_profiles.text import Text

__all__ = [
    "ConfigError",
    "DownloadError",
    "EngineError",
    "InputError",
    "LaunchError",
    "ProbeError",
    "ProfileError",
    "QwenTuiError",
    "StopError",
    "UsageError",
]


class QwenTuiError(Exception):
    """Base of every error that a user may see.

    Attributes:
        message: What was observed and what was expected, in one sentence.
        remedy: What to do about it; ``None`` only where nothing can be done.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: Text, remedy: Text | None = None) -> None:
        super().__init__(str(message))
        self.message = message
        self.remedy = remedy


class UsageError(QwenTuiError):
    """The command line or a setting is wrong."""

    exit_code = 2


class ConfigError(QwenTuiError):
    """A file of ours cannot be read or written."""

    exit_code = 2


class ProfileError(ConfigError):
    """A profile is unknown, broken or contradicts itself."""


class InputError(QwenTuiError):
    """A file or argument that the user gave cannot be used."""

    exit_code = 2


class EngineError(QwenTuiError):
    """The engine cannot be found, started or asked."""


class LaunchError(EngineError):
    """A launch was refused or failed."""


class StopError(EngineError):
    """A stop did not end as it should."""


class ProbeError(QwenTuiError):
    """A measurement could not be made."""


class DownloadError(QwenTuiError):
    """A transfer failed."""
