"""Engines are found by metadata alone: the packages made here contain no code at all."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from qwen_tui.services.engines import (
    INTERPRETER_VARIABLE,
    configured_interpreters,
    find_engines,
    resolve_interpreter,
)
from qwen_tui.services.paths import Paths
from qwen_tui.services.settings import change_settings
from qwen_tui_diagnostics.context import Context, Target
from qwen_tui_diagnostics.probes import interpreters
from qwen_tui_diagnostics.probes.engine import first_install
from qwen_tui_profiles.errors import EngineError
from qwen_tui_profiles.loader import load_profiles
from qwen_tui_profiles.profile import ContainerLaunch, EngineKind, EngineProfile, PythonLaunch

PROFILE = load_profiles(None).get("27b-int4-speed")
DEMO = load_profiles(None).get("demo-speed")


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """An empty machine: no environment is active, the home has nothing, PATH has nothing."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(tmp_path / "no-bin"))
    monkeypatch.chdir(home)
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", INTERPRETER_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(interpreters, "_SYSTEM_PATTERNS", ())
    return Paths(tmp_path / "config", tmp_path / "state", tmp_path / "cache")


def make_venv(folder: Path, packages: dict[str, str], url: dict[str, object] | None = None) -> Path:
    site = folder / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    python = folder / "bin" / "python"
    python.symlink_to(sys.executable)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    for name, version in packages.items():
        info = site / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        if url is not None:
            (info / "direct_url.json").write_text(json.dumps(url))
    return python


def test_nothing_found_names_what_to_do(paths: Paths) -> None:
    assert find_engines(paths) == ()
    with pytest.raises(EngineError) as caught:
        resolve_interpreter(PROFILE, paths)
    assert "sglang" in str(caught.value.message)
    assert str(paths.config / "config.toml") in str(caught.value.remedy)


def test_the_demo_engine_runs_in_this_interpreter(paths: Paths) -> None:
    found = resolve_interpreter(DEMO, paths)
    assert found.interpreter == sys.executable
    assert found.kind is EngineKind.DEMO


