from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.prelaunch import Preflight, preflight, require
from qwen_tui.services.vram import GpuHolder, GpuMemory, settled, wait_freed
from qwen_tui_profiles.errors import LaunchError
from qwen_tui_profiles.findings import Finding, Severity
from qwen_tui_profiles.profile import EngineKind, ModelRef
from qwen_tui_profiles.text import t
from support.supervise import fake_profile

if TYPE_CHECKING:
    from qwen_tui.services.paths import Paths

GIB = 1 << 30


class Script:
    """Gives one answer after the other; the last one for ever."""

    def __init__(self, *answers: tuple[GpuMemory, ...] | None) -> None:
        self.answers = list(answers)
        self.reads = 0

    async def read(self) -> tuple[GpuMemory, ...] | None:
        self.reads += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def gpu(used_gib: float, *holders: int, hidden: bool = False) -> tuple[GpuMemory, ...]:
    found = None if hidden else tuple(GpuHolder(pid, 20 * GIB, "python") for pid in holders)
    return (GpuMemory(0, "RTX 5090", 32 * GIB, int(used_gib * GIB), found),)


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qwen_tui.services.vram._POLL_S", 0.001)


async def test_waits_until_our_processes_hold_nothing() -> None:
    script = Script(gpu(30, 7, 8), gpu(20, 8), gpu(1, 99))
    waited: list[float] = []
    assert await wait_freed(script, {7, 8}, 5, on_wait=waited.append) is True
    assert script.reads == 3
    assert len(waited) == 2


async def test_memory_that_never_comes_back_is_said() -> None:
    assert await wait_freed(Script(gpu(30, 7)), {7}, 0.01) is False


async def test_without_a_gpu_nothing_is_claimed() -> None:
    assert await wait_freed(Script(None), {7}, 5) is None


async def test_where_the_driver_hides_the_holders_it_waits_for_the_fall_to_end() -> None:
    script = Script(*(gpu(used, hidden=True) for used in (30, 30, 20, 10, 2, 2)))
    assert await wait_freed(script, {7}, 5) is True
    assert script.reads == 6


async def test_settled_waits_while_memory_falls() -> None:
    found = await settled(Script(gpu(30), gpu(20), gpu(10), gpu(2), gpu(2)), 5)
    assert found is not None
    assert found[0].used_bytes == 2 * GIB


async def test_a_neighbour_on_the_gpu_is_kept_as_a_warning(paths: Paths) -> None:
    profile = replace(fake_profile(port=30000), engine=EngineKind.SGLANG, needs_gpu=True, argv=())
    flight = await preflight(profile, paths, Script(gpu(20, 4_000_001)))
    (finding,) = [f for f in flight.findings if f.rule == "gpu-neighbour"]
    assert "python (pid 4000001) holds 20.0 GiB of GPU 0" in str(finding.title)
    told = require(profile, flight, "no model")
    assert any(str(w).startswith("gpu-neighbour: ") for w in told)
    # Before a swap it is our own server that holds it.
    flight = await preflight(profile, paths, Script(gpu(20, 4_000_001)), own_server_runs=True)
    assert not [f for f in flight.findings if f.rule == "gpu-neighbour"]


@pytest.mark.parametrize("swaps", [False, True], ids=["launch", "swap"])
async def test_rules_about_cards_are_judged_for_the_card_that_is_here(
    paths: Paths, tmp_path: Path, swaps: bool
) -> None:
    """What is slow, or refused, on SM 12.0 is said there and nowhere else."""
    config = Path(__file__).parents[1] / "plan" / "data" / "qwen38-27b.json"
    (tmp_path / "config.json").write_bytes(config.read_bytes())

    async def rules(backend: str, *capabilities: tuple[int, int], **env: str) -> set[str]:
        profile = replace(
            fake_profile(port=30000),
            engine=EngineKind.SGLANG,
            needs_gpu=True,
            model=ModelRef(path=str(tmp_path)),
            argv=("--attention-backend", backend),
            env=env,
        )
        cards = tuple(
            replace(gpu(1)[0], index=index, compute_capability=capability)
            for index, capability in enumerate(capabilities)
        )
        flight = await preflight(profile, paths, Script(cards), own_server_runs=swaps)
        watched = {"triton-attention", "attention-blackwell"}
        return watched & {found.rule for found in flight.findings}

    rtx, h200 = (12, 0), (9, 0)
    assert await rules("triton", rtx) == {"triton-attention"}
    assert await rules("triton", h200) == set()
    assert await rules("fa3", rtx) == {"attention-blackwell"}
    assert await rules("fa3", h200) == set()
    assert await rules("fa3", rtx, rtx, CUDA_VISIBLE_DEVICES="GPU-8f2a") == {"attention-blackwell"}
    # Among unlike cards CUDA's own order is not the driver's, and a UUID is not resolved here.
    bus = "PCI_BUS_ID"
    seen = await rules("fa3", h200, rtx, CUDA_VISIBLE_DEVICES="1", CUDA_DEVICE_ORDER=bus)
    assert seen == {"attention-blackwell"}
    assert await rules("fa3", rtx, h200, CUDA_DEVICE_ORDER=bus) == {"attention-blackwell"}
    assert await rules("fa3", rtx, h200) == set()
    assert await rules("fa3", rtx, h200, CUDA_VISIBLE_DEVICES="GPU-8f2a") == set()


def finding(severity: Severity, rule: str) -> Finding:
    return Finding(rule, severity, t("It breaks."), "--x 1", "seed", None, None, t("Lower --x."))


def test_errors_stop_a_launch_and_force_keeps_them() -> None:
    profile = fake_profile(port=30000)
    flight = Preflight(
        (finding(Severity.ERROR, "a"), finding(Severity.WARN, "b"), finding(Severity.INFO, "c"))
    )
    with pytest.raises(LaunchError, match=r"It breaks\. \(--x 1\)") as caught:
        require(profile, flight, None)
    assert "--force REASON" in str(caught.value.remedy)
    assert "Lower --x." in str(caught.value.remedy)
    told = require(profile, flight, "I know")
    assert [str(w) for w in told] == ["a: It breaks.", "b: It breaks."]
