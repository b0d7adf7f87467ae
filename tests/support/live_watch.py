"""The live pipeline without a network: scrapes in, snapshots out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qwen_tui.services.live.context import LiveContext
from qwen_tui.services.live.exposition import ExpositionParser
from qwen_tui.services.live.figures import FigureMaker
from qwen_tui.services.live.normalise import Reading, normalise, wanted_names
from qwen_tui.services.live.serverinfo import ServerLimits
from qwen_tui.services.live.windows import History

if TYPE_CHECKING:
    from qwen_tui.services.snapshots import LiveSnapshot
    from support.exporter import Exporter


__all__ = ["Watcher"]


@dataclass
class Watcher:
    """Feeds scrapes through the product's own pipeline."""

    history: History = field(default_factory=History)
    figures: FigureMaker = field(default_factory=FigureMaker)
    limits: ServerLimits = field(default_factory=ServerLimits)
    context: LiveContext = field(default_factory=LiveContext)
    parser: ExpositionParser = field(
        default_factory=lambda: ExpositionParser(wanted_names().__contains__)
    )
    at: float = 0.0

    def read(self, text: str) -> Reading:
        return normalise(self.parser.parse(text))

    def scrape(self, exporter: Exporter, after_s: float = 1.0) -> LiveSnapshot:
        self.at += after_s
        reading = self.read(exporter.text())
        if self.history.feed(reading, self.at):
            self.figures.forget()
        return self.figures.snapshot(
            reading, self.history, self.limits, self.context, at=1_000_000 + self.at
        )
