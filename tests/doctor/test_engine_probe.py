"""Finding engines and reading their build from small fake environments; nothing is imported."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from qwen_tui_diagnostics.checks.engine_packages import arch_usable, requirement_of
from qwen_tui_diagnostics.context import Context, Target
from qwen_tui_diagnostics.facts import Gathered
from qwen_tui_diagnostics.probes import ask_engine, engine, model_folder, torch_probe
from qwen_tui_diagnostics.probes.ask_engine import PROBE_FLAG, complaint
from qwen_tui_diagnostics.probes.dist_info import canonical, environment_of, read_distributions
from qwen_tui_diagnostics.probes.engine_build import check_flags, torch_facts

SERVER_ARGS = """
class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--context-length", type=int)
        parser.add_argument("--tp-size", "--tensor-parallel-size", type=int)
        parser.add_argument("--kv-cache-dtype", choices=["auto", "fp8_e4m3"])
        parser.add_argument("--cuda-graph-max-bs-decode", type=int)
        parser.add_argument("--cuda-graph-max-bs-prefill", type=int)
        parser.add_argument("--enable-metrics", action="store_true")
raise SystemExit("this file must never be executed")
"""


def distribution(site: Path, name: str, version: str, *requires: str, **extra: str) -> None:
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {line}" for line in requires]
    (folder / "METADATA").write_text("\n".join(lines) + "\n\nText: not a header\n")
    for file, text in extra.items():
        (folder / file.replace("_json", ".json")).write_text(text)


def venv(root: Path, python: str = "3.12", **settings: str) -> Path:
    site = root / f"lib/python{python}/site-packages"
    site.mkdir(parents=True)
    (root / "bin").mkdir()
    interpreter = root / "bin/python"
    interpreter.write_text("#!/bin/sh\necho this interpreter must not be started >&2\nexit 9\n")
    interpreter.chmod(0o755)
    values = {"home": "/usr/bin", "include-system-site-packages": "false"} | settings
    (root / "pyvenv.cfg").write_text("".join(f"{k} = {v}\n" for k, v in values.items()))
    return site


def sglang(root: Path, version: str = "0.5.23", **extra: str) -> Path:
    site = venv(root)
    distribution(
        site, "sglang", version, "torch==2.14.1", "flashinfer_python[cu13]==0.7.2",
        'checkpoint-engine==0.1.2; extra == "checkpoint-engine"', **extra,
    )  # fmt: skip
    distribution(site, "torch", "2.14.1")
    distribution(site, "flashinfer-python", "0.7.2")
    (site / "torch").mkdir()
    (site / "torch/version.py").write_text(
        "__version__ = '2.14.1+cu130'\ndebug = False\ncuda: Optional[str] = '13.0'\nhip = None\n"
    )
    (site / "sglang/srt/arg_groups").mkdir(parents=True)
    (site / "sglang/srt/models").mkdir()
    (site / "sglang/srt/server_args.py").write_text(SERVER_ARGS)
    (site / "sglang/srt/models/qwen3_5.py").write_text(
        "class Qwen3_5ForConditionalGeneration(Base):\n    pass\n"
    )
    (site / "transformers/models/qwen3_5").mkdir(parents=True)
    return site


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    config = {
        "model_type": "qwen3_5", "architectures": ["Qwen3_5ForConditionalGeneration"],
        "text_config": {"model_type": "qwen3_5_text", "max_position_embeddings": 262144},
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def collect(tmp_path: Path, target: Target, **changes: Any) -> Gathered:
    found = Gathered()
    values: dict[str, Any] = {
        "env": {"PATH": "/nonexistent"}, "home": tmp_path / "home", "root": tmp_path / "root",
        "python": "/nonexistent/python",
    }  # fmt: skip
    engine.collect(Context(target=target, **(values | changes)), found)
    json.dumps(found.values)
    return found


def test_a_virtual_environment_is_read_and_never_started(tmp_path: Path, model: Path) -> None:
    sglang(tmp_path / "venv")
    target = Target(
        profile="p", engine="sglang", interpreter=str(tmp_path / "venv"), model_path=str(model),
        argv=("--context-length", "32768", "--kv-cache-dtype", "fp9", "--bogus", "--enable-metr",
              "--cuda-graph-max", "4"),
    )  # fmt: skip
    (install,) = collect(tmp_path, target).values["engine"]["installs"]
    assert install["interpreter"] == str(tmp_path / "venv/bin/python")
    assert (install["engine"], install["version"], install["python"]) == (
        "sglang", "0.5.23", [3, 12],
    )  # fmt: skip
    assert install["torch"] == {"version": "2.14.1+cu130", "cuda": [13, 0]}
    assert install["model"]["in_transformers"] is True
    assert install["model"]["in_engine"] is True
    flags = install["flags"]
    assert flags["declared"] == 6
    assert [row["flag"] for row in flags["unknown"]] == ["--bogus"]
    # An unambiguous beginning is accepted, as argparse does; an ambiguous one is not.
    assert flags["bad_values"][0]["value"] == "fp9"
    assert [row["flag"] for row in flags["ambiguous"]] == ["--cuda-graph-max"]
    assert install["requires"] == ["torch==2.14.1", "flashinfer_python[cu13]==0.7.2"]
    assert install["user_site"] is False


def test_a_fork_is_told_by_its_commit(tmp_path: Path) -> None:
    direct = {
        "url": "https://user:secret@github.com/x/y.git",
        "vcs_info": {"vcs": "git", "commit_id": "7df4aea02b"},
    }
    sglang(tmp_path / "venv", direct_url_json=json.dumps(direct))
    target = Target(engine="sglang", interpreter=str(tmp_path / "venv/bin/python"))
    found = collect(tmp_path, target)
    (install,) = found.values["engine"]["installs"]
    assert install["commit"] == "7df4aea02b"
    assert "secret" not in json.dumps(found.values)


def test_the_order_of_places_and_the_version_that_fits(tmp_path: Path) -> None:
    sglang(tmp_path / "home/old-venv", "0.5.9")
    sglang(tmp_path / "home/venvs/new", "0.5.23")
    venv(tmp_path / "home/venvs/empty")
    target = Target(profile="p", engine="sglang", engine_versions=">=0.5.20")
    installs = collect(tmp_path, target).values["engine"]["installs"]
    assert [item["version"] for item in installs] == ["0.5.23", "0.5.9"]
    settings = ((str(tmp_path / "home/old-venv"), "config.toml"),)
    installs = collect(tmp_path, target, configured=settings).values["engine"]["installs"]
    assert installs[0]["version"] == "0.5.9"  # what is configured is meant


def test_a_named_interpreter_that_is_not_there(tmp_path: Path) -> None:
    target = Target(engine="sglang", interpreter=str(tmp_path / "gone/bin/python"))
    values = collect(tmp_path, target).values["engine"]
    assert values["named_missing"] == str(tmp_path / "gone/bin/python")
    assert values["installs"] == []


def test_container_and_demo_have_no_engine_here(tmp_path: Path) -> None:
    found = collect(tmp_path, Target(engine="sglang", runtime="docker", image="x"))
    assert found.absent["engine"].reason.value == "not-applicable"
    assert (
        collect(tmp_path, Target(engine="demo")).absent["engine"].reason.value == "not-applicable"
    )


def test_the_command_on_path_leads_to_its_interpreter(tmp_path: Path) -> None:
    sglang(tmp_path / "elsewhere/env")
    script = tmp_path / "bin/sglang"
    script.parent.mkdir()
    script.write_text(f"#!{tmp_path}/elsewhere/env/bin/python\n")
    script.chmod(0o755)
    found = collect(tmp_path, Target(engine="sglang"), env={"PATH": str(script.parent)})
    (install,) = found.values["engine"]["installs"]
    assert install["origin"] == "sglang on PATH"


def test_pythonpath_comes_first_as_it_does_for_the_launch(tmp_path: Path) -> None:
    sglang(tmp_path / "env", "0.5.23")
    distribution(tmp_path / "site", "sglang", "0.5.17")
    target = Target(engine="sglang", interpreter=str(tmp_path / "env"))
    env = {"PATH": "/nonexistent", "PYTHONPATH": f"/gone:{tmp_path}/site"}
    (install,) = collect(tmp_path, target, env=env).values["engine"]["installs"]
    assert install["version"] == "0.5.17"


def test_folders_that_a_path_file_adds_are_followed(tmp_path: Path) -> None:
    nested = venv(tmp_path / "base")
    distribution(nested, "torch", "2.11.0")
    (nested / "torch").mkdir()
    (nested / "torch/version.py").write_text("__version__ = '2.11.0'\ncuda: str = '13.0'\n")
    site = venv(tmp_path / "env")
    distribution(site, "sglang", "0.5.17")
    (site / "torch.pth").write_text(f"# a comment\n\n{nested}\n/gone\nimport sys; x = 1\n")
    target = Target(engine="sglang", interpreter=str(tmp_path / "env"))
    (install,) = collect(tmp_path, target).values["engine"]["installs"]
    assert install["torch"] == {"version": "2.11.0", "cuda": [13, 0]}
    assert install["packages"]["torch"] == "2.11.0"


def test_a_path_file_that_runs_code_is_left_to_the_interpreter(tmp_path: Path) -> None:
    site = venv(tmp_path / "env")
    (site / "more.pth").write_text("import site; site.addsitedir('/opt/more')\n")
    found = environment_of(tmp_path / "env/bin/python")
    assert found is not None
    assert found.must_ask
    (site / "more.pth").write_text("import _virtualenv\n")
    found = environment_of(tmp_path / "env/bin/python")
    assert found is not None
    assert not found.must_ask


def test_flags_of_an_editable_checkout_are_read(tmp_path: Path) -> None:
    checkout = sglang(tmp_path / "away")
    direct = {"url": f"file://{checkout}", "dir_info": {"editable": True}}
    site = venv(tmp_path / "env")
    distribution(site, "sglang", "0.5.23", direct_url_json=json.dumps(direct))
    target = Target(engine="sglang", interpreter=str(tmp_path / "env"), argv=("--bogus", "1"))
    (install,) = collect(tmp_path, target).values["engine"]["installs"]
    assert install["flags"]["unknown"][0]["flag"] == "--bogus"


def test_a_configured_interpreter_that_is_gone_is_named(tmp_path: Path) -> None:
    sglang(tmp_path / "home/venv")
    settings = ((str(tmp_path / "gone"), "config.toml"),)
    target = Target(profile="p", engine="sglang")
    values = collect(tmp_path, target, configured=settings).values["engine"]
    assert (values["named_missing"], values["named_by"]) == (str(tmp_path / "gone"), "config.toml")


def test_metadata_of_many_spellings(tmp_path: Path) -> None:
    site = venv(tmp_path / "v")
    distribution(site, "sglang-kernel", "0.4.10")
    distribution(site, "flashinfer_python", "0.7.2.post1")
    distribution(site, "Torch", "2.14.1+cu130")
    (site / "broken-1.0.dist-info").mkdir()
    (site / "sglang-0.5.dist-info").mkdir()
    (site / "sglang-0.5.dist-info/METADATA").write_bytes(b"\xff\xfe no headers")
    found = read_distributions([site, Path("/gone")])
    assert {name: d.version for name, d in found.items()} == {
        "sglang-kernel": "0.4.10", "flashinfer-python": "0.7.2.post1", "torch": "2.14.1+cu130",
    }  # fmt: skip
    assert canonical("SGLang_Kernel.x") == "sglang-kernel-x"


def test_layouts_that_do_not_tell_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    assert environment_of(tmp_path / "usr/bin/python3") is None
    venv(tmp_path / "v", **{"include-system-site-packages": "true"})
    environment = environment_of(tmp_path / "v/bin/python")
    assert environment is not None
    assert environment.must_ask
    assert not environment.isolated


def test_requirements_and_markers() -> None:
    assert requirement_of("flashinfer_python[cu13]==0.7.2") == ("flashinfer-python", "==0.7.2")
    assert requirement_of("kernels<0.15,>=0.14.1") == ("kernels", "<0.15,>=0.14.1")
    assert requirement_of("torch (==2.9.1)") == ("torch", "==2.9.1")
    assert requirement_of("aiohttp") is None
    assert requirement_of('av==16.1.0; platform_machine == "aarch64"') is None


@pytest.mark.parametrize(
    ("flags", "capability", "use"),
    [
        ("sm_80 sm_90 sm_120", (12, 0), "cubin"),
        ("sm_80 sm_90 sm_120", (12, 1), "cubin"),  # same major, lower minor
        ("sm_121a", (12, 0), "none"),  # `a` is for its own card alone
        ("sm_121a", (12, 1), "cubin"),
        ("sm_120f", (12, 1), "cubin"),  # the family
        ("sm_80 compute_90", (12, 0), "ptx"),
        ("sm_80 sm_90", (12, 0), "none"),
        ("sm_90a", (9, 0), "cubin"),
        ("", (9, 0), "none"),
    ],
)
def test_which_code_runs_on_which_card(flags: str, capability: tuple[int, int], use: str) -> None:
    assert arch_usable(flags, capability) == use


def test_torch_without_cuda(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/version.py").write_text("__version__ = '2.14.1+cpu'\ncuda = None\n")
    assert torch_facts([tmp_path]) == {"version": "2.14.1+cpu"}
    assert torch_facts([Path("/gone")]) == {}


def test_unreadable_argument_files_are_unknown_and_not_fine(tmp_path: Path) -> None:
    assert check_flags("sglang", tmp_path, ("--x",)) is None
    (tmp_path / "sglang/srt").mkdir(parents=True)
    (tmp_path / "sglang/srt/server_args.py").write_text("def (")
    assert check_flags("sglang", tmp_path, ("--x",)) is None


# --- the torch probe -----------------------------------------------------------------------------


def probe(tmp_path: Path, text: str) -> Gathered:
    sglang(tmp_path / "env")
    interpreter = tmp_path / "env/bin/python"
    interpreter.write_text(f"#!/bin/sh\n{text}\n")
    found = Gathered()
    target = Target(engine="sglang", interpreter=str(interpreter))
    torch_probe.collect(Context(target=target, cuda_probe=True, env=dict(os.environ)), found)
    return found


def test_the_probe_reads_one_json_line(tmp_path: Path) -> None:
    found = probe(tmp_path, """echo noise; echo '{"version": "2.14.1", "available": true}'""")
    assert found.values["torch"] == {"version": "2.14.1", "available": True}


def test_a_probe_that_dies_or_hangs_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = probe(tmp_path, "echo 'ImportError: libcudart.so.13: cannot open' >&2; exit 1")
    assert "libcudart.so.13" in str(found.absent["torch.version"].detail)
    monkeypatch.setattr(torch_probe, "LIMIT_S", 0.2)
    (tmp_path / "b").mkdir()
    assert probe(tmp_path / "b", "exec sleep 30").values["torch"]["error"] == "timeout"


def test_the_probe_is_off_unless_asked_for() -> None:
    found = Gathered()
    torch_probe.collect(Context(), found)
    assert found.absent["torch"].reason.value == "disabled"


# --- the engine's own parser --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # As SGLang 0.5.23 ends (sglang serve: error: …), with noise before.
        (f"UserWarning: x\nsglang serve: error: unrecognized arguments: {PROBE_FLAG}\n", ""),
        (
            f"sglang serve: error: unrecognized arguments: --bogus 1 {PROBE_FLAG}\n",
            "unrecognized arguments: --bogus 1",
        ),
        (
            "sglang serve: error: argument --kv-cache-dtype: invalid choice: 'fp9' (choose)\n",
            "argument --kv-cache-dtype: invalid choice: 'fp9' (choose)",
        ),
        ("Traceback (most recent call last):\nImportError: libcudart.so.13\n", None),
        ("", None),
    ],
)
def test_what_the_parser_objects_to(text: str, expected: str | None) -> None:
    assert complaint(text) == expected


def test_secrets_are_not_on_the_command_line_that_everybody_sees(tmp_path: Path) -> None:
    sglang(tmp_path / "env")
    interpreter = tmp_path / "env/bin/python"
    interpreter.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\n')
    target = Target(
        engine="sglang", interpreter=str(interpreter), argv=("--api-key", "very-secret-key", "--x")
    )
    context = Context(target=target, ask_engine=True, env=dict(os.environ))
    ask_engine.collect(context, Gathered())
    asked = (tmp_path / "asked").read_text()
    assert "--api-key" in asked
    assert "very-secret-key" not in asked


def test_vllm_is_asked_in_its_own_words(tmp_path: Path) -> None:
    """As vLLM 0.32.0 answered: usage, then the complaint, exit code 2."""
    site = venv(tmp_path / "env")
    distribution(site, "vllm", "0.32.0")
    interpreter = tmp_path / "env/bin/python"
    interpreter.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/asked\n'
        "echo 'usage: api_server.py [-h]' >&2\n"
        "echo 'api_server.py: error: unrecognized arguments: --qwen-tui-no-such-flag' >&2\n"
        "exit 2\n"
    )
    found = Gathered()
    target = Target(
        engine="vllm",
        interpreter=str(interpreter),
        model_path="/models/m",
        argv=("--max-model-len", "512"),
    )
    ask_engine.collect(Context(target=target, ask_engine=True, env=dict(os.environ)), found)
    assert found.values["asked"]["complaint"] == ""
    assert (tmp_path / "asked").read_text().split() == [
        "-m", "vllm.entrypoints.openai.api_server", "--model", "/models/m",
        "--max-model-len", "512", PROBE_FLAG,
    ]  # fmt: skip


def test_an_engine_that_cannot_be_asked_says_why(tmp_path: Path) -> None:
    sglang(tmp_path / "env")
    interpreter = tmp_path / "env/bin/python"
    interpreter.write_text("#!/bin/sh\necho 'ImportError: no torch' >&2; exit 1\n")
    found = Gathered()
    target = Target(engine="sglang", interpreter=str(interpreter), argv=("--x",))
    ask_engine.collect(Context(target=target, ask_engine=True, env=dict(os.environ)), found)
    assert str(found.absent["asked"].detail) == "ImportError: no torch"


# --- the model's folder --------------------------------------------------------------------------


def folder_facts(path: Path) -> Gathered:
    found = Gathered()
    model_folder.collect(Context(target=Target(model_path=str(path))), found)
    return found


def test_the_index_is_compared_with_the_files(model: Path) -> None:
    index = {"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    (model / "m-1.safetensors").write_bytes(b"x" * 10)
    (model / "m-2.safetensors.incomplete").write_bytes(b"x")
    (model / "tokenizer.json").write_text("{}")
    values = folder_facts(model).values["model"]
    assert values["missing"] == ["m-2.safetensors"]
    assert values["shard_bytes"] == 10
    assert values["partial"] == ["m-2.safetensors.incomplete"]
    assert values["tokenizer"] is True
    assert values["config"]["text_model_type"] == "qwen3_5_text"


def test_links_out_of_the_folder_are_counted(model: Path, tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"x")
    (model / "a.safetensors").symlink_to(tmp_path / "blob")
    (model / "b.safetensors").write_bytes(b"x")
    values = folder_facts(model).values["model"]
    assert values["links_outside"] == ["a.safetensors"]


def test_links_into_a_cleaned_cache_are_named(model: Path) -> None:
    (model / "a.safetensors").symlink_to(model / "blobs/gone")
    (model / "b.safetensors").write_bytes(b"x" * 5)
    values = folder_facts(model).values["model"]
    assert values["dangling"] == ["a.safetensors"]
    assert (values["shards"], values["shard_bytes"]) == (1, 5)


def test_broken_files_are_absent_facts(model: Path) -> None:
    (model / "config.json").write_text("{not json")
    (model / "model.safetensors.index.json").write_text('{"weight_map": 5}')
    found = folder_facts(model)
    assert "model.config" in found.absent
    assert "model.missing_count" in found.absent
    assert folder_facts(model / "gone").values["model"]["exists"] is False
