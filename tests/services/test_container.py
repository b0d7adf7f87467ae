"""Containers, against a fake ``docker`` that records its calls and runs the fake engine."""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.process import identify
from qwen_tui.services.runs import RunStore
from qwen_tui.services.state import ServerState
from qwen_tui.services.stopping import StopHow
from qwen_tui.services.supervisor import ServerSupervisor
from qwen_tui_profiles.errors import EngineError, StopError
from qwen_tui_profiles.profile import ContainerLaunch, EngineKind
from support.fake_reader import FakeReader
from support.supervise import fake_profile, free_port, processes_of, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qwen_tui.services.paths import Paths
    from qwen_tui.services.snapshots import ServerSnapshot
    from qwen_tui_profiles.profile import EngineProfile

SCRIPT = Path(__file__).parents[1] / "support" / "fake_docker.py"


class Docker:
    """The fake runtime of one test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.path = folder / "docker"
        self.path.symlink_to(SCRIPT)

    def calls(self, verb: str) -> list[list[str]]:
        lines = (self.folder / "calls.jsonl").read_text().splitlines()
        return [c["argv"] for c in map(json.loads, lines) if c["argv"][0] == verb]

    def variables(self, verb: str) -> list[str]:
        for line in (self.folder / "calls.jsonl").read_text().splitlines():
            call = json.loads(line)
            if call["argv"][0] == verb:
                return list(call["env"])
        raise AssertionError(verb)

    def pids(self) -> list[int]:
        found = [json.loads(p.read_text())["pid"] for p in self.folder.glob("*.container")]
        return [pid for pid in found if identify(pid) is not None]


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[Docker]:
    made = Docker(tmp_path / "bin")
    yield made
    for pid in made.pids():
        os.kill(pid, signal.SIGKILL)


def profile(docker: Docker, *flags: str, image: str = "lmsysorg/sglang:v0.5.23") -> EngineProfile:
    return replace(
        fake_profile("boxed", port=free_port(), flags=flags),
        engine=EngineKind.SGLANG,
        launch=ContainerLaunch(str(docker.path), image, ("--gpus", "all")),
        env={"HF_TOKEN": "hf_abcdefghijkl"},
    )


def supervisor(paths: Paths) -> ServerSupervisor:
    return ServerSupervisor(paths, make_reader=FakeReader)


async def up(paths: Paths, docker: Docker, *flags: str) -> ServerSnapshot:
    boss = supervisor(paths)
    await boss.start(profile(docker, *flags), force="the fake engine has flags of its own")
    return await boss.wait_ready()


async def test_the_command_line(paths: Paths, docker: Docker) -> None:
    ready = await up(paths, docker)
    assert (ready.state, ready.ready) == (ServerState.RUNNING, True)
    (run,) = docker.calls("run")
    record = RunStore(paths).latest()
    assert record is not None
    assert record.kind == "container"
    assert run[1:5] == [
        "--cidfile",
        str(paths.runs / record.id / "container.id"),
        "--label",
        f"qwen-tui.run={record.id}",
    ]
    # The value of a variable never stands on a command line; the client passes it on by name.
    assert run[run.index("HF_TOKEN") - 1] == "--env"
    assert "hf_abcdefghijkl" not in json.dumps(run)
    assert "HF_TOKEN" in docker.variables("run")
    assert "hf_abcdefghijkl" not in (paths.runs / record.id / "run.json").read_text()
    assert run[run.index("--publish") + 1].startswith("127.0.0.1:")


async def test_stop_is_left_to_the_runtime(paths: Paths, docker: Docker) -> None:
    await up(paths, docker, "--drain-s", "0.3")
    result = await supervisor(paths).stop(timeout_s=20)
    assert (result.how, result.requests_left, result.port_free) == (StopHow.DRAINED, 0, True)
    ((_, *stop),) = docker.calls("stop")
    assert stop[:2] == ["-t", "20"]
    assert not docker.pids()
    assert not processes_of(paths)
    assert (await supervisor(paths).snapshot()).state is ServerState.STOPPED


async def test_a_container_that_ignores_its_signal_is_killed(paths: Paths, docker: Docker) -> None:
    await up(paths, docker, "--fault", "ignores-term")
    result = await supervisor(paths).stop(timeout_s=1)
    assert result.how is StopHow.KILLED
    assert not docker.pids()


async def test_a_killed_client_does_not_lose_the_container(paths: Paths, docker: Docker) -> None:
    ready = await up(paths, docker)
    os.kill(ready.pid or 0, signal.SIGKILL)
    assert wait_until(lambda: identify(ready.pid or 0) is None)
    assert (await supervisor(paths).snapshot()).state is ServerState.RUNNING
    result = await supervisor(paths).stop()
    assert result.how is StopHow.DRAINED
    assert not docker.pids()


async def test_a_client_killed_during_the_boot_does_not_lose_it_either(
    paths: Paths, docker: Docker
) -> None:
    boss = supervisor(paths)
    started = await boss.start(profile(docker, "--load-s", "1"), force="fake flags")
    assert wait_until(lambda: bool(docker.pids()))
    os.kill(started.pid or 0, signal.SIGKILL)
    ready = await supervisor(paths).wait_ready()
    assert (ready.state, ready.ready) == (ServerState.RUNNING, True)
    await supervisor(paths).stop()
    assert not docker.pids()


async def test_a_death_inside_has_its_cause(paths: Paths, docker: Docker) -> None:
    ended = await up(paths, docker, "--fault", "oom-at-load")
    assert ended.state is ServerState.FATAL
    assert "out of memory" in str(ended.message)
    record = RunStore(paths).latest()
    assert record is not None
    assert record.ending is not None
    assert record.ending.exit_code == 1


async def test_a_refusal_of_the_runtime_is_told_from_a_death(paths: Paths, docker: Docker) -> None:
    boss = supervisor(paths)
    await boss.start(profile(docker, image="lmsysorg/sglang:missing"), force="no model")
    ended = await boss.wait_ready()
    assert ended.state is ServerState.FATAL
    assert "container runtime" in str(ended.message)
    assert "No such image" in str(ended.message)


async def test_a_daemon_that_is_gone_is_said(paths: Paths, docker: Docker) -> None:
    await up(paths, docker)
    (docker.folder / "broken").touch()
    with pytest.raises(StopError, match="Cannot connect to the Docker daemon"):
        await supervisor(paths).stop(timeout_s=1)
    (docker.folder / "broken").unlink()
    assert (await supervisor(paths).stop()).how is StopHow.DRAINED


async def test_a_missing_runtime(paths: Paths, docker: Docker) -> None:
    shutil.rmtree(docker.folder)
    with pytest.raises(EngineError, match="not installed"):
        await supervisor(paths).start(profile(docker))
    docker.folder.mkdir()
