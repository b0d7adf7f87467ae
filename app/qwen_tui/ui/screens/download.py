"""One download on the screen: its plan to agree to, its bars, its notes, its verdict.

The screen only shows it: left while it runs, the download goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.reactive import var
from textual.screen import ModalScreen
from textual.widgets import Static

from qwen_tui.services.download.job import DownloadPhase, DownloadSnapshot, FileProgress
from qwen_tui.services.download.narration import duration, size
from qwen_tui.ui.cells import bar, fit, split_row, wrapped
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.widgets.keybar import key_hints
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import Text, t, tr

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from qwen_tui.ui.transfer import Transfer

__all__ = ["DownloadScreen", "file_line", "head_lines", "key_line", "total_line"]

BAR_WIDTH = 24

PHASES: dict[DownloadPhase, Text] = {
    DownloadPhase.PLANNING: t("asking the Hub what there is"),
    DownloadPhase.ASKING: t("this is the plan"),
    DownloadPhase.RUNNING: t("fetching"),
    DownloadPhase.PAUSED: t("paused"),
    DownloadPhase.STOPPING: t("stopping"),
    DownloadPhase.JUDGING: t("complete; the checkpoint is being verified"),
    DownloadPhase.COMPLETE: t("complete"),
    DownloadPhase.FAILED: t("failed"),
    DownloadPhase.CANCELLED: t("stopped"),
}
STATES = {
    "connecting": t("connecting"),
    "running": t("running"),
    "stalled": t("stalled"),
    "hashing": t("hashing"),
}
ACTIVE = frozenset({DownloadPhase.RUNNING, DownloadPhase.PAUSED})


class DownloadScreen(ModalScreen[DownloadSnapshot]):
    """Shows a transfer; dismissed with the last snapshot that it has shown."""

    DEFAULT_CSS = """
    DownloadScreen { background: $background; }
    DownloadScreen #head { height: auto; padding: 0 1; }
    DownloadScreen #files { height: auto; max-height: 50%; padding: 0 1; }
    DownloadScreen #notes { height: 1fr; border: round $border-blurred; padding: 0 1; }
    DownloadScreen #keys { height: 1; background: $panel; padding: 0 1; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "agree", "Fetch", show=False),
        Binding("space", "pause", "Pause", show=False),
        Binding("x", "cancel", "Stop", show=False),
        Binding("escape", "leave", "Back", show=False),
    ]

    snapshot: var[DownloadSnapshot] = var(
        lambda: DownloadSnapshot(DownloadPhase.PLANNING), init=False
    )

    def __init__(self, transfer: Transfer) -> None:
        super().__init__()
        self.transfer = transfer
        self._job = transfer.job

    def compose(self) -> ComposeResult:
        """Lay out head, bars, notes and keys."""
        with Vertical():
            yield Static(id="head")
            yield Static(id="files")
            with VerticalScroll(id="notes"):
                yield Static(id="note-text")
            yield Static(id="keys")

    def on_mount(self) -> None:
        """Follow the transfer from where it is."""
        self.transfer.follow(self._news)
        self._news()
        self._draw()

    def on_unmount(self) -> None:
        """Let the transfer go on alone."""
        self.transfer.unfollow(self._news)

    def _news(self) -> None:
        if self.transfer.now is not None:
            self.snapshot = self.transfer.now

    def watch_snapshot(self) -> None:
        """Show the new state."""
        self._draw()
        self.refresh_bindings()

    def on_resize(self) -> None:
        """Fit the lines to the new width."""
        self._draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer what can be done now."""
        del parameters
        phase = self.snapshot.phase
        return {
            "agree": phase is DownloadPhase.ASKING,
            "pause": phase in ACTIVE,
            "cancel": phase in ACTIVE,
        }.get(action, True)

    def action_agree(self) -> None:
        """Fetch what the plan says."""
        self._job.agree()

    def action_pause(self) -> None:
        """Pause, or go on."""
        if self.snapshot.phase is DownloadPhase.PAUSED:
            self._job.resume()
        else:
            self._job.pause()

    def action_cancel(self) -> None:
        """Stop; what was received is kept."""
        self._job.cancel()

    def action_leave(self) -> None:
        """Go back; it goes on, but a plan that was not agreed to is dropped."""
        if self.snapshot.phase is DownloadPhase.ASKING:
            self._job.cancel()
        self.dismiss(self.snapshot)

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        now, width = self.snapshot, max(self.size.width - 4, 20)
        self.query_one("#head", Static).update(Content("\n").join(head_lines(now, width)))
        paused = now.phase is DownloadPhase.PAUSED
        bars = [file_line(f, width, paused=paused) for f in now.files]
        self.query_one("#files", Static).update(Content("\n").join(bars))
        notes = [line for note in now.notes for line in wrapped(tr(note), width, indent=2)]
        self.query_one("#note-text", Static).update(Content("\n").join(notes))
        self.query_one("#notes", VerticalScroll).scroll_end(animate=False)
        self.query_one("#keys", Static).update(key_line(now.phase))


def head_lines(now: DownloadSnapshot, width: int) -> list[Content]:
    """Return repository, phase and the total."""
    repo = "" if now.plan is None else clean(str(now.plan["repo"]))
    style = "bold $error" if now.phase is DownloadPhase.FAILED else "bold"
    title = Content.assemble((tr(t("Download")), "bold"), "  ", repo)
    out = [split_row(title, (tr(PHASES[now.phase]), style), width)]
    if now.plan is not None:
        folder = clean(str(now.plan["folder"]))
        out.append(fit(Content.styled(folder, "$foreground-muted"), width))
    if now.total_bytes:
        out.append(total_line(now, width))
    if now.error is not None:
        out += wrapped((tr(now.error.message), "bold $error"), width)
        if now.error.remedy is not None:
            out += wrapped(f"{glyphs().remedy} {tr(now.error.remedy)}", width, indent=2)
    return out


def total_line(now: DownloadSnapshot, width: int) -> Content:
    """Return the bar of the whole with speed and time left."""
    unknown = glyphs().unknown
    done, total = now.done_bytes or 0, now.total_bytes or 0
    speed = unknown if now.bytes_s is None else f"{tr(size(now.bytes_s))}/s"
    left = unknown if now.eta_s is None else tr(duration(now.eta_s))
    if now.phase is DownloadPhase.PAUSED:  # a speed and a time would be those of before
        text = t("{done} of {total}", done=size(done), total=size(total))
    else:
        text = t(
            "{done} of {total}, {speed}, {left} left",
            done=size(done),
            total=size(total),
            speed=speed,
            left=left,
        )
    share = done / total if total else None
    line = Content.assemble(bar(share, BAR_WIDTH, "$accent"), "  ", tr(text))
    return fit(line, width)


def file_line(file: FileProgress, width: int, *, paused: bool = False) -> Content:
    """Return the bar of one file."""
    share = None if not file.size else file.done_bytes / file.size
    state = STATES.get(file.state)
    calm = file.state in {"running", "hashing"}
    word = file.state if state is None else tr(state)
    if paused and calm:
        word = tr(PHASES[DownloadPhase.PAUSED])
    right = Content.assemble(
        bar(share, BAR_WIDTH, "$accent" if calm else "$warning"),
        "  ",
        (f"{word:<10}", "$foreground-muted" if calm else "bold $warning"),
    )
    return split_row(clean(file.path), right, width)


def key_line(phase: DownloadPhase) -> Content:
    """Return the keys that do something now."""
    keys: list[tuple[str, Text]] = []
    hide = ("Esc", t("Hide; it goes on"))
    if phase is DownloadPhase.ASKING:
        keys = [("Enter", t("Fetch")), ("Esc", t("Back"))]
    elif phase is DownloadPhase.RUNNING:
        keys = [("Space", t("Pause")), ("x", t("Stop; what is here is kept")), hide]
    elif phase is DownloadPhase.PAUSED:
        keys = [("Space", t("Go on")), ("x", t("Stop; what is here is kept")), hide]
    elif phase.over:
        keys = [("Esc", t("Back"))]
    else:
        keys = [hide]
    return key_hints((key, tr(word)) for key, word in keys)
