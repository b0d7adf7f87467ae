"""The published recipes, as their authors wrote them, against what became known about them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from qwen_tui.cli import main
from qwen_tui_profiles.cmdline import parse_command
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.flags import known_versions
from qwen_tui_profiles.loader import load_profiles
from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.rules import judge, judge_profile, model_facts
from qwen_tui_profiles.versions import satisfies

if TYPE_CHECKING:
    from pathlib import Path

PRESETS = load_profiles(None)

INT4_SPEED = """\
# two tiers, this is the fast one
python -m sglang.launch_server \\
  --model-path /mnt/sda6/download/qwen38-redhat-int4 \\
  --language-only \\
  --context-length 32768 --max-running-requests 2 \\
  --mem-fraction-static 0.92 \\
  --kv-cache-dtype fp8_e4m3 --page-size 1 \\
  --max-mamba-cache-size 16 --mamba-ssm-dtype bfloat16 \\
  --enable-hierarchical-cache --hicache-size 12 \\
  --hicache-write-policy write_through \\
  --speculative-algorithm NEXTN \\
  --speculative-draft-model-path /mnt/sda6/download/qwen38-redhat-int4 \\
  --speculative-eagle-topk 1 \\
  --speculative-num-steps 3 --speculative-num-draft-tokens 4 \\
  --trust-remote-code
