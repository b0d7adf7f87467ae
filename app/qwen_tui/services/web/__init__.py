"""The console in a browser: textual-serve's page and protocol, with our own rules around it.

What textual-serve 1.1.3 leaves open and this package closes: any site that the user visits could
open the WebSocket (no ``Origin`` check), any user of the machine could (no secret), the page loads
a font from the internet, the console is started through a shell, and the process waits a minute
for open tabs before it ends. Imported only by ``qwen-tui web``: it needs the extra ``[web]``.
"""

from __future__ import annotations

from qwen_tui.services.web.server import ConsoleServer, serve

__all__ = ["ConsoleServer", "serve"]
