"""The server's port: bound exactly as the server will bind it, with the owner's name."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from qwen_tui_diagnostics.context import Context, Target
from qwen_tui_diagnostics.facts import Gathered
from qwen_tui_diagnostics.probes import port, server

if TYPE_CHECKING:
    from collections.abc import Iterator


def collect(host: str, number: int, module: Any = port) -> Gathered:
    found = Gathered()
    module.collect(Context(target=Target(host=host, port=number)), found)
    return found


@pytest.fixture
def busy() -> Iterator[int]:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        yield listener.getsockname()[1]


def test_a_listener_is_found_with_its_owner_and_a_free_port(busy: int) -> None:
    found = collect("127.0.0.1", busy).values["port"]
    assert found["bind_errno"] == errno.EADDRINUSE
    assert {owner["pid"] for owner in found["owners"]} == {os.getpid()}
    assert found["next_free"] > busy
    assert port.bind_error("127.0.0.1", found["next_free"]) == 0


def test_a_loopback_listener_blocks_every_address_but_not_the_neighbour(busy: int) -> None:
    assert port.bind_error("0.0.0.0", busy) == errno.EADDRINUSE
    assert port.bind_error("127.0.0.2", busy) == 0


def test_a_port_in_time_wait_is_free_as_it_is_for_the_server() -> None:
    with closing(socket.socket()) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        number = listener.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", number))
        served, _ = listener.accept()
        served.close()  # the side that closes first waits
        client.close()
    assert port.bind_error("127.0.0.1", number) == 0


def test_version_six_is_bound_on_its_own() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    try:
        probe = socket.socket(socket.AF_INET6)
        probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 loopback")
    with closing(probe):
        probe.listen(1)
        assert port.bind_error("::1", probe.getsockname()[1]) == errno.EADDRINUSE
    assert port.bind_error("::", port.next_free("127.0.0.1", 39100) or 39101) == 0


def test_addresses_that_cannot_be_bound() -> None:
    assert port.bind_error("203.0.113.7", 39200) == errno.EADDRNOTAVAIL
    assert port.bind_error("no such host", 39200) == errno.EADDRNOTAVAIL


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="dropping privileges needs root")
def test_low_ports_and_foreign_owners_for_a_plain_user(busy: int) -> None:
    low = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
    program = (
        "import encodings.idna, os\n"
        "from pathlib import Path\n"
        "from qwen_tui_diagnostics.probes import port\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "print(port.bind_error('127.0.0.1', 81))\n"
        f"print(port.owners(Path('/proc'), {busy}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=30
    )
    first, second = done.stdout.splitlines()
    if int(low.read_text()) > 81:
        assert int(first) == errno.EACCES
    assert second == "[{'pid': None, 'name': ''}]"


class Models(BaseHTTPRequestHandler):
    """Answers as a server does, or with what the test wants."""

    body = b'{"data": [{"id": "qwen3.8\\u001b[31m", "owned_by": "sglang"}]}'

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@pytest.mark.parametrize(
    ("body", "model"),
    [(Models.body, "qwen3.8"), (b"[]", None), (b"not json", None), (b'{"data": []}', None)],
)
def test_a_running_server_is_recognised(body: bytes, model: str | None) -> None:
    handler = type("Handler", (Models,), {"body": body})
    with HTTPServer(("127.0.0.1", 0), handler) as httpd:
        thread = Thread(target=httpd.handle_request)
        thread.start()
        values = collect("127.0.0.1", httpd.server_address[1], server).values["server"]
        thread.join()
    assert values["answers"] is True
    assert values.get("model") == model


def test_a_free_port_has_no_server_and_a_silent_one_is_told(
    busy: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = port.next_free("127.0.0.1", 39300)
    assert free is not None
    assert collect("127.0.0.1", free, server).values["server"]["answers"] is False
    monkeypatch.setattr(server, "LIMIT_S", 0.2)
    values = collect("127.0.0.1", busy, server).values["server"]
    assert values == {"answers": True, "silent": True}
    assert "server.answers" in collect("203.0.113.7", 80, server).absent
