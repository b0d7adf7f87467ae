"""Watching a server that somebody else started: an address, asked what it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui.services.live import MetricPoller
from qwen_tui.services.live.http1 import Target
from qwen_tui.services.process import boot_id, seconds_since_boot
from qwen_tui.services.runs import Ending, RunRecord
from qwen_tui.services.state import ServerState
from qwen_tui_profiles.errors import EngineError
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui.services.readiness import Http
    from qwen_tui.services.runs import RunStore

__all__ = ["attach", "forget"]

_ANSWER_S = 5.0
_TOKEN_S = 60.0


@dataclass(frozen=True, slots=True)
class _Found:
    engine: str
    ready_after_s: float | None


async def attach(
    url: str,
    store: RunStore,
    http: Http,
    *,
    api_key: str | None,
    clock: Callable[[], float],
) -> RunRecord:
    """Record an address as the server to watch. The caller holds the lease.

    One small request shows whether it generates; nothing else is ever asked of it but figures.
    The key is sent and not recorded.

    Raises:
        UsageError: ``url`` is not an address.
        EngineError: nothing answers there.
        ConfigError: the state folder cannot be written.
    """
    target = Target.parse(url)
    if not await http.answers(target.url, timeout_s=_ANSWER_S):
        raise EngineError(
            t("{url} does not answer; a running server was expected.", url=target.url),
            t("Check the address and that the server is up."),
        )
    found = await _look(target.url, http, api_key)
    now = clock()
    record = store.begin(
        RunRecord(
            id=store.new_id(),
            kind="attach",
            profile="",
            engine=found.engine,
            url=target.url,
            host=target.host,
            port=target.port,
            created=now,
            created_boot_s=seconds_since_boot(),
            boot=boot_id(),
            launcher=None,
            state=ServerState.RUNNING,
            ready_at=now if found.ready_after_s is not None else None,
            first_token_s=found.ready_after_s,
        ),
        log=False,
    )
    store.save(record)
    return record


def forget(record: RunRecord, store: RunStore, *, clock: Callable[[], float]) -> None:
    """Stop watching. The server goes on."""
    ending = Ending.of(clock(), None, "forgotten", t("No longer watched; it goes on."))
    store.update(record, lambda r: r.step(ServerState.STOPPED, ending=ending) if r.open else r)


async def _look(url: str, http: Http, api_key: str | None) -> _Found:
    live = await MetricPoller(url, api_key).poll()
    engine = live.source if live.source in {"sglang", "vllm"} else ""
    smoke = await http.smoke(url, engine=engine, api_key=api_key, timeout_s=_TOKEN_S)
    return _Found(engine, round(smoke.seconds, 3) if smoke.ok else None)
