"""Where a request may go now: on, wait, or nowhere. Read from the files of the state folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui.services.intent import SwapIntents
from qwen_tui.services.process import alive
from qwen_tui.services.runs import RunStore
from qwen_tui.services.state import ServerState
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.records import RunRecord
    from qwen_tui_profiles.text import Text

__all__ = ["Closed", "Gate", "Hold", "Open"]

# From the first of these on the old server takes nothing new; the last two belong to the new one.
_HOLDING = frozenset({"drain", "stop", "memory", "start", "roll_back"})


@dataclass(frozen=True, slots=True)
class Open:
    """Forward to this server."""

    url: str
    run: str
    profile: str
    context_usable: int | None


@dataclass(frozen=True, slots=True)
class Hold:
    """Wait: a server is about to be there."""

    why: Text


@dataclass(frozen=True, slots=True)
class Closed:
    """Nothing serves and nothing is on its way."""

    why: Text


class Gate:
    """Asks the state folder; cheap enough for every request."""

    def __init__(self, paths: Paths) -> None:
        self._store = RunStore(paths)
        self._intents = SwapIntents(paths)
        self._record: RunRecord | None = None
        self._token: tuple[int, int] | None = None

    def state(self) -> Open | Hold | Closed:
        """Return where a request may go now."""
        intent = self._intents.read()
        if intent is not None and intent.active and intent.step in _HOLDING:
            return Hold(t("swapping to {profile}", profile=intent.target))
        record = self._newest()
        if record is None:
            return Closed(t("no server was launched"))
        if record.state is ServerState.STARTING and (record.main is None or alive(record.main)):
            return Hold(t("{profile} is booting", profile=record.profile))
        serving = record.kind == "attach" or (record.main is not None and alive(record.main))
        if record.state is ServerState.RUNNING and record.stop_asked is None and serving:
            usable = record.limits.get("context_usable")
            return Open(record.url, record.id, record.profile, usable)
        if intent is not None and intent.active:
            return Hold(t("swapping to {profile}", profile=intent.target))
        return Closed(t("{profile} does not run", profile=record.profile or record.url))

    def _newest(self) -> RunRecord | None:
        ids = self._store.ids()
        if not ids:
            return None
        token = self._store.modified(ids[-1])
        if self._record is None or self._record.id != ids[-1] or token != self._token:
            self._record = self._store.latest()
            self._token = token
        return self._record
