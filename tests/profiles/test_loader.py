from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qwen_tui_profiles.errors import ProfileError
from qwen_tui_profiles.loader import load_profiles, load_profiles_from
from qwen_tui_profiles.profile import ContainerLaunch, EngineKind, EngineMode, PythonLaunch
from qwen_tui_profiles.toml_io import ProfileFileError

if TYPE_CHECKING:
    from pathlib import Path

PRESETS = load_profiles(None)

GOOD = """\
title = "Mine"
engine = "sglang"
mode = "speed"
[model]
path = "/models/x"
[args]
context-length = 4096
mem-fraction-static = 0.9
enable-metrics = true
enable-cache-report = false
cuda-graph-bs-decode = [1, 2, 4]
"""


def write(folder: Path, name: str, text: str | bytes) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_no_shipped_preset_is_broken() -> None:
    assert PRESETS.problems == ()
    assert {"27b-int4-speed", "27b-int4-context", "demo-speed", "demo-context"} <= set(
        PRESETS.profiles
    )


def test_pairs_point_at_each_other_and_at_the_other_mode() -> None:
    for profile in PRESETS.profiles.values():
        other = PRESETS.pair_of(profile)
        if profile.pair is None:
            continue
        assert other is not None, profile.name
        assert other.pair == profile.name
        assert {profile.mode, other.mode} == {EngineMode.SPEED, EngineMode.CONTEXT}


def test_every_provenance_and_every_published_difference_is_about_something() -> None:
    for profile in PRESETS.profiles.values():
        flags = {item[2:] for item in profile.argv if item.startswith("--")}
        for key in profile.provenance:
            table, _, name = key.partition(".")
            assert table in {"args", "env", "launch", "model"}, (profile.name, key)
            if table == "args":
                assert name in flags, (profile.name, key)
            if table == "env":
                assert name in profile.env, (profile.name, key)
        if profile.published is not None:
            published = {i for i in profile.published.argv if i.startswith("--")}
            ours = {f"--{flag}" for flag in flags}
            explained = {key for key in profile.published.differences if key.startswith("--")}
            # Each flag that only one of the two has is explained, and nothing else is.
            assert published ^ ours <= explained, profile.name


def test_flags_come_in_file_order_and_in_the_form_of_a_command_line(tmp_path: Path) -> None:
    write(tmp_path, "mine.toml", GOOD)
    profile = load_profiles(tmp_path).get("mine")
    assert profile.argv == (
        *("--context-length", "4096", "--mem-fraction-static", "0.9", "--enable-metrics"),
        *("--cuda-graph-bs-decode", "1", "2", "4"),
    )
    assert profile.origin.kind == "user"
    assert profile.title == "Mine"
    assert isinstance(profile.launch, PythonLaunch)


def test_a_table_becomes_json(tmp_path: Path) -> None:
    text = GOOD.replace('"sglang"', '"vllm"') + (
        'speculative-config = { method = "mtp", num_speculative_tokens = 3 }\n'
    )
    write(tmp_path, "mine.toml", text)
    argv = load_profiles(tmp_path).get("mine").argv
    assert argv[-2:] == ("--speculative-config", '{"method":"mtp","num_speculative_tokens":3}')


def test_a_user_file_replaces_the_preset_of_its_name(tmp_path: Path) -> None:
    write(tmp_path, "27b-int4-speed.toml", GOOD)
    profiles = load_profiles(tmp_path)
    assert profiles.get("27b-int4-speed").title == "Mine"
    assert set(profiles.profiles) == set(PRESETS.profiles)


