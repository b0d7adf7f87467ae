"""From the command line to a request, and from events to words."""

from __future__ import annotations

import errno
import os
import sys
import types
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from qwen_tui.cli.download_view import rate
from qwen_tui.services.download import aftermath, pool, sentences
from qwen_tui.services.download.narration import event_lines, plan_lines, result_lines
from qwen_tui.services.download.prepare import parse_rate, prepare
from qwen_tui.services.download.problems import RETRYABLE, from_os
from qwen_tui.services.paths import Paths
from qwen_tui_profiles.errors import UsageError
from qwen_tui_profiles.profile import EngineKind, EngineMode, EngineProfile, ModelRef
from qwen_tui_profiles.text import as_record, set_language, t, tr

if TYPE_CHECKING:
    from pathlib import Path

MODEL = "model.safetensors"


def profile(**model: str) -> EngineProfile:
    return EngineProfile(
        name="p",
        title="p",
        engine=EngineKind.SGLANG,
        mode=EngineMode.SPEED,
        argv=(),
        model=ModelRef(**model),
    )


def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "c", tmp_path / "s", tmp_path / "k")


def test_a_profile_brings_repository_and_folder(tmp_path: Path) -> None:
    request = prepare(
        paths(tmp_path),
        repo=None,
        profile=profile(repo="org/model", path="~/m"),
        environment={},
    )
    assert request.repo == "org/model"
    assert request.loaded_only
    assert request.dest is not None
    assert request.dest.endswith("/m")
    assert not request.dest.startswith("~")


def test_another_repository_does_not_go_into_the_profiles_folder(tmp_path: Path) -> None:
    request = prepare(
        paths(tmp_path),
        repo="org/other",
        profile=profile(repo="org/model", path="~/m"),
        environment={},
    )
    assert request.dest is None


def test_neither_repository_nor_profile(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No repository"):
        prepare(paths(tmp_path), repo=None, profile=None, environment={})


@pytest.mark.parametrize(
    ("text", "value"), [("20M", 20_000_000), ("500k", 500_000), ("1.5GB/s", 1_500_000_000)]
)
def test_rates(text: str, value: int) -> None:
    assert parse_rate(text) == value


@pytest.mark.parametrize("text", ["", "0", "-1M", "nan", "1e9", "12"])
def test_rates_that_are_none(text: str) -> None:
    with pytest.raises(UsageError):
        parse_rate(text)


def test_every_code_that_can_be_tried_again_has_words() -> None:
    assert RETRYABLE <= sentences.CODES


def test_foreign_text_is_cleaned_and_secrets_are_taken_out() -> None:
    error = sentences.describe(
        "connect", {"host": "\x1b[31mevil\x07", "reason": "http://u:secretpw@h/?token=abcdef"}
    )
    text = str(error.message)
    assert "\x1b" not in text
    assert "secretpw" not in text
    assert "abcdef" not in text


def test_unknown_codes_and_events_do_not_break_the_view() -> None:
    assert "frobnicated" in str(sentences.describe("frobnicated", {}).message)
    assert list(event_lines({"event": "something new"})) == []


def test_a_failed_result_says_what_to_do_for_each_file() -> None:
    fields = {"path": "x", "expected": "a", "found": "b"}
    result = {
        "status": "failed",
        "seconds": 1.0,
        "fetched_bytes": 0,
        "hosts": [],
        "failures": [{"path": "x", "code": "hash_mismatch", "fields": fields}],
    }
    lines = [str(line) for line in result_lines(result, {"files": []})]
    assert lines[0] == "Files that did not come: 1."
    assert any("use another mirror" in line for line in lines)


def test_bytes_from_xets_bridge_are_explained() -> None:
    hosts = [{"host": "cas-bridge.xethub.hf.co", "roles": ["storage"], "bytes": 9, "xet": True}]
    result = {
        "status": "cancelled",
        "seconds": 1.0,
        "fetched_bytes": 9,
        "hosts": hosts,
        "failures": [],
    }
    lines = [str(line) for line in result_lines(result, {"files": []})]
    assert "Bytes came from cas-bridge.xethub.hf.co (9 B); Xet was off." in lines
    assert "Xet's storage sent them over plain HTTP, through its bridge." in lines


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "no_space"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "read_only"),
        (errno.EACCES, "no_permission"),
        (errno.EIO, "disk_error"),
    ],
)
def test_disk_failures_have_their_own_sentences(number: int, code: str) -> None:
    problem = from_os(OSError(number, os.strerror(number)), "/m/x")
    assert problem.code == code
    assert not problem.retryable
    assert "/m/x" in str(sentences.describe(problem.code, problem.fields).message)


