"""The floor: a Textual app with as many widgets as asked for, each changed once a second.

python benchmarks/bare_textual.py WIDGETS CHANGES_PER_SECOND
"""

from __future__ import annotations

import random
import sys

from textual.app import App, ComposeResult
from textual.widgets import Footer, Header, Sparkline, Static


class Bare(App[None]):
    """Header, footer, a third of sparklines and the rest text."""

    CSS = "Static { height: 1; } Sparkline { height: 1; }"

    def __init__(self, widgets: int, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.sparks = [Sparkline([0.0] * 30) for _ in range(widgets // 3)]
        self.texts = [Static("") for _ in range(widgets - len(self.sparks))]

    def compose(self) -> ComposeResult:
        yield Header()
        yield from self.texts
        yield from self.sparks
        yield Footer()

    def on_mount(self) -> None:
        if self.rate > 0:
            self.set_interval(1 / self.rate, self.tick)

    def tick(self) -> None:
        for number, text in enumerate(self.texts):
            text.update(f"figure {number:3d}  {random.random() * 1000:9.2f} tok/s")
        for spark in self.sparks:
            spark.data = [*(spark.data or [])[1:], random.random()]


if __name__ == "__main__":
    Bare(int(sys.argv[1]), float(sys.argv[2])).run()
