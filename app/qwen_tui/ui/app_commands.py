"""The commands that work everywhere in the console."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui.services.snapshots import ServerState
from qwen_tui.ui.commands import Command
from qwen_tui.ui.figures import share
from qwen_tui.ui.places import PLACES
from qwen_tui.ui.words import MODES
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from qwen_tui.ui.state import View

__all__ = ["APP", "INTERVALS_S"]

INTERVALS_S = (1.0, 2.0, 5.0, 10.0, 30.0)
"""How often figures may be asked for; never more than once a second."""


def _free(view: View) -> bool:
    """Whether this console may act and nothing is under way."""
    return view.controls and view.busy is None


def _can_start(view: View) -> bool:
    return view.server_known and not view.alive and view.selected is not None and _free(view)


def _can_swap(view: View) -> bool:
    return (
        view.server.state is ServerState.RUNNING
        and view.ours
        and view.partner is not None
        and _free(view)
    )


def _can_stop(view: View) -> bool:
    return view.controls and view.ours and view.server.state is not ServerState.STOPPING


def _can_probe(view: View) -> bool:
    return (
        view.server.state is ServerState.RUNNING
        and view.server.url is not None
        and view.busy is None
    )


def _can_pick(view: View) -> bool:
    return not view.alive and bool(view.profiles.profiles) and _free(view)


def _swap_label(view: View) -> Text:
    partner = view.partner
    return t("Swap") if partner is None else t("Swap to {mode}", mode=MODES[partner.mode])


def _stop_label(view: View) -> Text:
    return t("Cancel launch") if view.server.state is ServerState.STARTING else t("Stop")


def _quit_label(view: View) -> Text:
    return t("Leave") if view.alive else t("Quit")


def _pause_label(view: View) -> Text:
    return t("Go on") if view.paused else t("Pause")


def _download_label(view: View) -> Text:
    now = view.download
    if now is None:
        return t("Download")
    if now.phase.value == "running" and now.total_bytes:
        return t("Download {percent}", percent=share((now.done_bytes or 0) / now.total_bytes))
    return DOWNLOADS.get(now.phase.value, t("Download"))


DOWNLOADS: dict[str, Text] = {
    "asking": t("Download: agree?"),
    "paused": t("Download paused"),
    "judging": t("Verifying the download"),
    "complete": t("Download complete"),
    "failed": t("Download failed"),
    "cancelled": t("Download stopped"),
}

TRANSFER = Command(
    "download",
    "D",
    "download",
    _download_label,
    t("Show the download that goes on behind the screens; pause or stop it there."),
    lambda view: view.download is not None,
    rank=90,
)

SERVER: tuple[Command, ...] = (
    Command(
        "server.start",
        "s",
        "start",
        t("Start"),
        t("Launch the selected profile. It goes on running when you leave."),
        _can_start,
        rank=10,
    ),
    Command(
        "server.swap",
        "s",
        "swap",
        _swap_label,
        t("Swap between the speed and the context profile of the pair; a card shows what changes."),
        _can_swap,
        rank=11,
    ),
    Command(
        "profile.pick",
        "o",
        "pick",
        t("Profile"),
        t("Choose the profile to launch."),
        _can_pick,
        rank=12,
    ),
    Command(
        "probe",
        "p",
        "probe",
        t("Probe"),
        t("Send one request of a kind and time it here: first token, first visible token, speed."),
        _can_probe,
        rank=20,
    ),
    Command(
        "probe.result",
        "P",
        "probe_result",
        t("Last probe"),
        t("Show what the last probe measured; copy it as curl, or send it again."),
        lambda view: view.probe is not None,
        footer=False,
    ),
    Command(
        "server.stop",
        "x",
        "stop",
        _stop_label,
        t("Stop the server; asks first and says what is lost."),
        lambda view: _can_stop(view) and not view.swapping,
        rank=30,
    ),
    Command(
        "swap.cancel",
        "x",
        "cancel_swap",
        t("Cancel swap"),
        t("Go back to the profile that served before; not while it is being stopped."),
        lambda view: view.swapping,
        rank=30,
    ),
)

WATCHING: tuple[Command, ...] = (
    Command(
        "pause",
        "space",
        "pause",
        _pause_label,
        t("Hold figures and log still, to read or copy; the engine does not notice."),
        lambda view: view.alive,
        footer=False,
    ),
    Command(
        "interval.longer",
        "minus",
        "interval(1)",
        t("Slower"),
        t("Ask for figures less often."),
        lambda view: view.alive and view.interval_s < INTERVALS_S[-1],
        footer=False,
    ),
    Command(
        "interval.shorter",
        "plus,equals_sign",
        "interval(-1)",
        t("Faster"),
        t("Ask for figures more often, at most once a second."),
        lambda view: view.alive and view.interval_s > INTERVALS_S[0],
        footer=False,
    ),
)

GOING: tuple[Command, ...] = (
    *(
        Command(
            f"place.{row.id}",
            f"{row.letter},{row.key}" if row.letter else row.key,
            f"go('{row.id}')",
            row.title,
            row.help,
            rank=70,
            footer=bool(row.letter),
        )
        for row in PLACES
    ),
    Command(
        "places",
        "m",
        "places",
        t("Places"),
        t("Go to another place: the number keys do it at once."),
        rank=80,
    ),
)

LOOKS: tuple[Command, ...] = (
    Command(
        "palette",
        "ctrl+p",
        "command_palette",
        t("Commands"),
        t("Search every command, place, profile and theme by name."),
        footer=False,
    ),
    Command(
        "guide",
        "g",
        "guide",
        t("First steps"),
        t("From an empty machine to an answered request, step by step."),
        footer=False,
    ),
    Command(
        "theme",
        "ctrl+t",
        "theme",
        t("Theme"),
        t("Change the colours: dark, light, colour-blind safe, the terminal's own."),
        footer=False,
    ),
    Command(
        "language",
        "ctrl+l",
        "language",
        t("Language"),
        t("Change between English and Chinese."),
        footer=False,
    ),
    Command(
        "suspend",
        "ctrl+z",
        "suspend_process",
        t("Suspend"),
        t("Go to the shell; fg comes back. Not in a browser."),
        footer=False,
    ),
    Command(
        "help",
        "question_mark,f1",
        "help",
        t("Help"),
        t("Explain this screen and its keys."),
        rank=91,
    ),
    Command(
        "quit",
        "q,ctrl+q",
        "leave",
        _quit_label,
        t("Leave the console. A running server goes on unless you say otherwise."),
        rank=92,
    ),
)

APP: tuple[Command, ...] = (TRANSFER, *SERVER, *WATCHING, *GOING, *LOOKS)
