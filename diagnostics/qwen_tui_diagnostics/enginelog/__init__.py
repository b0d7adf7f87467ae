"""The streaming reader of SGLang and vLLM logs."""

from __future__ import annotations

from qwen_tui_diagnostics.enginelog.lines import LineSplitter, LogLine
from qwen_tui_diagnostics.enginelog.reader import LogReader
from qwen_tui_diagnostics.enginelog.report import PHASES, Fatal, LogReport, PhaseSpan

__all__ = ["PHASES", "Fatal", "LineSplitter", "LogLine", "LogReader", "LogReport", "PhaseSpan"]
