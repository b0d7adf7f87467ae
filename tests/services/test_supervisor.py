"""The supervisor with real child processes: launch, find again, first token, stop, deaths."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.process import alive, identify
from qwen_tui.services.runs import RunStore
from qwen_tui.services.state import ServerState
from qwen_tui.services.stopping import StopHow
from qwen_tui_profiles.errors import ConfigError, LaunchError
from qwen_tui_profiles.text import t
from support.supervise import (
    fake_profile,
    fake_supervisor,
    free_port,
    processes_of,
    wait_until,
)

if TYPE_CHECKING:
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.snapshots import ServerSnapshot


async def up(paths: Paths, *flags: str, port: int | None = None) -> ServerSnapshot:
    supervisor = fake_supervisor(paths)
    await supervisor.start(fake_profile(port=port or free_port(), flags=flags))
    return await supervisor.wait_ready()


async def test_ready_means_one_token_and_every_process_sees_it(paths: Paths) -> None:
    port = free_port()
    seen: list[ServerSnapshot] = []
    supervisor = fake_supervisor(paths)
    started = await supervisor.start(fake_profile(port=port))
    assert (started.state, started.ready) == (ServerState.STARTING, False)
    ready = await supervisor.wait_ready(seen.append)
    assert (ready.state, ready.ready) == (ServerState.RUNNING, True)
    assert [s.ready for s in seen] == sorted(s.ready for s in seen)

    other = fake_supervisor(paths)
    again = await other.snapshot(ask=True)
    assert (again.state, again.ready, again.pid) == (ServerState.RUNNING, True, started.pid)
    assert again.url == f"http://127.0.0.1:{port}"
    assert again.profile == "fake-speed"


async def test_files_are_private_and_output_is_a_file(paths: Paths) -> None:
    assert_private_and_detached(await up(paths))


def assert_private_and_detached(ready: ServerSnapshot) -> None:
    assert ready.log_path is not None
    for path in (ready.log_path, ready.log_path.with_name("run.json")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(ready.log_path.parent.stat().st_mode) == 0o700
    assert Path(f"/proc/{ready.pid}/fd/1").resolve() == ready.log_path.resolve()
    assert str(Path(f"/proc/{ready.pid}/fd/0").readlink()) == "/dev/null"
    assert os.getsid(ready.pid or 0) == ready.pid


async def test_stop_drains_and_leaves_nothing(paths: Paths) -> None:
    ready = await up(paths, "--drain-s", "0.8", "--children", "2")
    progress: list[int | None] = []
    supervisor = fake_supervisor(paths)
    result = await supervisor.stop(on_change=lambda p: progress.append(p.requests_left))
    assert result.how is StopHow.DRAINED
    assert 2 in progress
    assert result.requests_left == 0
    assert result.killed == ()
    assert result.port_free
    assert not processes_of(paths)
    after = await fake_supervisor(paths).snapshot()
    assert (after.state, after.pid, after.ready) == (ServerState.STOPPED, None, False)
    assert identify(ready.pid or 0) is None


async def test_stop_twice_says_that_it_was_gone(paths: Paths) -> None:
    await up(paths)
    await fake_supervisor(paths).stop()
    assert (await fake_supervisor(paths).stop()).how is StopHow.ALREADY_GONE


async def test_stop_kills_the_group_after_the_limit(paths: Paths) -> None:
    ready = await up(paths, "--fault", "ignores-term", "--children", "1")
    began = time.monotonic()
    result = await fake_supervisor(paths).stop(timeout_s=0.5)
    assert result.how is StopHow.KILLED
    assert ready.pid in result.killed
    assert len(result.killed) == 2
    assert 0.5 <= time.monotonic() - began < 5
    assert not processes_of(paths)
    assert (await fake_supervisor(paths).snapshot()).state is ServerState.STOPPED


async def test_children_that_left_the_group_are_found_by_identity(paths: Paths) -> None:
    await up(paths, "--fault", "detached-child")
    record = RunStore(paths).latest()
    assert record is not None
    detached = record.relatives - {record.main}
    assert len(detached) == 1
    result = await fake_supervisor(paths).stop()
    # The fake engine ends its child itself; killing the engine instead orphans it:
    assert result.how is StopHow.DRAINED
    assert not processes_of(paths)


async def test_orphans_of_a_killed_engine_are_swept(paths: Paths) -> None:
    ready = await up(paths, "--fault", "detached-child", "--children", "1")
    os.kill(ready.pid or 0, signal.SIGKILL)
    assert wait_until(lambda: identify(ready.pid or 0) is None)
    dead = await fake_supervisor(paths).snapshot()
    assert dead.state is ServerState.FATAL
    assert len(processes_of(paths)) == 2
    result = await fake_supervisor(paths).stop()
    assert result.how is StopHow.KILLED
    assert len(result.killed) == 2
    assert not processes_of(paths)
    # Stopping leftovers does not rewrite how the server died.
    assert (await fake_supervisor(paths).snapshot()).state is ServerState.FATAL


async def test_a_second_launch_is_refused(paths: Paths) -> None:
    first = await up(paths)
    with pytest.raises(LaunchError, match=f"pid {first.pid}"):
        await fake_supervisor(paths).start(fake_profile("other", port=free_port()))
    assert (await fake_supervisor(paths).snapshot()).state is ServerState.RUNNING


async def test_a_taken_port_is_refused_before_the_launch(paths: Paths) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(LaunchError, match=rf"taken by .* \(pid {os.getpid()}\)"):
            await fake_supervisor(paths).start(fake_profile(port=port))
    assert RunStore(paths).ids() == []


@pytest.mark.parametrize(
    ("fault", "words", "code"),
    [
        ("dies-silently", "exit code 3", 3),
        ("oom-at-load", "ran out of memory", 1),
        ("killed-at-load", "SIGKILL", -9),
        ("oom-at-first-token", "ran out of memory", 1),
    ],
)
async def test_a_boot_that_dies_is_fatal_with_its_cause(
    paths: Paths, fault: str, words: str, code: int
) -> None:
    ended = await up(paths, "--fault", fault)
    assert (ended.state, ended.ready, ended.pid) == (ServerState.FATAL, False, None)
    assert words in str(ended.message)
    record = RunStore(paths).latest()
    assert record is not None
    assert record.ending is not None
    assert record.ending.exit_code == code
    assert record.ready_at is None
    assert not processes_of(paths)
    # Whoever looks later sees the same.
    later = await fake_supervisor(paths).snapshot()
    assert (later.state, str(later.message)) == (ServerState.FATAL, str(ended.message))


async def test_a_port_without_a_token_is_a_failed_boot(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qwen_tui.services.boot._DYING_S", 0.2)
    ended = await up(paths, "--fault", "no-token")
    assert ended.state is ServerState.FATAL
    assert "failed its first requests" in str(ended.message)
    assert "500" in str(ended.message)
    assert not processes_of(paths)


async def test_an_engine_that_prints_no_ready_line_becomes_ready(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qwen_tui.services.boot._SILENT_PORT_S", 0.1)
    assert (await up(paths, "--fault", "no-ready-line")).ready


async def test_the_api_key_reaches_the_engine_and_no_record(paths: Paths) -> None:
    ready = await up(paths, "--fault", "needs-key", "--api-key", "k-123456")
    assert ready.ready
    for path in paths.state.rglob("*.json"):
        assert "k-123456" not in path.read_text()


async def test_an_exit_while_running_is_seen_within_a_second(paths: Paths) -> None:
    ready = await up(paths)
    watch = fake_supervisor(paths).watch(interval_s=30)
    assert (await anext(watch)).state is ServerState.RUNNING
    asyncio.get_running_loop().call_later(0.1, os.kill, ready.pid or 0, signal.SIGKILL)
    began = time.monotonic()
    assert (await anext(watch)).state is ServerState.FATAL
    assert time.monotonic() - began < 1.1
    await watch.aclose()


async def test_a_term_from_somebody_else_is_no_crash(paths: Paths) -> None:
    ready = await up(paths)
    os.kill(ready.pid or 0, signal.SIGTERM)
    assert wait_until(lambda: identify(ready.pid or 0) is None)
    after = await fake_supervisor(paths).snapshot()
    assert after.state is ServerState.EXITED


async def test_cancelling_the_wait_leaves_the_server_running(paths: Paths) -> None:
    supervisor = fake_supervisor(paths)
    started = await supervisor.start(fake_profile(port=free_port(), flags=("--load-s", "0.5")))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await supervisor.wait_ready()
    assert identify(started.pid or 0) is not None
    # Another process finishes what the first one began.
    watch = fake_supervisor(paths).watch(interval_s=0.05)
    async with asyncio.timeout(10):
        async for snapshot in watch:
            if snapshot.ready:
                break
    await watch.aclose()


async def test_a_boot_is_stopped_at_any_stage(paths: Paths) -> None:
    supervisor = fake_supervisor(paths)
    await supervisor.start(fake_profile(port=free_port(), flags=("--fault", "hangs-at-load")))
    result = await fake_supervisor(paths).stop()
    assert result.how is StopHow.BOOT_BROKEN_OFF
    # The loading engine has no handler yet and dies of the signal: still "stopped".
    after = await supervisor.snapshot()
    assert after.state is ServerState.STOPPED
    assert result.exit_code in {None, -signal.SIGTERM}


async def test_a_launcher_killed_between_fork_and_record_loses_nothing(paths: Paths) -> None:
    supervisor = fake_supervisor(paths)
    started = await supervisor.start(fake_profile(port=free_port()))
    store = RunStore(paths)
    record = store.latest()
    assert record is not None
    # The record as it was before the spawn, by a launcher that is gone.
    store.save(replace(record, pid=None, create_time=None, session=None, launcher=(2**22 + 1, 1.0)))
    other = fake_supervisor(paths)
    found = await other.wait_ready()
    assert (found.pid, found.ready) == (started.pid, True)
    assert (await fake_supervisor(paths).stop()).how is StopHow.DRAINED
    assert not processes_of(paths)


async def test_both_records_damaged_and_the_server_is_still_found(paths: Paths) -> None:
    port = free_port()
    supervisor = fake_supervisor(paths)
    started = await supervisor.start(fake_profile(port=port, flags=("--api-key", "k-123456")))
    assert (await supervisor.wait_ready()).ready
    (run,) = RunStore(paths).ids()
    for name in ("run.json", "launch.json"):
        (paths.runs / run / name).write_bytes(b'{"schema": "qwen-tui.run/1", "id"')
    found = await fake_supervisor(paths).wait_ready()
    assert (found.pid, found.ready) == (started.pid, True)
    assert found.url == f"http://127.0.0.1:{port}"
    assert "k-123456" not in (paths.runs / run / "run.json").read_text()
    assert (await fake_supervisor(paths).stop()).how is StopHow.DRAINED
    assert not processes_of(paths)


async def test_a_launch_broken_off_before_the_spawn_is_said(paths: Paths) -> None:
    await up(paths, "--fault", "dies-silently")
    store = RunStore(paths)
    record = store.latest()
    assert record is not None
    launcher = identify(os.getpid())
    assert launcher is not None
    blank = replace(
        record, state=ServerState.STARTING, ending=None, pid=None, create_time=None, family=()
    )
    store.save(replace(blank, launcher=(launcher.pid, launcher.create_time)))
    assert (await fake_supervisor(paths).snapshot()).state is ServerState.STARTING
    store.save(replace(blank, launcher=(2**22 + 1, 1.0)))
    after = await fake_supervisor(paths).snapshot()
    assert after.state is ServerState.EXITED
    assert "before the engine was started" in str(after.message)


async def test_a_stranger_with_the_old_pid_is_never_touched(paths: Paths) -> None:
    await up(paths)
    store = RunStore(paths)
    record = store.latest()
    assert record is not None
    assert record.main is not None
    await fake_supervisor(paths).stop()
    # After a wrap-around of pids: our own test process has the recorded pid.
    stranger = os.getpid()
    store.save(
        replace(
            record,
            pid=stranger,
            session=os.getsid(0),
            family=((stranger, 1.0), (os.getppid(), 1.0)),
            state=ServerState.RUNNING,
        )
    )
    result = await fake_supervisor(paths).stop(timeout_s=0.2)
    assert result.how is StopHow.ALREADY_GONE
    assert alive(identify(os.getppid()) or record.main)


async def test_a_reboot_is_recognised(paths: Paths) -> None:
    await up(paths)
    store = RunStore(paths)
    record = store.latest()
    assert record is not None
    await fake_supervisor(paths).stop()
    store.save(replace(record, boot="another boot"))
    after = await fake_supervisor(paths).snapshot()
    assert after.state is ServerState.EXITED
    assert "restarted" in str(after.message)


async def test_one_acts_and_the_other_is_told_who(paths: Paths) -> None:
    await up(paths)
    supervisor = fake_supervisor(paths)
    async with supervisor.store.lease(t("swapping to x")):
        with pytest.raises(LaunchError, match=f"pid {os.getpid()}, swapping to x"):
            await fake_supervisor(paths).stop()
    assert (await supervisor.snapshot()).state is ServerState.RUNNING


async def test_an_unwritable_state_folder_starts_nothing(paths: Paths) -> None:
    paths.make(paths.state)
    paths.runs.write_text("a file where the folder should be")
    with pytest.raises(ConfigError, match="state"):
        await fake_supervisor(paths).start(fake_profile(port=free_port()))
    paths.runs.unlink()


async def test_a_missing_interpreter_leaves_nothing_half_started(paths: Paths) -> None:
    class Missing:
        def spawn(self, argv, env, *, folder, log):  # type: ignore[no-untyped-def]
            from qwen_tui.services.spawner import SystemSpawner

            return SystemSpawner().spawn(
                ["/nowhere/python", *argv[1:]], env, folder=folder, log=log
            )

    from qwen_tui.services.supervisor import ServerSupervisor

    with pytest.raises(LaunchError, match="/nowhere/python cannot be started"):
        await ServerSupervisor(paths, spawner=Missing()).start(fake_profile(port=free_port()))
    assert RunStore(paths).ids() == []


async def test_nothing_to_stop(paths: Paths) -> None:
    assert (await fake_supervisor(paths).stop()).how is StopHow.ALREADY_GONE
    assert (await fake_supervisor(paths).snapshot()).state is ServerState.STOPPED
