"""One server's probes on the screen: which kind, what it costs, the card of what came of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from qwen_tui.ui import messages
from qwen_tui.ui.screens.cards import ConfirmCard
from qwen_tui_profiles.errors import QwenTuiError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from textual.app import App

    from qwen_tui.services.desks import ProbeDesk, ProbeMenu, ProbeReport
    from qwen_tui.services.snapshots import LiveSnapshot
    from qwen_tui.ui.state import View

__all__ = ["BOUNDARY", "ProbeFlow", "crowded"]

BOUNDARY = "boundary"
"""As the service calls it; it asks before it is sent."""


class ProbeFlow:
    """Asks for the kind, says what the boundary costs, and shows results.

    Sending is the owner's: where a result goes differs between the console's own server and others.
    """

    def __init__(
        self,
        app: App[None],
        desk: ProbeDesk,
        view: Callable[[str], View],
        send: Callable[[str, str], None],
    ) -> None:
        """Prepare.

        Args:
            app: Where cards are shown and workers run.
            desk: Sends, and says what can be sent.
            view: Returns what is known of the server at an address, and whether we may act.
            send: Is told address and kind once they are settled.
        """
        self.app = app
        self.desk = desk
        self.kind = "prose"
        """The kind that was chosen last."""
        self._view = view
        self._send = send

    def choose(self, url: str) -> None:
        """Ask which kind of request to send."""
        self._do("menu", self._choose(url))

    async def _choose(self, url: str) -> None:
        from qwen_tui.ui.screens.picker import PickProbe

        menu = await self._menu(url)
        if menu is not None:
            if not self._view(url).controls:
                kinds = tuple(kind for kind in menu.kinds if kind.name != BOUNDARY)
                menu = replace(menu, kinds=kinds)
            await self.app.push_screen(
                PickProbe(menu, self.kind), lambda kind: self._chosen(url, kind, menu)
            )

    async def _menu(self, url: str) -> ProbeMenu | None:
        try:
            return await self.desk.menu(url)
        except QwenTuiError as error:
            self.app.post_message(messages.Failed(error))
            return None

    def take(self, url: str, kind: str) -> None:
        """Send one kind of request; the boundary asks first."""
        if kind == BOUNDARY and not self._view(url).controls:
            text = tr(t("A console that only watches does not fill the server's cache."))
            self.app.notify(text)
        elif kind == BOUNDARY:
            self._do("menu", self._ask_boundary(url))
        else:
            self._chosen(url, kind, None)

    async def _ask_boundary(self, url: str) -> None:
        menu = await self._menu(url)
        if menu is not None:
            self._chosen(url, BOUNDARY, menu)

    def _chosen(self, url: str, kind: str | None, menu: ProbeMenu | None) -> None:
        if kind is None:
            return
        self.kind = kind
        if kind != BOUNDARY:
            self._send(url, kind)
            return
        from qwen_tui.ui.screens.probe import boundary_lines

        body = boundary_lines(self._view(url), None if menu is None else menu.usable_context)
        card = ConfirmCard(tr(t("Probe the boundary?")), body, t("Send it"), danger=True)
        self.app.push_screen(card, lambda yes: self._send(url, kind) if yes else None)

    def show(self, report: ProbeReport, again: Callable[[str], None], *, others: bool) -> None:
        """Show a result.

        Args:
            report: What came of the probe.
            again: Is told the kind when it shall be sent once more.
            others: Others had requests there when it came back.
        """
        from qwen_tui.ui.screens.probe import ProbeCard

        name = report.result.kind
        kind = next(k for k in self.desk.kinds() if k.name == name)
        copy = None if name == BOUNDARY else lambda: self._do("curl", self._copy_curl(report))
        card = ProbeCard(kind, report, copy, crowded=others)
        self.app.push_screen(card, lambda choice: again(name) if choice else None)

    async def _copy_curl(self, report: ProbeReport) -> None:
        try:
            command = await self.desk.curl(report.url, report.result.kind)
        except QwenTuiError as error:
            self.app.post_message(messages.Failed(error))
        else:
            self.app.copy_to_clipboard(command)
            self.app.notify(tr(t("Copied: {what}", what=command[:60])), markup=False)

    def _do(self, group: str, what: Coroutine[object, object, None]) -> None:
        self.app.run_worker(what, group=group, exclusive=True, exit_on_error=False)


def crowded(live: LiveSnapshot | None) -> bool:
    """Tell whether others have requests at a server that has just answered a probe of ours."""
    # One that runs may still be ours: the sample is up to a second old.
    return live is not None and ((live.running or 0) > 1 or bool(live.queue))
