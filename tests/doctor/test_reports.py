"""Text, JSON, markdown, bundles and repairs: shapes, order, and what never leaves the machine."""

from __future__ import annotations

import gzip
import json
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwen_tui.cli.registry import COMMANDS
from qwen_tui_diagnostics.bundle import SCHEMA, dump_bundle, read_bundle
from qwen_tui_diagnostics.checks import CHECKS, GROUPS
from qwen_tui_diagnostics.context import Context, Target, describe
from qwen_tui_diagnostics.facts import Facts, Gathered, MissingFact
from qwen_tui_diagnostics.fixes import plan_fixes
from qwen_tui_diagnostics.privacy import Identity, cleaned, private
from qwen_tui_diagnostics.report import dump_json, text_lines, with_explanations
from qwen_tui_diagnostics.report_markdown import markdown
from qwen_tui_diagnostics.result import CheckResult, Report, Status
from qwen_tui_diagnostics.runner import Run, judge, select
from qwen_tui_profiles.errors import InputError
from support.doctor_machines import TARGET_27B, absent_facts, changed, verdict, workstation
from support.doctor_rows import ROWS

if TYPE_CHECKING:
    from pathlib import Path

ME = Identity(home="/home/anna", user="anna", host="annas-tower")


def run_on(facts: dict[str, Any], target: Target = TARGET_27B) -> Report:
    run = Run(Context(target=target), select())
    run.tree, run.absent = facts, absent_facts()
    order = {check.id: number for number, check in enumerate(CHECKS)}
    results = sorted(run.judge_all(), key=lambda result: order[result.id])
    return Report(
        with_explanations(results),
        started=1_795_000_000,
        duration_ms=12.3,
        version="0.1.0",
        target=describe(target),
        facts=facts,
        absent={path: absence.as_json() for path, absence in absent_facts().items()},
    )


@pytest.fixture
def broken() -> Report:
    facts = changed(
        workstation(),
        gpu={"nvml_code": 9},
        port__bind_errno=98,
        port__next_free=30001,
        port__owners=[{"pid": 9, "name": "x\x1b]0;title\x07"}],
        memory__swap_total_bytes=0,
        memory__total_bytes=24 * 1024**3,
        model__path="/home/anna/models/q",
    )
    return run_on(facts)


def test_text_puts_failures_first_and_collapses_the_rest(broken: Report) -> None:
    lines = list(text_lines(broken))
    groups = [line for line in lines if not line.startswith(" ")][:-1]
    assert groups == [str(title) for title in GROUPS.values() if str(title) in groups]
    driver = lines[lines.index("Driver") + 1 : lines.index("CUDA tool chain")]
    assert driver[0].startswith("  FAIL  the NVIDIA kernel module is not loaded")
    assert "        → load it" in driver[2]
    assert driver[3].strip() == "sudo modprobe nvidia"
    # Its consequences are one line, not twenty failures.
    assert sum(line.startswith("  FAIL") for line in lines) == 2
    assert any("explains" in line for line in driver)
    assert lines[-1].startswith("2 failed, ")
    assert lines[-1].endswith("this launch would fail")
    words = {line[2:6].strip() for line in lines if line.startswith("  ") and line[2] != " "}
    assert words <= {"OK", "WARN", "FAIL", "SKIP"}


def test_verbose_text_has_every_counted_check(broken: Report) -> None:
    short, long = list(text_lines(broken)), list(text_lines(broken, verbose=True))
    assert len(long) > len(short)
    assert any("Secure Boot is off" in line for line in long)


def test_json_is_the_document_that_was_promised(broken: Report) -> None:
    text = dump_json(broken, ME)
    document = json.loads(text)
    assert next(iter(document)) == "schema"
    assert document["schema"] == "qwen-tui.doctor/1"
    assert {
        "tool", "version", "started", "duration_ms", "profile", "target", "verdict", "counts",
        "facts", "checks",
    } <= set(document)  # fmt: skip
    assert document["verdict"] == "blocked"
    assert document["started"].endswith("Z")
    assert len(document["checks"]) == len(CHECKS)
    by_id = {check["id"]: check for check in document["checks"]}
    port = by_id["net.port"]
    assert port["status"] == "FAIL"
    assert port["remedy"]["auto"] is True
    assert port["remedy"]["port"] == 30001
    assert by_id["driver.nvml"]["explains"]
    assert by_id["gpu.vram_free"]["explained_by"] == "driver.nvml"
    assert by_id["disk.io_uring"]["reason"] == "not-applicable"
    assert document["counts"]["fail"] == 2
    assert isinstance(document["facts"]["memory"]["total_bytes"], int)
    assert "/home/anna" not in text
    assert "~/models/q" in text


def test_markdown_has_findings_and_the_machine(broken: Report) -> None:
    text = markdown(broken, ME)
    assert text.startswith("## qwen-tui doctor\n")
    assert "- **FAIL** Driver: the NVIDIA kernel module is not loaded (`driver.nvml`)" in text
    assert "| sglang | 0.5.23 |" in text
    assert "| torch CUDA | 13.0 |" in text
    assert "/home/anna" not in text
    healthy = markdown(run_on(workstation()), ME)
    assert "| driver | 580.159.04 |" in healthy
    assert "NVIDIA GeForce RTX 5090, SM 12.0, 31.8 GiB" in healthy


