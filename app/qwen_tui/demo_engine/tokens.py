"""The simulation's own tokenizer: stable, fast, and good enough to share prefixes by.

A token is a short piece of text; its id is a checksum of the piece. The text is the concatenation
of the pieces, so streaming by token loses nothing.
"""

from __future__ import annotations

import json
import re
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["chat_tokens", "message_text", "pieces", "token_ids"]

_PIECE = re.compile(r" ?[A-Za-z]{1,6}|\d{1,3}|\n+| +|[^\x00-\x7f]|.", re.DOTALL)
_VOCABULARY = 248320
_SPECIAL = 64
"""Ids below this stand for control tokens, so no text can collide with them."""
_START, _END, _NEWLINE, _THINK = 1, 2, 3, 4


def pieces(text: str) -> list[str]:
    """Split text into tokens."""
    return _PIECE.findall(text)


def token_ids(text: str) -> list[int]:
    """Return the token ids of a text."""
    return [_identity(piece) for piece in _PIECE.findall(text)]


def chat_tokens(
    messages: Iterable[Mapping[str, Any]], tools: object = None, *, thinking: bool = True
) -> list[int]:
    """Return the prompt tokens of a chat, ending where the assistant begins to write.

    As in Qwen's template the tools stand in front, so another tool list shares no prefix.
    """
    out: list[int] = []
    if tools:
        out += [_START, *token_ids("system\n# Tools\n" + json.dumps(tools)), _END, _NEWLINE]
    for message in messages:
        role = str(message.get("role", "user"))
        out += [_START, *token_ids(f"{role}\n{message_text(message)}"), _END, _NEWLINE]
    out += [_START, *token_ids("assistant\n")]
    if thinking:
        out.append(_THINK)
    return out


def message_text(message: Mapping[str, Any]) -> str:
    """Return the text of one message; images and other parts count as a short marker."""
    content = message.get("content")
    parts: list[str] = []
    if isinstance(content, str):
        parts.append(content)
    elif isinstance(content, list):
        for part in content:
            if isinstance(part, dict):
                text = part.get("text")
                parts.append(text if isinstance(text, str) else f"<{part.get('type', 'part')}>")
    if message.get("tool_calls"):
        parts.append(json.dumps(message["tool_calls"]))
    return "".join(parts)


@lru_cache(maxsize=65536)
def _identity(piece: str) -> int:
    return _SPECIAL + zlib.crc32(piece.encode("utf-8", "replace")) % (_VOCABULARY - _SPECIAL)