def test_order_profile_settings_variable_discovered(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    discovered = make_venv(Path.home() / ".venvs" / "sg", {"sglang": "0.5.18"})
    assert resolve_interpreter(PROFILE, paths).interpreter == str(discovered)

    from_variable = make_venv(tmp_path / "v", {"sglang": "0.5.19"})
    monkeypatch.setenv(INTERPRETER_VARIABLE, str(from_variable))
    found = resolve_interpreter(PROFILE, paths)
    assert (found.interpreter, found.version) == (str(from_variable), "0.5.19")
    assert found.source == INTERPRETER_VARIABLE

    from_settings = make_venv(tmp_path / "s", {"sglang": "0.5.20"})
    change_settings(paths, interpreter=str(from_settings))
    assert resolve_interpreter(PROFILE, paths).version == "0.5.20"

    in_profile = make_venv(tmp_path / "p", {"sglang": "0.5.21"})
    profile = replace(PROFILE, launch=PythonLaunch(str(in_profile)))
    assert resolve_interpreter(profile, paths).version == "0.5.21"
    assert [e.version for e in find_engines(paths)] == ["0.5.20", "0.5.19", "0.5.18"]


def test_a_discovered_version_that_fits_the_profile_wins(paths: Paths) -> None:
    make_venv(Path.home() / ".venvs" / "a", {"sglang": "0.5.9"})
    fitting = make_venv(Path.home() / ".venvs" / "b", {"sglang": "0.5.23"})
    assert resolve_interpreter(PROFILE, paths).interpreter == str(fitting)


def test_an_engine_of_the_other_kind_is_passed_over(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vllm = make_venv(tmp_path / "v", {"vllm": "0.33.0"})
    monkeypatch.setenv(INTERPRETER_VARIABLE, str(vllm))
    sglang = make_venv(Path.home() / "venv", {"sglang": "0.5.23"})
    assert resolve_interpreter(PROFILE, paths).interpreter == str(sglang)
    kinds = {e.kind for e in find_engines(paths)}
    assert kinds == {EngineKind.SGLANG, EngineKind.VLLM}


def test_named_but_missing_is_an_error_that_says_who_named_it(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = str(tmp_path / "gone" / "bin" / "python")
    profile = replace(PROFILE, launch=PythonLaunch(gone))
    with pytest.raises(EngineError, match="from profile"):
        resolve_interpreter(profile, paths)
    monkeypatch.setenv(INTERPRETER_VARIABLE, gone)
    with pytest.raises(EngineError, match=INTERPRETER_VARIABLE):
        resolve_interpreter(PROFILE, paths)
    change_settings(paths, interpreter=gone)
    with pytest.raises(EngineError, match=r"config\.toml"):
        resolve_interpreter(PROFILE, paths)


def test_a_profile_that_names_a_python_without_the_engine(paths: Paths, tmp_path: Path) -> None:
    python = make_venv(tmp_path / "empty", {})
    with pytest.raises(EngineError, match="has no sglang"):
        resolve_interpreter(replace(PROFILE, launch=PythonLaunch(str(python))), paths)


def test_a_folder_may_stand_for_its_python(paths: Paths, tmp_path: Path) -> None:
    python = make_venv(tmp_path / "env", {"sglang": "0.5.23"})
    profile = replace(PROFILE, launch=PythonLaunch(str(tmp_path / "env")))
    assert resolve_interpreter(profile, paths).interpreter == str(python)


def test_a_fork_shows_its_commit(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url: dict[str, object] = {
        "url": "https://example.org/fork.git",
        "vcs_info": {"commit_id": "2b56a39e70"},
    }
    python = make_venv(tmp_path / "fork", {"sglang": "0.5.17.dev3"}, url)
    monkeypatch.setenv(INTERPRETER_VARIABLE, str(python))
    (found,) = find_engines(paths)
    assert found.build == "https://example.org/fork.git@2b56a39e70"


def test_two_names_of_one_environment_are_one_engine(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_venv(Path.home() / "venv", {"sglang": "0.5.23"})
    monkeypatch.setenv("VIRTUAL_ENV", str(Path.home() / "venv"))
    (found,) = find_engines(paths)
    assert found.source == "VIRTUAL_ENV"


def test_the_script_on_path_leads_to_its_python(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_venv(tmp_path / "odd-place", {"sglang": "0.5.23"})
    script = tmp_path / "bin" / "sglang"
    script.parent.mkdir()
    script.write_text(f"#!{python}\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent))
    (found,) = find_engines(paths)
    assert found.interpreter == str(python)
    assert found.source == "sglang on PATH"


def test_a_container_needs_its_runtime_and_tells_its_version_by_the_tag(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = replace(PROFILE, launch=ContainerLaunch("docker", "lmsysorg/sglang:v0.5.20-cu130"))
    with pytest.raises(EngineError, match="docker"):
        resolve_interpreter(profile, paths)
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text("#!/bin/sh\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", os.fspath(docker.parent))
    found = resolve_interpreter(profile, paths)
    assert (found.interpreter, found.version) == (str(docker), "0.5.20")


@pytest.mark.parametrize("content", ["", "garbage", "Name: sglang\n"])
def test_broken_metadata_is_no_engine(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    python = make_venv(tmp_path / "v", {"sglang": "0.5.23"})
    info = next((tmp_path / "v").glob("lib/*/site-packages/*.dist-info"))
    (info / "METADATA").write_text(content)
    monkeypatch.setenv(INTERPRETER_VARIABLE, str(python))
    assert find_engines(paths) == ()


def doctors_choice(profile: EngineProfile, paths: Paths) -> str | None:
    context = Context(
        target=Target.from_profile(profile),
        configured=configured_interpreters(paths),
        state_folder=str(paths.state),
    )
    found = first_install(context)
    return None if found is None else str(found)


def test_the_doctor_judges_the_engine_that_a_launch_starts(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every place in turn, the weakest first: both see the same one."""
    make_venv(Path.home() / ".venvs" / "a", {"sglang": "0.5.9"})
    make_venv(Path.home() / ".venvs" / "b", {"sglang": "0.5.23"})
    seen = []

    def both_see(profile: EngineProfile = PROFILE) -> None:
        chosen = resolve_interpreter(profile, paths).interpreter
        assert chosen == doctors_choice(profile, paths)
        seen.append(chosen)

    both_see()
    make_venv(paths.state / "engines" / "sglang-0.5.23", {"sglang": "0.5.23"})
    both_see()
    make_venv(tmp_path / "c", {"sglang": "0.5.23"})
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "c"))
    both_see()
    make_venv(tmp_path / "d", {"sglang": "0.5.23"})
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "d"))
    both_see()
    monkeypatch.setenv(INTERPRETER_VARIABLE, str(make_venv(tmp_path / "e", {"sglang": "0.5.9"})))
    both_see()
    change_settings(paths, interpreter=str(make_venv(tmp_path / "f", {"sglang": "0.5.10"})))
    both_see()
    named = make_venv(tmp_path / "g", {"sglang": "0.5.11"})
    both_see(replace(PROFILE, launch=PythonLaunch(str(named))))
    assert len(set(seen)) == 7


def test_a_python_path_of_the_profile_counts(paths: Paths, tmp_path: Path) -> None:
    python = make_venv(tmp_path / "env", {"sglang": "0.5.23"})
    other = tmp_path / "elsewhere"
    make_venv(other, {"sglang": "0.5.17"})
    site = other / "lib/python3.11/site-packages"
    profile = replace(
        PROFILE, launch=PythonLaunch(str(python)), env={**PROFILE.env, "PYTHONPATH": str(site)}
    )
    found = resolve_interpreter(profile, paths)
    assert (found.version, found.site_packages) == ("0.5.17", str(site))
    assert resolve_interpreter(replace(profile, env=PROFILE.env), paths).version == "0.5.23"
