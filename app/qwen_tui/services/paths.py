"""Where the product keeps its files: config, state, cache. Folders are made 0700, files 0600."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from qwen_tui_profiles.errors import ConfigError
from qwen_tui_profiles.text import t

__all__ = ["Paths", "make_private", "write_private"]

HOME_VARIABLE = "QWEN_TUI_HOME"
"""When set, config, state and cache live in this one folder (tests, portable installations)."""


@dataclass(frozen=True, slots=True)
class Paths:
    """The product's own folders. Nothing is created until a method that says so is called."""

    config: Path
    """User settings and profiles (``profiles/*.toml``)."""
    state: Path
    """Run records, locks, engine logs (``runs/``), our own log, history."""
    cache: Path
    """Whatever can be computed again."""

    @classmethod
    def default(cls) -> Paths:
        """Return the folders for this user, following XDG and :data:`HOME_VARIABLE`."""
        home = os.environ.get(HOME_VARIABLE)
        if home:
            root = Path(home).expanduser()
            return cls(root / "config", root / "state", root / "cache")
        import platformdirs

        dirs = platformdirs.PlatformDirs("qwen-tui", appauthor=False)
        return cls(dirs.user_config_path, dirs.user_state_path, dirs.user_cache_path)

    @property
    def settings(self) -> Path:
        """The user's settings, whether or not the file exists."""
        return self.config / "config.toml"

    @property
    def profiles(self) -> Path:
        """Folder of user profiles."""
        return self.config / "profiles"

    @property
    def runs(self) -> Path:
        """Folder of run records and engine logs."""
        return self.state / "runs"

    def make(self, folder: Path) -> Path:
        """Create ``folder`` and whatever is missing above it (all 0700) and return it.

        Raises:
            ConfigError: it cannot be created or is not a folder.
        """
        try:
            make_private(folder)
        except OSError as error:
            raise ConfigError(
                t(
                    "Cannot create the folder {path}: {reason}.",
                    path=str(folder),
                    reason=error.strerror or type(error).__name__,
                ),
                t("Make it writable, or set {variable} to another folder.", variable=HOME_VARIABLE),
            ) from error
        return folder


def make_private(folder: Path) -> None:
    """Create ``folder`` and whatever is missing above it, all readable by the owner only.

    Raises:
        OSError: it cannot be created.
    """
    # `mkdir(parents=True)` would give the folders above it the default mode.
    for missing in reversed([p for p in folder.parents if not p.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def write_private(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace ``path`` atomically with ``data``, readable by the owner only (or as ``mode`` says).

    Raises:
        OSError: the folder cannot be written or the disk is full; ``path`` is then unchanged.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
