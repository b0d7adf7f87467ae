"""One streaming request of our own, timed where the bytes arrive."""

from qwen_tui.services.probe.probing import probe

__all__ = ["probe"]
