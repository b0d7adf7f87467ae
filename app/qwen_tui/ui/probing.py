"""The console's probes of its own server: sent, shown where they were asked for, kept."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from textual.app import App

from qwen_tui.ui import messages
from qwen_tui.ui.probe_flow import ProbeFlow, crowded
from qwen_tui.ui.screens.place import Place
from qwen_tui_profiles.errors import QwenTuiError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from qwen_tui.services.console import ConsoleServices
    from qwen_tui.services.desks import ProbeReport
    from qwen_tui.ui.state import View
    from qwen_tui_profiles.text import Text

__all__ = ["Probing"]


class Probing(App[None]):
    """The actions around a probe."""

    services: ConsoleServices
    view: View
    begin: Callable[[Text], None]
    do: Callable[[str, Coroutine[object, object, None]], None]
    _asked_on: str = ""
    """The place from which it was sent."""
    _report: ProbeReport | None = None
    _crowded: bool = False
    """Whether others had requests there when it came back."""

    @cached_property
    def probe_flow(self) -> ProbeFlow:
        """Kinds, question and card."""
        return ProbeFlow(self, self.services.probes, lambda _: self.view, self._send_probe)

    def action_probe(self) -> None:
        """Ask which kind of request to send."""
        url = self.view.server.url
        if url is not None:
            self.probe_flow.choose(url)

    def action_probe_kind(self, kind: str) -> None:
        """Send one kind of request; the boundary asks first."""
        url = self.view.server.url
        if url is not None and self.check_action("probe", ()):
            self.probe_flow.take(url, kind)

    def _send_probe(self, url: str, kind: str) -> None:
        if url == self.view.server.url:  # it may have been stopped meanwhile
            self._asked_on = self.current_mode
            self.begin(t("Probing {url}", url=url))
            self.do("probe", self._probe(url, kind))

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
        self._crowded = crowded(self.view.live)
        if isinstance(self.screen, Place) and self._asked_on == self.screen.ID:
            self.action_probe_result()
        else:
            self.notify(tr(t("The probe came back; P shows it.")))

    def action_probe_result(self) -> None:
        """Show the last result."""
        if self._report is not None:
            self.probe_flow.show(self._report, self.action_probe_kind, others=self._crowded)
