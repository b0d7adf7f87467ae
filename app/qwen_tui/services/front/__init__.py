"""The hold-and-forward endpoint: clients keep one address, and a swap makes them wait, not fail.

A small process of its own relays every request byte for byte to the server that runs now. While a
swap or a boot is under way it holds requests, up to a limit, and serves them afterwards.
"""

from qwen_tui.services.front.service import FrontInfo, FrontService

__all__ = ["FrontInfo", "FrontService"]
