"""The measuring client's framing: however the bytes are cut, answer and stamps are right."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qwen_tui.services.live.answer import FetchError, all_chunks_there, read_answer
from qwen_tui.services.live.http1 import Connection, get
from qwen_tui.services.live.target import Target
from qwen_tui.services.probe.stream import sse_events
from qwen_tui_profiles.errors import UsageError
from support.metrics_server import Request, document, serve

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunked(parts: list[bytes]) -> bytes:
    body = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in parts)
    return HEAD + body + b"0\r\n\r\n"


def cut(raw: bytes, places: list[int]) -> list[tuple[float, bytes]]:
    marks = sorted({min(p, len(raw)) for p in places} | {0, len(raw)})
    pairs = itertools.pairwise(marks)
    return [(float(i), raw[a:b]) for i, (a, b) in enumerate(pairs) if b > a]


parts = st.lists(st.binary(min_size=1, max_size=30), max_size=8)


@settings(max_examples=300, deadline=None)
@given(parts, st.lists(st.integers(0, 400), max_size=10))
def test_any_cut_gives_the_same_body(chunks: list[bytes], places: list[int]) -> None:
    raw = chunked(chunks)
    answer = read_answer(cut(raw, places), eof=False, keep_pieces=True)
    assert answer.complete
    assert answer.body == b"".join(chunks)
    assert all_chunks_there(raw)
    # A chunk is stamped with the read that brought its last byte.
    stamps = [at for at, _ in answer.pieces]
    assert stamps == sorted(stamps)
    at = len(HEAD)
    for chunk, (stamp, data) in zip(chunks, answer.pieces, strict=True):
        at += len(b"%x\r\n" % len(chunk)) + len(chunk)
        seen, arrived = 0, None
        for when, piece in cut(raw, places):
            seen += len(piece)
            if seen >= at:
                arrived = when
                break
        assert data == chunk
        assert stamp == arrived
        at += 2


@settings(max_examples=300, deadline=None)
@given(parts, st.integers(len(b"0\r\n\r\n"), 200))
def test_a_truncated_answer_is_never_complete(chunks: list[bytes], missing: int) -> None:
    raw = chunked(chunks)
    short = raw[: max(len(HEAD), len(raw) - missing)]
    assert not read_answer([(0.0, short)], eof=True).complete
    assert not all_chunks_there(short)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=120))
def test_garbage_is_refused_with_a_sentence(raw: bytes) -> None:
    with pytest.raises(FetchError) as caught:
        read_answer([(0.0, raw)] if raw else [], eof=True)
    assert caught.value.kind in {"cut", "malformed"}
    assert caught.value.remedy is not None


texts = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=20), max_size=8
)


@settings(max_examples=300, deadline=None)
@given(texts, st.lists(st.integers(0, 300), max_size=10), st.sampled_from(["\n\n", "\r\n\r\n"]))
def test_events_survive_any_cut(data: list[str], places: list[int], end: str) -> None:
    raw = "".join(f"data: {text}{end}" for text in data).encode()
    events = sse_events(tuple(cut(raw, places)))
    assert [e.data for e in events] == data


def test_events_with_comments_and_several_lines() -> None:
    raw = b": keep-alive\n\nevent: x\ndata: a\ndata: b\n\ndata:c\n\ndata: last without an end"
    assert [e.data for e in sse_events(((0.0, raw),))] == ["a\nb", "c", "last without an end"]


async def test_a_body_that_ends_like_the_framing_is_read_to_its_real_end() -> None:
    trap = b"x\n0\r\n\r\n"

    async def handle(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"%x\r\n" % (len(trap) + 4))
        writer.write(trap)
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.write(b"tail\r\n0\r\n\r\n")

    async with serve({"/": handle}) as server:
        answer = await get(Target.parse(server.url), "/", timeout_s=5, limit_bytes=1000)
    assert answer.body == trap + b"tail"


@pytest.mark.parametrize("size", [0, 10, 100_000])
async def test_documents_by_length(size: int) -> None:
    async with serve({"/x": document(b"a" * size)}) as server:
        answer = await get(Target.parse(server.url), "/x", timeout_s=5, limit_bytes=2**20)
    assert (answer.status, len(answer.body), answer.complete) == (200, size, True)


async def test_connecting_is_not_part_of_the_measurement() -> None:
    async with serve({"/x": document("ok")}) as server:
        connection = await Connection.open(Target.parse(server.url), timeout_s=5)
        await asyncio.sleep(0.1)
        connection.send("GET", "/x")
        assert await connection.wait(5)
        first = connection.recorder.pieces[0][0]
        connection.close()
    assert (first - connection.sent_at) < 0.08


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:30000", ("http", "127.0.0.1", 30000, "")),
        ("127.0.0.1:30000/v1/", ("http", "127.0.0.1", 30000, "")),
        ("https://gpu.example/llm/v1", ("https", "gpu.example", 443, "/llm")),
        ("http://[::1]:8000", ("http", "::1", 8000, "")),
        ("http://user:secret@h:1", ("http", "h", 1, "")),
    ],
)
def test_addresses(url: str, expected: tuple[str, str, int, str]) -> None:
    target = Target.parse(url)
    assert (target.scheme, target.host, target.port, target.prefix) == expected
    assert "secret" not in target.url


@pytest.mark.parametrize(
    "url", ["", "ftp://x", "http://", "http://h:0x1", "http://a\nb", "http:// "]
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(UsageError):
        Target.parse(url)


@pytest.mark.parametrize("raw", [b"", b"HTTP/1.1 200 OK\r\nContent-Le"])
@pytest.mark.parametrize(("eof", "kind"), [(True, "cut"), (False, "timeout")])
def test_a_peer_that_closed_and_one_that_is_silent_are_told_apart(
    raw: bytes, eof: bool, kind: str
) -> None:
    with pytest.raises(FetchError) as caught:
        read_answer([(0.0, raw)] if raw else [], eof=eof)
    assert caught.value.kind == kind
