"""Checkpoints: which are here, what they are worth, what they hold, and fetching more."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from textual import on, work
from textual.content import Content

from qwen_tui.ui.commands import Command, bindings
from qwen_tui.ui.messages import Failed, StepDone
from qwen_tui.ui.model_lines import folder_lines, folder_row
from qwen_tui.ui.screens.cards import InputCard
from qwen_tui.ui.screens.place import BACK, Kit, Place
from qwen_tui.ui.screens.tensors import TensorsCard
from qwen_tui.ui.widgets.list_detail import ListDetail, ListRow
from qwen_tui_profiles.errors import QwenTuiError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget

    from qwen_tui.services.download.job import DownloadSnapshot
    from qwen_tui.services.model_desk import ModelFolder
    from qwen_tui.ui.app import ConsoleApp
    from qwen_tui.ui.state import View
    from qwen_tui_diagnostics.checkpoint.report import VerifyReport
    from qwen_tui_profiles.profile import EngineProfile

__all__ = ["ModelsScreen"]

MODELS = (
    Command(
        "models.verify",
        "v",
        "verify",
        t("Verify"),
        t("Judge the checkpoint under the cursor from its headers; Enter does it too."),
        rank=10,
    ),
    Command(
        "models.tensors",
        "t",
        "tensors",
        t("Tensors"),
        t("Look at every tensor of the checkpoint, with search."),
        rank=11,
    ),
    Command(
        "models.fetch",
        "f",
        "fetch",
        t("Fetch"),
        t("Download a repository: the plan first, then resumable, Xet off, every file proven."),
        lambda view: view.controls and view.download is None,
        rank=12,
    ),
    Command("models.again", "r", "again", t("Look again"), t("Look at the disk again."), rank=13),
    BACK,
)


class ModelsScreen(Place):
    """A list of checkpoint folders with a pane for the one under the cursor."""

    ID = "models"
    ABOUT = t(
        "The folders that profiles serve and others on this disk that look like checkpoints. "
        "Verify judges one from its headers alone, for the engine that would load it; fetch "
        "downloads one and judges it when it is whole."
    )
    BINDINGS = bindings(MODELS)
    COMMANDS_HERE = MODELS
    AUTO_FOCUS = "OptionList"

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self._folders: dict[str, ModelFolder] = {}
        self._reports: dict[Path, VerifyReport] = {}

    def content(self) -> Iterable[Widget]:
        """Yield list and pane."""
        yield ListDetail()

    def on_mount(self) -> None:
        """Look at the disk."""
        self.action_again()

    def watch_view(self, old: View, new: View) -> None:
        """Look for what other profiles name, and for what a download has brought."""
        ended = new.download is None or new.download.phase.over
        if old.profiles is not new.profiles:
            self.action_again()
        elif old.downloading and ended:
            self._fetched(new.download)

    def refill(self) -> None:
        """Say what the folders are."""
        self._redraw()

    def on_resize(self) -> None:
        """Fit the rows to the new width."""
        self.call_after_refresh(self._redraw)

    @property
    def current(self) -> ModelFolder | None:
        """The folder under the cursor."""
        return self._folders.get(self.query_one(ListDetail).current or "")

    def action_again(self) -> None:
        """Look at the disk."""
        self._look(self._app_view().profiles.profiles)

    @work(group="folders", exclusive=True, exit_on_error=False)
    async def _look(self, profiles: tuple[EngineProfile, ...]) -> None:
        found = await self.kit.services.models.folders(profiles)
        self._folders = {str(folder.path): folder for folder in found}
        self._redraw()
        if any(folder.exists for folder in found):
            self.app.post_message(StepDone("model"))

    def _redraw(self) -> None:
        listing = self.query_one(ListDetail)
        width = listing.row_width
        listing.set_rows(
            [
                ListRow(key, folder_row(folder, self._reports.get(folder.path), width))
                for key, folder in self._folders.items()
            ]
        )
        listing.listing.border_title = Content(tr(t("Checkpoints")))
        self._explain()

    @on(ListDetail.Shown)
    def _shown(self, _: ListDetail.Shown) -> None:
        self._explain()

    def _explain(self) -> None:
        folder, listing = self.current, self.query_one(ListDetail)
        if folder is None:
            text = tr(t("No profile names a model folder; f fetches a repository."))
            listing.set_detail([Content.styled(text, "$foreground-muted")])
        else:
            report = self._reports.get(folder.path)
            listing.set_detail(folder_lines(folder, report, listing.pane_width))

    @on(ListDetail.Chosen)
    def _chosen(self, _: ListDetail.Chosen) -> None:
        self.action_verify()

    def action_verify(self) -> None:
        """Judge the folder under the cursor."""
        folder = self.current
        if folder is not None and folder.exists:
            self._verify(folder.path)

    @work(group="verify", exclusive=True, exit_on_error=False)
    async def _verify(self, path: Path) -> None:
        try:
            self._reports[path] = await self.kit.services.models.verify(path)
        except QwenTuiError as error:
            self.app.post_message(Failed(error))
        else:
            self.app.post_message(StepDone("verify"))
            self._redraw()

    def action_tensors(self) -> None:
        """Read every header and show the tensors."""
        folder = self.current
        if folder is not None and folder.exists:
            self._tensors(folder.path)

    @work(group="tensors", exclusive=True, exit_on_error=False)
    async def _tensors(self, path: Path) -> None:
        try:
            rows = await self.kit.services.models.tensors(path)
        except QwenTuiError as error:
            self.app.post_message(Failed(error))
        else:
            await self.app.push_screen(TensorsCard(path.name, rows))

    def action_fetch(self) -> None:
        """Ask what to fetch."""
        folder = self.current
        repo = None if folder is None else folder.repo
        card = InputCard(
            tr(t("Fetch from the Hub")), tr(t("Repository: organisation/name")), repo or ""
        )
        self.app.push_screen(card, self._named)

    def _named(self, repo: str | None) -> None:
        if repo is None:
            return
        profiles = self._app_view().profiles.profiles
        profile = next((p for p in profiles if p.model.repo == repo), None)
        try:
            job = self.kit.services.models.download(repo, profile)
        except QwenTuiError as error:
            self.app.post_message(Failed(error))
        else:
            cast("ConsoleApp", self.app).fetch(job)

    def _fetched(self, last: DownloadSnapshot | None) -> None:
        self.action_again()
        if last is not None and last.result is not None and last.result.get("folder"):
            self._verify(Path(str(last.result["folder"])))
