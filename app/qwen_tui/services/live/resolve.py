"""Looks up host names without ever keeping the program from ending.

asyncio asks the system in an executor whose threads are joined at exit, so a name server that does
not answer would hold up the end of a command or of the console for half a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import threading

__all__ = ["addresses_of"]


async def addresses_of(host: str, port: int) -> list[str]:
    """Return the numeric addresses of ``host`` in the system's order of preference.

    Raises:
        OSError: the name is not known.
    """
    if _is_address(host):
        return [host]
    loop = asyncio.get_running_loop()
    future: asyncio.Future[list[str]] = loop.create_future()

    def settle(found: list[str] | OSError) -> None:
        if future.done():
            return
        if isinstance(found, OSError):
            future.set_exception(found)
        else:
            future.set_result(found)

    def look() -> None:
        found: list[str] | OSError
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found = list(dict.fromkeys(str(row[4][0]) for row in rows))
        except OSError as error:
            found = error
        except UnicodeError as error:
            found = OSError(str(error))  # not encodable as a host name
        # The loop may be closed by the time that the name server answers.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, found)

    threading.Thread(target=look, name="resolve", daemon=True).start()
    return await future


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
