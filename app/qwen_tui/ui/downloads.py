"""The console's one download: the app runs it, so that its screen can be left and opened again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import App

from qwen_tui.ui.transfer import Transfer
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from qwen_tui.services.download.job import DownloadJob, DownloadSnapshot
    from qwen_tui.ui.state import View

__all__ = ["Downloads"]


class Downloads(App[None]):
    """Runs the download, shows it, and stops it before the console ends."""

    view: View
    change: Callable[..., None]
    do: Callable[[str, Coroutine[object, object, None]], None]
    _transfer: Transfer | None = None

    def fetch(self, job: DownloadJob) -> None:
        """Begin a download and show it."""
        transfer = self._transfer = Transfer(job)
        transfer.follow(lambda: self._moved(transfer))
        self.do("download", transfer.run())
        self.action_download()

    def action_download(self) -> None:
        """Show the download."""
        if self._transfer is not None:
            from qwen_tui.ui.screens.download import DownloadScreen

            self.push_screen(DownloadScreen(self._transfer), self._left_download)

    def _moved(self, transfer: Transfer) -> None:
        """Follow the download; the view changes only with what the key line shows of it."""
        now = transfer.now
        if transfer is not self._transfer or now is None:
            return
        if _gist(self.view.download) != _gist(now):
            self.change(download=now)
        if now.phase.over and not self._shows(transfer):
            self._tell_the_end(now)

    def _shows(self, transfer: Transfer) -> bool:
        return getattr(self.screen, "transfer", None) is transfer

    def _tell_the_end(self, now: DownloadSnapshot) -> None:
        repo = "" if now.plan is None else clean(str(now.plan["repo"]))
        good = now.phase.value == "complete"
        text = (
            t("The download of {repo} is complete.", repo=repo)
            if good
            else t("The download of {repo} did not come to its end.", repo=repo)
        )
        self.notify(tr(text), severity="information" if good else "warning", markup=False)

    def _left_download(self, last: DownloadSnapshot | None) -> None:
        """Forget a download that is over, or whose plan was not agreed to."""
        if last is not None and (last.phase.over or last.phase.value == "asking"):
            self._transfer = None
            self.change(download=None)

    def depart(self) -> None:
        """Leave the console; a download is stopped first, so that it keeps what it has."""
        transfer = self._transfer
        if transfer is None or transfer.ended.is_set():
            self.exit()
        else:
            self.change(busy=t("Stopping the download"))
            self.do("depart", self._stop_and_exit(transfer))

    async def _stop_and_exit(self, transfer: Transfer) -> None:
        transfer.job.cancel()
        await transfer.ended.wait()
        self.exit()


def _gist(snapshot: DownloadSnapshot | None) -> tuple[object, int] | None:
    """Return what the key line shows: the phase and whole per cents."""
    if snapshot is None:
        return None
    done, total = snapshot.done_bytes or 0, snapshot.total_bytes or 0
    return snapshot.phase, 100 * done // total if total else 0
