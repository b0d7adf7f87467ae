"""Imports that do not hold up an event loop."""

from __future__ import annotations

import asyncio
import importlib
import sys
from typing import Any

__all__ = ["load_module"]


async def load_module(name: str) -> Any:
    """Import off the loop; a module that is there already costs nothing."""
    return sys.modules.get(name) or await asyncio.to_thread(importlib.import_module, name)
