"""qwen-tui: a terminal control panel and a headless doctor for Qwen3.8 on SGLang and vLLM."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
