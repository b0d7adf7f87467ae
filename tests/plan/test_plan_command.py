"""``qwen-tui plan`` as a user types it: documents, text, exit codes, and mistakes."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from plan.boots import BOOTS, DATA
from qwen_tui.cli import main

if TYPE_CHECKING:
    from pathlib import Path

_BOOT = next(b for b in BOOTS if b.name == "cg27-lazy-5-1-6")


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QWEN_TUI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("QWEN_TUI_ENGINE_PYTHON", raising=False)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)


def _words(*more: str) -> list[str]:
    return [
        "plan",
        "--engine",
        "sglang==0.5.17",
        "--model",
        str(DATA / f"{_BOOT.model}.json"),
        "--free-gib",
        str(_BOOT.free_gib),
        *more,
        "--",
        *_BOOT.args.split(),
    ]


def _document(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    main(words)
    text = capsys.readouterr().out
    document: dict[str, object] = json.loads(text)
    assert text.startswith('{\n  "schema"')
    return document


def test_document_of_a_recorded_boot(capsys: pytest.CaptureFixture[str]) -> None:
    document = _document(_words("--json"), capsys)
    assert document["schema"] == "qwen-tui.plan/1"
    assert document["fits"] is True
    tokens = document["kv_tokens"]
    assert isinstance(tokens, dict)
    assert tokens["low"] <= _BOOT.tokens <= tokens["high"]
    assert document["max_running_requests"] == {
        "asked": 4,
        "predicted": 2,
        "limited_by": "mamba state slots",
    }
    mamba = document["mamba"]
    assert isinstance(mamba, dict)
    assert (mamba["slots"], mamba["slots_per_request"]) == (8, 4)
    # The log: conv 0.02 + ssm 1.27, intermediate 2.53 + window 0.02.
    assert mamba["main_gib"] == pytest.approx(1.29, abs=0.01)
    assert mamba["intermediate_gib"] == pytest.approx(2.55, abs=0.01)
    assert document["context"] == {"declared": 159_776, "usable": 159_770}
    clamps = document["clamps"]
    assert isinstance(clamps, list)
    assert [(c["arg"], c["asked"], c["got"]) for c in clamps] == [("--max-running-requests", 4, 2)]
    assert set(clamps[0]) == {"arg", "asked", "got", "by", "why", "remedy", "evidence"}
    budget = document["budget"]
    assert isinstance(budget, list)
    assert all({"part", "gib", "basis"} <= set(line) for line in budget)
    assumed = document["assumed"]
    assert isinstance(assumed, dict)
    assert (assumed["engine"], assumed["engine_version"]) == ("sglang", "0.5.17")


def test_profile_comes_before_or_behind_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    model = str(DATA / "qwen38-27b.json")
    free = ["--free-gib", "29.9", "--weights-gib", "17.67", "--draft-gib", "0.79", "--json"]
    documents = [
        _document(words, capsys)
        for words in (
            ["plan", "27b-int4-speed", "--model", model, *free],
            ["plan", "--model", model, *free, "27b-int4-speed"],
            ["plan", "--model", model, *free, "--profile", "27b-int4-speed"],
        )
    ]
    assert documents[0] == documents[1] == documents[2]
    assert documents[0]["fits"] is True
    # What stands behind -- wins over the profile.
    longer = _document(
        ["plan", "27b-int4-speed", "--model", model, *free, "--", "--max-total-tokens", "4096"],
        capsys,
    )
    tokens = longer["kv_tokens"]
    assert isinstance(tokens, dict)
    assert tokens["value"] == 4_096


def test_pasted_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = _words("--json")
    cut = words.index("--") + 1
    launch = "CUDA_VISIBLE_DEVICES=0 python3 -m sglang.launch_server --model-path /models/x"
    pasted = [
        *words[:cut],
        *launch.split(),
        *words[cut:],
    ]
    assert _document(pasted, capsys)["kv_tokens"] == _document(words, capsys)["kv_tokens"]


def test_text_says_asked_and_got(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(_words()) == 0
    text = capsys.readouterr().out
    assert "Fits (sglang 0.5.17)." in text
    assert "4 → 2" in text
    assert "8 state slots, 4 a request" in text
    assert "GiB" in text


def test_wish_ends_in_a_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(_words("--want-requests", "4")) == 0
    text = capsys.readouterr().out
    assert "Wanted: requests at once: 4" in text
    assert "--max-mamba-cache-size 17" in text


def test_exit_codes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = _words("--json")
    small = [w if w != "0.62" else "0.30" for w in words]
    assert main(small) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["fits"] is False
    assert document["kv_tokens"]["value"] is None
    assert document["failure"]["class"] == "mamba_pool_too_small" or document["failure"]["summary"]
    unknown = tmp_path / "config.json"
    unknown.write_text('{"architectures": ["FancyForCausalLM"]}')
    assert main(["plan", "--model", str(unknown), "--free-gib", "30", "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["fits"] is None
    assert document["findings"][0]["rule"] == "plan-architecture-unknown"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plan"], "Nothing to plan"),
        (["plan", "--model", "/nowhere"], "does not exist"),
        (["plan", "--free-gib", "30", "--", "--page-size", "1"], "No checkpoint"),
        (["plan", "no-such-profile"], "no-such-profile"),
        (["plan", "a", "--profile", "b"], "Two profiles"),
        (["plan", "--engine", "llama.cpp", "--", "--page-size", "1"], "llama.cpp"),
        (["plan", "--engine", "sglang==five", "--", "--page-size", "1"], "version"),
        (["plan", "27b-int4-speed"], "--free-gib"),
        (["plan", "27b-int4-speed", "--free-gib", "30", "--weights-gib", "-1"], "--weights-gib"),
    ],
)
def test_mistakes_are_named(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert said in streams.err
    assert "→" in streams.err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--free-gib", "-3"], "--free-gib"),
        (["--want-context", "0"], "--want-context"),
    ],
)
def test_absurd_numbers_are_named(
    more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(_words(*more)) == 2
    assert said in capsys.readouterr().err


def test_unreadable_model_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text("{")
    assert main(["plan", "--model", str(tmp_path), "--free-gib", "30"]) == 2
    assert "config.json" in capsys.readouterr().err
    if os.geteuid() != 0:
        (tmp_path / "config.json").chmod(0)
        assert main(["plan", "--model", str(tmp_path), "--free-gib", "30"]) == 2
