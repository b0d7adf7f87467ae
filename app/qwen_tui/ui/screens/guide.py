"""The first steps: from an empty machine to an answered request, each of them skippable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from qwen_tui.services.snapshots import ServerState
from qwen_tui.ui.cells import fit, wrapped
from qwen_tui.ui.glyphs import glyphs
from qwen_tui.ui.screens.cards import Card
from qwen_tui_profiles.text import Text, t, tr

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui.ui.state import View

__all__ = ["STEPS", "GuideCard", "Step", "next_step"]

WIDTH = 72


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what it is for, what does it, and how one can tell that it is done."""

    id: str
    title: Text
    why: Text
    action: str
    """An action of the app."""
    done: Callable[[View], bool]
    needed: Callable[[View], bool] = lambda _: True


STEPS: tuple[Step, ...] = (
    Step(
        "doctor",
        t("Check this machine"),
        t("GPU, driver, disk, memory, engine: what a launch would trip over."),
        "go('doctor')",
        lambda view: "doctor" in view.steps,
    ),
    Step(
        "model",
        t("Choose a model folder, or download one"),
        t("Transfers resume, go without Xet and prove every file. The demo needs no model."),
        "go('models')",
        lambda view: "model" in view.steps,
        lambda view: not _simulated(view),
    ),
    Step(
        "verify",
        t("Verify the checkpoint"),
        t("From its headers, in milliseconds: missing tensors, wrong ignore lists."),
        "go('models')",
        lambda view: "verify" in view.steps,
        lambda view: not _simulated(view),
    ),
    Step(
        "plan",
        t("See what you will get"),
        t("Pools, requests at once, usable context: before the launch."),
        "go('plan')",
        lambda view: "plan" in view.steps,
    ),
    Step(
        "launch",
        t("Launch"),
        t("Ready means one generated token, not an open port."),
        "start",
        lambda view: view.server.state is ServerState.RUNNING,
    ),
    Step(
        "probe",
        t("Send one request"),
        t("Timed here, as your clients will feel it."),
        "probe_kind('prose')",
        lambda view: view.probe is not None,
    ),
)


def _simulated(view: View) -> bool:
    profile = view.profile
    return profile is not None and profile.simulated


def next_step(view: View) -> Step | None:
    """Return the first step that is neither done nor skipped."""
    return next(
        (s for s in STEPS if s.needed(view) and not s.done(view) and s.id not in view.skipped),
        None,
    )


class GuideCard(Card[str]):
    """The steps with their state; dismisses with ``do`` or ``skip``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose('do')", "Do it", show=False),
        Binding("s", "choose('skip')", "Skip", show=False),
    ]

    def __init__(self, view: View) -> None:
        step = next_step(view)
        keys: tuple[tuple[str, Text], ...] = (("Esc", t("Not now; g opens this again")),)
        if step is not None:
            keys = (("Enter", t("Do it")), ("s", t("Skip")), *keys)
        super().__init__(tr(t("First steps")), guide_lines(view), keys)
        self._step = step

    def action_choose(self, choice: str) -> None:
        """Dismiss with the choice."""
        self.dismiss(choice if self._step is not None else None)


def guide_lines(view: View) -> list[Content]:
    """Return the steps, the next one with its reason."""
    marks = glyphs()
    current = next_step(view)
    out: list[Content] = []
    for number, step in enumerate(STEPS, 1):
        if step.done(view):
            mark, style = (marks.done, "$success"), "$foreground-muted"
        elif step.id in view.skipped or not step.needed(view):
            mark, style = (marks.skip, "$foreground-muted"), "$foreground-muted"
        elif step is current:
            mark, style = (marks.now, "bold $warning"), "bold"
        else:
            mark, style = (marks.later, "$foreground-muted"), ""
        note = "" if step.needed(view) else "  " + tr(t("the simulated engine needs none"))
        out.append(Content.assemble(mark, f" {number} ", (tr(step.title), style), (note, style)))
        if step is current:
            out += wrapped((tr(step.why), "$foreground-muted"), WIDTH, indent=4)
    if current is None:
        out += [Content(""), Content(tr(t("Nothing is left to do here.")))]
    return [fit(line, WIDTH) for line in out]
