"""Starts an engine: an argument list, no shell, its own session, its output in a file."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from qwen_tui.services.process import RUN_VARIABLE
from qwen_tui_profiles.errors import LaunchError
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Child", "ReapedChild", "Spawner", "SystemSpawner"]


class Child(Protocol):
    """A process that we are the parent of."""

    @property
    def pid(self) -> int:
        """Its process id."""
        ...

    def poll(self) -> int | None:
        """Reap it if it has ended and return its exit code, else ``None``."""
        ...


class ReapedChild:
    """A child process that may outlive us."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._code: int | None = None
        self._reaped = False

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._pid

    def poll(self) -> int | None:
        """Reap it if it has ended and return its exit code, else ``None``."""
        if not self._reaped:
            try:
                pid, status = os.waitpid(self._pid, os.WNOHANG)
            except ChildProcessError:  # somebody else reaped it: the code is lost
                self._reaped = True
                return None
            if pid == self._pid:
                self._reaped = True
                self._code = os.waitstatus_to_exitcode(status)
        return self._code


class Spawner(Protocol):
    """Starts processes; a seam for tests."""

    def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], *, folder: Path, log: Path
    ) -> Child:
        """Start ``argv`` with additions to our environment.

        Raises:
            LaunchError: it cannot be started.
        """
        ...


class SystemSpawner:
    """The real one."""

    def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], *, folder: Path, log: Path
    ) -> Child:
        """Start ``argv`` detached: it outlives us, and a Ctrl-C here does not reach it.

        Its working folder is the run's own, because ``python -m`` puts the working folder first
        on the module path, and a stray ``torch.py`` of the user's would be imported. Its output
        goes to a file, since a pipe breaks when its reader dies.
        """
        program = Path(argv[0])
        # What carries a run's id is ended with that run: nobody inherits one by accident.
        inherited = {k: v for k, v in os.environ.items() if k != RUN_VARIABLE}
        environment = {**inherited, **env}
        if program.is_absolute():
            # Just-in-time compilers look for `ninja` and `nvcc` of the engine's own environment.
            environment["PATH"] = f"{program.parent}{os.pathsep}{environment.get('PATH', '')}"
        environment.setdefault("PYTHONUNBUFFERED", "1")
        try:
            handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise LaunchError(
                t(
                    "The engine log {path} cannot be written: {reason}.",
                    path=str(log),
                    reason=error.strerror or "",
                ),
                t("Make room or make it writable; nothing was started."),
            ) from error
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=handle,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=folder,
                env=environment,
            )
            # Popen warns when it is collected while its child lives. Outliving us is the purpose
            # here, so the object is told that it is done and the child is reaped by pid.
            process.returncode = 0
            return ReapedChild(process.pid)
        except OSError as error:
            raise LaunchError(
                t(
                    "{program} cannot be started: {reason}.",
                    program=argv[0],
                    reason=error.strerror or type(error).__name__,
                ),
                t("Set the profile's interpreter to one that has the engine installed."),
            ) from error
        finally:
            os.close(handle)
