"""What the console costs while it watches: idle, and busy at one refresh a second.

Everything runs side by side on terminals of 160x48, so that a busy moment of the machine hits all:

* the console, over a demo engine of its own, first without traffic, then with two streams;
* a bare Textual app with as many widgets as the console shows, changed once a second (the floor);
* ``sgtop`` on a demo engine of its own and ``vllmstat`` on a pretend vLLM that changes four times a
  second, when ``--others VENV`` names an environment that has them.

    python -m benchmarks.console_cpu --others VENV --out benchmarks/results/console_cpu.json
"""

from __future__ import annotations

import argparse
import asyncio
import http.server
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from benchmarks.machine import machine_facts
from benchmarks.ptyrun import Terminal, measure

if TYPE_CHECKING:
    from qwen_tui.services.console import ConsoleServices

HERE = Path(__file__).resolve().parent
PRESET = HERE.parent / "engine_profiles" / "qwen_tui_profiles" / "presets" / "demo-speed.toml"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Demo:
    """A demo server in a home folder of its own, launched by the product."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        folder = home / "config" / "profiles"
        folder.mkdir(parents=True)
        text = PRESET.read_text().replace("port = 30000", f"port = {self.port}")
        (folder / "bench.toml").write_text(text.replace('pair = "demo-context"\n', ""))
        self.cli("up", "bench")

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "QWEN_TUI_HOME": str(self.home)}

    def cli(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "qwen_tui", *argv],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )

    def end(self) -> None:
        self.cli("down")


class Load:
    """Streams of bounded loopback traffic from a child process, so that it is nobody's CPU here."""

    def __init__(self, url: str, streams: int, seconds: float) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "benchmarks.console_cpu",
                "--load",
                url,
                str(streams),
                str(seconds),
            ],
            cwd=HERE.parent,
            stdout=subprocess.DEVNULL,
        )

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=10)


async def load(url: str, streams: int, seconds: float) -> None:
    from qwen_tui.services.probe import probe

    end = time.monotonic() + seconds
    kinds = ("prose", "code", "tool", "code", "long")

    async def client(number: int) -> None:
        turn = number
        while time.monotonic() < end:
            await probe(url, kind=kinds[turn % len(kinds)])
            turn += 1

    await asyncio.gather(*(client(n) for n in range(streams)))


class PretendVllm(http.server.BaseHTTPRequestHandler):
    """vLLM's metrics, different at every quarter of a second."""

    def do_GET(self) -> None:
        ticks = time.monotonic() * 4
        lines = []
        label = '{engine="0",model_name="m"}'
        for name, value in (
            ("num_requests_running", int(ticks) % 3),
            ("num_requests_waiting", int(ticks) % 2),
            ("kv_cache_usage_perc", ticks % 1),
            ("prompt_tokens_total", int(ticks) * 500),
            ("generation_tokens_total", int(ticks) * 40),
            ("prefix_cache_queries_total", int(ticks) * 500),
            ("prefix_cache_hits_total", int(ticks) * 400),
            ("request_success_total", int(ticks)),
        ):
            lines.append(f"vllm:{name}{label} {value}")
        for name in (
            "time_to_first_token_seconds",
            "inter_token_latency_seconds",
            "e2e_request_latency_seconds",
        ):
            for le in ("0.1", "0.5", "1.0", "+Inf"):
                lines.append(
                    f'vllm:{name}_bucket{{engine="0",le="{le}",model_name="m"}} {int(ticks)}'
                )
            lines += [f"vllm:{name}_sum{label} {ticks}", f"vllm:{name}_count{label} {int(ticks)}"]
        body = ("\n".join(lines) + "\n").encode()
        if self.path == "/v1/models":
            body = b'{"object":"list","data":[{"id":"m","max_model_len":32768}]}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def widgets_of_the_console() -> int:
    """Count what the console's main screen mounts, on a scripted world."""

    async def count() -> int:
        sys.path.insert(0, str(HERE.parent / "tests"))
        from qwen_tui.ui.app import ConsoleApp
        from support.fake_console import FakeConsole  # type: ignore[import-not-found,unused-ignore]

        app = ConsoleApp(cast("ConsoleServices", FakeConsole()))
        async with app.run_test(size=(160, 48)) as pilot:
            await pilot.pause(0.5)
            return len(list(app.screen.walk_children()))

    return asyncio.run(count())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="length of each phase")
    parser.add_argument("--settle", type=float, default=15.0)
    parser.add_argument("--others", type=Path, help="environment with sgtop and vllmstat")
    parser.add_argument("--out", type=Path)
    parser.add_argument(
        "--load", nargs=3, metavar=("URL", "STREAMS", "SECONDS"), help=argparse.SUPPRESS
    )
    args = parser.parse_args()
    if args.load:
        asyncio.run(load(args.load[0], int(args.load[1]), float(args.load[2])))
        return
    widgets = widgets_of_the_console()
    vllm = http.server.ThreadingHTTPServer(("127.0.0.1", 0), PretendVllm)
    threading.Thread(target=vllm.serve_forever, daemon=True).start()
    result: dict[str, Any] = {
        "schema": "qwen-tui.bench.console_cpu/1",
        "machine": machine_facts(),
        "console_widgets": widgets,
        "seconds": args.seconds,
    }
    programs: dict[str, Terminal] = {}
    with tempfile.TemporaryDirectory() as home:
        demo = Demo(Path(home) / "ours")
        # An engine of its own for sgtop: its polls would show in the log that our console follows.
        theirs = Demo(Path(home) / "theirs") if args.others else None
        try:
            programs["console"] = Terminal([sys.executable, "-m", "qwen_tui"], env=demo.env)
            bare = [sys.executable, str(HERE / "bare_textual.py"), str(widgets)]
            programs["bare textual, 1 Hz"] = Terminal([*bare, "1"])
            programs["bare textual, still"] = Terminal([*bare, "0"])
            if args.others and theirs is not None:
                bin_ = args.others / "bin"
                programs["sgtop"] = Terminal(
                    [
                        str(bin_ / "sgtop"),
                        "--port",
                        str(theirs.port),
                        "--mode",
                        "direct",
                        "--no-full-scan",
                    ]
                )
                programs["vllmstat"] = Terminal(
                    [
                        str(bin_ / "vllmstat"),
                        "--no-gpu",
                        "-u",
                        f"http://127.0.0.1:{vllm.server_port}",
                    ]
                )
            time.sleep(args.settle / 2)
            programs["console"].press("\x1b")  # the first-steps card of a new home folder
            time.sleep(args.settle / 2)
            result["idle"] = {k: c.as_json() for k, c in measure(programs, args.seconds).items()}
            print(json.dumps(result["idle"]), flush=True)
            traffic = [Load(d.url, 2, args.seconds + 30) for d in (demo, theirs) if d is not None]
            time.sleep(8)
            result["busy"] = {k: c.as_json() for k, c in measure(programs, args.seconds).items()}
            for load_ in traffic:
                load_.end()
            print(json.dumps(result["busy"]), flush=True)
        finally:
            for program in programs.values():
                program.end()
            demo.end()
            if theirs is not None:
                theirs.end()
            vllm.shutdown()
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
