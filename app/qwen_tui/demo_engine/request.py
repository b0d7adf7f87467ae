"""One generation request on its way through the scheduler."""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qwen_tui.demo_engine.prefix_tree import Node
    from qwen_tui.demo_engine.replies import Piece, Reply

__all__ = ["Chunk", "Request"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one forward produced for one request."""

    pieces: tuple[Piece, ...]
    completion_tokens: int
    """Tokens generated so far."""
    finish: dict[str, Any] | None
    """SGLang's ``finish_reason`` (``{"type": "stop"|"length"|"abort", …}``), None while it runs."""


@dataclass(eq=False, slots=True)
class Request:
    """A request and all that is counted about it. Times are of ``time.monotonic``."""

    prompt: list[int]
    reply: Reply
    max_new: int
    stream: bool
    counted: bool = True
    """False for the health probe, which enters no metric."""
    rid: str = field(default_factory=lambda: uuid.uuid4().hex)
    chunks: asyncio.Queue[Chunk] = field(default_factory=asyncio.Queue)
    created: float = field(default_factory=time.monotonic)
    created_wall: float = field(default_factory=time.time)
    admitted: float | None = None
    first_token: float | None = None
    last_token: float | None = None
    finished: float | None = None
    cancelled: bool = False

    output: list[int] = field(default_factory=list)
    reasoning_tokens: int = 0
    cached_tokens: int = 0
    computed: int = 0
    """Tokens in the pool so far: cached, prefilled and generated."""
    target: int = 0
    """Tokens to have in the pool before the next one can be generated."""
    node: Node | None = None
    node_depth: int = 0
    """Tokens that the locked path in the tree covers."""
    retractions: int = 0
    verify_steps: int = 0
    correct_drafts: int = 0
    draft_histogram: dict[int, int] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """Prompt and output tokens."""
        return len(self.prompt) + len(self.output)

    @property
    def private_tokens(self) -> int:
        """Tokens in the pool that belong to this request alone."""
        return max(self.computed - self.node_depth, 0)

    @property
    def to_prefill(self) -> int:
        """Tokens still to be prefilled."""
        return max(self.target - self.computed, 0)

    def meta(self, draft_tokens: int) -> dict[str, Any]:
        """Return SGLang's ``meta_info`` of the request as it stands."""
        now = time.monotonic()
        end = self.finished or now
        info: dict[str, Any] = {
            "id": self.rid,
            "finish_reason": None,
            "prompt_tokens": len(self.prompt),
            "weight_version": "default",
            "num_retractions": self.retractions,
            "reasoning_tokens": self.reasoning_tokens,
            "completion_tokens": len(self.output),
            "cached_tokens": self.cached_tokens,
            "cached_tokens_details": {"device": self.cached_tokens, "host": 0}
            if self.cached_tokens
            else None,
            "dp_rank": None,
            "queue_time": (self.admitted or now) - self.created,
            "e2e_latency": end - self.created,
        }
        if self.first_token is not None:
            info["first_token_latency"] = self.first_token - self.created
            decode = end - self.first_token
            if len(self.output) > 1 and decode > 0:
                info["decode_throughput"] = (len(self.output) - 1) / decode
        if draft_tokens and self.verify_steps:
            proposed = self.verify_steps * (draft_tokens - 1)
            info |= {
                "spec_accept_rate": self.correct_drafts / proposed,
                "spec_accept_length": len(self.output) / self.verify_steps,
                "spec_num_correct_drafts": self.correct_drafts,
                "spec_num_proposed_drafts": proposed,
                "spec_verify_ct": self.verify_steps,
                "spec_correct_drafts_histogram": [
                    self.draft_histogram.get(n, 0) for n in range(max(self.draft_histogram) + 1)
                ],
            }
        return info
