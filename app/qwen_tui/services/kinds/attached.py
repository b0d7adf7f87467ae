"""A server that somebody else started: it is watched, never stopped, never swapped."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from qwen_tui_profiles.errors import StopError
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui.services.runs import RunRecord

__all__ = ["AttachedRun"]


class AttachedRun:
    """A server of which only the address is known."""

    def alive(self, record: RunRecord) -> bool:
        """Whether it answers is asked over HTTP; nothing else can end it."""
        return record.open

    async def end(self, record: RunRecord, **_: object) -> NoReturn:
        """Refuse.

        Raises:
            StopError: always.
        """
        raise StopError(
            t("{url} was not started by qwen-tui; it is only watched.", url=record.url),
            t("Stop it where it was started. To watch it no longer: qwen-tui attach --forget"),
        )

    async def sweep(self, record: RunRecord) -> tuple[int, ...]:
        """Leave everything alone."""
        del record
        return ()
