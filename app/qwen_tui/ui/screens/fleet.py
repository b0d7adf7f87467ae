"""Several servers side by side: one line each; Enter opens the figures of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.content import Content

from qwen_tui.ui.commands import Command, bindings
from qwen_tui.ui.fleet_lines import fleet_head, fleet_lines, fleet_row
from qwen_tui.ui.fleet_probes import FleetProbes
from qwen_tui.ui.messages import Failed
from qwen_tui.ui.screens.cards import InputCard
from qwen_tui.ui.screens.place import BACK, Kit, Place
from qwen_tui.ui.screens.server import ServerCard
from qwen_tui.ui.screens.windows import WindowsCard
from qwen_tui.ui.state import Series, View
from qwen_tui.ui.widgets.list_detail import ListDetail, ListRow
from qwen_tui.ui.words import engine_words
from qwen_tui_profiles.errors import QwenTuiError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from textual.widget import Widget
    from textual.worker import Worker

    from qwen_tui.services.snapshots import LiveSnapshot

__all__ = ["FleetScreen"]

HEAD = "head"

FLEET = (
    Command(
        "fleet.add",
        "n",
        "add",
        t("Add"),
        t("Watch another server; its address is kept in the settings."),
        lambda view: view.controls,
        rank=10,
    ),
    Command(
        "fleet.remove",
        "R",
        "remove",
        t("Remove"),
        t("Watch the server under the cursor no longer; it goes on."),
        lambda view: view.controls,
        rank=11,
    ),
    Command(
        "fleet.copy",
        "y",
        "copy",
        t("Copy address"),
        t("Copy the address under the cursor to the clipboard."),
        rank=12,
    ),
    BACK,
)


class FleetScreen(Place):
    """One line a server; they are asked only while this place is open."""

    ID = "fleet"
    ABOUT = t(
        "The servers whose addresses stand under [fleet] in the settings, and the one that this "
        "console runs or watches. Requests are running + waiting. Enter opens the figures of one. "
        "They are asked only while this place is open. API keys come from QWEN_TUI_API_KEY, or "
        "from the variable that [fleet.key-env] names for an address."
    )
    BINDINGS = bindings(FLEET)
    COMMANDS_HERE = FLEET
    AUTO_FOCUS = "OptionList"

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self._urls: tuple[str, ...] = ()
        self._lives: dict[str, LiveSnapshot] = {}
        self._series: dict[str, Series] = {}
        self._worker: Worker[None] | None = None
        self._probes = FleetProbes(
            self.app, kit.services.fleet_probes, self._server_view, self._probed
        )

    def content(self) -> Iterable[Widget]:
        """Yield list and pane."""
        yield ListDetail()

    def tick(self) -> None:
        """Draw once a second, not as often as servers answer."""
        super().tick()
        self._redraw()

    def on_screen_resume(self) -> None:
        """Ask again, unless only a card was closed."""
        if self._worker is None or self._worker.is_finished:
            self._begin()
        self._redraw()

    def on_screen_suspend(self) -> None:
        """Stop asking when another place is shown; below a card it goes on."""
        if self not in self.app.screen_stack and self._worker is not None:
            self._worker.cancel()

    def refill(self) -> None:
        """Say what the servers do."""
        self._redraw()

    def on_resize(self) -> None:
        """Fit the rows to the new width."""
        self.call_after_refresh(self._redraw)

    def _begin(self) -> None:
        self._worker = self.run_worker(
            self._follow, group="fleet", exclusive=True, exit_on_error=False
        )

    async def _follow(self) -> None:
        desk = self.kit.services.fleet
        try:
            self._urls = await desk.urls()
            for gone in self._lives.keys() - set(self._urls):
                self._lives.pop(gone)
                self._series.pop(gone, None)
            self._redraw()
            others = tuple(url for url in self._urls if url != self._own)
            if others:
                async for item in desk.watch(others, self._app_view().interval_s):
                    self._take_news(item.url, item.snapshot)
        except QwenTuiError as error:
            self.app.post_message(Failed(error))

    def _take_news(self, url: str, live: LiveSnapshot) -> None:
        first = url not in self._lives
        self._lives[url] = live
        if first:
            self._redraw()
        self._series.setdefault(url, Series()).add(live)
        card = self.app.screen
        if isinstance(card, ServerCard | WindowsCard) and card.url == url:
            card.show(live)

    @property
    def _own(self) -> str | None:
        """The address of the console's own server, which is polled already."""
        view = self._app_view()
        return view.server.url if view.alive else None

    @property
    def current(self) -> str | None:
        """The address under the cursor."""
        return self.query_one(ListDetail).current

    def _live(self, url: str) -> LiveSnapshot | None:
        return self._app_view().live if url == self._own else self._lives.get(url)

    def _shown(self) -> list[str]:
        own = self._own
        return list(dict.fromkeys((*([own] if own else []), *self._urls)))

    def _redraw(self) -> None:
        if self.app.screen is not self:
            return
        listing = self.query_one(ListDetail)
        width = listing.row_width
        rows = [ListRow(HEAD, fleet_head(width), disabled=True)]
        rows += [ListRow(url, fleet_row(url, self._live(url), width)) for url in self._shown()]
        listing.update_rows(rows)
        listing.listing.border_title = Content(tr(t("Servers")))
        self._explain()

    def _explain(self) -> None:
        listing, url = self.query_one(ListDetail), self.current
        if url is None or url == HEAD:
            text = t("No server is watched yet; n adds an address.")
            listing.set_detail([Content.styled(tr(text), "$foreground-muted")])
        else:
            engine = engine_words(self._app_view()) if url == self._own else None
            listing.set_detail(fleet_lines(url, self._live(url), listing.pane_width, engine))

    @on(ListDetail.Shown)
    def _moved(self, _: ListDetail.Shown) -> None:
        self._explain()
        self.refresh_bindings()

    @on(ListDetail.Chosen)
    async def _chosen(self, event: ListDetail.Chosen) -> None:
        """Open the figures of one server; those of our own are Home."""
        if event.row == self._own:
            await self.app.run_action("go('home')", self.app)
        else:
            card = ServerCard(event.row, self._server_view(event.row), self._probes)
            self.app.push_screen(card)

    def _server_view(self, url: str) -> View:
        """Return what is known of one of the servers, and what may be done."""
        series = self._series.setdefault(url, Series())
        return View(series=series, live=self._lives.get(url), controls=self._app_view().controls)

    def _probed(self, url: str) -> bool:
        """Show that a probe began or came back; tell whether its server is what is looked at."""
        cards = [c for c in self.app.screen_stack if isinstance(c, ServerCard) and c.url == url]
        for card in cards:
            card.renew()
        return self.app.screen in cards

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what stands in the settings can be taken out of them."""
        if action == "remove" and (not self.is_mounted or self.current not in self._urls):
            return False
        if action == "copy" and (not self.is_mounted or self.current in {None, HEAD}):
            return False
        return super().check_action(action, parameters)

    def action_add(self) -> None:
        """Ask for an address."""
        card = InputCard(tr(t("Watch a server")), tr(t("Address: http://HOST:PORT")))
        self.app.push_screen(card, self._added)

    def _added(self, url: str | None) -> None:
        if url is not None:
            self._change(self.kit.services.fleet.add(url))

    def action_remove(self) -> None:
        """Take the address under the cursor out of the settings."""
        url = self.current
        if url in self._urls and url is not None:
            self._change(self.kit.services.fleet.remove(url))

    def _change(self, change: Awaitable[object]) -> None:
        """Make a change of the settings and follow the servers that stand there then."""

        async def make() -> None:
            try:
                await change
            except QwenTuiError as error:
                self.app.post_message(Failed(error))
            else:
                self._begin()

        self.run_worker(make(), group="change", exit_on_error=False)

    def action_copy(self) -> None:
        """Copy the address under the cursor."""
        url = self.current or ""
        self.app.copy_to_clipboard(url)
        self.notify(tr(t("Copied: {what}", what=url)), markup=False)
