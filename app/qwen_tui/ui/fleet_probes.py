"""Probes of the fleet's servers; what came of them is kept by address while the console runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui.ui.messages import Failed
from qwen_tui.ui.probe_flow import ProbeFlow, crowded
from qwen_tui_profiles.errors import QwenTuiError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App

    from qwen_tui.services.desks import ProbeDesk, ProbeReport
    from qwen_tui.services.snapshots import LiveSnapshot, ProbeResult
    from qwen_tui.ui.state import View

__all__ = ["FleetProbes", "can_probe"]


def can_probe(live: LiveSnapshot | None) -> bool:
    """Tell whether something answers there; one without figures (a router) can be asked too."""
    return live is not None and live.source != "unknown" and live.stale_s is None


class FleetProbes:
    """One probe at a time for each address."""

    def __init__(
        self,
        app: App[None],
        desk: ProbeDesk,
        view: Callable[[str], View],
        came: Callable[[str], bool],
    ) -> None:
        """Prepare.

        Args:
            app: Where cards are shown.
            desk: Sends with the key that is meant for the address.
            view: Returns what is known of the server at an address.
            came: Is told the address of a probe that began or came back; returns whether that
                server is what is looked at.
        """
        self.running: set[str] = set()
        self._app = app
        self._desk = desk
        self._view = view
        self._came = came
        self._reports: dict[str, tuple[ProbeReport, bool]] = {}
        self._flow = ProbeFlow(app, desk, view, self._send)

    def result(self, url: str) -> ProbeResult | None:
        """Return the last result of an address."""
        kept = self._reports.get(url)
        return None if kept is None else kept[0].result

    def ask(self, url: str) -> None:
        """Ask which kind to send."""
        if url not in self.running:
            self._flow.choose(url)

    def show(self, url: str) -> None:
        """Show the last result of an address."""
        kept = self._reports.get(url)
        if kept is not None:
            report, others = kept
            self._flow.show(report, lambda kind: self._flow.take(url, kind), others=others)

    def _send(self, url: str, kind: str) -> None:
        if url in self.running:
            return
        self.running.add(url)
        self._came(url)
        # Its own group: two servers do not wait for each other, and leaving the place ends none.
        self._app.run_worker(self._probe(url, kind), group=f"probe {url}", exit_on_error=False)

    async def _probe(self, url: str, kind: str) -> None:
        report: ProbeReport | None = None
        try:
            report = await self._desk.send(url, kind)
            self._reports[url] = (report, crowded(self._view(url).live))
        except QwenTuiError as error:
            self._app.post_message(Failed(error))
        finally:
            self.running.discard(url)
            seen = self._came(url)
        if report is not None and seen:
            self.show(url)
        elif report is not None:
            text = t("The probe of {url} came back; its card shows it.", url=url)
            self._app.notify(tr(text), markup=False)