def test_a_simulated_run_says_so() -> None:
    report = replace(run_on(workstation()), simulated=True)
    assert "Simulated engine" in markdown(report, ME)
    assert json.loads(dump_json(report, ME))["simulated"] is True


# --- privacy -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/anna/models", "~/models"),
        ("/home/annabel/models", "/home/annabel/models"),
        ("user anna at annas-tower", "user USER at HOST"),
        ("annas-tower-2", "annas-tower-2"),
        ("http://10.1.2.3:3128", "http://ADDRESS:3128"),
        ("export NO_PROXY=10.0.0.5,::1 no_proxy=::1", "export NO_PROXY=ADDRESS,::1 no_proxy=::1"),
        ("http://[fd00::17]:3128", "http://[ADDRESS]:3128"),
        ("http://u@[fe80::1%eth0]:1", "http://<redacted>@[ADDRESS]:1"),
        ("http://[::1]:30000", "http://[::1]:30000"),
        ("192.168.0.7:30000 is free", "ADDRESS:30000 is free"),
        ("127.0.0.1:30000 is free", "127.0.0.1:30000 is free"),
        ("0.0.0.0:30000", "0.0.0.0:30000"),
        ("driver 580.159.04", "driver 580.159.04"),
        ("nvidia-cudnn 9.10.2.21", "nvidia-cudnn 9.10.2.21"),
        ("token hf_aaaaaaaaaaaaaaaa", "token <redacted>"),
        ("http://me:pass@proxy:1", "http://<redacted>@proxy:1"),
    ],
)
def test_private_text(text: str, expected: str) -> None:
    assert private(text, ME) == expected


def test_a_report_beside_our_own_server_says_how_it_counts() -> None:
    report = run_on(workstation())
    assert "our own server" not in markdown(report, ME)
    report = replace(report, target={**report.target, "own_profile": "27b-int4-context"})
    assert "our own server runs (profile 27b-int4-context)" in markdown(report, ME)


def test_hosts_are_hidden_by_field_and_short_names_do_no_harm() -> None:
    assert private({"host": "10.0.0.5"}, ME) == {"host": "ADDRESS"}
    assert private({"host": "fd00::5"}, ME) == {"host": "ADDRESS"}
    assert private({"host": "::1"}, ME) == {"host": "::1"}
    listed = {"no_proxy": "localhost,127.0.0.1, 10.0.0.5,192.168.0.0/16,::1,fd00::5,.corp"}
    assert private(listed, ME) == {
        "no_proxy": "localhost,127.0.0.1,ADDRESS,ADDRESS,::1,ADDRESS,.corp"
    }
    assert private({"host": "127.0.0.1"}, ME) == {"host": "127.0.0.1"}
    assert private("a root in b", Identity("/root", "root", "b")) == "a root in b"
    assert private("/root/x", Identity("/root", "root", "b")) == "~/x"
    assert private("/x", Identity("/", "u", "h")) == "/x"


def test_cleaning_reaches_every_string() -> None:
    dirty = {"a\x1b[31m": ["b\x07", {"c": "d\x1b]0;x\x07"}, 5, None, True]}
    assert cleaned(dirty) == {"a": ["b", {"c": "d"}, 5, None, True]}


# --- bundles -------------------------------------------------------------------------------------


def bundle_of(facts: dict[str, Any], target: Target = TARGET_27B) -> bytes:
    return dump_bundle(
        version="0.1.0", started=1_795_000_000, target=target, facts=facts,
        absent=absent_facts(), raw={"proc/meminfo": "MemTotal: 1 kB\n"}, identity=ME,
    )  # fmt: skip


