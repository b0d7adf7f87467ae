from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.secret_args import hide_secrets
from qwen_tui_profiles.profile import EngineKind

if TYPE_CHECKING:
    from pathlib import Path

SGLANG = (
    "py",
    "-m",
    "sglang.launch_server",
    "--api-key",
    "k1",
    "--port",
    "1",
    "--admin-api-key=k2",
)


def test_sglang_reads_its_keys_from_a_private_file(tmp_path: Path) -> None:
    hidden = hide_secrets(EngineKind.SGLANG, "0.5.23", SGLANG, {}, tmp_path, contained=False)
    path = tmp_path / "secrets.yaml"
    assert hidden.argv == (*SGLANG[:3], "--port", "1", "--config", str(path))
    assert json.loads(path.read_text()) == {"api-key": "k1", "admin-api-key": "k2"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("engine", "version", "argv"),
    [
        (EngineKind.SGLANG, "0.5.3", SGLANG),  # knows no --config
        (EngineKind.SGLANG, "0.5.23", (*SGLANG, "--config", "mine.yaml")),  # takes one only
        (
            EngineKind.SGLANG,
            "0.5.23",
            ("py", "-m", "sglang.launch_server", "--max-new-tokens", "1"),
        ),
        (EngineKind.DEMO, "0.5.23", SGLANG),
    ],
)
def test_what_cannot_be_hidden_stays(
    tmp_path: Path, engine: EngineKind, version: str, argv: tuple[str, ...]
) -> None:
    hidden = hide_secrets(engine, version, argv, {"A": "b"}, tmp_path, contained=False)
    assert hidden == (argv, {"A": "b"})
    assert list(tmp_path.iterdir()) == []


def test_vllm_takes_its_key_from_the_environment(tmp_path: Path) -> None:
    argv = ("py", "-m", "vllm.entrypoints.openai.api_server", "--api-key", "k1")
    hidden = hide_secrets(EngineKind.VLLM, None, argv, {}, tmp_path, contained=False)
    assert hidden == (argv[:3], {"VLLM_API_KEY": "k1"})


def test_containers(tmp_path: Path) -> None:
    run = ("docker", "run", "--rm", "image", "--api-key", "k1")
    vllm = hide_secrets(EngineKind.VLLM, None, run, {}, tmp_path, contained=True)
    assert vllm.argv == ("docker", "run", "--env", "VLLM_API_KEY", "--rm", "image")
    sglang = hide_secrets(EngineKind.SGLANG, None, run, {}, tmp_path, contained=True)
    mount = f"{tmp_path / 'secrets.yaml'}:/run/qwen-tui-secrets.yaml:ro"
    assert sglang.argv[2:4] == ("--volume", mount)
    assert sglang.argv[-2:] == ("--config", "/run/qwen-tui-secrets.yaml")
    assert "k1" not in " ".join((*vllm.argv, *sglang.argv))
