"""Takes a recorded HTTP/1.1 answer apart, after the clock has stopped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_profiles.errors import ProbeError
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_profiles.text import Text

__all__ = ["Answer", "FetchError", "all_chunks_there", "read_answer"]


class FetchError(ProbeError):
    """A request got no usable answer; ``kind`` tells machines why.

    Kinds: ``refused``, ``unreachable``, ``timeout``, ``too_big``, ``malformed``, ``cut``.
    """

    def __init__(self, kind: str, message: Text, remedy: Text | None = None) -> None:
        super().__init__(message, remedy)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer. ``body`` is decoded from its transfer encoding."""

    status: int
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    complete: bool
    """Whether the framing said that this is all; False = the peer stopped in the middle."""
    pieces: tuple[tuple[float, bytes], ...] = ()
    """Body as it arrived: (perf_counter at the socket read, bytes). Only when asked for."""


def read_answer(
    pieces: list[tuple[float, bytes]], *, eof: bool, keep_pieces: bool = False
) -> Answer:
    """Take a recorded answer apart: head, then the body freed from its framing.

    Raises:
        FetchError: it is not HTTP/1.x.
    """
    raw = b"".join(data for _, data in pieces)
    end = raw.find(b"\r\n\r\n")
    if end < 0 and (not raw or raw.startswith(b"HTTP/1.")):
        raise _no_answer(eof=eof)
    status, headers = _read_head(raw[:end] if end >= 0 else raw, complete=end >= 0)
    body_at = end + 4
    stamps = _body_stamps(pieces, body_at)
    if "chunked" in headers.get("transfer-encoding", "").lower():
        parts, complete = _dechunk(raw, body_at, stamps)
    else:
        length = headers.get("content-length", "").strip()
        body = raw[body_at:]
        if length.isdigit():
            body = body[: int(length)]
            complete = len(body) == int(length)
        else:
            complete = eof or status in {204, 304}
        parts = _split_by_stamps(body, body_at, stamps)
    return Answer(
        status,
        headers,
        b"".join(data for _, data in parts),
        complete,
        tuple(parts) if keep_pieces else (),
    )


def _no_answer(*, eof: bool) -> FetchError:
    if eof:
        return FetchError(
            "cut",
            t("The peer closed the connection without an answer."),
            t("The server may be stopping; its log tells."),
        )
    return FetchError(
        "timeout",
        t("The peer took the request and did not begin to answer in time."),
        t("The server may be overloaded or stopped; its log tells."),
    )


def all_chunks_there(raw: bytes) -> bool:
    """Tell whether a chunked answer is complete, by hopping from size to size; True if not HTTP."""
    at = raw.find(b"\r\n\r\n") + 4
    while True:
        line_end = raw.find(b"\r\n", at)
        if line_end < 0:
            return False
        try:
            size = int(raw[at:line_end].split(b";", 1)[0], 16)
        except ValueError:
            return True  # broken framing: waiting longer does not mend it
        if size <= 0:
            return True
        at = line_end + 2 + size + 2


def _read_head(head: bytes, *, complete: bool) -> tuple[int, dict[str, str]]:
    lines = head.decode("latin-1").split("\r\n")
    start = lines[0].split(" ", 2)
    if (
        not complete
        or len(start) < 2
        or not start[0].startswith("HTTP/1.")
        or not (start[1].isdigit() and len(start[1]) == 3)
    ):
        raise FetchError(
            "malformed",
            t(
                "The peer does not speak HTTP/1.1: it said {start}.",
                start=repr(clean(lines[0])[:60]),
            ),
            t("Check that the address is the engine's HTTP port."),
        )
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = clean(value.strip())
    return int(start[1]), headers


def _body_stamps(pieces: list[tuple[float, bytes]], body_at: int) -> list[tuple[int, float]]:
    """Return (offset behind the piece, time) for every piece that reaches into the body."""
    stamps: list[tuple[int, float]] = []
    at = 0
    for when, data in pieces:
        at += len(data)
        if at > body_at:
            stamps.append((at, when))
    return stamps


def _split_by_stamps(
    body: bytes, body_at: int, stamps: list[tuple[int, float]]
) -> list[tuple[float, bytes]]:
    parts: list[tuple[float, bytes]] = []
    start = 0
    for end, when in stamps:
        cut = min(end - body_at, len(body))
        if cut > start:
            parts.append((when, body[start:cut]))
            start = cut
    return parts


def _dechunk(
    raw: bytes, at: int, stamps: list[tuple[int, float]]
) -> tuple[list[tuple[float, bytes]], bool]:
    """Undo chunked encoding; a chunk is stamped when its last byte was read."""
    parts: list[tuple[float, bytes]] = []
    stamp = 0
    while True:
        line_end = raw.find(b"\r\n", at)
        if line_end < 0:
            return parts, False
        digits = raw[at:line_end].split(b";", 1)[0].strip()
        try:
            size = int(digits, 16)
        except ValueError:
            return parts, False
        if size < 0 or b"_" in digits:
            return parts, False
        data_at = line_end + 2
        if size == 0:
            return parts, True
        data = raw[data_at : data_at + size]
        last = data_at + len(data)
        while stamp < len(stamps) - 1 and stamps[stamp][0] < last:
            stamp += 1
        if data and stamps:
            parts.append((stamps[stamp][1], data))
        if len(data) < size:
            return parts, False
        at = data_at + size + 2
