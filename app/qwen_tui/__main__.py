"""``python -m qwen_tui`` is the command ``qwen-tui``."""

from __future__ import annotations

from qwen_tui.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