def test_a_bundle_is_judged_elsewhere_as_it_was_here(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_bytes(bundle_of(workstation()))
    bundle = read_bundle(path)
    assert bundle.target == TARGET_27B
    facts = Facts(bundle.facts, bundle.absent)
    for check in CHECKS:
        here = judge(check, Facts(workstation(), absent_facts()), TARGET_27B)
        there = judge(check, facts, bundle.target)
        assert (there.id, there.status) == (here.id, here.status)
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert read_bundle(path).started == 1_795_000_000


def test_a_bundle_holds_no_secrets(tmp_path: Path) -> None:
    target = replace(
        TARGET_27B,
        argv=("--api-key", "sk-secretsecret", "--context-length", "1"),
        env={"OPENAI_API_KEY": "sk-secretsecret", "MAX_JOBS": "4"},
    )
    facts = changed(workstation(), model__path="/home/anna/m")
    text = bundle_of(facts, target).decode()
    assert "secretsecret" not in text
    assert "/home/anna" not in text
    document = json.loads(text)
    assert document["schema"] == SCHEMA
    assert document["target"]["env"] == {"MAX_JOBS": "4"}


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"null", b'{"schema": "other"}', b"\xff\xfe\x00", b"\x1f\x8bnot gzip",
        b'{"schema": "qwen-tui.doctor-bundle/1"}',
        b'{"schema": "qwen-tui.doctor-bundle/1", "version": "1", "started_unix": "x", "target": {},'
        b' "facts": {}, "absent": {}}',
        b'{"schema": "qwen-tui.doctor-bundle/1", "version": "1", "started_unix": 1, "target": {},'
        b' "facts": [], "absent": {}}',
        b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_not_a_bundle_is_refused_in_one_sentence(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "b.json"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        read_bundle(path)
    assert caught.value.exit_code == 2
    assert caught.value.remedy is not None


def test_a_missing_or_endless_bundle_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from qwen_tui_diagnostics import bundle

    with pytest.raises(InputError):
        read_bundle(tmp_path / "gone")
    monkeypatch.setattr(bundle, "MOST_BYTES", 1000)
    path = tmp_path / "bomb"
    path.write_bytes(gzip.compress(b" " * 100_000))
    with pytest.raises(InputError):
        read_bundle(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["gpu", "driver", "disk", "memory", "engine", "env", "model"]), JSON
    )
)
def test_facts_of_any_shape_are_judged_without_a_crash(facts: dict[str, Any]) -> None:
    for check in CHECKS:
        result = judge(check, Facts(facts, {}), TARGET_27B)
        assert not str(result.observed).startswith("the check itself failed"), check.id
        assert result.status is not Status.OK or facts


@given(JSON, st.sampled_from(["text", "flag", "integer", "number", "texts", "rows", "at"]))
def test_accessors_give_their_type_or_say_that_it_is_missing(value: Any, name: str) -> None:
    facts = Facts({"x": value})
    try:
        got = getattr(facts, name)("x")
    except MissingFact:
        return
    kinds: dict[str, type | tuple[type, ...]] = {
        "text": str, "flag": bool, "integer": int, "number": float, "texts": tuple,
        "rows": tuple, "at": Facts,
    }  # fmt: skip
    assert isinstance(got, kinds[name])


def test_an_attempt_turns_errors_into_reasons() -> None:
    found = Gathered()
    with found.attempt("a.b", "a.c"):
        raise PermissionError(13, "Permission denied")
    with found.attempt("d"):
        int("x")
    assert found.absent["a.b"].reason.value == "not-permitted"
    assert str(found.absent["a.c"].detail) == "Permission denied"
    assert found.absent["d"].reason.value == "unsupported"
    found.put("n", None)
    assert "n" not in found.values


# --- repairs -------------------------------------------------------------------------------------


def test_repairs_are_local_reversible_and_complete(broken: Report) -> None:
    fixes = plan_fixes(broken)
    assert fixes.port == 30001
    assert fixes.profile == "27b-int4-speed"
    commands = {command for _, commands in fixes.by_hand for command in commands}
    assert "sudo modprobe nvidia" in commands
    assert not any("sudo" in str(line) for line in fixes.lines())


def test_variables_and_stale_caches_are_planned() -> None:
    facts = workstation()
    facts["env"]["set"] = {"http_proxy": "http://p:1"}
    facts["env"]["unset"] = [
        name for name in (*facts["env"]["unset"], "MAX_JOBS", "TERM") if name != "http_proxy"
    ]
    facts["toolkit"]["caches"][0]["versions"] = ["0.6.14", "0.7.2"]
    facts["disk"]["paths"][1] |= {"exists": False}
    fixes = plan_fixes(run_on(facts))
    env = dict(fixes.env)
    assert set(env) == {"NO_PROXY", "no_proxy", "MAX_JOBS"}
    assert env["MAX_JOBS"] == "5"  # (58 - 16) ÷ 8 GiB
    assert fixes.jit_caches == ("/home/u/.cache/flashinfer/0.6.14",)
    assert fixes.folders == ("/home/u/.local/state/qwen-tui",)
    assert plan_fixes(run_on(workstation())).empty


def remedy_commands() -> set[str]:
    """Return every command that any row's remedy proposes."""
    commands: set[str] = set()
    for check_id, facts, target, _, _ in ROWS:
        result: CheckResult = verdict(check_id, facts, target)
        if result.remedy is not None:
            commands |= set(result.remedy.commands)
    return commands


def test_remedies_propose_commands_that_exist() -> None:
    own = [c.split() for c in remedy_commands() if c.startswith("qwen-tui ")]
    assert {words[1] for words in own} <= set(COMMANDS)


def test_every_remedy_command_is_valid_shell(tmp_path: Path) -> None:
    """Each is only parsed (`sh -n`), never run."""
    commands = remedy_commands()
    assert len(commands) > 60
    script = tmp_path / "commands.sh"
    script.write_text("\n".join(sorted(c.replace("…", "x") for c in commands)) + "\n")
    done = subprocess.run(["sh", "-n", str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not any(c.startswith(("rm ", "sudo rm", "kill ", "pkill")) for c in commands)
