"""The console's probes: which kind, sent, shown, sent again or copied."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from textual.app import App

from qwen_tui.ui import messages
from qwen_tui.ui.screens.cards import ConfirmCard
from qwen_tui.ui.screens.place import Place
from qwen_tui_profiles.errors import QwenTuiError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from qwen_tui.services.console import ConsoleServices
    from qwen_tui.services.desks import ProbeMenu, ProbeReport
    from qwen_tui.ui.state import View
    from qwen_tui_profiles.text import Text

__all__ = ["Probing"]

BOUNDARY = "boundary"
"""As the service calls it; it asks before it is sent."""


class Probing(App[None]):
    """The actions around a probe."""

    services: ConsoleServices
    view: View
    begin: Callable[[Text], None]
    do: Callable[[str, Coroutine[object, object, None]], None]
    _kind: str = "prose"
    """The kind that was sent last."""
    _asked_on: str = ""
    """The place from which it was sent."""
    _report: ProbeReport | None = None
    _crowded: bool = False
    """Whether others had requests there when it came back."""

    def action_probe(self) -> None:
        """Ask which kind of request to send."""
        url = self.view.server.url
        if url is not None:
            self.do("menu", self._choose_probe(url))

    async def _choose_probe(self, url: str) -> None:
        from qwen_tui.ui.screens.picker import PickProbe

        menu = await self._menu(url)
        if menu is not None:
            if not self.view.controls:
                kinds = tuple(kind for kind in menu.kinds if kind.name != BOUNDARY)
                menu = replace(menu, kinds=kinds)
            await self.push_screen(
                PickProbe(menu, self._kind), lambda kind: self._probe_chosen(kind, menu)
            )

    async def _menu(self, url: str) -> ProbeMenu | None:
        try:
            return await self.services.probes.menu(url)
        except QwenTuiError as error:
            self.post_message(messages.Failed(error))
            return None

    def action_probe_kind(self, kind: str) -> None:
        """Send one kind of request; the boundary asks first."""
        url = self.view.server.url
        if url is None or not self.check_action("probe", ()):
            return
        if kind == BOUNDARY and not self.view.controls:
            self.notify(tr(t("A console that only watches does not fill the server's cache.")))
        elif kind == BOUNDARY:
            self.do("menu", self._ask_boundary(url))
        else:
            self._probe_chosen(kind, None)

    async def _ask_boundary(self, url: str) -> None:
        menu = await self._menu(url)
        if menu is not None:
            self._probe_chosen(BOUNDARY, menu)

    def _probe_chosen(self, kind: str | None, menu: ProbeMenu | None) -> None:
        if kind is None:
            return
        self._kind = kind
        if kind != BOUNDARY:
            self._send_probe()
            return
        from qwen_tui.ui.screens.probe import boundary_lines

        body = boundary_lines(self.view, None if menu is None else menu.usable_context)
        card = ConfirmCard(tr(t("Probe the boundary?")), body, t("Send it"), danger=True)
        self.push_screen(card, lambda yes: self._send_probe() if yes else None)

    def _send_probe(self) -> None:
        url = self.view.server.url
        if url is not None:
            self._asked_on = self.current_mode
            self.begin(t("Probing {url}", url=url))
            self.do("probe", self._probe(url, self._kind))

    async def _probe(self, url: str, kind: str) -> None:
        try:
            self.post_message(messages.Probed(await self.services.probes.send(url, kind)))
        except QwenTuiError as error:
            self.post_message(messages.Failed(error))
        finally:
            self.post_message(messages.Finished())

    def show_probe(self, report: ProbeReport) -> None:
        """Keep a result; show it where it was asked for, elsewhere only say that it is there."""
        self._report = report
        live = self.view.live
        # One that runs may still be ours: the sample is up to a second old.
        self._crowded = live is not None and ((live.running or 0) > 1 or bool(live.queue))
        if isinstance(self.screen, Place) and self._asked_on == self.screen.ID:
            self.action_probe_result()
        else:
            self.notify(tr(t("The probe came back; P shows it.")))

    def action_probe_result(self) -> None:
        """Show the last result."""
        report = self._report
        if report is None:
            return
        from qwen_tui.ui.screens.probe import ProbeCard

        name = report.result.kind
        kind = next(k for k in self.services.probes.kinds() if k.name == name)
        copy = None if name == BOUNDARY else lambda: self.do("curl", self._copy_curl(report))
        card = ProbeCard(kind, report, copy, crowded=self._crowded)
        self.push_screen(card, lambda again: self.action_probe_kind(name) if again else None)

    async def _copy_curl(self, report: ProbeReport) -> None:
        try:
            command = await self.services.probes.curl(report.url, report.result.kind)
        except QwenTuiError as error:
            self.post_message(messages.Failed(error))
        else:
            self.copy_to_clipboard(command)
            self.notify(tr(t("Copied: {what}", what=command[:60])), markup=False)
