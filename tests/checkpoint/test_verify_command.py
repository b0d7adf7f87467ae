"""The command: exit codes, JSON, manifests, repositories at a fake hub, a download's verdict."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from qwen_tui.cli import main
from qwen_tui.services.download.aftermath import judge
from qwen_tui.services.verify_remote import open_repo
from support.checkpoints import healthy
from support.fake_hub import COMMIT, FakeHub, Fault, fake_hub

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QWEN_TUI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for name in ("HF_ENDPOINT", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)


def _json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_ok(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = healthy("mo-nvfp4").write(tmp_path / "x")
    assert main(["verify", str(folder), "--json"]) == 0
    document = _json(capsys)
    assert next(iter(document)) == "schema"
    assert document["schema"] == "qwen-tui.verify/1"
    assert document["verdict"] == "ok"
    assert document["path"] == str(folder)
    assert document["format"] == "safetensors"
    assert document["assumed"]["engine"] == "sglang"
    assert document["assumed"]["speculative"] is False
    assert document["findings"] == []
    assert set(document["judged"]) == {"files", "index", "model", "quantization", "content"}
    assert document["seconds"] > 0


def test_the_engine_and_the_launch_change_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = healthy("ct-mixed")
    del checkpoint.files["model_mtp.safetensors"]
    folder = str(checkpoint.write(tmp_path / "x"))
    assert main(["verify", folder, "--json"]) == 0
    assert _json(capsys)["verdict"] == "warn"
    assert main(["verify", folder, "--strict"]) == 1
    capsys.readouterr()
    assert main(["verify", folder, "--speculative", "--json"]) == 1
    assert [f["rule"] for f in _json(capsys)["findings"]] == ["M09"]
    assert main(["verify", folder, "--engine", "sglang==0.5.17", "--json"]) == 1
    document = _json(capsys)
    assert document["findings"][0]["rule"] == "Q12"
    assert document["assumed"]["engine_version"] == "0.5.17"


def test_findings_have_every_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = healthy("ct-int4", layers=8)
    checkpoint.quant["ignore"] = ["lm_head", "re:^mtp.*"]
    folder = checkpoint.write(tmp_path / "x")
    assert main(["verify", str(folder), "--json"]) == 1
    finding = _json(capsys)["findings"][0]
    assert finding["rule"] == "Q03"
    # Four delta-net layers, one finding.
    assert finding["count"] == 8
    assert len(finding["tensors"]) == 3
    for name in ("title", "detail", "evidence", "consequence", "remedy", "severity"):
        assert finding[name]
    assert "garbage" in finding["consequence"]
    assert finding["files"] == ["model.safetensors"]
    assert main(["verify", str(folder)]) == 1
    text = capsys.readouterr().out
    assert "layers.0,2,4,6.linear_attn.in_proj_b (4)" in text
    assert "do not launch" in text


def test_unknown_is_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = healthy("bf16", vision=False, mtp=False, arch="LlamaForCausalLM")
    assert main(["verify", str(checkpoint.write(tmp_path / "x")), "--json"]) == 2
    document = _json(capsys)
    assert (document["verdict"], document["judged"]["model"]) == ("unknown", "none")


@pytest.mark.parametrize(
    ("argv", "say"),
    [
        (["verify", "/no/such/folder"], "no folder"),
        (["verify", "{file}"], "is a file"),
        (["verify", "{gguf}"], "llama.cpp"),
        (["verify", "{tmp}", "--engine", "ollama"], "not an engine"),
        (["verify", "{tmp}", "--engine", "sglang==x"], "not a version"),
        (["verify", "{tmp}", "--manifest", "check"], "not a manifest"),
        (["verify", "org/model", "--hash"], "this machine"),
    ],
)
def test_bad_input(
    argv: list[str], say: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "x.gguf").write_bytes(b"GGUF\3\0\0\0")
    healthy("bf16").write(tmp_path / "ck")
    places = {"tmp": str(tmp_path / "ck"), "file": str(tmp_path / "file"),
              "gguf": str(tmp_path / "x.gguf")}  # fmt: skip
    assert main([word.format(**places) for word in argv]) == 2
    captured = capsys.readouterr()
    assert say in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("files", "form", "say"),
    [
        ({}, None, "empty"),
        ({"model-Q4_K_M.gguf": "GGUF"}, "gguf", "llama.cpp"),
        ({"pytorch_model.bin": "x"}, "bin", "pickled"),
        ({"model.safetensors.1234abcd.incomplete": "x"}, None, "unfinished"),
    ],
)
def test_a_folder_without_weights(
    files: dict[str, str], form: str | None, say: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / "x").mkdir()
    for name, text in files.items():
        (tmp_path / "x" / name).write_text(text)
    assert main(["verify", str(tmp_path / "x"), "--json"]) == 1
    document = _json(capsys)
    assert document["format"] == form
    finding = document["findings"][0]
    assert finding["rule"] == "F01"
    assert say in finding["detail"]


def test_manifest_write_and_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = healthy("bf16").write(tmp_path / "x")
    assert main(["verify", str(folder), "--manifest", "write"]) == 0
    manifest = json.loads((folder / "checksums.json").read_text())
    assert set(manifest["files"]["config.json"]) == {"sha256", "size"}
    capsys.readouterr()
    assert main(["verify", str(folder), "--manifest", "check", "--json"]) == 0
    assert _json(capsys)["judged"]["content"] == "full"
    (folder / "generation_config.json").write_text('{"changed": 1}')
    assert main(["verify", str(folder), "--manifest", "check", "--json"]) == 1
    assert _json(capsys)["findings"][0]["rule"] == "H02"


def _serve(hub: FakeHub, folder: Path) -> None:
    hub.files = {path.name: path for path in sorted(folder.iterdir())}


def test_a_repository_is_judged_from_its_headers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = healthy("ct-int4", layers=16)
    checkpoint.quant["ignore"] = ["lm_head", "re:^mtp.*"]
    with fake_hub(token="hf_secretsecret") as hub:
        _serve(hub, checkpoint.write(tmp_path / "x"))
        monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
        monkeypatch.setenv("HF_TOKEN", "hf_secretsecret")
        assert main(["verify", "org/model", "--json"]) == 1
        document = _json(capsys)
        # The token goes to the endpoint, not to the storage behind it.
        assert {s.token for s in hub.seen if s.host == "storage"} == {None}
    assert document["findings"][0]["rule"] == "Q03"
    assert document["path"] == f"org/model@{COMMIT[:12]}"
    assert document["judged"]["quantization"] == "partial"
    assert "secretsecret" not in json.dumps(document)


def test_only_headers_are_fetched(tmp_path: Path) -> None:
    with fake_hub() as hub:
        _serve(hub, healthy("bf16", layers=16).write(tmp_path / "x"))
        from qwen_tui_diagnostics.checkpoint import Assumed, verify_source

        source = open_repo("org/model", endpoint=hub.endpoint)
        try:
            report = verify_source(source, Assumed("sglang", "0.5.23", speculative=True))
        finally:
            source.close()
        whole = sum(hub.size(name) for name in hub.files)
    assert not report.findings, [(f.rule, f.evidence) for f in report.findings]
    assert report.verdict.value == "ok"
    assert source.received_bytes < whole / 5


@pytest.mark.parametrize(
    ("repo", "settings", "fault", "say"),
    [
        ("org/other", {}, None, "no such repository"),
        ("org/model", {"gated": True}, None, ""),
        ("org/model", {}, Fault(status=500), ""),
        ("org/model", {"token": "hf_secretsecret"}, None, ""),
    ],
)
def test_a_repository_that_refuses(
    repo: str, settings: dict[str, Any], fault: Fault | None, say: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with fake_hub(**settings) as hub:
        _serve(hub, healthy("bf16").write(tmp_path / "x"))
        if fault is not None:
            hub.fail("api", fault, fault, fault)
        code = main(["verify", repo, "--endpoint", hub.endpoint])
    captured = capsys.readouterr()
    # Nothing could be judged.
    assert code == 2
    assert captured.out == ""
    assert captured.err.startswith("qwen-tui: ")
    assert say in captured.err
    assert "Traceback" not in captured.err


def test_a_download_ends_with_the_verdict(tmp_path: Path) -> None:
    document = judge(healthy("bf16").write(tmp_path / "x"))
    assert document is not None
    assert document["verdict"] == "ok"


def test_the_command_is_light(tmp_path: Path) -> None:
    import subprocess

    folder = healthy("bf16").write(tmp_path / "x")
    code = (
        "import sys\nfrom qwen_tui.cli import main\n"
        f"assert main(['verify', {str(folder)!r}, '--json']) == 0\n"
        "print([m for m in ('textual', 'pynvml', 'huggingface_hub', 'httpx2') "
        "if m in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stderr.strip() == "[]"
