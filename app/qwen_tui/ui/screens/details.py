"""Cards that explain: one clamp whole, and the help of a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from qwen_tui.ui import figures
from qwen_tui.ui.cells import fit, wrapped
from qwen_tui.ui.findings import finding_lines
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.places import PLACES
from qwen_tui.ui.screens.cards import Card, InputCard, TextCard
from qwen_tui.ui.widgets.keybar import pressing
from qwen_tui_profiles.text import t, tr
from qwen_tui_profiles.wrapping import columns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qwen_tui.ui.commands import Command
    from qwen_tui.ui.state import View
    from qwen_tui_profiles.findings import Clamp, Finding
    from qwen_tui_profiles.text import Text

__all__ = ["ClampCard", "FindingsCard", "HelpCard", "PlacesCard"]

KEY = 5
NAME = 20
WIDTH = 72

WORDS: tuple[tuple[Text, Text], ...] = (
    (t("asked, got"), t("What the launch said, and what the engine made of it.")),
    (
        t("declared, usable context"),
        t("The length that the server announces, and the longest request that really fits."),
    ),
    (t("KV pool"), t("Tokens of attention cache, shared by all requests.")),
    (
        t("state slot"),
        t("Fixed memory of the linear-attention layers; each request holds several."),
    ),
    (
        t("accept length"),
        t("Tokens per step of speculative decoding, the bonus token included; 1.00 = no gain."),
    ),
    (t("TTFT, TTFO"), t("Time to the first token of any kind, and to the first visible one.")),
    (t("hit rate"), t("Cached ÷ prompt tokens over the window.")),
    (t("speed, context"), t("The two profiles of a pair; a swap changes from one to the other.")),
)


class ClampCard(TextCard):
    """One clamp: argument, asked, got, who, why, what to do, and the line that proves it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("y", "copy", "Copy", show=False)]

    def __init__(self, clamp: Clamp) -> None:
        body = [
            Content.assemble(
                figures.value(clamp.asked),
                (f" {glyphs().arrow} ", "$foreground-muted"),
                (figures.value(clamp.got), "bold $warning"),
                ("   " + tr(t("changed by {who}", who=clamp.by)), "$foreground-muted"),
            ),
            Content(""),
            Content(tr(clamp.why)),
        ]
        if clamp.remedy is not None:
            body += [
                Content(""),
                Content.assemble((f"{glyphs().remedy} ", "$accent"), tr(clamp.remedy)),
            ]
        if clamp.evidence is not None:
            where = (
                t("Evidence")
                if clamp.evidence.line is None
                else t("Evidence, log line {line}", line=clamp.evidence.line)
            )
            body += [
                Content(""),
                Content.styled(tr(where), "$foreground-muted"),
                Content.styled(clamp.evidence.text, "$foreground-muted"),
            ]
        super().__init__(clamp.arg, body, (("y", t("Copy what to do")),))
        self._clamp = clamp

    def action_copy(self) -> None:
        """Copy what to do."""
        self.app.copy_to_clipboard(str(self._clamp.remedy or self._clamp.why))
        self.notify(tr(t("Copied.")))


class HelpCard(TextCard):
    """What this screen shows, its keys, and the words that it uses."""

    def __init__(
        self, view: View, about: Text, commands: Iterable[tuple[str, Command, bool]]
    ) -> None:
        rows = tuple(commands)
        keys = max([KEY, *(columns(key) + 1 for key, _, _ in rows)])
        body = [Content(tr(about)), Content("")]
        for key, command, enabled in rows:
            style = "" if enabled else "$foreground-muted"
            head = Content.assemble(
                fit((key, "bold $accent" if enabled else style), keys),
                fit((tr(command.name(view)), style or "bold"), NAME),
            )
            body += hanging(head, (tr(command.help), style))
        body += [Content(""), Content.styled(tr(t("Words")), "bold")]
        for word, meaning in WORDS:
            head = fit((tr(word), "bold"), keys + NAME)
            body += hanging(head, (tr(meaning), ""))
        super().__init__(tr(t("Help")), body)


class FindingsCard(Card[str]):
    """Why a launch would fail; dismisses with the reason for launching all the same."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "force", "Launch all the same", show=False),
    ]

    def __init__(self, profile: str, findings: Iterable[Finding]) -> None:
        body: list[Content] = []
        for finding in findings:
            body += finding_lines(finding, WIDTH)
        keys = (("f", t("Launch all the same")), ("Esc", t("Back")))
        super().__init__(tr(t("{profile} would not serve", profile=profile)), body, keys)
        self.add_class("-danger")

    def action_force(self) -> None:
        """Ask for the reason, which is kept with the run."""
        card = InputCard(
            tr(t("Launch all the same")), tr(t("Why? The reason is kept with the run."))
        )
        self.app.push_screen(card, self._reasoned)

    def _reasoned(self, reason: str | None) -> None:
        if reason is not None:
            self.dismiss(reason)


class PlacesCard(Card[str]):
    """The places with their keys; dismisses with the chosen one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(row.key, f"choose('{row.id}')", str(row.title), show=False) for row in PLACES
    ]

    def __init__(self, view: View, here: str) -> None:
        body = []
        for row in PLACES:
            style = "bold" if row.id != here else "$foreground-muted"
            head = Content.assemble(
                fit((row.key, "bold $accent"), KEY), fit((tr(row.title), style), NAME)
            )
            lines = hanging(head, (tr(row.help), ""))
            body += [line.stylize(pressing(row.key)) for line in lines]
        keys = f"{PLACES[0].key}-{PLACES[-1].key}"
        super().__init__(tr(t("Places")), body, ((keys, t("Go there")), ("Esc", t("Back"))))

    def action_choose(self, place: str) -> None:
        """Dismiss with the place."""
        self.dismiss(place)


def hanging(head: Content, text: tuple[str, str]) -> list[Content]:
    """Return ``text`` wrapped beside its head, later lines below its first."""
    indent = head.cell_length
    lines = wrapped(text, WIDTH - indent)
    return [Content.assemble(head, lines[0]), *(line.pad_left(indent) for line in lines[1:])]
