"""The console's places, as data: one row each. A new place is a row here and a file of its own.

(*Mode* is the profile's word, so the console's full screens are places.)
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, cast

from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from qwen_tui.ui.screens.place import Kit, Place

__all__ = ["PLACES", "PlaceRow", "place_row"]


@dataclass(frozen=True, slots=True)
class PlaceRow:
    """One place: what it is called, its key, and where its screen is."""

    id: str
    key: str
    title: Text
    help: Text
    module: str
    """Below ``qwen_tui.ui.screens``; imported when the place is first opened."""
    screen: str
    letter: str = ""
    """A second key, for the places that the footer names."""

    def make(self, kit: Kit) -> Place:
        """Import the screen and build it."""
        module = import_module(f"qwen_tui.ui.screens.{self.module}")
        return cast("Place", getattr(module, self.screen)(kit))


PLACES: tuple[PlaceRow, ...] = (
    PlaceRow(
        "home", "1", t("Home"), t("The server, asked and got, live figures."), "home", "HomeScreen"
    ),
    PlaceRow(
        "doctor", "2", t("Doctor"), t("Checks of this machine."), "doctor", "DoctorScreen", "d"
    ),
    PlaceRow(
        "models", "3", t("Models"), t("Download, verify, look inside."), "models", "ModelsScreen"
    ),
    PlaceRow(
        "profiles",
        "4",
        t("Profiles"),
        t("Read, change and compare profiles."),
        "profiles",
        "ProfilesScreen",
    ),
    PlaceRow(
        "plan",
        "5",
        t("Plan"),
        t("Predict pools and limits before a launch."),
        "plan",
        "PlanScreen",
    ),
    PlaceRow(
        "boot", "6", t("Boot"), t("Timeline and memory of the last boot."), "boot", "BootScreen"
    ),
    PlaceRow("logs", "7", t("Logs"), t("The engine's log, searched."), "logs", "LogsScreen", "l"),
    PlaceRow(
        "history",
        "8",
        t("History"),
        t("Boots and swaps of the past."),
        "history",
        "HistoryScreen",
    ),
    PlaceRow(
        "fleet", "9", t("Fleet"), t("Several servers, one line each."), "fleet", "FleetScreen"
    ),
)


def place_row(place: str) -> PlaceRow:
    """Return the row of a place."""
    return next(row for row in PLACES if row.id == place)
