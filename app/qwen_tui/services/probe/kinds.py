"""What a probe asks: one row a kind of work, because speculation and caching depend on the kind.

Free prose and code give very different accept lengths on one configuration (1.25 and 3.5 were
measured on one box), so a figure is only comparable within its kind.
"""

from __future__ import annotations

import base64
import secrets
import struct
import zlib
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["KINDS", "Kind", "checkerboard_png"]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of probe."""

    name: str
    title: Text
    messages: Callable[[], list[dict[str, Any]]]
    max_tokens: int
    note: Text
    """What it asks and what the answer tells, in one line."""
    extra: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Further fields of the request."""
    accept: frozenset[str] = frozenset()
    """Words of which the answer must hold one (lower case); empty = any text will do."""
    wants_tool: str | None = None
    """Name of the function that must be called."""
    wants_vision: bool = False
    """Only for servers that take pictures."""
    timeout_s: float = 120.0
    within: Callable[[int], list[dict[str, Any]]] | None = None
    """The messages for a server that takes so many tokens, where that may be too few."""


def _user(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def _prose() -> list[dict[str, Any]]:
    return _user("In three plain sentences, explain to a child why the sea has tides.")


def _code() -> list[dict[str, Any]]:
    return _user(
        "Write a Python function merge_intervals(intervals) that merges overlapping closed "
        "intervals given as a list of (start, end) tuples and returns them sorted. Code only."
    )


def _tool() -> list[dict[str, Any]]:
    return _user("What is the weather in Lisbon right now? Use the tool.")


_LONG_LINES = 700
"""Lines of the long prompt; about 12 tokens each, so 8 to 9 thousand tokens in all."""
_LONG_NEEDS = 12_000
"""Tokens of context that are certainly enough for it."""
_TOKENS_A_LINE = 32
"""What a line takes at most: a token a character, and some for the answer."""


def _long() -> list[dict[str, Any]]:
    return _readings(_LONG_LINES)


def _long_within(context: int) -> list[dict[str, Any]]:
    return _readings(_LONG_LINES if context >= _LONG_NEEDS else context // _TOKENS_A_LINE)


def _readings(count: int) -> list[dict[str, Any]]:
    """Build a prompt that no cache can know: every line depends on a fresh number."""
    nonce = secrets.randbelow(10**9)
    lines = [f"Reading {i}: {(nonce * (i + 7)) % 999_983} units" for i in range(count)]
    question = "How many readings are listed above? Answer with the number only."
    return _user("\n".join([f"Log {nonce}", *lines, "", question]))


def _image() -> list[dict[str, Any]]:
    picture = base64.b64encode(checkerboard_png()).decode("ascii")
    return [
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}},
                {
                    "type": "text",
                    "text": "Which colour fills the left half of this picture? One word.",
                },
            ],
        }
    ]


def checkerboard_png(size: int = 224) -> bytes:
    """Return a PNG whose left half is red and right half blue: the answer can be checked."""
    row = b"\x00" + b"\xd0\x10\x10" * (size // 2) + b"\x10\x10\xd0" * (size - size // 2)
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(row * size, 9))
        + chunk(b"IEND", b"")
    )


_WEATHER_TOOL: Final = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}

# Where the answer is not the point, thinking would only make it longer; templates that do not know
# the switch ignore it.
_NO_THINKING: Final = MappingProxyType(
    {"temperature": 0, "chat_template_kwargs": {"enable_thinking": False}}
)

_ROWS: Final = (
    Kind(
        "prose",
        t("free prose"),
        _prose,
        384,
        t("An explanation in plain words: drafts are accepted least often here."),
    ),
    Kind(
        "code",
        t("code"),
        _code,
        512,
        t("A Python function: drafts are accepted more often than in prose."),
        MappingProxyType({"temperature": 0}),
    ),
    Kind(
        "tool",
        t("tool call"),
        _tool,
        512,
        t("A function is offered, and the answer has to call it."),
        MappingProxyType({"temperature": 0, "tools": [_WEATHER_TOOL], "tool_choice": "auto"}),
        wants_tool="get_weather",
    ),
    Kind(
        "long",
        t("long prompt"),
        _long,
        64,
        t(
            "8 to 9 thousand tokens (fewer where the context is short) that no cache knows: what "
            "a prefill costs."
        ),
        _NO_THINKING,
        timeout_s=300,
        within=_long_within,
    ),
    Kind(
        "image",
        t("picture"),
        _image,
        256,
        t("A picture of two colours, and the answer has to name one."),
        _NO_THINKING,
        accept=frozenset({"red"}),
        wants_vision=True,
    ),
)

KINDS: Final[Mapping[str, Kind]] = MappingProxyType({kind.name: kind for kind in _ROWS})
"""Kinds that are one chat request. ``boundary`` is a procedure of its own (see ``boundary``)."""