def test_extending_changes_single_keys_and_says_so(tmp_path: Path) -> None:
    write(
        tmp_path,
        "27b-int4-speed.toml",
        'extends = "27b-int4-speed"\nport = 31000\n[model]\npath = "/data/m"\n'
        "[args]\nmem-fraction-static = 0.9\nsleep-on-idle = false\n",
    )
    before, after = PRESETS.get("27b-int4-speed"), load_profiles(tmp_path).get("27b-int4-speed")
    assert after.port == 31000
    assert after.model.path == "/data/m"
    assert after.model.repo == before.model.repo
    assert after.argv[after.argv.index("--mem-fraction-static") + 1] == "0.9"
    assert "--sleep-on-idle" in before.argv
    assert "--sleep-on-idle" not in after.argv
    assert after.provenance["args.mem-fraction-static"].source == "user"
    assert after.provenance["args.page-size"] == before.provenance["args.page-size"]


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("engine = \n", 1, 10, "TOML"),
        ('engine = "sglang"\nmode = "fast"\n', 2, 1, "speed, context"),
        ('mode = "speed"\n', 1, 1, "engine"),
        ('engine = "sglang"\nmode = "speed"\ncontext-length = 3\n', 3, 1, "context-length"),
        (GOOD + '[env]\n"A B" = "x"\n', 13, 1, "environment"),
        (GOOD + "host = 3\n", 12, 1, "--host"),
        (GOOD.replace("4096", "[[1], 2]"), 7, 1, "--context-length"),
        (GOOD.replace('path = "/models/x"', "").replace("[model]", ""), 1, 1, "model"),
        ("port = 70000\n" + GOOD, 1, 1, "65535"),
        ('engine-versions = "0.5"\n' + GOOD, 1, 1, "0.5"),
        ('extends = "27b-int4-sped"\n', 1, 1, "27b-int4-speed"),
        (GOOD + "[launch]\nimage = 'x'\nruntime = '/bin/sh'\n", 14, 1, "docker"),
        ('title = """\n[model]\n"""\nengine = 3\n', 4, 1, "engine"),
    ],
)
def test_a_mistake_is_named_by_line_and_column(
    tmp_path: Path, text: str, line: int, column: int, says: str
) -> None:
    path = write(tmp_path, "broken.toml", text)
    write(tmp_path, "fine.toml", GOOD)
    profiles = load_profiles(tmp_path)
    (problem,) = profiles.problems
    assert isinstance(problem, ProfileFileError)
    assert (problem.path, problem.line, problem.column) == (str(path), line, column)
    message = str(problem.message)
    assert f"{path}, line {line}, column {column}" in message
    assert says in message + str(problem.remedy)
    assert problem.remedy is not None
    assert profiles.get("fine").title == "Mine"
    assert set(PRESETS.profiles) <= set(profiles.profiles)
    with pytest.raises(ProfileFileError):
        profiles.get("broken")


def test_bytes_that_are_no_text_and_files_that_cannot_be_read(tmp_path: Path) -> None:
    write(tmp_path, "latin.toml", b'title = "ok"\nengine = "\xe9"\n')
    (tmp_path / "folder.toml").mkdir()
    write(tmp_path, "huge.toml", b"#" * (1 << 20) + b"\n")
    found = load_profiles(tmp_path).problems
    problems = {p.path: p for p in found if isinstance(p, ProfileFileError)}
    assert len(problems) == 3
    latin = problems[str(tmp_path / "latin.toml")]
    assert (latin.line, latin.column) == (2, 11)


def test_a_broken_user_file_leaves_the_preset_it_stands_for(tmp_path: Path) -> None:
    write(tmp_path, "demo-speed.toml", 'engine = "demo"\nmode = 3\n')
    profiles = load_profiles(tmp_path)
    assert profiles.get("demo-speed") == PRESETS.get("demo-speed")
    assert len(profiles.problems) == 1


def test_circles_of_extension_end(tmp_path: Path) -> None:
    write(tmp_path, "a.toml", 'extends = "b"\n')
    write(tmp_path, "b.toml", 'extends = "a"\n')
    profiles = load_profiles(tmp_path)
    assert len(profiles.problems) == 2
    assert "circle" in str(profiles.problems[0].message)


def test_an_unknown_name_offers_the_nearest() -> None:
    with pytest.raises(ProfileError) as caught:
        PRESETS.get("27b-int4-spede")
    assert "27b-int4-speed" in str(caught.value.remedy)


def test_no_folder_is_no_problem(tmp_path: Path) -> None:
    assert load_profiles(tmp_path / "nothing").problems == ()
    assert load_profiles_from(tmp_path, None).profiles == {}


def test_container_profiles(tmp_path: Path) -> None:
    text = GOOD + '[launch]\nimage = "lmsysorg/sglang:v0.5.23"\nargs = ["--gpus", "all"]\n'
    write(tmp_path, "boxed.toml", text)
    launch = load_profiles(tmp_path).get("boxed").launch
    assert launch == ContainerLaunch("docker", "lmsysorg/sglang:v0.5.23", ("--gpus", "all"))


def test_ignored_rules_keep_their_reason(tmp_path: Path) -> None:
    write(tmp_path, "mine.toml", 'ignore = ["a", { rule = "b", reason = "because" }]\n' + GOOD)
    profile = load_profiles(tmp_path).get("mine")
    assert profile.ignore == ("a", "b")
    assert profile.ignore_reasons == {"b": "because"}


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_content_raises_or_hides_the_others(tmp_path: Path, content: bytes) -> None:
    write(tmp_path, "any.toml", content)
    profiles = load_profiles(tmp_path)
    assert set(PRESETS.profiles) <= set(profiles.profiles)
    assert "any" in profiles.profiles or len(profiles.problems) == 1


def test_demo_profiles_need_nothing() -> None:
    for name in ("demo-speed", "demo-context"):
        profile = PRESETS.get(name)
        assert profile.engine is EngineKind.DEMO
        assert profile.simulated
        assert not profile.needs_gpu
        assert {"--enable-metrics", "--enable-cache-report"} <= set(profile.argv)