def test_the_checkpoint_is_judged_for_the_profiles_launch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    request = prepare(
        paths(tmp_path),
        repo=None,
        profile=replace(
            profile(repo="org/model"),
            engine=EngineKind.VLLM,
            argv=("--speculative-config", "{}", "--quantization", "modelopt", "--language-only"),
        ),
        environment={},
    )
    asked: list[dict[str, object]] = []
    module = types.ModuleType("qwen_tui_diagnostics.checkpoint")
    monkeypatch.setitem(sys.modules, module.__name__, module)

    class Report:
        findings = ()

        def as_json(self) -> dict[str, object]:
            return {"verdict": "ok"}

    def verify(_path: Path, **settings: object) -> Report:
        asked.append(settings)
        return Report()

    monkeypatch.setattr(module, "verify", verify, raising=False)
    plan = {"files": [{"path": MODEL}]}
    assert aftermath.judge(tmp_path, request, plan) == {"verdict": "ok", "findings": []}
    assert asked == [
        {
            "engine": "vllm",
            "speculative": True,
            "language_only": True,
            "quantization": "modelopt",
        }
    ]


def test_a_choice_without_weights_is_no_checkpoint(tmp_path: Path) -> None:
    document = aftermath.judge(tmp_path, None, {"files": [{"path": "config.json"}]})
    assert document == {"verdict": "unknown", "problem": "no weights were asked for"}


PLAN = {
    "repo": "org/model",
    "revision": "main",
    "commit": "c" * 40,
    "folder": "/m",
    "total_bytes": 50 * 10**9 + 1005,
    "here_bytes": 5,
    "kept_bytes": 400,
    "fetch_bytes": 50 * 10**9 + 601,
    "unknown_sizes": 1,
    "free_bytes": 10**9,
    "free_after_bytes": 10**9 - 50 * 10**9 - 601,
    "too_large": ["big.safetensors"],
    "left_out": [],
    "leftovers": {"count": 0, "bytes": 0},
    "eta_s": None,
    "probes": [],
    "files": [
        {"path": "here.json", "size": 5, "state": "here", "have_bytes": 5},
        {"path": "part.safetensors", "size": 1000, "state": "part", "have_bytes": 400},
        {"path": "big.safetensors", "size": 50 * 10**9 + 1, "state": "missing", "have_bytes": 0},
        {"path": "odd.bin", "size": None, "state": "missing", "have_bytes": 0},
    ],
}


def test_the_plan_says_what_is_known_and_what_is_not() -> None:
    lines = [str(line) for line in plan_lines(PLAN)]
    assert "       50.0 GB  big.safetensors  (to fetch)" in lines
    assert "        1.0 kB  part.safetensors  (400 B of it here)" in lines
    assert "           5 B  here.json  (here, verified)" in lines
    assert "             —  odd.bin  (to fetch)" in lines
    assert "  without a size in the listing: 1; they come on top of these figures" in lines
    assert "  over 50 GB, not to be had with Xet off: big.safetensors" in lines
    assert "  free now: 1.0 GB, 49.0 GB too little" in lines
    assert "  time: —, no download from this endpoint was measured yet" in lines