"""


def rules_of(text: str, version: str | None = None, **known: object) -> dict[str, Severity]:
    found = judge(parse_command(text), version=version, **known)  # type: ignore[arg-type]
    return {finding.rule: finding.severity for finding in found.findings}


@pytest.mark.parametrize(
    ("version", "expected"),
    [("0.5.13", False), ("0.5.14", True), ("0.5.17", True), ("0.5.18", False), ("0.5.23", False)],
)
def test_the_draft_path_is_an_error_on_exactly_four_releases(
    version: str, *, expected: bool
) -> None:
    found = rules_of(INT4_SPEED, version)
    assert ("draft-path-fivefold" in found) is expected
    if expected:
        assert found["draft-path-fivefold"] is Severity.ERROR


def test_recorded_boots_agree() -> None:
    """Flags of boots recorded on a real card, with the reading that their logs proved."""
    common = (
        "python -m sglang.launch_server --model-path /models/cg27 --load-format dummy "
        "--attention-backend triton --linear-attn-backend triton --enable-metrics "
        "--enable-cache-report --kv-cache-dtype fp8_e4m3 --mem-fraction-static 0.62 "
    )
    wrapped = model_facts(
        {
            "architectures": ["Qwen3_5ForConditionalGeneration"],
            "text_config": {"max_position_embeddings": 262144},
        }
    )
    nextn = (
        "--speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1 "
        "--speculative-num-draft-tokens 4 --max-running-requests 2 --max-mamba-cache-size 16 "
        "--mamba-ssm-dtype bfloat16 --context-length 32768 "
    )
    known = {"model": wrapped, "card": 90, "card_gib": 139.8}
    clean = rules_of(common + nextn, "0.5.17", **known)
    assert Severity.ERROR not in clean.values()
    assert Severity.WARN not in clean.values()
    trapped = rules_of(
        common + nextn + "--speculative-draft-model-path /models/cg27", "0.5.17", **known
    )
    assert trapped["draft-path-fivefold"] is Severity.ERROR
    lazy = judge(
        parse_command(
            common + "--speculative-algorithm EAGLE --speculative-num-steps 5 "
            "--speculative-eagle-topk 1 --speculative-num-draft-tokens 6 --page-size 32 "
            "--mamba-radix-cache-strategy extra_buffer_lazy --max-running-requests 4 "
            "--max-mamba-cache-size 8 --context-length 159776"
        ),
        version="0.5.17",
        **known,  # type: ignore[arg-type]
    )
    titles = {finding.rule: str(finding.title) for finding in lazy.findings}
    # The boot printed: asked 4, got 2, four slots each.
    assert titles["slots-below-requests"] == "4 requests asked, 2 will run: 8 slots, 4 each"
    too_long = rules_of(common + "--context-length 1000000", "0.5.17", **known)
    assert too_long["context-above-model"] is Severity.ERROR
    hicache = rules_of(common + "--enable-hierarchical-cache --hicache-size 2", "0.5.17", **known)
    assert "hicache-no-hybrid" not in hicache
    assert hicache["hicache-hybrid"] is Severity.WARN


def test_the_text_class_counts_three_slots_where_it_is_not_listed() -> None:
    """0.5.17 lists only the wrapped classes; a recorded boot of the text class counted three."""
    text = model_facts({"architectures": ["Qwen3_5ForCausalLM"]})
    command = parse_command(
        "python -m sglang.launch_server --model-path /m --max-running-requests 4 "
        "--max-mamba-cache-size 8"
    )
    titles = {f.rule: str(f.title) for f in judge(command, version="0.5.17", model=text).findings}
    assert titles["slots-below-requests"].endswith("8 slots, 3 each")


def test_the_decode_lock_switch_frees_one_slot_a_request() -> None:
    text = (
        "python -m sglang.launch_server --model-path /m/Qwen3.8-27B --max-running-requests 2 "
        "--max-mamba-cache-size 9 --speculative-algorithm NEXTN"
    )
    assert "slots-below-requests" in rules_of(text, "0.5.17")
    switched = "SGLANG_OPT_MAMBA_SKIP_DECODE_LOCK=1 " + text
    assert "slots-below-requests" not in rules_of(switched, "0.5.17")
    assert "slots-below-requests" in rules_of(switched, "0.5.16")


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("Qwen/Qwen3.8-27B", "qwen3_5"),
        ("/mnt/sda6/download/qwen38-redhat-int4", "qwen3_5"),
        ("nvidia/Qwen3.6-27B-NVFP4", "qwen3_5"),
        ("Qwen/Qwen3.5-4B", "qwen3_5"),
        ("/models/qwen", "qwen3_5"),
        ("Qwen/Qwen3.5-35B-A3B-FP8", "qwen3_5_moe"),
        ("Qwen/Qwen3.5-397B-A17B", "qwen3_5_moe"),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "qwen3_next"),
        ("RadixArk/Qwen3.8-Flash-Next-NVFP4", "flash_next"),
        ("/hf/qwen3.8-flash-next", "flash_next"),
        ("Qwen/Qwen3-8B", "other"),
        ("Qwen/Qwen3-5B", "other"),
        ("Qwen/Qwen3-30B-A3B", "other"),
        ("Qwen/Qwen2.5-72B-Instruct", "other"),
        ("Qwen/Qwen3-VL-8B-Instruct", "other"),
        ("Qwen/QwQ-32B", "other"),
        ("meta-llama/Llama-3.1-8B", "other"),
        ("/home/llama/models/Qwen3.8-27B", "qwen3_5"),
        ("openai-community/gpt2", "other"),
        ("/models/m", None),
        ("Qwen/Qwen-7B", None),
    ],
)
def test_models_are_told_by_their_names(model: str, kind: str | None) -> None:
    command = parse_command(f"python -m sglang.launch_server --model-path {model}")
    assert judge(command).model_kind == kind


def test_a_removed_value_names_the_release_that_removed_it() -> None:
    command = parse_command(
        "python -m sglang.launch_server --model-path /m --cuda-graph-backend-prefill tc_piecewise"
    )
    (finding,) = [f for f in judge(command, version="0.5.23").findings if f.rule == "flag-choice"]
    assert finding.since == "0.5.22"
    assert not [f for f in judge(command, version="0.5.21").findings if f.rule == "flag-choice"]


@pytest.mark.parametrize(
    ("flags", "version", "rule"),
    [
        ("--mamba-scheduler-strategy extra_buffer", "0.5.20", "flag-removed"),
        ("--mamba-scheduler-strategy extra_buffer", "0.5.17", "flag-deprecated"),
        ("--mamba-radix-cache-strategy extra_buffer", "0.5.13", "flag-too-new"),
        ("--cuda-graph-max-bs 4", "0.5.23", "flag-removed"),
        ("--max-runing-requests 4", "0.5.23", "flag-unknown"),
        ("--cuda-graph-max 4", "0.5.23", "flag-ambiguous"),
        ("--kv-cache-dtype fp9", "0.5.23", "flag-choice"),
        ("--kv-cache-dtype fp4_e2m1", "0.5.22", "flag-choice"),
        ("--context-length --page-size 1", "0.5.23", "flag-value-missing"),
        ("--max-mamba-cache-size abc", "0.5.23", "flag-number"),
        ("--max-running-requests 4.0", "0.5.17", "flag-number"),
        ("--mem-fraction-static 90%", "0.5.9", "flag-number"),
        ("\u2013context-length 4096", "0.5.23", "typographic-dash"),
        ("--ple-offload-embedding", "0.5.19", "flag-too-new"),
        ("--page-size 32 --page-size 64", "0.5.23", "flag-twice"),
        ("--enable-metrics true", "0.5.23", "stray-word"),
    ],
)
def test_the_parser_of_each_release(flags: str, version: str, rule: str) -> None:
    found = rules_of(f"python -m sglang.launch_server --model-path /m {flags}", version)
    assert rule in found


@pytest.mark.parametrize(
    "flags",
    [
        "--max-running-requests 4 --mem-fraction-static 0.9 --mem-fraction-static 1e-1",
        '--max-running-requests "$N" --mem-fraction-static "${F}"',
        # Newer releases read units here, so that text is not an error.
        "--context-length 128K",
        "--served-model-name 27b",
    ],
)
def test_values_that_are_numbers_enough(flags: str) -> None:
    found = rules_of(f"python -m sglang.launch_server --model-path /m {flags}", "0.5.23")
    assert "flag-number" not in found


def test_words_that_nobody_has_seen_may_hold_any_flag() -> None:
    """What is missing on the line may be in ``$EXTRA``: nothing is said about its absence."""
    text = "python -m sglang.launch_server --model-path /m/Qwen3.8-27B --mem-fraction-static 0.97"
    assert {"no-mtp-no-workspace", "metrics-off"} <= set(rules_of(text))
    assert not rules_of(text + ' $EXTRA "${ARGS[@]}"')
    seen = rules_of(text + " --trust-remote-code $EXTRA")
    assert list(seen) == ["trust-remote-code"]
    assert not rules_of("vllm serve Qwen/Qwen3.8-27B $EXTRA", "0.27.1")
    assert "open-host-vllm" in rules_of('vllm serve "$MODEL"', "0.27.1")


@pytest.mark.parametrize(
    "text",
    [
        "sglang serve Qwen/Qwen3.8-27B --model-type llm --enable-metrics",
        "python -m sglang.launch_server --model-path /m --page-size 32 --page-size 32",
        "python -m sglang.launch_server --model-path /m --enable-metrics $EXTRA",
        "vllm serve Qwen/Qwen3.8-27B --host 127.0.0.1 -cc.a 1 -cc.b 2",
    ],
)
def test_what_the_parsers_accept_raises_nothing_about_flags(text: str) -> None:
    assert not [rule for rule in rules_of(text) if rule.startswith(("flag-", "stray", "no-model"))]


def test_abbreviations_are_understood() -> None:
    found = rules_of(
        "python -m sglang.launch_server --model-path /m/Qwen3.8-27B --max-run 4 "
        "--max-mamba-cache 8 --mamba-radix extra_buffer_lazy",
        "0.5.23",
    )
    assert found["slots-below-requests"] is Severity.WARN


def test_shipped_presets_are_clean_on_every_release_they_are_for() -> None:
    for profile in PRESETS.profiles.values():
        versions: list[str | None] = [None]
        if profile.build is None and profile.engine is not EngineKind.DEMO:
            versions += [
                v
                for v in known_versions(profile.engine)
                if profile.engine_versions is None or satisfies(v, profile.engine_versions)
            ]
        for version in versions:
            found = judge_profile(profile, version=version)
            loud = [f.rule for f in found.findings if f.severity is not Severity.INFO]
            assert not loud, (profile.name, version, loud)
            for finding in found.ignored:
                # What is overridden says why.
                assert profile.ignore_reasons[finding.rule]


def test_overrides_are_about_rules_that_fire() -> None:
    for profile in PRESETS.profiles.values():
        ignored = {finding.rule for finding in judge_profile(profile).ignored}
        assert set(profile.ignore) == ignored, profile.name


def test_published_recipes_would_not_be_clean() -> None:
    """Each difference that a preset explains is one that matters."""
    profile = PRESETS.get("27b-int4-speed")
    assert profile.published is not None
    text = "python -m sglang.launch_server --model-path /m/Qwen3.8-27B-INT4 " + " ".join(
        profile.published.argv
    )
    assert rules_of(text, "0.5.17")["draft-path-fivefold"] is Severity.ERROR


def test_the_fork_recipe_reads_environment_and_flags(tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    script.write_text(
        """\
