"""The runner with real children: limits, hangs, crashes, order, root causes."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from qwen_tui_diagnostics.context import Context, Target
from qwen_tui_diagnostics.report import with_explanations
from qwen_tui_diagnostics.result import Report, SkipReason, Status
from qwen_tui_diagnostics.runner import Run, run_checks, select
from qwen_tui_profiles.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from qwen_tui_diagnostics.result import CheckResult

DEMO = Target(profile="demo-speed", engine="demo", needs_gpu=False, port=39017)


def context(tmp_path: Path, **changes: Any) -> Context:
    values: dict[str, Any] = {
        "target": DEMO,
        "state_folder": str(tmp_path / "state"),
        "cache_folder": str(tmp_path / "cache"),
        "env": dict(os.environ),
    }
    return Context(**(values | changes))


async def collect(
    around: Context, only: Sequence[str] = (), timeout_s: float | None = None
) -> dict[str, CheckResult]:
    return {result.id: result async for result in run_checks(around, only, (), timeout_s)}


async def test_the_demo_profile_needs_no_gpu(tmp_path: Path) -> None:
    results = await collect(context(tmp_path))
    assert not [r.id for r in results.values() if r.status is Status.FAIL]
    assert results["driver.nvml"].reason is SkipReason.NOT_APPLICABLE
    assert results["sys.platform"].status is Status.OK
    assert results["disk.path"].status is Status.OK
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - probing leaves nothing behind


async def test_a_hanging_source_times_out_alone(tmp_path: Path) -> None:
    """A read that blocks for ever, as on a dead mount: only what reads it is affected."""
    root = tmp_path / "root"
    (root / "proc").mkdir(parents=True)
    os.mkfifo(root / "proc" / "meminfo")
    began = time.monotonic()
    results = await collect(context(tmp_path, root=root), ["sys.*", "net.port"], timeout_s=1.0)
    assert time.monotonic() - began < 8
    ram = results["sys.ram"]
    assert ram.status is Status.FAIL
    assert "timeout" in str(ram.observed)
    assert results["sys.platform"].status is Status.OK
    assert results["net.port"].status is Status.OK


async def test_a_tool_that_sleeps_for_a_minute_is_killed_with_the_run(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("nvcc", "nvidia-smi"):
        script = tools / name
        script.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/{name}.pid\nexec sleep 60\n")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    env = dict(os.environ) | {"PATH": f"{tools}:{os.environ['PATH']}"}
    env.pop("CUDA_HOME", None)
    env.pop("CUDA_PATH", None)
    target = Target(profile="p", engine="sglang", port=39018)
    began = time.monotonic()
    results = await collect(
        context(tmp_path, env=env, target=target), ["cuda.nvcc", "net.port"], timeout_s=2.0
    )
    assert time.monotonic() - began < 8
    assert results["cuda.nvcc"].status in {Status.FAIL, Status.WARN}
    assert "timeout" in str(results["cuda.nvcc"].observed)
    assert results["net.port"].status is Status.OK
    pid = int((tmp_path / "nvcc.pid").read_text())
    for _ in range(50):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            break
        await asyncio.sleep(0.05)
    else:
        pytest.fail("the sleeping tool outlived the run")


async def test_a_child_that_dies_is_a_finding(tmp_path: Path) -> None:
    results = await collect(context(tmp_path, python="/bin/false"), ["sys.platform", "net.port"])
    assert results["sys.platform"].status is Status.FAIL
    assert "ended without an answer" in str(results["sys.platform"].observed)
    missing = await collect(context(tmp_path, python="/nope/python"), ["sys.platform"])
    assert "no child process" in str(missing["sys.platform"].observed)


async def test_a_collector_that_raises_is_a_finding_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from qwen_tui_diagnostics.probes import child, memory

    def broken(*_: object) -> None:
        raise RuntimeError("first line\nsecond line")

    monkeypatch.setattr(memory, "collect", broken)
    answer = child.run_collector("memory", "memory", context(tmp_path))
    assert answer["absent"]["memory"]["detail"] == "RuntimeError: first line second line"


async def test_leaving_early_leaves_no_child(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "proc").mkdir(parents=True)
    os.mkfifo(root / "proc" / "meminfo")
    before = {p.pid for p in psutil.Process().children()}
    stream = run_checks(context(tmp_path, root=root), ["sys.*"])
    async for _ in stream:
        break
    await stream.aclose()
    left = {p.pid for p in psutil.Process().children()} - before
    assert not left, "the children are gone when it ends, not some time after"


async def test_answers_that_are_waiting_do_not_swallow_the_leaving(tmp_path: Path) -> None:
    """Python 3.11's wait_for loses a cancellation that meets an answer; then a child lives on."""
    script = tmp_path / "python"
    script.write_text(
        "#!/bin/sh\n"
        "read -r request\n"
        f"echo $$ > {tmp_path}/pid\n"
        "for name in system memory env topology driver rings port server disk; do\n"
        '  lines="$lines{\\"name\\": \\"$name\\", \\"values\\": {}, \\"absent\\": {},'
        ' \\"raw\\": {}, \\"ms\\": 1}@"\n'
        "done\n"
        'printf %s "$lines" | tr @ "\\n"\n'
        "exec sleep 60\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    stream = run_checks(context(tmp_path, python=str(script)))
    await anext(stream)
    began = time.monotonic()
    await stream.aclose()
    assert time.monotonic() - began < 4, "it waited for the collectors' limits"
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


async def test_one_root_cause_explains_its_consequences(tmp_path: Path) -> None:
    """On a machine without a GPU a real profile has one driver failure, not twenty."""
    if os.path.exists("/dev/nvidiactl"):  # noqa: ASYNC240, PTH110
        pytest.skip("this machine has a GPU")
    target = Target(profile="p", engine="sglang", port=39019)
    results = with_explanations(
        [r async for r in run_checks(context(tmp_path, target=target), ["driver.*", "gpu.*"])]
    )
    by_id = {result.id: result for result in results}
    failed = [r.id for r in results if r.status is Status.FAIL and r.counted]
    assert failed == ["driver.nvml"]
    assert "gpu.vram_free" in by_id["driver.nvml"].explains
    assert by_id["gpu.vram_free"].explained_by == "driver.nvml"
    report = Report(results, 0, 0, "0")
    assert report.counts["fail"] == 1
    assert report.counts["explained"] >= 10
    assert report.exit_code() == 1


def test_globs_select_and_a_wrong_one_is_refused() -> None:
    ids = [check.id for check in select(["disk.*", "net.port"], ["disk.seq"])]
    assert "disk.odirect" in ids
    assert "net.port" in ids
    assert "disk.seq" not in ids
    with pytest.raises(UsageError):
        select(["dsk.*"])


def test_verdicts_and_exit_codes() -> None:
    from dataclasses import replace

    from qwen_tui_profiles.text import t

    def result(status: Status, reason: SkipReason | None = None) -> CheckResult:
        from qwen_tui_diagnostics.result import CheckResult as Result

        return Result("a.b", "a", t("x"), status, t("y"), reason=reason)

    def report(*results: CheckResult) -> Report:
        return Report(results, 0, 0, "0")

    ok, warn, fail = (result(s) for s in (Status.OK, Status.WARN, Status.FAIL))
    skip = result(Status.SKIP, SkipReason.DISABLED)
    assert (report(ok, skip).verdict, report(ok, skip).exit_code()) == ("ready", 0)
    assert (report(ok, warn).verdict, report(ok, warn).exit_code()) == ("ready-with-warnings", 0)
    assert report(ok, warn).exit_code(strict=True) == 1
    assert (report(ok, fail).verdict, report(ok, fail).exit_code()) == ("blocked", 1)
    assert (report(skip).verdict, report(skip).exit_code()) == ("unknown", 2)
    explained = replace(fail, explained_by="c.d")
    assert report(ok, explained).verdict == "ready"


async def test_the_facts_and_times_of_a_run_are_kept(tmp_path: Path) -> None:
    run = Run(context(tmp_path), select(["sys.ram"]))
    results = [result async for result in run.results()]
    assert run.tree["memory"]["total_bytes"] > 0
    assert results[0].duration_ms > 0
