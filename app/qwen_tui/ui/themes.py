"""The console's own themes. Colour never stands alone: every status has a word and a glyph too."""

from __future__ import annotations

from textual.theme import Theme

__all__ = ["THEMES", "THEME_NAMES"]


def _quiet(background: str, bar: str) -> dict[str, str]:
    """Return the theme variables of borders and scrollbars that stay in the background."""
    return {
        "border-blurred": bar,
        "scrollbar": bar,
        "scrollbar-hover": bar,
        "scrollbar-active": bar,
        "scrollbar-background": background,
        "scrollbar-background-hover": background,
        "scrollbar-background-active": background,
        "scrollbar-corner-color": background,
    }


THEMES: tuple[Theme, ...] = (
    Theme(
        name="qwen-dark",
        primary="#8C9EFF",
        secondary="#5C6BC0",
        accent="#62C6E0",
        success="#68C98D",
        warning="#E8B64C",
        error="#F27983",
        foreground="#D6DDE6",
        background="#0F1318",
        surface="#151A20",
        panel="#1D242C",
        variables=_quiet("#0F1318", "#3A4552"),
        dark=True,
    ),
    Theme(
        name="qwen-light",
        primary="#3949AB",
        secondary="#5C6BC0",
        accent="#00748F",
        success="#1E7A43",
        warning="#8A5A00",
        error="#B3261E",
        foreground="#1C2430",
        background="#F7F8FA",
        surface="#FFFFFF",
        panel="#E6EAF0",
        variables=_quiet("#F7F8FA", "#B8C0CC"),
        dark=False,
    ),
    # Okabe and Ito's palette: told apart with any common colour blindness.
    Theme(
        name="qwen-safe",
        primary="#0072B2",
        secondary="#CC79A7",
        accent="#F0E442",
        success="#56B4E9",
        warning="#E69F00",
        error="#D55E00",
        foreground="#E4E6E8",
        background="#101214",
        surface="#16191C",
        panel="#202428",
        variables=_quiet("#101214", "#3E454C"),
        dark=True,
    ),
)

# The terminal's own sixteen colours, for terminals that have no more and for people who chose them.
THEME_NAMES: tuple[str, ...] = (*(theme.name for theme in THEMES), "ansi-dark", "ansi-light")
