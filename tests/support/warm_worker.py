"""Workers that start in no time: forked from a process that has imported all they need.

Nine tenths of a short test of a download would be Python's start and the imports of the worker.
A *nursery* process imports them once. A test's session starts this file as its "worker": a bare
interpreter that hands its environment and its three streams to the nursery, and ends with the exit
code of the child that the nursery forks for it. That child runs the worker's own ``main`` in a
session of its own, and reads the hub library's constants anew from the environment it was given.

What this does not show (the start itself, SIGKILL, what is imported when) is tested with the real
command.

    python warm_worker.py SOCKET            hand over to the nursery
    python warm_worker.py --nursery SOCKET  be the nursery, until standard input ends
"""

from __future__ import annotations

import array
import os
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["nursery"]

_LIMIT = 1 << 20


def hand_over(address: str) -> int:
    """Give streams and environment to the nursery; return the exit code of its child."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        link.connect(address)
        pairs = b"\0\0".join(k + b"=" + v for k, v in os.environb.items())
        streams = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
        link.sendmsg([pairs], streams)
        # The child alone holds the streams now: their other ends see it end.
        for descriptor in (0, 1):
            os.close(descriptor)
        answer = link.recv(16)
    return int(answer) if answer else 70


def be_nursery(address: str) -> None:
    """Import, then fork a worker for each that asks, until standard input ends."""
    import importlib
    import select
    import signal

    from huggingface_hub import constants

    # Imported in advance, which a worker does itself only after its environment is checked.
    from qwen_tui.services.download import hub, worker

    assert callable(hub.Hub.connect)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen(16)
        os.write(1, b"ready\n")
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            readable, _, _ = select.select([listener.fileno(), 0], [], [])
            if 0 in readable:
                return
            link, _ = listener.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()
                data, ancillary, _, _ = link.recvmsg(_LIMIT, socket.CMSG_SPACE(12))
                streams = array.array("i", ancillary[0][2])
                child = os.fork()
                if child == 0:
                    link.close()
                    os.setsid()
                    for target, descriptor in enumerate(streams):
                        os.dup2(descriptor, target)
                        os.close(descriptor)
                    pairs = [p.split(b"=", 1) for p in data.split(b"\0\0")]
                    os.environb.clear()
                    os.environb.update(dict(pairs))
                    importlib.reload(constants)
                    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - a descriptor
                    os._exit(worker.main())
                for descriptor in (*streams, 0, 1, 2):
                    os.close(descriptor)
                _, status = os.waitpid(child, 0)
                link.send(str(os.waitstatus_to_exitcode(status) % 256).encode())
                os._exit(0)
            link.close()


def nursery(folder: Path) -> Iterator[tuple[str, ...]]:
    """Run a nursery; yield the command of a worker from it."""
    import subprocess

    address = str(folder / "nursery")
    process = subprocess.Popen(
        [sys.executable, __file__, "--nursery", address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield (sys.executable, "-I", "-S", __file__, address)
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(10)


if __name__ == "__main__":
    if sys.argv[1] == "--nursery":
        be_nursery(sys.argv[2])
    else:
        sys.exit(hand_over(sys.argv[1]))
