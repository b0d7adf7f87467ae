"""States of a supervised server and the legal steps between them. Imports nothing of ours.

Start-up *phase* and *readiness* are separate fields of a snapshot: a state says only what can be
done with the server.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ALIVE", "ENDED", "STEPS", "IllegalStepError", "ServerState", "check_step"]


class ServerState(StrEnum):
    """State of the server that we launched or watch; ``phase`` and ``ready`` are separate."""

    STOPPED = "stopped"
    """Nothing runs: never launched, or ended because a stop was asked for."""
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    EXITED = "exited"
    """Ended by itself, without a failure that we know of."""
    FATAL = "fatal"
    """Died, or never became ready; the cause is kept until acknowledged."""
    UNREACHABLE = "unreachable"
    """A process or address that should serve and does not answer."""


_S = ServerState

STEPS: Mapping[ServerState, frozenset[ServerState]] = MappingProxyType(
    {
        _S.STOPPED: frozenset({_S.STARTING}),
        _S.STARTING: frozenset({_S.RUNNING, _S.STOPPING, _S.STOPPED, _S.EXITED, _S.FATAL}),
        _S.RUNNING: frozenset({_S.STOPPING, _S.UNREACHABLE, _S.STOPPED, _S.EXITED, _S.FATAL}),
        # STOPPING → RUNNING does not exist: an engine that got TERM never serves again.
        _S.STOPPING: frozenset({_S.STOPPED}),
        _S.EXITED: frozenset({_S.STARTING, _S.STOPPED}),
        _S.FATAL: frozenset({_S.STARTING, _S.STOPPED}),
        _S.UNREACHABLE: frozenset({_S.RUNNING, _S.STOPPING, _S.STOPPED, _S.EXITED, _S.FATAL}),
    }
)
"""From each state, the states that may follow it. Staying is always legal."""

ALIVE = frozenset({_S.STARTING, _S.RUNNING, _S.STOPPING, _S.UNREACHABLE})
"""States in which a process (or an address) of ours exists."""

ENDED = frozenset({_S.STOPPED, _S.EXITED, _S.FATAL})
"""States from which a launch may begin."""


class IllegalStepError(ValueError):
    """A step that the table forbids: a defect of the caller, never of the user."""


def check_step(before: ServerState, after: ServerState) -> ServerState:
    """Return ``after`` when it may follow ``before``.

    Raises:
        IllegalStepError: the table does not allow it.
    """
    if after is not before and after not in STEPS[before]:
        raise IllegalStepError(f"a server cannot go from {before} to {after}")
    return after
