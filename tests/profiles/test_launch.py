from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from qwen_tui_profiles.flags import RENAMES, respell
from qwen_tui_profiles.launch import build_launch
from qwen_tui_profiles.loader import load_profiles
from qwen_tui_profiles.profile import ContainerLaunch, EngineKind, ModelRef

PRESETS = load_profiles(None)


def test_sglang_gets_model_address_and_flags() -> None:
    spec = build_launch(PRESETS.get("27b-int4-speed"), interpreter="/opt/e/bin/python")
    home_model = str(Path("~/models/Qwen3.8-27B-INT4").expanduser())
    assert spec.argv[:11] == (
        *("/opt/e/bin/python", "-m", "sglang.launch_server", "--model-path", home_model),
        *("--served-model-name", "qwen3.8-27b", "--host", "127.0.0.1", "--port", "30000"),
    )
    assert spec.argv[11:] == PRESETS.get("27b-int4-speed").argv
    assert "--speculative-draft-model-path" not in spec.argv


def test_vllm_takes_its_model_by_its_own_flag() -> None:
    profile = replace(
        PRESETS.get("27b-int4-speed"),
        engine=EngineKind.VLLM,
        argv=("--max-num-seqs", "16"),
        model=ModelRef(repo="Qwen/Qwen3.8-27B"),
    )
    assert build_launch(profile, interpreter="py").argv == (
        *("py", "-m", "vllm.entrypoints.openai.api_server", "--model", "Qwen/Qwen3.8-27B"),
        *("--host", "127.0.0.1", "--port", "30000", "--max-num-seqs", "16"),
    )


def test_the_demo_engine_needs_no_model() -> None:
    argv = build_launch(PRESETS.get("demo-speed"), interpreter="py").argv
    assert argv[:3] == ("py", "-m", "qwen_tui.demo_engine")
    assert "--model-path" not in argv


def test_a_container_publishes_on_loopback_only_and_keeps_values_out_of_the_process_list() -> None:
    profile = replace(
        PRESETS.get("27b-int4-speed"),
        launch=ContainerLaunch("docker", "lmsysorg/sglang:v0.5.23", ("--gpus", "all")),
        env={"HF_TOKEN": "hf_secret"},
        model=ModelRef(path="/models/m"),
    )
    spec = build_launch(profile, interpreter="unused")
    assert spec.argv[:4] == ("docker", "run", "--rm", "--init")
    assert "127.0.0.1:30000:30000" in spec.argv
    assert "/models/m:/models/m:ro" in spec.argv
    assert spec.env == {"HF_TOKEN": "hf_secret"}
    assert not any("hf_secret" in item for item in spec.argv)
    image = spec.argv.index("lmsysorg/sglang:v0.5.23")
    assert spec.argv[image - 2 : image] == ("--entrypoint", "python3")
    assert spec.argv[image + 1 : image + 3] == ("-m", "sglang.launch_server")
    assert spec.argv[spec.argv.index("--host") + 1] == "0.0.0.0"


@pytest.mark.parametrize(
    ("version", "argv", "expected"),
    [
        ("0.5.13", "--mamba-radix-cache-strategy auto", "--mamba-scheduler-strategy auto"),
        ("0.5.14", "--mamba-scheduler-strategy auto", "--mamba-radix-cache-strategy auto"),
        ("0.5.20", "--cuda-graph-max-bs=4 --x", "--cuda-graph-max-bs-decode=4 --x"),
        ("0.5.12", "--cuda-graph-bs-decode 1 2 4", "--cuda-graph-bs 1 2 4"),
        (
            "0.5.20",
            "--disable-piecewise-cuda-graph --x 1",
            "--cuda-graph-backend-prefill disabled --x 1",
        ),
        (
            "0.5.13",
            "--cuda-graph-backend-prefill disabled --x",
            "--disable-piecewise-cuda-graph --x",
        ),
        # The old flag has no way to say this; the rules report it instead of a silent change.
        (
            "0.5.13",
            "--cuda-graph-backend-prefill breakable",
            "--cuda-graph-backend-prefill breakable",
        ),
        (None, "--mamba-scheduler-strategy auto", "--mamba-scheduler-strategy auto"),
    ],
)
def test_flags_are_spelt_for_the_version_found(
    version: str | None, argv: str, expected: str
) -> None:
    assert respell(EngineKind.SGLANG, argv.split(), version) == tuple(expected.split())


def test_spelling_there_and_back_is_the_same() -> None:
    for rename in RENAMES:
        argv = (rename.new, rename.old_value or "3", "--other", "1")
        old = respell(rename.engine, argv, "0.5.13")
        assert rename.old in old
        assert respell(rename.engine, old, "0.5.23") == argv
