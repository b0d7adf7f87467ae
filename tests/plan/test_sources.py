"""Plans before the download, plans of the simulated engine, and what a launch keeps of its plan."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from plan.boots import DATA
from qwen_tui.cli import main
from qwen_tui.services import launch_gpu
from qwen_tui.services.known_models import KNOWN_MODELS, known_model
from qwen_tui.services.paths import Paths
from qwen_tui.services.planning import PlanOptions, make_plan, prediction_of, refusal_of
from qwen_tui_profiles.errors import InputError, UsageError
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.loader import load_profiles
from qwen_tui_profiles.plan.model import read_config, read_model

if TYPE_CHECKING:
    from pathlib import Path

    from qwen_tui_profiles.profile import EngineProfile


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    monkeypatch.setenv("QWEN_TUI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("QWEN_TUI_ENGINE_PYTHON", raising=False)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    return Paths.default()


def _profile(name: str) -> EngineProfile:
    return load_profiles(None).get(name)


@pytest.mark.parametrize("row", KNOWN_MODELS, ids=lambda r: r.pattern)
def test_known_dimensions_can_be_read(row: object) -> None:
    folder = row.folder  # type: ignore[attr-defined]
    assert read_model(read_config(folder)).known is not None


@pytest.mark.parametrize(
    ("name", "weights_gib"),
    [
        ("RedHatAI/Qwen3.8-27B-INT4", 17.67),
        ("nvidia/Qwen3.8-27B-NVFP4", 18.59),
        ("~/models/Qwen3.6-27B-NVFP4/", 18.59),
        ("Qwen/Qwen3.8-27B", None),
        ("RadixArk/Qwen3.8-Flash-Next-NVFP4", None),
    ],
)
def test_names_that_are_known(name: str, weights_gib: float | None) -> None:
    row = known_model(name)
    assert row is not None
    assert row.weights_gib == weights_gib


@pytest.mark.parametrize(
    "name",
    [
        "google/gemma-3-27b-int4",
        "unsloth/Qwen3.8-27B-NVFP4",
        "Qwen/Qwen3.8-27B-FP8",
        "Qwen/Qwen3-32B",
        "",
        "x" * 5000,
    ],
)
def test_names_that_are_not(name: str) -> None:
    assert known_model(name) is None


def test_preset_is_planned_before_its_download(paths: Paths) -> None:
    # Seed 004, no drafts: (0.92 · 29.903 − 17.67) GiB less 7 fp32 slots are 289,577 tokens of
    # 32,768 B. Here 16 + 1 slots and (2 + 1) · 4 rollback states of 74.8125 MiB and a draft of
    # 5.53 GiB, a free memory that is 0.10 GiB larger at the point the fraction refers to, and
    # 20 MiB of rotary cache: 33,152 rows of the vision tower.
    profile = _profile("27b-int4-speed")
    plan = make_plan(PlanOptions(engine="sglang==0.5.17", free_gib=29.903), profile, paths)
    static = 29.903 - 17.67 - 5.53 - (29.903 + 0.10) * 0.08 - 20 / 1024
    tokens = (static * (1 << 30) - 29 * 78_446_592) / 32_768
    assert plan.kv_tokens.value == pytest.approx(tokens, abs=40)
    assumed = {a.name: str(a.reason) for a in plan.assumed}
    assert "no headers were read" in assumed["checkpoint"]
    assert "seed 004" in assumed["weights_gib"]
    # Nobody knows here whether the head is quantized already.
    assert "lm_head" not in {knob.flag for knob in plan.knobs}
    assert plan.kv_tokens.value is not None
    assert plan.kv_tokens.low is not None
    assert plan.kv_tokens.low < plan.kv_tokens.value - 0.05 * (1 << 30) / 32_768


def test_what_is_measured_wins_over_what_is_published(paths: Paths) -> None:
    profile = _profile("27b-int4-speed")
    options = PlanOptions(engine="sglang==0.5.17", free_gib=29.903, weights_gib=17.0)
    plan = make_plan(options, profile, paths)
    assert plan.weights_gib == pytest.approx(17.0)
    assert "weights_gib" not in {a.name for a in plan.assumed}


def test_pasted_repository_is_planned(paths: Paths) -> None:
    words = ("--model-path", "nvidia/Qwen3.8-27B-NVFP4", "--mem-fraction-static", "0.9")
    plan = make_plan(PlanOptions(args=words, free_gib=30.0), None, paths)
    assert plan.weights_gib == pytest.approx(18.59)


@pytest.mark.parametrize(
    "options",
    [
        PlanOptions(model="~/models/Qwen3.8-27B-INT4", free_gib=30.0),
        PlanOptions(args=("--model-path", "/models/unheard-of"), free_gib=30.0),
    ],
    ids=["named by hand", "not known"],
)
def test_a_checkpoint_that_is_not_there(options: PlanOptions, paths: Paths) -> None:
    with pytest.raises(InputError, match="does not exist"):
        make_plan(options, None, paths)


def test_folder_without_config_names_the_download(paths: Paths, tmp_path: Path) -> None:
    (tmp_path / "models" / "x").mkdir(parents=True)
    profile = _profile("27b-int4-speed")
    mine = replace(
        profile, model=replace(profile.model, path=str(tmp_path / "models/x"), repo="me/mine")
    )
    with pytest.raises(InputError, match=r"config\.json"):
        make_plan(PlanOptions(free_gib=30.0), mine, paths)
    gone = replace(mine, model=replace(mine.model, path=str(tmp_path / "none")))
    with pytest.raises(InputError) as raised:
        make_plan(PlanOptions(free_gib=30.0), gone, paths)
    assert "qwen-tui download me/mine" in str(raised.value.remedy)


@pytest.mark.parametrize(("name", "tokens"), [("demo-speed", 119_648), ("demo-context", 272_576)])
def test_simulated_engine_against_its_own_arithmetic(
    name: str, tokens: int, paths: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    from qwen_tui.demo_engine.arguments import DemoOptions, parse_command
    from qwen_tui.demo_engine.memory import solve
    from qwen_tui.demo_engine.settings import resolve

    settings, _ = resolve(parse_command(_profile(name).argv))
    assert solve(settings, DemoOptions().free_gib).kv_tokens == tokens
    assert main(["plan", name, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kv_tokens"]["value"] == pytest.approx(tokens, rel=0.0005)
    assert document["assumed"]["engine"] == "demo"


def test_what_a_launch_keeps_of_its_plan(paths: Paths) -> None:
    plan = make_plan(PlanOptions(), _profile("demo-speed"), paths)
    kept = prediction_of(plan)
    assert kept["kv_tokens"] == plan.kv_tokens.value
    assert kept["max_running_requests"] == 2
    assert kept["mamba_slots"] == 8
    assert refusal_of(plan) is None


def test_refusal_is_an_error_only_when_the_whole_interval_fails(paths: Paths) -> None:
    profile = _profile("27b-int4-speed")
    hopeless = make_plan(PlanOptions(free_gib=20.0), profile, paths)
    refusal = refusal_of(hopeless)
    assert refusal is not None
    assert refusal.severity is Severity.ERROR
    assert prediction_of(hopeless) == {}
    # The weights take 23.2 GiB and the fraction keeps 8 % back: 28 GiB may or may not do.
    edge = next(
        plan
        for gib in range(240, 300)
        if (plan := make_plan(PlanOptions(total_gib=gib / 10), profile, paths)).fits is False
        and not plan.failure_certain
    )
    assert refusal_of(edge) is None


def test_clamp_remedies_are_priced(paths: Paths) -> None:
    # 4 · 4 + 1 slots instead of 8, and rollback states of 4 requests instead of 2, 6 drafts each:
    # (9 + 12) · 78,446,592 B of 32,768 B a token, in pages of 32.
    plan = make_plan(PlanOptions(), _profile("demo-speed"), paths)
    clamp = next(c for c in plan.clamps if c.arg == "--max-running-requests")
    price = 21 * 78_446_592 / 32_768
    assert price == pytest.approx(50_274, abs=1)
    assert "To get 4: --max-mamba-cache-size 17, -50,272 tokens" in str(clamp.remedy)
    crowded = make_plan(
        PlanOptions(free_gib=29.9, args=("--max-running-requests", "8")),
        _profile("27b-int4-speed"),
        paths,
    )
    clamp = next(c for c in crowded.clamps if c.arg == "--max-running-requests")
    assert "To get 5: --max-mamba-cache-size 26" in str(clamp.remedy)


def test_gpu_of_the_profile() -> None:
    first_visible = launch_gpu.first_visible
    assert first_visible({"CUDA_VISIBLE_DEVICES": "1,0"}) == 1
    assert first_visible({"CUDA_VISIBLE_DEVICES": "GPU-8f2a"}) == 0
    assert first_visible({}) == 0


def test_gpu_that_does_not_exist(paths: Paths) -> None:
    # Without any GPU the missing size is the trouble, with one the number is.
    with pytest.raises(UsageError):
        make_plan(PlanOptions(gpu_index=-1), _profile("27b-int4-speed"), paths)


def test_fork_is_planned_for_its_base(paths: Paths) -> None:
    plan = make_plan(PlanOptions(total_gib=95.0), _profile("flash-next-sm120"), paths)
    assert plan.engine_version == "0.5.20"
    assert not [f for f in plan.findings if f.severity is Severity.ERROR]


def test_given_size_replaces_underivable_dimensions(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--model", str(DATA / "flash-next.json"), "--free-gib", "93", "--json"]
    flags = ["--", "--mem-fraction-static", "0.9", "--max-mamba-cache-size", "20"]
    drafts = [*flags, "--speculative-algorithm", "NEXTN"]
    assert main([*words, *flags]) == 2
    assert main([*words, "--weights-gib", "62", *flags]) == 0
    assert main([*words, "--weights-gib", "62", *drafts]) == 2
    assert main([*words, "--weights-gib", "62", "--draft-gib", "3", *drafts]) == 0
    rules = [
        [f["rule"] for f in json.loads(part)["findings"] if "unknown" in f["rule"]]
        for part in capsys.readouterr().out.replace("}\n{", "}\0{").split("\0")
    ]
    assert rules == [["plan-weights-unknown"], [], ["plan-draft-size-unknown"], []]


class _Cards:
    """NVML with two cards: one that tells its memory, one that shares the host's."""

    def __enter__(self) -> _Cards:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def devices(self) -> tuple[SimpleNamespace, ...]:
        gib = 1 << 30
        return (
            SimpleNamespace(
                memory_free_bytes=30 * gib, memory_total_bytes=32 * gib, compute_capability=(12, 0)
            ),
            SimpleNamespace(
                memory_free_bytes=None, memory_total_bytes=None, compute_capability=None
            ),
        )


def test_live_memory_of_either_kind_of_gpu(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qwen_tui_diagnostics.probes.nvml.Nvml", _Cards)
    gib = 1 << 30
    host = SimpleNamespace(available=110 * gib, total=120 * gib)
    monkeypatch.setattr("psutil.virtual_memory", lambda: host)
    rtx, shared = launch_gpu.LiveGpu(30.0, 32.0, 120), launch_gpu.LiveGpu(110.0, 120.0, None)
    assert launch_gpu.live_gpu(0, {}) == rtx
    assert launch_gpu.live_gpu(None, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}) == rtx
    # Which of two unlike cards CUDA takes first is not known here.
    assert launch_gpu.live_gpu(None, {}).card is None
    assert launch_gpu.live_gpu(None, {"CUDA_VISIBLE_DEVICES": "1"}) == shared
    assert launch_gpu.live_gpu(1, {}) == shared
    with pytest.raises(UsageError, match="no GPU 2"):
        launch_gpu.live_gpu(2, {})
    with pytest.raises(UsageError, match="no GPU -1"):
        launch_gpu.live_gpu(-1, {})
    plan = make_plan(PlanOptions(), _profile("27b-int4-speed"), paths)
    assert prediction_of(plan)["live_free_gib"] == 30.0
