"""What happens to the view when a fact arrives."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from rich.cells import cached_cell_len
from textual import on
from textual.app import App

from qwen_tui.services.snapshots import ServerState
from qwen_tui.ui import messages
from qwen_tui.ui.feeds import ANSWERING
from qwen_tui.ui.screens.place import Place
from qwen_tui.ui.selection import choose
from qwen_tui.ui.state import Series, View

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual.timer import Timer

    from qwen_tui.services.console import ConsoleServices
    from qwen_tui.services.desks import ProbeReport
    from qwen_tui.services.settings import Settings
    from qwen_tui.services.snapshots import LiveSnapshot, ServerSnapshot
    from qwen_tui.ui.state import LogBuffer

__all__ = ["Facts"]

TICK_S = 1.0
"""Between two beats: what came meanwhile is shown in one paint, and the clocks tick."""
AFTER_FIGURES_S = 1.25
"""Figures come once a second while there is work and are a beat themselves; the next one waits a
little longer for them than a second, or there would be two paints where one does."""

FORGET_TICKS = 60
"""Rich remembers how wide the last 4,096 texts were. Figures are new texts every second, so that
this grows for ten minutes and is never of use: over a megabyte."""


class Facts(App[None]):
    """The app's handlers of facts; each replaces the view, none touches a widget."""

    services: ConsoleServices
    view: View
    clock: Callable[[], float]
    log_buffer: LogBuffer
    apply_settings: Callable[[Settings], None]
    follow_server: Callable[[ServerSnapshot], None]
    action_guide: Callable[[], None]
    depart: Callable[[], None]
    show_probe: Callable[[ProbeReport], None]
    _guide_offered: bool = False
    _settings: Settings | None = None
    _held: LiveSnapshot | None = None
    """The newest figures while the view is paused."""
    paced: bool = True
    """Whether facts that can wait for the next beat do so."""
    _waiting: Mapping[str, object] = MappingProxyType({})
    """What the next beat will change."""
    _beat_timer: Timer | None = None
    _ticks: int = 0

    def change(self, **changes: object) -> None:
        """Replace the view, with all that waited for the next beat."""
        waited, self._waiting = self._waiting, MappingProxyType({})
        self.view = self.view.but(**{**waited, **changes})

    def change_soon(self, **changes: object) -> None:
        """Replace the view at the next beat, so that the facts of a second are one paint."""
        if self.paced and self.view.live is not None:
            self._waiting = {**self._waiting, **changes}
        else:
            self.change(**changes)

    def _beat_in(self, delay_s: float) -> None:
        if self._beat_timer is not None:
            self._beat_timer.stop()
        self._beat_timer = self.set_timer(delay_s, self.beat)

    def beat(self) -> None:
        """Show what waits, and let the clocks of the places on the screen tick."""
        if self._waiting:
            self.change()
        self._tick_clocks()
        self._beat_in(TICK_S)

    def _tick_clocks(self) -> None:
        self._ticks += 1
        if self._ticks % FORGET_TICKS == 0:
            cached_cell_len.cache_clear()
        for screen in self.screen_stack:  # also the one below a card
            if isinstance(screen, Place):
                screen.tick()

    @on(messages.ServerChanged)
    def _server_changed(self, event: messages.ServerChanged) -> None:
        changes: dict[str, object] = {
            "server": event.server,
            "server_known": True,
            "predicted_kv": self.services.predicted_kv(),
        }
        if event.server.state not in ANSWERING or event.server.pid != self.view.server.pid:
            changes.update(live=None, series=Series(), probe=None, probe_at=None, paused=False)
            changes.update(seen_alarms=frozenset())
        if _goes_on(self.view.server, event.server):
            self.change_soon(**changes)
        else:
            self.change(**changes)
        self.follow_server(event.server)
        self._offer_guide()

    @on(messages.LiveSampled)
    def _live_sampled(self, event: messages.LiveSampled) -> None:
        if self.view.server.state not in ANSWERING:
            return
        self.view.series.add(event.live)
        if self.view.paused:
            self._held = event.live
        else:
            self.change(live=event.live)
            self._tick_clocks()
            self._beat_in(AFTER_FIGURES_S)

    @on(messages.GpuRead)
    def _gpu_read(self, event: messages.GpuRead) -> None:
        if not self.view.paused:
            self.change_soon(gpu=event.gpu)
        self._select_first()

    @on(messages.LogGrew)
    def _log_grew(self, event: messages.LogGrew) -> None:
        self.log_buffer.add(event.chunk)
        if not self.view.paused:
            self.change_soon(log_total=self.log_buffer.total)

    def action_pause(self) -> None:
        """Hold what is shown still, or go on."""
        paused = not self.view.paused
        changes: dict[str, object] = {"paused": paused}
        if not paused:
            changes["log_total"] = self.log_buffer.total
            if self._held is not None:
                changes["live"] = self._held
        self._held = None
        self.change(**changes)

    @on(messages.ControlChanged)
    def _control_changed(self, event: messages.ControlChanged) -> None:
        self.change(controls=event.controls, controller=event.holder)

    @on(messages.ProfilesRead)
    def _profiles_read(self, event: messages.ProfilesRead) -> None:
        first = self._settings is None
        self._settings = event.settings
        selected = self.view.selected
        if selected is not None:  # the file may have changed
            selected = event.profiles.find(selected.name)
        self.change(profiles=event.profiles, acknowledged=event.acknowledged, selected=selected)
        if first:
            self.apply_settings(event.settings)
            problem = event.settings.problem
            if problem is not None:
                self.change(said=problem.message, said_failed=True)
        self._select_first()

    def _offer_guide(self) -> None:
        """Offer the first steps once everything is known, and never over a running server."""
        view = self.view
        if self._settings is None or view.selected is None or not view.server_known:
            return
        if self._settings.guide is None and not self._guide_offered:
            self._guide_offered = True
            if not view.alive:
                self.action_guide()

    def _select_first(self) -> None:
        """Select a profile once profiles and GPU are known, unless the user was faster."""
        view = self.view
        if view.selected is None and view.gpu.known and view.profiles.profiles:
            last = None if self._settings is None else self._settings.last_profile
            profile, why = choose(view.profiles, view.gpu, last)
            self.change(selected=profile, selected_why=why)
            self._offer_guide()

    @on(messages.Acknowledged)
    async def _acknowledged(self, event: messages.Acknowledged) -> None:
        alarms = frozenset(alarm.kind for alarm in self.view.alarms)
        self.change(
            acknowledged=self.view.acknowledged | event.keys,
            seen_alarms=self.view.seen_alarms | alarms,
            said=None,
        )
        await self.services.acknowledge(event.keys)

    @on(messages.Probed)
    def _probed(self, event: messages.Probed) -> None:
        self.change(probe=event.report.result, probe_at=self.clock(), busy=None)
        self.show_probe(event.report)

    @on(messages.Progressed)
    def _progressed(self, event: messages.Progressed) -> None:
        progress = event.progress
        if progress.done:
            self.change(busy=None, said=progress.text, said_failed=progress.failed)
        else:
            self.change(busy=progress.text)

    @on(messages.Finished)
    def _finished(self, event: messages.Finished) -> None:
        self.change(busy=None, swapping=False)
        if event.then_exit:
            self.depart()

    @on(messages.StepDone)
    def _step_done(self, event: messages.StepDone) -> None:
        if event.step not in self.view.steps:
            self.change(steps=self.view.steps | {event.step})


def _goes_on(before: ServerSnapshot, now: ServerSnapshot) -> bool:
    """Tell whether a server runs as it did, so that news of it can wait for the next beat."""
    return now.state is ServerState.RUNNING and all(
        getattr(before, name) == getattr(now, name)
        for name in ("state", "pid", "ready", "phase", "message", "url", "log_path")
    )
