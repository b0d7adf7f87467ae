"""A simulated SGLang 0.5.23 for seeing the product without a GPU, and for its tests.

``python -m qwen_tui.demo_engine`` takes SGLang's own flags, prints SGLang's own log lines and
speaks SGLang's HTTP surface. Nothing is computed by a model: the memory is a simulated card that is
budgeted with SGLang's arithmetic, the replies are made-up text, and the first log line and every
reply say so. Delays and faults are flags of its own (``--demo-…``).

It stands beside the other packages: it imports nothing of them but the pure profile package, and
nothing imports it; the launcher starts it as a process like any other engine.
"""

from __future__ import annotations

ENGINE_VERSION = "0.5.23"
"""The SGLang release whose flags, log lines and HTTP bodies are simulated."""

SIMULATED_BANNER = (
    f"SIMULATED ENGINE: no model and no GPU behind this server. "
    f"It imitates SGLang {ENGINE_VERSION} for demonstrations and tests."
)
"""First line of every log."""

__all__ = ["ENGINE_VERSION", "SIMULATED_BANNER"]
