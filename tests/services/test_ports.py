from __future__ import annotations

import errno
import os
import socket

import pytest

from qwen_tui.services.ports import accepts, check_port, require_free_port
from qwen_tui_profiles.errors import LaunchError
from support.supervise import free_port


def test_a_free_port_is_free_and_stays_free() -> None:
    port = free_port()
    assert check_port("127.0.0.1", port).free
    assert check_port("127.0.0.1", port).free
    assert not accepts("127.0.0.1", port)


@pytest.mark.parametrize("bound_to", ["127.0.0.1", "0.0.0.0"])
def test_a_listener_is_named(bound_to: str) -> None:
    with socket.socket() as holder:
        holder.bind((bound_to, 0))
        holder.listen()
        port = holder.getsockname()[1]
        use = check_port("127.0.0.1", port)
        assert not use.free
        assert use.holder is not None
        assert use.holder.pid == os.getpid()
        assert accepts("127.0.0.1", port)
        with pytest.raises(LaunchError, match=rf"Port {port} .* \(pid {os.getpid()}\)"):
            require_free_port("127.0.0.1", port)


def test_time_wait_does_not_count_as_taken() -> None:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
        accepted.close()  # the side that closes first keeps TIME_WAIT
        client.close()
    assert check_port("127.0.0.1", port).free


def test_an_address_of_another_machine() -> None:
    use = check_port("192.0.2.1", 30000)  # TEST-NET-1
    assert (use.free, use.error) == (False, errno.EADDRNOTAVAIL)
    with pytest.raises(LaunchError, match=r"192\.0\.2\.1 is not an address of this machine"):
        require_free_port("192.0.2.1", 30000)


def test_a_name_that_does_not_resolve() -> None:
    assert not check_port("no-such-host.invalid", 30000).free


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_ipv6() -> None:
    try:
        with socket.socket(socket.AF_INET6) as holder:
            holder.bind(("::1", 0))
            holder.listen()
            assert not check_port("::1", holder.getsockname()[1]).free
    except OSError:
        pytest.skip("no IPv6 loopback here")
