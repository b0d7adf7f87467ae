"""A tiny engine for supervisor tests: standard library only, boots in a tenth of a second.

Prints the lines that matter of a recorded SGLang boot, serves ``/generate``, and misbehaves on
demand. It is started as the demo engine would be, through :class:`FakeEngineSpawner`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

OOM = (
    "Scheduler hit an exception: Traceback (most recent call last):\n"
    '  File "model_runner.py", line 1143, in load_model\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2424.00 MiB. GPU 0 has a total "
    "capacity of 31.36 GiB of which 1310.31 MiB is free."
)


def say(text: str) -> None:
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    print(f"[{stamp}] {text}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--load-s", type=float, default=0.0)
    parser.add_argument("--drain-s", type=float, default=0.0)
    parser.add_argument("--fault", default="")
    parser.add_argument("--children", type=int, default=0)
    args, _ = parser.parse_known_args()
    fault = os.environ.get("FAKE_ENGINE_FAULT") or args.fault
    if fault == "dies-silently":
        return 3
    say("server_args={'model_path': 'fake', 'max_running_requests': 4}")
    children = [spawn_child(detached=False) for _ in range(args.children)]
    if fault == "detached-child":
        children.append(spawn_child(detached=True))
    say("Load weight begin. avail mem=30.77 GB")
    if fault == "hangs-at-load":
        time.sleep(600)
    if fault == "spins-at-load":
        while True:
            pass
    if fault == "killed-at-load":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "oom-at-load":
        say(OOM)
        return 1
    if fault == "ignores-term":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(args.load_s)
    say("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 49000, K size: 1.50 GB")
    if fault == "port-taken":
        say(f"ERROR:    [Errno 98] error while attempting to bind on address ('{args.host}', 1)")
        return 1

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if fault == "oom-at-first-token":
                say(OOM)
                os._exit(1)
            if fault == "no-token":
                self.answer(500, {"error": {"message": "internal"}})
                return
            if fault == "hangs-at-first-token":
                time.sleep(600)
            if fault == "needs-key" and self.headers.get("Authorization") != "Bearer k-123456":
                self.answer(401, {"error": "Unauthorized"})
                return
            self.answer(200, {"text": "4", "meta_info": {"completion_tokens": 1}})

        def do_GET(self) -> None:
            self.answer(200, {"data": [{"id": "fake"}]})

        def answer(self, code: int, body: object) -> None:
            data = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 64
        daemon_threads = True

    server = Server((args.host, args.port), Handler)
    stopping = threading.Event()

    def term(*_: object) -> None:
        if not stopping.is_set():
            stopping.set()
            say("SIGTERM received. signum=15 frame=None. Draining requests and shutting down...")
            threading.Thread(target=drain, daemon=True).start()

    def drain() -> None:
        end = time.monotonic() + args.drain_s
        while time.monotonic() < end:
            say("Gracefully exiting... Remaining number of requests 2. Remaining requests []")
            time.sleep(0.05)
        # SGLang 0.5.23 as recorded: a drain that went well ends with this line.
        say("Gracefully exiting... Remaining number of requests 0. Remaining requests []")
        server.shutdown()

    if fault != "ignores-term":
        signal.signal(signal.SIGTERM, term)
    if fault != "no-ready-line":
        say("The server is fired up and ready to roll!")
    server.serve_forever(poll_interval=0.02)
    if fault != "leaves-children":
        for child in children:
            child.kill()
            child.wait()
    return 0


def spawn_child(*, detached: bool) -> subprocess.Popen[bytes]:
    """Stand in for a scheduler. A detached one leaves our session and forgets its environment."""
    code = "import time; time.sleep(600)"
    environment = {"PATH": os.environ.get("PATH", "")} if detached else None
    return subprocess.Popen(
        [sys.executable, "-c", code], start_new_session=detached, env=environment
    )


if __name__ == "__main__":
    sys.exit(main())
