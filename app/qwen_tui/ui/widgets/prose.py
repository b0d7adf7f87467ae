"""Running text in a widget, broken where its language allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.widgets import Static

from qwen_tui.ui.cells import join, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.geometry import Size
    from textual.visual import VisualType

__all__ = ["Prose"]


class Prose(Static):
    """Paragraphs. Textual alone breaks at spaces only, and so begins Chinese lines with a comma."""

    def __init__(self, paragraphs: Iterable[Content], *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        self._paragraphs = tuple(paragraphs)
        super().__init__(id=id)

    def update(self, content: VisualType = "", *, layout: bool = True) -> None:
        """Show another text."""
        whole = content if isinstance(content, Content) else Content(str(content))
        self._paragraphs = tuple(whole.split(allow_blank=True))
        self.refresh(layout=layout)

    def render(self) -> Content:
        """Return the lines for the width there is."""
        return join(self._lines(self.content_size.width))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return how many lines the text takes in ``width`` cells."""
        del container, viewport
        return len(self._lines(width))

    def _lines(self, width: int) -> list[Content]:
        if width <= 0:
            return list(self._paragraphs)
        return [line for text in self._paragraphs for line in wrapped(text, width) or [text]]
