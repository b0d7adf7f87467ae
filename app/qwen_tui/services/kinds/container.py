"""A server in a container: ``docker run`` or ``podman run`` in the foreground, its client recorded.

The client writes the engine's output into the log of the run and ends with the exit code of the
container. The container itself is known by the id that the runtime writes into ``--cidfile``, and
is found by its label when that file is missing. It is stopped by the runtime, which sends the
image's stop signal to PID 1 and kills after the limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from qwen_tui.services.process import ExitWatch, alive
from qwen_tui.services.stopping import (
    Ended,
    StopHow,
    StopProgress,
    draining,
    log_size,
    requests_left,
)
from qwen_tui_profiles.errors import StopError
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui.services.kinds.process import ProcessRun
    from qwen_tui.services.process import ProcessId
    from qwen_tui.services.runs import RunRecord
    from qwen_tui_profiles.text import Text

__all__ = ["LABEL", "CallRuntime", "ContainerRun", "RuntimeAnswer", "with_identity"]

LABEL = "qwen-tui.run"
_ASK_S = 10.0
_GRACE_S = 15.0
"""On top of the container's own limit, for the runtime to do its part."""
_CACHE_S = 2.0


class RuntimeAnswer(NamedTuple):
    """What a call of the container runtime gave."""

    code: int
    out: str
    err: str


CallRuntime = Callable[[Sequence[str], float], Coroutine[Any, Any, RuntimeAnswer]]
"""Runs ``docker …`` (an argument list) with a limit in seconds; a seam for tests."""


TIMED_OUT = 124
"""The code of an answer that did not come in time, as ``timeout(1)`` has it."""


async def call_runtime(argv: Sequence[str], timeout_s: float) -> RuntimeAnswer:
    """Run the container runtime and return its answer; a timeout is code 124."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A Ctrl-C that asks us to wait must not break off the stop of a container.
            start_new_session=True,
        )
    except OSError as error:
        return RuntimeAnswer(127, "", error.strerror or "")
    try:
        async with asyncio.timeout(timeout_s):
            out, err = await process.communicate()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        return RuntimeAnswer(TIMED_OUT, "", "")
    return RuntimeAnswer(process.returncode or 0, _text(out), _text(err))


def with_identity(argv: Sequence[str], run: str, cidfile: Path) -> tuple[str, ...]:
    """Return ``docker run …`` with the options by which we find the container again."""
    runtime, verb, *rest = argv
    return (runtime, verb, "--cidfile", str(cidfile), "--label", f"{LABEL}={run}", *rest)


class ContainerRun:
    """A server in a container."""

    def __init__(self, client: ProcessRun, call: CallRuntime | None = None) -> None:
        self._client = client
        self._call = call or call_runtime
        self._running: tuple[str, float, bool] = ("", 0.0, False)

    def alive(self, record: RunRecord) -> bool:
        """Tell whether the client runs, or (when it was killed) its container still does."""
        if self._client.alive(record):
            return True
        run, at, running = self._running
        if run == record.id and time.monotonic() - at < _CACHE_S:
            return running
        running = _inspect(record)
        self._running = (record.id, time.monotonic(), running)
        return running

    async def end(
        self,
        record: RunRecord,
        *,
        timeout_s: float,
        on_progress: Callable[[StopProgress], None],
        on_family: Callable[[frozenset[ProcessId]], None],
    ) -> Ended:
        """Let the runtime stop the container (see :class:`RunKind`)."""
        del on_family  # its processes belong to the runtime
        began = time.monotonic()
        offset = log_size(record.log_path)
        container = await self._find(record)
        if container is None:
            # Not created yet (pulling the image), or gone with its client.
            ended = await self._client.end(
                record,
                timeout_s=timeout_s,
                on_progress=on_progress,
                on_family=lambda _: None,
            )
            container = await self._find(record)
            if container is None:
                return ended
        stop = asyncio.create_task(
            self._call(
                (_runtime(record), "stop", "-t", str(max(1, round(timeout_s))), container),
                timeout_s + _GRACE_S,
            )
        )
        while not stop.done():
            left = requests_left(record.log_path, offset)
            on_progress(draining(time.monotonic() - began, left, timeout_s))
            await asyncio.wait({stop}, timeout=0.5)
        answer = stop.result()
        seconds = time.monotonic() - began
        if answer.code != 0 and await self._find(record) is not None:
            await self._kill(record, container, answer)
            return Ended(StopHow.KILLED, await self._client.sweep(record))
        if record.main is not None and alive(record.main):
            with ExitWatch(record.main) as watch:
                await watch.wait(_GRACE_S)
        self._running = ("", 0.0, False)
        leftovers = await self._client.sweep(record)
        left = requests_left(record.log_path, offset)
        # The runtime does not say which of its two signals it was; the clock does.
        if leftovers or seconds >= timeout_s:
            return Ended(StopHow.KILLED, leftovers, left)
        if record.ready_at is None:
            return Ended(StopHow.BOOT_BROKEN_OFF, (), left)
        return Ended(StopHow.ABORTED if record.engine == "vllm" else StopHow.DRAINED, (), left)

    async def sweep(self, record: RunRecord) -> tuple[int, ...]:
        """Kill the client and the container of a run that is over (see :class:`RunKind`)."""
        killed = await self._client.sweep(record)
        container = await self._find(record)
        if container is not None:
            await self._kill(record, container, None)
        return killed

    async def _find(self, record: RunRecord) -> str | None:
        """Return the id of the container if it exists, by its label (never by a name)."""
        answer = await self._call(
            (
                _runtime(record),
                "ps",
                "--all",
                "--quiet",
                "--no-trunc",
                "--filter",
                f"label={LABEL}={record.id}",
            ),
            _ASK_S,
        )
        if answer.code != 0:
            # The runtime does not answer; the id that it wrote is better than nothing.
            return _cid(record) if self._client.alive(record) else None
        ids = answer.out.split()
        return ids[0] if ids else None

    async def _kill(self, record: RunRecord, container: str, after: RuntimeAnswer | None) -> None:
        answer = await self._call((_runtime(record), "rm", "--force", container), _GRACE_S)
        if answer.code != 0 and await self._find(record) is not None:
            reason = _why(after) or _why(answer)
            raise StopError(
                t("Container {id} cannot be stopped: {reason}", id=container[:12], reason=reason),
                t(
                    "Stop it by hand: {runtime} rm --force {id}",
                    runtime=_runtime(record),
                    id=container[:12],
                ),
            )


def _why(answer: RuntimeAnswer | None) -> Text | str:
    """Return why the runtime did not do it, in its own words where it had any."""
    if answer is None:
        return ""
    return t("no answer in time") if answer.code == TIMED_OUT else answer.err.strip()


def _runtime(record: RunRecord) -> str:
    return record.argv[0]


def _cid(record: RunRecord) -> str | None:
    if record.log_path is None:
        return None
    try:
        text = Path(record.log_path).with_name("container.id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    return text if text.isalnum() else None


def _inspect(record: RunRecord) -> bool:
    """Ask whether the container runs; only reached when its client is gone."""
    container = _cid(record)
    if container is None:
        return False
    try:
        answer = subprocess.run(
            [_runtime(record), "inspect", "--format", "{{.State.Running}}", container],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ASK_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.stdout.strip() == b"true"


def _text(data: bytes) -> str:
    return "\n".join(clean(line) for line in data.decode("utf-8", "replace").splitlines())
