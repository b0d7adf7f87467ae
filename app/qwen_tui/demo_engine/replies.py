"""Made-up replies: what kind of text is asked for, and how well a draft head would guess it."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from qwen_tui.demo_engine.tokens import pieces

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["ACCEPT_PROBABILITY", "Piece", "Reply", "draw_accepted", "plan_chat", "plan_text"]

ACCEPT_PROBABILITY = {"prose": 0.50, "code": 0.82, "tool": 0.78}
"""Chance that one drafted token is accepted, by kind of text.

With 5 drafted tokens this gives accept lengths (with the bonus token) of 1.97, 3.87 and 3.52; real
heads were measured at 1.25–2.56 on prose, 3.8 on code and 3.5 on tool calls.
"""

_CODE = re.compile(
    r"```|\b(code|function|python|rust|javascript|typescript|sql|regex|class|implement|refactor|bug)\b"
    r"|代码|函数",
    re.IGNORECASE,
)
_CJK = re.compile("[\u4e00-\u9fff]")

_SENTENCES = (
    "This text comes from the simulated engine and answers nothing. ",
    "It is written to have the rhythm of prose: a few short statements, then a longer one that "
    "takes its time to arrive. ",
    "A draft head guesses such sentences only now and then, so few tokens are accepted at a time. ",
    "No weights were read and no graphics card was asked. ",
    "What the panel shows beside it was counted here all the same: tokens, steps, queues and "
    "cached prefixes. ",
    "The words repeat after a while, as simulated words do. ",
)
_SENTENCES_ZH = (
    "这段文字来自模拟引擎,不回答任何问题。",
    "它只是为了让面板上的数字动起来:速度、接受长度、缓存命中率。",
    "没有加载权重,也没有用到显卡。",
    "草稿头很难猜中这样的句子,所以每一步只接受很少的词。",
)
_CODE_LINES = (
    "def step_{n}(values: list[int]) -> list[int]:\n",
    '    """Simulated code: it is never run."""\n',
    "    result: list[int] = []\n",
    "    for index, value in enumerate(values):\n",
    "        result.append(value + index)\n",
    "    return result\n",
    "\n",
)
_THOUGHTS = (
    "The request asks for something that a simulated engine cannot know. ",
    "The plan is to write a plausible amount of text and to say where it comes from. ",
    "First the length, then the kind of text, then the text itself. ",
)


@dataclass(frozen=True, slots=True)
class Piece:
    """One token of a reply."""

    text: str
    channel: str
    """``reasoning``, ``content`` or ``tool`` (arguments of the call)."""
    kind: str
    """Key of :data:`ACCEPT_PROBABILITY`."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a request will be answered with, before any length limit."""

    tokens: tuple[Piece, ...]
    tool_name: str | None = None
    endless: bool = False
    """Go on until the length limit (``ignore_eos``)."""

    def piece(self, index: int) -> Piece | None:
        """Return the token at ``index``; None where the reply ends by itself."""
        if index < len(self.tokens):
            return self.tokens[index]
        return self.tokens[index % len(self.tokens)] if self.endless else None


def plan_chat(
    messages: Sequence[Mapping[str, Any]],
    *,
    text: str,
    tools: Sequence[Mapping[str, Any]] | None,
    thinking: bool,
    endless: bool,
    seed: int,
) -> Reply:
    """Plan the answer to a chat; it is the same for the same conversation and seed."""
    rng = random.Random(f"{seed}:{len(messages)}:{text[-2000:]}")
    out: list[Piece] = []
    if thinking:
        thought = _take(_cycle(_THOUGHTS), rng.randint(24, 72))
        out += [Piece(p, "reasoning", "prose") for p in thought]
    last_role = messages[-1].get("role") if messages else "user"
    if tools and last_role != "tool":
        function = tools[0].get("function", {})
        name = str(function.get("name", "tool"))
        arguments = json.dumps(_arguments(function.get("parameters", {})))
        out += [Piece(p, "tool", "tool") for p in pieces(arguments)]
        return Reply(tuple(out), tool_name=name)
    out += _answer(text, rng)
    return Reply(tuple(out), endless=endless)


def plan_text(text: str, *, endless: bool, seed: int) -> Reply:
    """Plan the continuation of a plain prompt."""
    return Reply(tuple(_answer(text, random.Random(f"{seed}:{text[-2000:]}"))), endless=endless)


def draw_accepted(rng: random.Random, kind: str, draft_tokens: int) -> int:
    """Draw how many tokens one verify step yields: accepted drafts in a row, plus the bonus."""
    accepted = 0
    chance = ACCEPT_PROBABILITY[kind]
    while accepted < draft_tokens - 1 and rng.random() < chance:
        accepted += 1
    return accepted + 1


def _answer(text: str, rng: random.Random) -> list[Piece]:
    size = rng.randint(160, 420)
    if _CODE.search(text[-4000:]):
        lines = (line.replace("{n}", str(n)) for n in count(1) for line in _CODE_LINES)
        body = ["```", "python", "\n", *_take(lines, size), "\n", "```"]
        return [Piece(p, "content", "code") for p in body]
    source = _SENTENCES_ZH if _CJK.search(text[-400:]) else _SENTENCES
    return [Piece(p, "content", "prose") for p in _take(_cycle(source), size)]


def _arguments(schema: object) -> dict[str, object]:
    properties = schema.get("properties", {}) if isinstance(schema, dict) else {}
    examples: dict[str, object] = {
        "string": "simulated",
        "integer": 1,
        "number": 1.5,
        "boolean": True,
        "array": [],
        "object": {},
    }
    if not isinstance(properties, dict):
        return {}
    out: dict[str, object] = {}
    for name, spec in properties.items():
        choices = spec.get("enum") if isinstance(spec, dict) else None
        kind = spec.get("type", "string") if isinstance(spec, dict) else "string"
        out[str(name)] = choices[0] if choices else examples.get(str(kind), "simulated")
    return out


def _cycle(parts: Sequence[str]) -> Iterator[str]:
    while True:
        yield from parts


def _take(lines: Iterator[str], size: int) -> list[str]:
    out: list[str] = []
    for line in lines:
        out += pieces(line)
        if len(out) >= size:
            break
    return out
