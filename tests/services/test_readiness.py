"""What counts as ready, on the simulated engine and on servers that misbehave."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.readiness import HttpSmoke
from qwen_tui.services.state import ServerState
from qwen_tui.services.supervisor import ServerSupervisor
from support.supervise import demo_profile, free_port

if TYPE_CHECKING:
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.snapshots import ServerSnapshot

SLOTS_RUN_OUT = (
    *("--demo-fault", "slot-exhaustion"),
    *("--demo-fault-after", "2"),
    *("--demo-token-ms", "150"),
)


async def up(paths: Paths, *smoke: str, flags: tuple[str, ...] = ()) -> ServerSnapshot:
    supervisor = ServerSupervisor(paths)
    profile = demo_profile(port=free_port(), flags=flags or ("--demo-token-ms", "0"))
    await supervisor.start(replace(profile, smoke=smoke))
    return await supervisor.wait_ready()


async def test_nothing_listens() -> None:
    smoke = await HttpSmoke().smoke(
        f"http://127.0.0.1:{free_port()}", engine="sglang", api_key=None, timeout_s=2
    )
    assert (smoke.ok, smoke.starting) == (False, True)
    assert not await HttpSmoke().answers(f"http://127.0.0.1:{free_port()}", timeout_s=1)


@pytest.mark.parametrize("engine", ["sglang", "vllm", ""])
async def test_a_token_by_either_protocol(paths: Paths, engine: str) -> None:
    ready = await up(paths)
    smoke = await HttpSmoke().smoke(ready.url or "", engine=engine, api_key=None, timeout_s=10)
    assert (smoke.ok, smoke.error) == (True, None)
    assert smoke.tokens


async def test_a_long_prompt_and_two_at_once(paths: Paths) -> None:
    ready = await up(paths, "long-prompt", "stress")
    assert ready.ready, ready.message


async def test_a_long_prompt_that_does_not_fit_is_a_failed_boot(paths: Paths) -> None:
    ended = await up(paths, "long-prompt", flags=SLOTS_RUN_OUT)
    assert ended.state is ServerState.FATAL


async def test_a_missing_tool_parser_is_a_failed_boot(paths: Paths) -> None:
    ended = await up(paths, "tool-call")
    assert ended.state is ServerState.FATAL
    assert "--tool-call-parser" in str(ended.message)
