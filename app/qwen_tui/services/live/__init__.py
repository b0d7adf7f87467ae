"""Live figures of a serving engine: poll, recognise, window, explain (see ``figures``)."""

from qwen_tui.services.live.context import LiveContext
from qwen_tui.services.live.poller import MetricPoller, Pace

__all__ = ["LiveContext", "MetricPoller", "Pace"]
