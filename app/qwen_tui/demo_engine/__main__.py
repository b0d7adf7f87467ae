"""Entry point of ``python -m qwen_tui.demo_engine``."""

from __future__ import annotations

import sys

from qwen_tui.demo_engine.launch import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
