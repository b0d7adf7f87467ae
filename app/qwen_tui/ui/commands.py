"""Every command of the console, defined once: footer, help, palette and key map read this table.

A command's id is its binding id, so that a user's key map can move it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.binding import Binding, BindingType

from qwen_tui.services.snapshots import ServerState
from qwen_tui.ui.words import MODES
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from qwen_tui.ui.state import View

__all__ = ["APP", "DOCTOR", "HOME", "Command", "bindings", "by_action", "by_id"]


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that a person can do, and when it can be done."""

    id: str
    keys: str
    """Keys as Textual names them, separated by commas; the footer shows the first."""
    action: str
    label: Text | Callable[[View], Text]
    """A word or two for the footer."""
    help: Text
    """One sentence for help and palette."""
    when: Callable[[View], bool] = lambda _: True
    rank: int = 50
    """Place in the footer, lowest first; commands from 90 on stay when room is short."""
    footer: bool = True

    def name(self, view: View) -> Text:
        """Return the label for this moment."""
        return self.label if isinstance(self.label, Text) else self.label(view)


def _can_start(view: View) -> bool:
    return view.server_known and not view.alive and view.selected is not None and view.busy is None


def _can_swap(view: View) -> bool:
    return (
        view.server.state is ServerState.RUNNING
        and view.ours
        and view.partner is not None
        and view.busy is None
    )


def _can_stop(view: View) -> bool:
    return view.ours and view.server.state is not ServerState.STOPPING


def _can_probe(view: View) -> bool:
    return (
        view.server.state is ServerState.RUNNING
        and view.server.url is not None
        and view.busy is None
    )


def _swap_label(view: View) -> Text:
    partner = view.partner
    return t("Swap") if partner is None else t("Swap to {mode}", mode=MODES[partner.mode])


def _stop_label(view: View) -> Text:
    return t("Cancel launch") if view.server.state is ServerState.STARTING else t("Stop")


def _quit_label(view: View) -> Text:
    return t("Leave") if view.alive else t("Quit")


APP: tuple[Command, ...] = (
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
        lambda view: not view.alive and bool(view.profiles.profiles) and view.busy is None,
        rank=12,
    ),
    Command(
        "probe",
        "p",
        "probe",
        t("Probe"),
        t("Send one request and time it here: first token, first visible token, tokens a second."),
        _can_probe,
        rank=20,
    ),
    Command(
        "server.stop",
        "x",
        "stop",
        _stop_label,
        t("Stop the server; asks first and says what is lost."),
        _can_stop,
        rank=30,
    ),
    Command(
        "doctor",
        "d",
        "doctor",
        t("Doctor"),
        t("Check this machine for the selected profile."),
        rank=40,
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

HOME: tuple[Command, ...] = (
    Command(
        "clamps.acknowledge",
        "a",
        "acknowledge",
        t("Seen"),
        t("Mark as seen what differs between asked and got, and how the last server ended."),
        lambda view: bool(view.unseen) or view.ended or view.said is not None,
        rank=15,
    ),
    Command(
        "log.follow",
        "f,end",
        "follow",
        t("Follow"),
        t("Go to the end of the log and follow it."),
        rank=60,
        footer=False,
    ),
)

DOCTOR: tuple[Command, ...] = (
    Command("doctor.again", "r", "again", t("Run again"), t("Run all checks again."), rank=10),
    Command(
        "doctor.bad",
        "f",
        "filter",
        t("Only problems"),
        t("Show only failures and warnings, or everything."),
        rank=11,
    ),
    Command("back", "escape", "back", t("Back"), t("Go back to the main screen."), rank=90),
)

EVERY = (*APP, *HOME, *DOCTOR)


def bindings(commands: Iterable[Command]) -> list[BindingType]:
    """Return the Textual bindings of some commands."""
    return [
        Binding(
            c.keys,
            c.action,
            description=c.id,
            show=c.footer,
            tooltip=str(c.help),
            id=c.id,
        )
        for c in commands
    ]


def by_action(commands: Iterable[Command]) -> dict[str, Command]:
    """Index commands by their action."""
    return {c.action: c for c in commands}


def by_id() -> dict[str, Command]:
    """Index every command by its id."""
    return {c.id: c for c in EVERY}
