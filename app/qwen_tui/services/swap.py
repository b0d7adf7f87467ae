"""The swap: validate, drain, stop, start, first token, read back; and back again when it fails.

The target is validated before the running server is touched. From the stop on, every failure
starts the last good profile again. Each step is yielded as it begins and as it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

from qwen_tui.services.history import SwapRow
from qwen_tui.services.ports import require_free_port
from qwen_tui.services.state import ALIVE, ServerState
from qwen_tui.services.stopping import LOSING
from qwen_tui.services.swap_steps import SwapOptions, SwapOutcome, SwapStep, SwapStepName
from qwen_tui.services.words import phase_words
from qwen_tui_profiles.errors import LaunchError, QwenTuiError
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from qwen_tui.services.control import ServerControl
    from qwen_tui.services.launch import Prepared
    from qwen_tui.services.snapshots import ServerSnapshot
    from qwen_tui.services.stopping import StopProgress
    from qwen_tui_profiles.profile import EngineProfile
    from qwen_tui_profiles.text import Text

__all__ = ["Swap", "SwapOptions", "SwapOutcome", "SwapStep", "SwapStepName"]


class Swap:
    """One swap. Iterate :meth:`steps`; :meth:`cancel` asks it to go back."""

    def __init__(
        self,
        control: ServerControl,
        target: EngineProfile,
        options: SwapOptions,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._control = control
        self._target = target
        self._options = options
        self._cancelled = asyncio.Event()
        self._committed = False
        self._serving = asyncio.Event()
        """Not set from the stop to the next launch: nothing serves then, and nothing starts."""
        self._serving.set()
        self._phase: str | None = None
        self._step: SwapStepName | None = None
        self._before: str | None = None
        self._started = clock()
        self._began = time.monotonic()
        self._down_since: float | None = None
        self._down_s: float | None = None
        self._lost: int | None = None
        self._front: dict[str, Any] | None = None
        self._queue: asyncio.Queue[SwapStep | None] = asyncio.Queue()

    def cancel(self) -> bool:
        """Ask the swap to go back; False when it cannot: during the stop and the way back."""
        if self._committed:
            return False
        self._cancelled.set()
        return True

    async def steps(self) -> AsyncGenerator[SwapStep, None]:
        """Do it, yielding each moment. Raises nothing: the last step says how it ended."""
        task = asyncio.create_task(self._run())
        try:
            while True:
                step = await self._queue.get()
                if step is None:
                    break
                yield step
            await task
        finally:
            try:
                await self.carry_through()
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def carry_through(self) -> None:
        """Wait until something serves or starts again, or the swap has ended.

        Whoever leaves (a lost ssh, a console that is closed) must not leave a stopped server and
        none started. Bounded by the stop's limit and the launch; the boot goes on by itself.
        """
        left = False
        waiting = asyncio.ensure_future(self._serving.wait())
        while not waiting.done():
            try:
                await asyncio.wait({waiting})
            except asyncio.CancelledError:
                left = True  # told again to go, by a loop that ends: it has to wait as well
        if left:
            raise asyncio.CancelledError

    async def _run(self) -> None:
        try:
            await self._sequence()
        except QwenTuiError as error:
            # Nothing was touched yet: whatever raises later is caught where it can be undone.
            said = error.message
            if error.remedy is not None:
                said = t("{message} {remedy}", message=said, remedy=error.remedy)
            await self._end(SwapOutcome.CANCELLED, said, failed=True)
        except asyncio.CancelledError:
            self._control.intents.abandon()
            raise
        finally:
            self._serving.set()
            self._queue.put_nowait(None)
        self._control.intents.clear()

    async def _sequence(self) -> None:
        self._front = await self._control.front.counters()
        now = await self._control.snapshot()
        self._before = now.profile if now.state in ALIVE else None
        if now.state in ALIVE:
            self._target = self._control.at_same_address(self._target)
        self._say(SwapStepName.VALIDATE, t("Checking {profile}.", profile=self._target.name))
        prepared = await self._control.prepare(
            self._target,
            self._options.interpreter,
            force=self._options.force,
            own_server_runs=now.state in ALIVE,
        )
        old = self._control.launched_profile() if now.state in ALIVE else None
        if now.state in ALIVE:
            if now.attached:
                raise LaunchError(
                    t("{url} was not started by qwen-tui: it cannot be swapped.", url=now.url),
                    t("Stop it where it was started, then launch a profile here."),
                )
            if old is None or (old.host, old.port) != (self._target.host, self._target.port):
                require_free_port(self._target.host, self._target.port)
            if self._options.force is None:
                self._control.require_way_back(old, self._target)
            await self._drain()
            if self._cancelled.is_set():
                await self._end(SwapOutcome.CANCELLED, t("Cancelled; the server serves on."))
                return
            self._committed = True
            self._serving.clear()
            self._down_since = time.monotonic()
            try:
                self._say(SwapStepName.STOP, t("Stopping {profile}.", profile=now.profile or "—"))
                result = await self._control.stop(self._options.stop_s, self._stopping)
                self._say(SwapStepName.MEMORY, result.text)
                self._lost = (result.requests_left or 0) if result.how in LOSING else 0
            except QwenTuiError as error:
                await self._end(SwapOutcome.FAILED, error.message, failed=True)
                return
            self._committed = False
        failure = await self._boot(self._target, prepared)
        if failure is None:
            await self._read_back(await self._control.snapshot())
            return
        self._say(SwapStepName.START, failure, failed=True)
        await self._roll_back(old, failure)

    async def _drain(self) -> None:
        if self._options.drain_s <= 0:
            return
        self._say(SwapStepName.DRAIN, t("Waiting for running requests to finish."))
        end = time.monotonic() + self._options.drain_s
        last: int | None = -1
        while time.monotonic() < end and not self._cancelled.is_set():
            left = await self._control.in_flight()
            if left == 0:
                return
            if left != last:
                last = left
                self._say(SwapStepName.DRAIN, self._waiting(left))
            await asyncio.sleep(0.25)

    def _waiting(self, left: int | None) -> Text:
        if left is None:  # not known is not none: a busy server may be too slow to tell
            return t(
                "Draining: it does not tell how many requests run; waiting {seconds:.0f} s.",
                seconds=self._options.drain_s,
            )
        return t("Draining: {left} requests running or waiting.", left=left)

    async def _boot(self, profile: EngineProfile, prepared: Prepared) -> Text | None:
        """Start a profile and follow it to its first token; returns why it failed."""
        self._say(SwapStepName.START, t("Starting {profile}.", profile=profile.name))
        try:
            await self._control.launch(profile, prepared)
        except QwenTuiError as error:
            return error.message
        self._serving.set()
        boot = asyncio.create_task(self._control.follow(self._booting, no_lease))
        cancel = asyncio.create_task(self._cancelled.wait())
        try:
            await asyncio.wait({boot, cancel}, return_when=asyncio.FIRST_COMPLETED)
            if not boot.done():
                boot.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await boot
                self._serving.clear()
                await self._control.stop(self._options.stop_s, None)
                return t("Cancelled during the start.")
            ended = boot.result()
        except QwenTuiError as error:
            return error.message
        finally:
            boot.cancel()
            cancel.cancel()
            with contextlib.suppress(asyncio.CancelledError, QwenTuiError):
                await boot
            with contextlib.suppress(asyncio.CancelledError):
                await cancel
        if ended.ready:
            if self._down_since is not None:
                self._down_s = time.monotonic() - self._down_since
            self._say(
                SwapStepName.FIRST_TOKEN,
                t("{profile} generated its first token.", profile=profile.name),
                snapshot=ended,
            )
            return None
        return ended.message or t("{profile} did not become ready.", profile=profile.name)

    async def _roll_back(self, old: EngineProfile | None, failure: Text) -> None:
        if old is None:
            await self._end(SwapOutcome.FAILED, failure, failed=True)
            return
        # There is nothing to go back to from here.
        self._committed = True
        self._serving.clear()
        self._cancelled.clear()
        self._say(SwapStepName.ROLL_BACK, t("Going back to {profile}.", profile=old.name))
        try:
            prepared = await self._control.prepare(old, force="going back after a failed swap")
            again = await self._boot(old, prepared)
        except QwenTuiError as error:
            again = error.message
        if again is None:
            await self._end(
                SwapOutcome.ROLLED_BACK,
                t(
                    "{target} failed: {failure} {old} serves again.",
                    target=self._target.name,
                    failure=failure,
                    old=old.name,
                ),
                failed=True,
                snapshot=await self._control.snapshot(),
            )
            return
        await self._end(
            SwapOutcome.FAILED,
            t(
                "{target} failed: {failure} Going back failed too: {again} "
                "Nothing serves now. Start it by hand: qwen-tui up {old}",
                target=self._target.name,
                failure=failure,
                again=again,
                old=old.name,
            ),
            failed=True,
        )

    async def _read_back(self, now: ServerSnapshot) -> None:
        facts = {} if now.report is None else now.report.facts
        self._say(
            SwapStepName.READ_BACK,
            t(
                "Got: KV pool {kv} tokens, requests at once: {requests}, "
                "declared context {context}.",
                kv=_count(facts.get("kv_tokens")),
                requests=_count(facts.get("max_running_requests_effective")),
                context=_count(facts.get("context_len")),
            ),
            snapshot=now,
        )
        await self._end(
            SwapOutcome.SWAPPED,
            t("{profile} serves at {url}.", profile=self._target.name, url=now.url or "—"),
            snapshot=now,
        )

    def _stopping(self, progress: StopProgress) -> None:
        name = SwapStepName.STOP
        if progress.step in {"children", "memory", "port"}:
            name = SwapStepName.MEMORY
        self._say(name, progress.text)

    def _booting(self, snapshot: ServerSnapshot) -> None:
        if snapshot.state is ServerState.STARTING and snapshot.phase != self._phase:
            self._phase = snapshot.phase
            self._say(
                SwapStepName.START,
                t("Booting: {phase}.", phase=phase_words(snapshot.phase or "—")),
                snapshot=snapshot,
            )

    async def _end(
        self,
        outcome: SwapOutcome,
        text: Text,
        *,
        failed: bool = False,
        snapshot: ServerSnapshot | None = None,
    ) -> None:
        predicted = self._control.history.down_seconds(self._target.name)
        held, broken = await self._front_deltas()
        lost = self._lost if broken is None else broken + (self._lost or 0)
        self._control.history.note_swap(
            SwapRow(
                started=self._started,
                before=self._before,
                target=self._target.name,
                outcome=outcome.value,
                message=text,
                seconds=time.monotonic() - self._began,
                down_s=self._down_s,
                predicted_s=None if predicted is None else predicted.median_s,
                held=held,
                lost=lost,
            )
        )
        self._say(SwapStepName.DONE, text, failed=failed, snapshot=snapshot, outcome=outcome)

    async def _front_deltas(self) -> tuple[int | None, int | None]:
        """Return the requests that the front held and those that broke off, in this swap."""
        now = await self._control.front.counters()
        if now is None or self._front is None:
            return None, None
        return now["held"] - self._front["held"], now["broken"] - self._front["broken"]

    def _say(
        self,
        name: SwapStepName,
        text: Text,
        *,
        failed: bool = False,
        snapshot: ServerSnapshot | None = None,
        outcome: SwapOutcome | None = None,
    ) -> None:
        seconds = time.monotonic() - self._began
        if name is not self._step:
            self._step = name
            # Nothing to find again before anything was touched, nor after the end.
            if name not in {SwapStepName.VALIDATE, SwapStepName.DONE}:
                self._control.intents.note(
                    self._before, self._target.name, name.value, self._started
                )
        self._queue.put_nowait(SwapStep(name, text, seconds, failed, snapshot, outcome))


@contextlib.asynccontextmanager
async def no_lease() -> AsyncIterator[None]:
    """Stand in for the lease that a swap holds already."""
    yield


def _count(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "—"
