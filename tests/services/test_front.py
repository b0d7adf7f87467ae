"""The hold-and-forward endpoint: byte-exact, patient, and honest when patience ends."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from qwen_tui.services.front.gate import Closed, Gate, Hold, Open
from qwen_tui.services.front.relay import Relay, build_app
from qwen_tui.services.intent import SwapIntents
from qwen_tui.services.swap import SwapOptions, SwapOutcome
from qwen_tui_profiles.text import t
from support.supervise import demo_profile, fake_profile, fake_supervisor, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qwen_tui.services.paths import Paths
    from qwen_tui.services.supervisor import ServerSupervisor


class Upstream(ThreadingHTTPServer):
    """A server that records what reaches it and answers as it is told."""

    daemon_threads = True

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.status = 200
        self.headers: list[tuple[str, str]] = [("Content-Type", "text/event-stream")]
        self.pieces: list[bytes] = [b"data: \xff\x00 one\n\n", b"data: two\n\n"]
        self.chunked = True
        super().__init__(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Upstream

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append(
            {"path": self.path, "headers": self.headers.items(), "body": body, "verb": self.command}
        )
        self.send_response_only(self.server.status)
        for name, value in self.server.headers:
            self.send_header(name, value)
        if self.server.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(sum(map(len, self.server.pieces))))
        self.end_headers()
        for piece in self.server.pieces:
            self.wfile.write(
                b"%x\r\n%s\r\n" % (len(piece), piece) if self.server.chunked else piece
            )
            self.wfile.flush()
        if self.server.chunked:
            self.wfile.write(b"0\r\n\r\n")

    do_GET = do_DELETE = do_POST  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


class FixedGate(Gate):
    """A gate that a test opens and shuts."""

    def __init__(self, place: Open | Hold | Closed) -> None:
        self.place = place

    def state(self) -> Open | Hold | Closed:
        return self.place


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    server = Upstream()
    yield server
    server.shutdown()
    server.server_close()


def open_to(url: str, context: int | None = 134_010) -> Open:
    return Open(url, "000001-x", "fake-speed", context)


@contextlib.asynccontextmanager
async def client(relay: Relay) -> Any:
    transport = httpx2.ASGITransport(build_app(relay))
    async with httpx2.AsyncClient(transport=transport, base_url="http://front") as made:
        yield made
    await relay.close()


async def test_bytes_pass_unchanged_both_ways(upstream: Upstream) -> None:
    upstream.headers += [("X-Odd", "a"), ("X-Odd", "b"), ("Content-Encoding", "gzip")]
    body = bytes(range(256))
    async with (
        client(Relay(FixedGate(open_to(upstream.url)), hold_s=1)) as front,
        front.stream(
            "POST", "/v1/a%2Fb?x=%20y&x=2", content=body, headers={"Authorization": "Bearer k"}
        ) as answer,
    ):
        raw = b"".join([piece async for piece in answer.aiter_raw()])
    (seen,) = upstream.seen
    assert (seen["verb"], seen["path"]) == ("POST", "/v1/a%2Fb?x=%20y&x=2")
    assert seen["body"] == body
    assert ("authorization", "Bearer k") in [(k.lower(), v) for k, v in seen["headers"]]
    assert raw == b"".join(upstream.pieces)
    assert answer.headers.get_list("x-odd") == ["a", "b"]
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["x-qwen-tui-usable-context"] == "134010"


async def test_errors_of_the_engine_pass_unchanged(upstream: Upstream) -> None:
    upstream.status, upstream.chunked = 400, False
    upstream.pieces = [b'{"object":"error","code":400}']
    async with client(Relay(FixedGate(open_to(upstream.url)), hold_s=1)) as front:
        answer = await front.post("/v1/chat/completions", content=b"{}")
    assert (answer.status_code, answer.content) == (400, upstream.pieces[0])
    # A full queue is the engine's own 503 and no reason to hold.
    upstream.status = 503
    async with client(Relay(FixedGate(open_to(upstream.url)), hold_s=1)) as front:
        assert (await front.post("/generate")).status_code == 503
    assert len(upstream.seen) == 2


async def test_models_tell_the_usable_context(upstream: Upstream) -> None:
    upstream.chunked = False
    upstream.pieces = [b'{"data":[{"id":"m","max_model_len":159776}]}']
    async with client(Relay(FixedGate(open_to(upstream.url)), hold_s=1)) as front:
        answer = await front.get("/v1/models")
    assert answer.json() == {
        "data": [{"id": "m", "max_model_len": 134_010, "declared_max_model_len": 159_776}]
    }
    upstream.pieces = [b"not json"]
    async with client(Relay(FixedGate(open_to(upstream.url)), hold_s=1)) as front:
        assert (await front.get("/v1/models")).content == b"not json"


async def test_requests_wait_and_are_then_served(upstream: Upstream) -> None:
    gate = FixedGate(Hold(t("swapping to {profile}", profile="x")))
    relay = Relay(gate, hold_s=5)
    async with client(relay) as front:
        waiting = [
            asyncio.create_task(front.post("/generate", content=b"%d" % n)) for n in range(8)
        ]
        await asyncio.sleep(0.15)
        assert relay.counters.held_now == 8
        assert upstream.seen == []
        gate.place = open_to(upstream.url)
        answers = await asyncio.gather(*waiting)
        counters = (await front.get("/qwen-tui/front")).json()
    assert {a.content for a in answers} == {b"".join(upstream.pieces)}
    assert sorted(s["body"] for s in upstream.seen) == [b"%d" % n for n in range(8)]
    assert (counters["held"], counters["held_now"], counters["forwarded"]) == (8, 0, 8)


async def test_patience_ends_with_a_clear_503(upstream: Upstream) -> None:
    relay = Relay(FixedGate(Hold(t("swapping to {profile}", profile="x"))), hold_s=0.2)
    async with client(relay) as front:
        answer = await front.post("/v1/chat/completions")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"
    assert "swapping to x" in answer.json()["error"]["message"]
    assert relay.counters.refused == 1


async def test_nothing_on_its_way_is_refused_at_once() -> None:
    relay = Relay(FixedGate(Closed(t("no server was launched"))), hold_s=60)
    began = time.monotonic()
    async with client(relay) as front:
        answer = await front.post("/generate")
    assert answer.status_code == 503
    assert "no server was launched" in answer.json()["error"]["message"]
    assert time.monotonic() - began < 1


async def test_a_connection_that_breaks_before_the_answer_is_repeated(upstream: Upstream) -> None:
    """The gate still said open when the old server went away."""
    gate = FixedGate(open_to(f"http://127.0.0.1:{free_port()}"))
    relay = Relay(gate, hold_s=5)
    async with client(relay) as front:
        request = asyncio.create_task(front.post("/generate", content=b"x"))
        await asyncio.sleep(0.1)
        gate.place = Closed(t("gone"))  # for a moment, until the swap is noticed
        await asyncio.sleep(0.1)
        gate.place = open_to(upstream.url)
        assert (await request).status_code == 200
    assert relay.counters.repeated >= 1
    assert len(upstream.seen) == 1


def test_the_gate_follows_server_and_swap(paths: Paths) -> None:
    asyncio.run(_follow_gate(paths))


async def _follow_gate(paths: Paths) -> None:
    gate = Gate(paths)
    assert isinstance(gate.state(), Closed)
    supervisor = fake_supervisor(paths)
    port = free_port()
    await supervisor.start(fake_profile(port=port, flags=("--load-s", "0.2")))
    assert isinstance(gate.state(), Hold)
    assert (await supervisor.wait_ready()).ready
    assert gate.state() == Open(f"http://127.0.0.1:{port}", gate_run(paths), "fake-speed", None)
    intents = SwapIntents(paths)
    for step, kind in [("drain", Hold), ("stop", Hold), ("read_back", Open)]:
        intents.note("fake-speed", "fake-context", step, 0.0)
        assert isinstance(gate.state(), kind), step
    intents.note("fake-speed", "fake-context", "stop", 0.0)
    intents.abandon()
    assert isinstance(gate.state(), Open)
    await supervisor.stop()
    assert isinstance(gate.state(), Closed)


def gate_run(paths: Paths) -> str:
    from qwen_tui.services.runs import RunStore

    return RunStore(paths).ids()[-1]


class Clients(threading.Thread):
    """Eight streaming clients that never stop asking; every answer must be whole and their own."""

    def __init__(self, port: int, count: int = 8) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.count = count
        self.served = 0
        self.wrong: list[str] = []
        self.ended = threading.Event()
        self.lock = threading.Lock()

    def run(self) -> None:
        threads = [
            threading.Thread(target=self.client, args=(n,), daemon=True) for n in range(self.count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def client(self, number: int) -> None:
        turn = 0
        while not self.ended.is_set():
            turn += 1
            mark = f"client-{number}-turn-{turn}"
            try:
                problem = self.ask(mark)
            except (OSError, http.client.HTTPException, ValueError) as error:
                problem = f"{mark}: {type(error).__name__} {error}"
            with self.lock:
                self.served += problem is None
                if problem is not None:
                    self.wrong.append(problem)

    def ask(self, mark: str) -> str | None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        body = json.dumps(
            {
                "model": "m",
                "stream": True,
                "max_tokens": 12,
                "user": mark,
                "messages": [{"role": "user", "content": mark}],
                "stream_options": {"include_usage": True},
            }
        )
        try:
            connection.request(
                "POST", "/v1/chat/completions", body, {"Content-Type": "application/json"}
            )
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status != 200:
            return f"{mark}: {answer.status} {text[:200]}"
        events = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
        if events[-1:] != ["[DONE]"]:
            return f"{mark}: broke off after {text[-80:]!r}"
        # One stream, one id: chunks of two answers mixed would show here.
        ids = {json.loads(event)["id"] for event in events[:-1]}
        return None if len(ids) == 1 else f"{mark}: ids {ids}"


async def swap_under_load(supervisor: ServerSupervisor, port: int, front: int, n: int) -> Clients:
    clients = Clients(front)
    clients.start()
    for turn in range(n):
        name = "demo-b" if turn % 2 == 0 else "demo-a"
        target = demo_profile(name, port=port, flags=("--demo-token-ms", "3"))
        steps = [step async for step in supervisor.swap(target, SwapOptions(stop_s=20))]
        assert steps[-1].outcome is SwapOutcome.SWAPPED, steps[-1].text
    clients.ended.set()
    await asyncio.to_thread(clients.join, 30)
    return clients


@pytest.mark.parametrize("swaps", [4, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.timeout(300)
async def test_swaps_under_load_lose_no_request(paths: Paths, swaps: int) -> None:
    from qwen_tui.services.supervisor import ServerSupervisor

    supervisor = ServerSupervisor(paths)
    port, front = free_port(), free_port()
    info = await supervisor.front.start(front, hold_s=60)
    try:
        await supervisor.start(demo_profile("demo-a", port=port, flags=("--demo-token-ms", "3")))
        assert (await supervisor.wait_ready()).ready
        clients = await swap_under_load(supervisor, port, front, swaps)
        assert clients.wrong == []
        assert clients.served >= 8 + 2 * swaps
        counters = await supervisor.front.counters()
        assert counters is not None
        assert (counters["broken"], counters["refused"], counters["in_flight"]) == (0, 0, 0)
        rows = supervisor.history.swaps(limit=swaps)
        assert len(rows) == swaps
        assert {row.lost for row in rows} == {0}
        assert sum(row.held or 0 for row in rows) > 0
    finally:
        await supervisor.stop()
    assert supervisor.front.find() is None
    assert info.pid
