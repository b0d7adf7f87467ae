"""The running engine: what the HTTP surface asks of the scheduler, and how it ends."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from qwen_tui.demo_engine.observer import Observer
from qwen_tui.demo_engine.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from qwen_tui.demo_engine.arguments import DemoOptions
    from qwen_tui.demo_engine.memory import Budget
    from qwen_tui.demo_engine.request import Chunk, Request
    from qwen_tui.demo_engine.settings import Settings

__all__ = ["Engine", "TooLong"]


class TooLong(ValueError):  # noqa: N818 - answered as SGLang's 400, never shown as an error of ours
    """A request does not fit; ``str()`` is SGLang's message.

    Attributes:
        late: The scheduler found it (a stream then carries it as an event, not as a status).
    """

    def __init__(self, message: str, *, late: bool = False) -> None:
        super().__init__(message)
        self.late = late


class Engine:
    """Settings, memory, scheduler and counters of one server.

    Attributes:
        ready: The warm-up is over.
        draining: SIGTERM was received.
    """

    def __init__(
        self,
        settings: Settings,
        budget: Budget,
        demo: DemoOptions,
        on_request: Callable[[], None],
    ) -> None:
        self.settings = settings
        self.budget = budget
        self.demo = demo
        self.observer = Observer(settings, budget)
        self.scheduler = Scheduler(settings, budget, demo, self.observer)
        self.started = time.time()
        self.startup: dict[str, object] = {}
        self.launch_command = ""
        self.ready = False
        self.draining = False
        self.open: dict[str, Request] = {}
        self._on_request = on_request

    def limit_output(self, prompt_tokens: int, asked: int | None) -> int:
        """Check a request's size as SGLang does and return how many tokens it may generate.

        Raises:
            TooLong: It is too long for the declared context, or for the pool.
        """
        context = self.settings.context_len
        if prompt_tokens >= context:
            message = (
                f"The input ({prompt_tokens} tokens) is longer than the model's context length "
                f"({context} tokens)."
            )
            raise TooLong(message)
        if asked is not None and asked + prompt_tokens > context:
            message = (
                f"Requested token count exceeds the model's maximum context length of {context} "
                f"tokens. You requested a total of {asked + prompt_tokens} tokens: {prompt_tokens} "
                f"tokens from the input messages and {asked} tokens for the completion. Please "
                "reduce the number of tokens in the input messages or the completion to fit "
                "within the limit."
            )
            raise TooLong(message)
        longest = self.budget.max_req_input
        if prompt_tokens > longest:
            message = (
                f"Input length ({prompt_tokens} tokens) exceeds the maximum allowed length "
                f"({longest} tokens). Use a shorter input or enable --allow-auto-truncate."
            )
            raise TooLong(message, late=True)
        room = min(context, self.budget.kv_tokens) - 1 - prompt_tokens
        return max(min(asked if asked is not None else room, room), 1)

    async def generate(self, request: Request) -> AsyncGenerator[Chunk]:
        """Run a request and yield what it produces; it is cancelled when nobody listens.

        Raises:
            QueueFull: ``--max-queued-requests`` is reached.
        """
        if request.counted and self.ready:
            self._on_request()
        self.scheduler.submit(request)
        self.open[request.rid] = request
        try:
            while True:
                chunk = await request.chunks.get()
                yield chunk
                if chunk.finish is not None:
                    return
        finally:
            self.open.pop(request.rid, None)
            if request.finished is None:
                self.scheduler.cancel(request)

    def abort(self, rid: str | None) -> None:
        """Cancel the request ``rid``, or all."""
        for request in list(self.open.values()):
            if rid is None or request.rid == rid:
                self.scheduler.cancel(request)

    def flush(self) -> bool:
        """Empty the prefix cache; False when something still runs or waits."""
        if not self.scheduler.idle():
            return False
        self.scheduler.pool.tree.clear()
        self.observer.flushed()
        return True
