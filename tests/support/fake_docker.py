#!/usr/bin/env python3
"""A stand-in for ``docker``: records every call, and runs the fake engine as the container.

State lives beside the script's link (``calls.jsonl``, one file per container). A file named
``broken`` there makes every command but ``run`` fail, as when the daemon is down.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

HOME = Path(sys.argv[0]).parent
ENGINE = Path(__file__).resolve().with_name("fake_engine.py")
VALUE_OPTIONS = {
    "--cidfile", "--label", "--publish", "--name", "--volume", "--env", "--entrypoint", "--gpus",
}  # fmt: skip


def main(argv: list[str]) -> int:
    with (HOME / "calls.jsonl").open("a") as file:
        file.write(json.dumps({"argv": argv, "env": sorted(os.environ)}) + "\n")
    verb, rest = argv[0], argv[1:]
    if verb == "run":
        return run(rest)
    if (HOME / "broken").exists():
        print("Cannot connect to the Docker daemon", file=sys.stderr)
        return 1
    if verb == "ps":
        label = rest[-1].removeprefix("label=")
        for path in HOME.glob("*.container"):
            found = json.loads(path.read_text())
            if found["label"] == label and lives(found["pid"]):
                print(found["id"])
        return 0
    container = json.loads((HOME / f"{rest[-1]}.container").read_text())
    if verb == "inspect":
        print("true" if lives(container["pid"]) else "false")
    elif verb == "stop":
        end(container["pid"], signal.SIGTERM, float(rest[1]))
    elif verb == "rm":
        end(container["pid"], signal.SIGKILL, 5)
    return 0


def run(rest: list[str]) -> int:
    options: dict[str, str] = {}
    at = 0
    while rest[at].startswith("--"):
        if rest[at] in VALUE_OPTIONS:
            options[rest[at]] = rest[at + 1]
            at += 1
        at += 1
    image, command = rest[at], rest[at + 1 :]
    if image.endswith(":missing"):
        print(f"docker: Error response from daemon: No such image: {image}", file=sys.stderr)
        return 125
    identifier = secrets.token_hex(32)
    # Out of the client's session and environment, as a real container's processes are.
    engine = subprocess.Popen(
        [sys.executable, "-S", str(ENGINE), *command[2:]],
        start_new_session=True,
        env={"PATH": os.environ["PATH"]},
    )
    (HOME / f"{identifier}.container").write_text(
        json.dumps({"id": identifier, "pid": engine.pid, "label": options["--label"]})
    )
    Path(options["--cidfile"]).write_text(identifier)
    signal.signal(signal.SIGTERM, lambda *_: engine.terminate())
    code = engine.wait()
    return 128 - code if code < 0 else code


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def end(pid: int, number: int, limit_s: float) -> None:
    os.kill(pid, number)
    until = time.monotonic() + limit_s
    while lives(pid) and time.monotonic() < until:
        time.sleep(0.02)
    if lives(pid):
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
