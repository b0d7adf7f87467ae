"""``qwen-tui profiles``: list, show, diff, new, edit, import as a person types them."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import pytest

from qwen_tui.cli import main
from qwen_tui_profiles.loader import load_profiles

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's profile folder of an empty machine."""
    monkeypatch.setenv("QWEN_TUI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "no-bin"))
    monkeypatch.delenv("QWEN_TUI_ENGINE_PYTHON", raising=False)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    return tmp_path / "home" / "config" / "profiles"


def profiles(*arguments: str) -> int:
    return main(["profiles", *arguments])


def test_list_and_show(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert profiles("list") == 0
    assert "27b-int4-speed" in capsys.readouterr().out
    assert profiles("list", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "qwen-tui.profiles/1"
    names = [p["name"] for p in document["profiles"]]
    # Pairs stand together, speed first; the simulation last.
    assert names.index("27b-int4-speed") + 1 == names.index("27b-int4-context")
    assert names[-2:] == ["demo-speed", "demo-context"]
    for name in names:
        assert profiles("show", name, "--json") == 0
        shown = json.loads(capsys.readouterr().out)
        assert shown["schema"] == "qwen-tui.profile/1"
        assert profiles("show", name) == 0
        text = capsys.readouterr().out
        for rule in shown["ignore"]:
            assert rule["rule"] in text
        for flag in shown["published"]["differences"] if shown["published"] else ():
            assert flag in text


def test_show_argv_is_a_command_that_can_be_pasted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert profiles("show", "flash-next-sm120", "--argv") == 0
    words = shlex.split(capsys.readouterr().out.replace("\\\n", " "))
    assert "SGLANG_QWEN4_PLE_NVME_BACKEND=io_uring" in words
    path = next(w for w in words if w.startswith("SGLANG_QWEN4_PLE_NVME_PATH="))
    assert path.partition("=")[2] == words[words.index("--model-path") + 1]


def test_a_broken_file_is_told_and_blocks_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.mkdir(parents=True)
    (folder / "bad.toml").write_text("engine = \n")
    assert profiles("list") == 0
    captured = capsys.readouterr()
    assert "bad.toml, line 1, column 10" in captured.err
    assert "demo-speed" in captured.out
    assert profiles("show", "bad") == 2


def test_diff(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert profiles("diff", "27b-int4-speed", "27b-int4-context") == 0
    assert "four times the context" in " ".join(capsys.readouterr().out.split())
    assert profiles("diff", "27b-int4-speed", "27b-int4-context", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "qwen-tui.profile-diff/1"
    assert "--speculative-algorithm" in {change["key"] for change in document["changes"]}


def test_new_then_edit_keeps_comments(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert profiles("new", "mine", "--from", "27b-nvfp4-speed", "--set", "model.path=/data/x") == 0
    path = folder / "mine.toml"
    text = path.read_text() + "\n# my own remark\n[args]\nmem-fraction-static = 0.95 # tried\n"
    path.write_text(text)
    assert profiles("edit", "mine", "--set", "args.page-size=64", "--set", "port=31000") == 0
    after = path.read_text()
    for kept in ("# my own remark", "# tried", "Made from 27b-nvfp4-speed"):
        assert kept in after
    profile = load_profiles(folder).get("mine")
    assert profile.port == 31000
    assert profile.model.path == "/data/x"
    argv = " ".join(profile.argv)
    assert "--page-size 64" in argv
    assert "--mem-fraction-static 0.95" in argv
    assert profiles("edit", "mine", "--unset", "args.mem-fraction-static") == 0
    assert "--mem-fraction-static 0.97" in " ".join(load_profiles(folder).get("mine").argv)
    assert path.stat().st_mode & 0o777 == 0o600


def test_editing_a_preset_makes_an_override(folder: Path) -> None:
    assert profiles("edit", "demo-speed", "--set", "port=31999") == 0
    assert load_profiles(folder).get("demo-speed").port == 31999
    assert load_profiles(None).get("demo-speed").port == 30000


def test_a_change_that_breaks_the_profile_is_not_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profiles("new", "mine")
    before = (folder / "mine.toml").read_text()
    assert profiles("edit", "mine", "--set", "port=99999") == 2
    assert "Nothing was written" in capsys.readouterr().err
    assert (folder / "mine.toml").read_text() == before
    assert profiles("new", "other", "--set", "engine=llama") == 2
    assert not (folder / "other.toml").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("new", "demo-speed"), "already"),
        (("new", "Bad Name"), "not a profile name"),
        (("new", "x", "--from", "nothing"), "no profile called"),
        (("new", "x", "--set", "port"), "KEY=VALUE"),
        (("new", "x", "--set", "published.source=y"), "cannot be set"),
        (("edit", "nothing", "--set", "port=1"), "no profile called"),
        (("edit", "demo-speed"), "no terminal"),
        (("diff", "demo-speed", "nothing"), "no profile called"),
        (("import",), "nothing to import"),
        (("import", "/nowhere"), "/nowhere"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(
    folder: Path, arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert profiles(*arguments) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert "Traceback" not in captured.err
    assert not folder.exists() or not list(folder.iterdir())


SCRIPT = """\
export CUDA_VISIBLE_DEVICES=0
export HF_TOKEN=hf_secretsecret
exec /opt/sg/bin/python -m sglang.launch_server --model-path /data/Qwen3.8-27B \\
  --served-model-name q --host 127.0.0.1 --port 31001 --api-key sk-secretsecret \\
  --mem-fraction-static 0.90 --context-length 131072 --cuda-graph-bs-decode 1 2 4 \\
  --json-model-override-args '{"a": 1}' --enable-metrics --served-model-name "$NAME"
"""


def test_import_a_script(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "Serve It.sh"
    file.write_text(SCRIPT)
    assert profiles("import", str(file)) == 0
    captured = capsys.readouterr()
    assert "--api-key was left out" in captured.err
    assert "$NAME is not known here" in captured.err
    text = (folder / "serve-it.toml").read_text()
    assert "secretsecret" not in text + captured.out + captured.err
    profile = load_profiles(folder).get("serve-it")
    assert profile.mode.value == "context"
    assert (profile.host, profile.port) == ("127.0.0.1", 31001)
    assert profile.model.path == "/data/Qwen3.8-27B"
    assert profile.env == {"CUDA_VISIBLE_DEVICES": "0"}
    assert profile.argv == (
        *("--mem-fraction-static", "0.90", "--context-length", "131072"),
        *("--cuda-graph-bs-decode", "1", "2", "4", "--json-model-override-args", '{"a": 1}'),
        "--enable-metrics",
    )


def test_import_a_container_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = (
        "docker run -d --rm --gpus all -p 127.0.0.1:8100:30000 -v /m:/models -e A=b "
        "lmsysorg/sglang:v0.5.20 python3 -m sglang.launch_server --model-path /models/q "
        "--host 0.0.0.0 --port 30000 --speculative-algorithm NEXTN"
    )
    assert profiles("import", "--name", "boxed", "--", command) == 0
    profile = load_profiles(folder).get("boxed")
    assert (profile.host, profile.port) == ("127.0.0.1", 8100)
    assert profile.mode.value == "speed"
    capsys.readouterr()
    assert profiles("show", "boxed", "--argv") == 0
    words = shlex.split(capsys.readouterr().out.replace("\\\n", " "))
    assert "127.0.0.1:8100:8100" in words
    assert words[words.index("--port") + 1] == "8100"
    assert "--volume=/m:/models" in words
    assert "-d" not in words


def test_import_can_only_print(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert profiles("import", "--print", "--", "vllm serve Qwen/Qwen3.8-27B -tp 2 -O3") == 0
    out = capsys.readouterr().out
    assert 'repo = "Qwen/Qwen3.8-27B"' in out
    assert "tensor-parallel-size = 2" in out
    assert not folder.exists()