def test_a_repository_of_many_files_does_not_flood_the_screen() -> None:
    many = [
        {"path": f"{n:03}", "size": 1000 - n, "state": "missing", "have_bytes": 0}
        for n in range(200)
    ]
    lines = [str(line) for line in plan_lines({**PLAN, "files": many})]
    assert len(lines) < 32
    # 801 … 980, the sizes of the files 020 to 199.
    assert (
        f"      {sum(range(801, 981)) / 1000:.1f} kB  180 smaller files (180 of them to fetch)"
        in lines
    )


@pytest.mark.parametrize(
    ("unproven", "fetched", "line"),
    [
        ([], 10**9, "Complete: /m, 4 of 4 hashes proven (1.0 GB in 2.0 s, 500.0 MB/s)."),
        (["a"], 10**9, "Complete: /m, 3 of 4 hashes proven (1.0 GB in 2.0 s, 500.0 MB/s)."),
        ([], 0, "Complete: /m, 4 of 4 hashes proven; nothing had to be fetched."),
    ],
)
def test_what_is_called_proven(unproven: list[str], fetched: int, line: str) -> None:
    result = {
        "status": "complete",
        "seconds": 2.0,
        "fetched_bytes": fetched,
        "folder": "/m",
        "hosts": [],
        "failures": [],
        "unproven": unproven,
        "verify": {"verdict": "ok"},
    }
    lines = [str(line) for line in result_lines(result, PLAN)]
    assert lines[0] == line
    assert any("gave no hash" in x for x in lines) == bool(unproven)


@pytest.mark.parametrize("revision", ["../x", "a/../b", "-x", "", "a\nb"])
def test_revisions_that_are_none(tmp_path: Path, revision: str) -> None:
    with pytest.raises(UsageError):
        prepare(paths(tmp_path), repo="o/m", profile=None, environment={}, revision=revision)


def test_ordinary_revisions(tmp_path: Path) -> None:
    for revision in ("main", "v1.0", "refs/pr/1", "c" * 40, "feature/x-y_z"):
        request = prepare(
            paths(tmp_path), repo="o/m", profile=None, environment={}, revision=revision
        )
        assert request.revision == revision


def test_a_speed_falls_to_nothing_when_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    speed = pool.Speed()
    assert speed.add(0) is None
    clock[0] += 5
    assert speed.add(5_000_000) == 1_000_000
    for _ in range(30):
        clock[0] += 0.5
        last = speed.add(5_000_000)
    assert last == 0
    assert rate(last, 10**9) == ("0 B/s", "—")
    assert rate(None, 10**9) == ("—", "—")
    assert rate(1e6, 90_000_000) == ("1.0 MB/s", "1 min 30 s")
    assert rate(1e6, None) == ("1.0 MB/s", "—")


def test_what_the_verifier_says_is_said_in_the_users_language() -> None:
    title = t("{count} tensors in more than one file", count=3)
    finding = {
        "severity": "error", "rule": "F07", "title": str(title), "title_parts": as_record(title),
    }  # fmt: skip
    verify = {"verdict": "error", "findings": [finding]}
    result = {
        "status": "complete", "folder": "/m", "fetched_bytes": 0, "seconds": 0.0, "hosts": [],
        "unproven": [], "failures": [], "verify": verify,
    }  # fmt: skip
    assert set_language("zh_CN")
    try:
        lines = [tr(line) for line in result_lines(result, {"files": []}) if "F07" in str(line)]
        proxy = tr(
            sentences.describe(
                "proxy", {"host": "hub", "reason": "407: it wants a user and a password"}
            ).message
        )
        listing = tr(
            sentences.describe(
                "bad_listing", {"repo": "org/model", "path": "a.json", "value": "'x'"}
            ).message
        )
    finally:
        set_language("en")
    (line,) = lines
    assert "more than one" not in line
    assert "3" in line
    assert "wants a user" not in proxy
    assert "hash of" not in listing
