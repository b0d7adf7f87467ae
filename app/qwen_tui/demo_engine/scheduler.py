"""The scheduler: a queue, chunked prefills, and one decode forward for all running requests."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from typing import TYPE_CHECKING

from qwen_tui.demo_engine.log import emit
from qwen_tui.demo_engine.pool import Pool
from qwen_tui.demo_engine.replies import draw_accepted
from qwen_tui.demo_engine.request import Chunk
from qwen_tui.demo_engine.tokens import token_ids

if TYPE_CHECKING:
    from qwen_tui.demo_engine.arguments import DemoOptions
    from qwen_tui.demo_engine.memory import Budget
    from qwen_tui.demo_engine.observer import Observer
    from qwen_tui.demo_engine.replies import Piece
    from qwen_tui.demo_engine.request import Request
    from qwen_tui.demo_engine.settings import Settings

__all__ = ["QueueFull", "Scheduler"]


class QueueFull(Exception):  # noqa: N818 - answered as 503, never shown as an error of ours
    """``--max-queued-requests`` is reached."""


class Scheduler:
    """Runs requests; at most ``budget.max_running`` at a time.

    Attributes:
        waiting: Requests that wait for a place.
        running: Requests that decode (or prefill).
        stopped: Set by a fault: the loop stands still for ever.
    """

    def __init__(
        self, settings: Settings, budget: Budget, demo: DemoOptions, observer: Observer
    ) -> None:
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.pool = Pool(settings, budget)
        self.pool.watch(self.running)
        self.stopped = False
        self._settings = settings
        self._limit = budget.max_running
        self._observer = observer
        self._rng = random.Random(demo.seed)
        token_ms = demo.token_ms
        if token_ms is None:
            token_ms = 21.0 if settings.speculative else 13.5
        self._step_s = token_ms / 1000
        self._prefill_tok_s = demo.prefill_tok_s
        self._wake = asyncio.Event()
        self._partial: Request | None = None

    def submit(self, request: Request) -> None:
        """Queue a request.

        Raises:
            QueueFull: The queue is as long as it may be.
        """
        limit = self._settings.max_queued
        if limit is not None and len(self.waiting) >= limit:
            raise QueueFull
        self.waiting.append(request)
        self._wake.set()

    def cancel(self, request: Request) -> None:
        """Take a request out at the next forward (its client is gone)."""
        request.cancelled = True
        self._wake.set()

    def idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not self.running and not self.waiting

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            if self.stopped:
                await asyncio.Event().wait()
            self._drop_cancelled()
            batch = self._next_prefill()
            if batch:
                await self._prefill(batch)
            elif self.running:
                await self._decode()
            else:
                self._observer.idle(self.pool)
                self._wake.clear()
                if self.idle():
                    await self._wake.wait()
                else:
                    await asyncio.sleep(0.005)

    def _next_prefill(self) -> list[tuple[Request, int]]:
        """Choose requests and how many new tokens of each, within one chunk."""
        left = self._settings.chunk
        batch: list[tuple[Request, int]] = []
        promised = 0
        if self._partial is not None:
            request = self._partial
            self._partial = None
            take = min(request.to_prefill, left)
            batch.append((request, take))
            left -= take
        while self.waiting and left > 0 and len(self.running) < self._limit:
            request = self.waiting[0]
            if not self.pool.admit(request, promised):
                break
            self.waiting.popleft()
            self.running.append(request)
            if request.admitted is None:
                request.admitted = time.monotonic()
            need = request.to_prefill
            take = min(need, left)
            batch.append((request, take))
            promised += need
            left -= take
        return batch

    async def _prefill(self, batch: list[tuple[Request, int]]) -> None:
        started = time.monotonic()
        tokens = sum(take for _, take in batch)
        self.pool.make_room([r for r, _ in batch], max(take for _, take in batch))
        if self._prefill_tok_s > 0:
            await asyncio.sleep(tokens / self._prefill_tok_s)
        else:
            await asyncio.sleep(0)
        seconds = time.monotonic() - started
        page = self._settings.page_size
        new = sum(-(-take // page) * page for _, take in batch)
        fresh = [r for r, _ in batch if r.computed == r.cached_tokens]
        cached = sum(r.cached_tokens for r in fresh)
        for request, take in batch:
            request.computed += take
            self.pool.checkpoint(request)
            if request.to_prefill:
                self._partial = request
            else:
                self._emit(request, 1)
        pending = sum(len(r.prompt) for r in self.waiting)
        if self._partial is not None:
            pending += self._partial.to_prefill
        decoding = len(self.running) - len(batch)
        self._observer.prefill(
            self.pool,
            requests=[r for r, _ in batch if r.counted],
            seqs=len(batch),
            new=new,
            cached=cached,
            decoding=max(decoding, 0),
            queued=len(self.waiting),
            pending=pending,
            seconds=seconds,
        )

    async def _decode(self) -> None:
        started = time.monotonic()
        most = max(self._settings.draft_tokens, 1)
        while not self.pool.make_room(self.running, most):
            self._retract()
            if not self.running:
                return
        await asyncio.sleep(self._step_s)
        produced = 0
        steps = 0
        for request in list(self.running):
            if request is self._partial:
                continue
            piece = request.reply.piece(len(request.output))
            count = 1
            if self._settings.speculative:
                kind = piece.kind if piece is not None else "prose"
                count = draw_accepted(self._rng, kind, self._settings.draft_tokens)
                request.verify_steps += 1
                request.correct_drafts += count - 1
                held = request.draft_histogram
                held[count - 1] = held.get(count - 1, 0) + 1
                steps += 1
            produced += count
            self._emit(request, count)
        self._observer.decode(
            self.pool,
            running=self.running,
            queued=len(self.waiting),
            tokens=produced,
            steps=steps,
            seconds=time.monotonic() - started,
        )

    def _emit(self, request: Request, count: int) -> None:
        """Give a request up to ``count`` tokens and end it where it ends."""
        now = time.monotonic()
        out: list[Piece] = []
        finish: dict[str, object] | None = None
        for _ in range(count):
            piece = request.reply.piece(len(request.output))
            if piece is None:
                finish = {"type": "stop", "matched": 248046}
                break
            out.append(piece)
            request.output.append(token_ids(piece.text)[0])
            request.reasoning_tokens += piece.channel == "reasoning"
            if len(request.output) >= request.max_new:
                finish = {"type": "length", "length": request.max_new}
                break
        if finish is None and request.reply.piece(len(request.output)) is None:
            finish = {"type": "stop", "matched": 248046}
        request.computed += len(out)
        self._observer.tokens(request, len(out), now)
        if finish is not None:
            self._end(request, finish, now)
        request.chunks.put_nowait(Chunk(tuple(out), len(request.output), finish))

    def _end(self, request: Request, finish: dict[str, object], now: float) -> None:
        request.finished = now
        self.pool.finish(request)
        if request in self.running:
            self.running.remove(request)
        if finish["type"] != "abort":
            self._observer.finished(request)
        else:
            self._observer.aborted(request)

    def _retract(self) -> None:
        """Send the youngest request back to the queue; a lonely one is aborted."""
        request = self.running[-1]
        if len(self.running) == 1:
            emit(f"retract_decode: aborted last request {request.rid} due to OOM")
            self._abort(request, "out of memory", 500)
            return
        emit(
            "KV cache pool is full. Retract requests. #retracted_reqs: 1, "
            f"#new_tokens_gained: {request.length}"
        )
        self.running.remove(request)
        self.pool.release(request)
        request.retractions += 1
        self._observer.retracted()
        self.waiting.appendleft(request)

    def _drop_cancelled(self) -> None:
        for request in [r for r in self.waiting if r.cancelled]:
            self.waiting.remove(request)
            self._abort(request, "Abort in waiting queue", 499)
        for request in [r for r in self.running if r.cancelled]:
            if request is self._partial:
                self._partial = None
            self._abort(request, "Abort before prefill", 499)

    def _abort(self, request: Request, message: str, status: int) -> None:
        finish = {"type": "abort", "message": message, "status_code": status, "err_type": None}
        self._end(request, finish, time.monotonic())
        request.chunks.put_nowait(Chunk((), len(request.output), finish))
