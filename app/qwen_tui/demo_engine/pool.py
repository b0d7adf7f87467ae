"""KV pool and state slots at run time: who holds what, and what can be evicted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui.demo_engine.prefix_tree import PrefixTree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qwen_tui.demo_engine.memory import Budget
    from qwen_tui.demo_engine.request import Request
    from qwen_tui.demo_engine.settings import Settings

__all__ = ["Pool"]

_HELD = {"extra_buffer": 4, "extra_buffer_lazy": 3, "no_buffer": 2}
"""Slots that a running request holds; the reservation per request is one more."""
_STATE_CHUNK = 64
"""Checkpoints of a prefill stand at multiples of the linear-attention chunk."""
_TRACK_INTERVAL = 256
"""Checkpoints while decoding."""


class Pool:
    """The token pool with its prefix tree, and the state slots."""

    def __init__(self, settings: Settings, budget: Budget) -> None:
        self.capacity = budget.kv_tokens
        self.slots = budget.slots
        self.page = settings.page_size
        self.tree = PrefixTree(settings.page_size)
        self._radix = settings.radix_cache
        self._held = _HELD[settings.strategy] if settings.radix_cache else 1
        self._running: list[Request] = []

    def watch(self, running: list[Request]) -> None:
        """Count for the requests in this list (the scheduler's own, kept up to date by it)."""
        self._running = running

    @property
    def private(self) -> int:
        """Tokens that running requests hold outside the tree, in whole pages."""
        return sum(self._pages(r.private_tokens) for r in self._running)

    @property
    def used(self) -> int:
        """Tokens in use: private ones and those of locked paths."""
        return self.private + self.tree.tokens - self.tree.evictable_tokens

    @property
    def evictable(self) -> int:
        """Cached tokens that can be dropped."""
        return self.tree.evictable_tokens

    @property
    def free(self) -> int:
        """Tokens neither used nor cached."""
        return max(self.capacity - self.private - self.tree.tokens, 0)

    @property
    def slots_used(self) -> int:
        """Slots in use: the running requests' and checkpoints on locked paths."""
        locked = self.tree.checkpoints - self.tree.evictable_checkpoints
        return min(self._held * len(self._running) + locked, self.slots)

    @property
    def slots_evictable(self) -> int:
        """Slots that hold checkpoints nobody stands on."""
        return self.tree.evictable_checkpoints

    @property
    def slots_free(self) -> int:
        """Slots neither used nor holding a checkpoint."""
        return max(self.slots - self._held * len(self._running) - self.tree.checkpoints, 0)

    def admit(self, request: Request, promised: int) -> bool:
        """Match the cached prefix and lock it; False when the rest finds no room now.

        Args:
            request: The request at the head of the queue.
            promised: Tokens already promised to others of the same batch.
        """
        tokens = request.prompt + request.output
        cached, node = (0, self.tree.root)
        if self._radix:
            # The last token is always computed: its logits are what the request wants.
            cached, node = self.tree.match(tokens[:-1])
        need = self._pages(len(tokens) - cached) + promised
        self.tree.lock(node)
        if need > self.free + self.evictable:
            self.tree.lock(node, -1)
            return False
        if not request.retractions:
            request.cached_tokens = cached
        request.node, request.node_depth, request.computed = node, cached, cached
        request.target = len(tokens)
        return True

    def make_room(self, requests: Iterable[Request], each: int) -> bool:
        """Evict until every request can grow by ``each`` tokens; False when that is impossible."""
        need = sum(self._pages(r.private_tokens + each) for r in requests) - self.private
        if need > self.free:
            self.tree.evict_tokens(need - self.free)
        return need <= self.free

    def checkpoint(self, request: Request) -> None:
        """Put what was prefilled into the tree, with its state where a slot can be had."""
        self._keep(request, request.prompt + request.output, request.computed, _STATE_CHUNK)

    def finish(self, request: Request) -> None:
        """Put what a finished request computed into the tree and let go of its path."""
        tokens = request.prompt + request.output
        if request.output and request.computed >= len(request.prompt):
            self._keep(request, tokens, len(tokens) - 1, _TRACK_INTERVAL)
        self.release(request)

    def release(self, request: Request) -> None:
        """Let go of the request's path."""
        if request.node is not None:
            self.tree.lock(request.node, -1)
        request.node, request.node_depth, request.computed = None, 0, 0

    def _keep(self, request: Request, tokens: list[int], length: int, step: int) -> None:
        step = max(step, self.page)
        aligned = length // step * step
        if not self._radix or aligned <= request.node_depth:
            return
        if self.slots_free == 0 and not self.tree.evict_checkpoint():
            return
        node = self.tree.insert(tokens, aligned)
        self.tree.keep_state(node)
        self.tree.lock(node)
        if request.node is not None:
            self.tree.lock(request.node, -1)
        request.node, request.node_depth = node, aligned

    def _pages(self, tokens: int) -> int:
        return -(-tokens // self.page) * self.page