export MODEL_PATH="/data/Qwen3.8-Flash-Next-NVFP4"
export FLASHINFER_CUDA_ARCH_LIST=12.0f
export SGLANG_QWEN4_PLE_NVME_PATH="$MODEL_PATH"
export SGLANG_QWEN4_PLE_NVME_BACKEND=mmap
export SGLANG_QWEN4_PLE_NVME_CACHE_MODE=row
export SGLANG_QWEN4_PLE_NVME_CACHE_PAGES=5242880
python -m sglang.launch_server --model-path "$MODEL_PATH" --tp-size 2 \\
  --speculative-algorithm NEXTN --cuda-graph-backend-prefill tc_piecewise
"""
    )
    found = rules_of(script.read_text())
    assert {
        *("ple-row-cache-backend", "ple-row-cache-bytes", "ple-row-cache-pages", "ple-one-gpu"),
        *("ple-needs-the-fork", "prefill-graph-eagle"),
    } <= set(found)


class TestCommand:
    """``qwen-tui lint`` as it is typed."""

    @pytest.fixture(autouse=True)
    def home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("QWEN_TUI_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.delenv("QWEN_TUI_ENGINE_PYTHON", raising=False)

    def test_json_is_one_document_and_an_error_is_exit_1(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code = main(["lint", "--engine", "sglang==0.5.17", "--json", "--", INT4_SPEED])
        document = json.loads(capsys.readouterr().out)
        assert code == 1
        assert next(iter(document)) == "schema"
        assert document["schema"] == "qwen-tui.lint/1"
        assert document["assumed"]["engine"] == "sglang"
        assert document["assumed"]["engine_version"] == "0.5.17"
        first = document["findings"][0]
        assert (first["rule"], first["severity"]) == ("draft-path-fivefold", "error")
        assert (first["since"], first["until"]) == ("0.5.14", "0.5.17")
        assert first["evidence"].startswith("--speculative-draft-model-path")
        assert {"title", "source", "remedy"} <= set(first)

    def test_words_and_one_quoted_text_are_the_same(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        import shlex

        joined = INT4_SPEED.split("\n", 1)[1]
        words = shlex.split(joined.replace("\\\n", " "))
        results = []
        for command in ([joined], words):
            main(["lint", "--engine", "sglang==0.5.17", "--json", "--", *command])
            results.append(json.loads(capsys.readouterr().out)["findings"])
        assert results[0] == results[1]

    def test_warnings_alone_are_exit_0_and_1_when_strict(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        command = ["--", "python", "-m", "sglang.launch_server", "--model-path", "/m/Qwen3.8-27B",
                   "--trust-remote-code"]  # fmt: skip
        assert main(["lint", "--engine", "sglang==0.5.23", *command]) == 0
        assert main(["lint", "--strict", "--engine", "sglang==0.5.23", *command]) == 1
        assert "WARN" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["lint"], "no command"),
            (["lint", "--", "echo", "hello"], "echo hello"),
            (["lint", "--", "python -m sglang.launch_server --x 'open"], "never closed"),
            (["lint", "--engine", "llama.cpp", "--", "x"], "not an engine"),
            (["lint", "--engine", "sglang==new", "--", "x"], "not a version"),
            (["lint", "--engine", "vllm", "--", "sglang serve --model-path x"], "not vllm"),
            (["lint", "--card", "voodoo2", "--", "sglang serve --model-path x"], "voodoo2"),
            (["lint", "--file", "/nowhere/x.sh"], "/nowhere/x.sh"),
            (["lint", "--profile", "27b-int4-sped"], "27b-int4-speed"),
            (["lint", "--model", "/nowhere", "--", "sglang serve --model-path x"], "config.json"),
        ],
    )
    def test_bad_input_is_one_sentence_and_exit_2(
        self, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(arguments) == 2
        captured = capsys.readouterr()
        assert says in captured.err
        assert "Traceback" not in captured.err
        assert captured.out == ""

    def test_a_profile_shows_what_it_overrides(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["lint", "--profile", "27b-int4-context", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert {f["rule"] for f in document["ignored"]} == {
            "no-mtp-head-room",
            "slots-below-requests",
        }
        main(["lint", "--profile", "27b-int4-context"])
        assert "overridden: Measured by its author" in " ".join(capsys.readouterr().out.split())

    def test_the_checkpoint_that_is_named_is_looked_at(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        folder = tmp_path / "qwen-by-name-only"
        folder.mkdir()
        command = f"sglang serve --model-path {folder} --mem-fraction-static 0.97"
        assert main(["lint", "--json", "--", command]) == 1
        told = json.loads(capsys.readouterr().out)["assumed"]
        assert (told["model"], told["model_stated"]) == ("qwen3_5", False)
        (folder / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
        assert main(["lint", "--json", "--", command]) == 0
        told = json.loads(capsys.readouterr().out)["assumed"]
        assert (told["model"], told["model_stated"]) == ("other", True)
        (folder / "config.json").write_text("{broken")
        assert main(["lint", "--json", "--", command]) == 1

    def test_the_engine_found_here_is_judged_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        site = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
        info = site / "sglang-0.5.17.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.17\n")
        python = tmp_path / "venv" / "bin" / "python"
        python.parent.mkdir()
        python.write_text("#!/bin/sh\n")
        python.chmod(0o755)
        (tmp_path / "venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
        monkeypatch.setenv("QWEN_TUI_ENGINE_PYTHON", str(python))
        assert main(["lint", "--json", "--", INT4_SPEED]) == 1
        assert json.loads(capsys.readouterr().out)["assumed"]["engine_version"] == "0.5.17"
        # What the command says of itself comes first: the image's release.
        image = "docker run lmsysorg/sglang:v0.5.18 sglang serve --model-path /m/Qwen3.8-27B"
        main(["lint", "--json", "--", image])
        assert json.loads(capsys.readouterr().out)["assumed"]["engine_version"] == "0.5.18"

    def test_secrets_stay_out(self, capsys: pytest.CaptureFixture[str]) -> None:
        for form in (["--json"], []):
            command = (
                "HF_TOKEN=hf_abcdefghijkl sglang serve --model-path x --api-key sk-verysecret123 "
                "--host 0.0.0.0 --unknown-token tok-verysecret456"
            )
            main(["lint", *form, "--", command])
            out = capsys.readouterr()
            for secret in ("verysecret123", "abcdefghijkl", "verysecret456"):
                assert secret not in out.out + out.err

    def test_every_rule_is_listed(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["lint", "--list-rules"]) == 0
        assert "draft-path-fivefold" in capsys.readouterr().out
