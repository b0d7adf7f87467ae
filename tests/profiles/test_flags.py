"""Flag tables against facts stated elsewhere: release notes of flags, and the 0.5.23 parser."""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.engine_flags import installed_flags
from qwen_tui.services.engines import EngineFound
from qwen_tui.services.paths import Paths
from qwen_tui_profiles.flags import Arity, flag_table, history, known_versions, newest_version
from qwen_tui_profiles.flags.source import sglang_flags, vllm_flags
from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.versions import in_range

if TYPE_CHECKING:
    from pathlib import Path

S, V = EngineKind.SGLANG, EngineKind.VLLM


def test_the_newest_sglang_table_is_the_parser_of_that_release() -> None:
    """The simulated engine ships the list that 0.5.23's own parser registers."""
    text = (resources.files("qwen_tui.demo_engine") / "data" / "flags.json").read_text()
    table = flag_table(S, "0.5.23")
    registered: dict[str, tuple[str, str | None]] = {
        name: (kind, nargs) for _, kind, names, _, nargs in json.loads(text) for name in names
    }
    ours = {name for spec in table.flags for name in spec.names}
    assert ours == set(registered)
    arity = {"+": Arity.MANY, "*": Arity.MANY, "?": Arity.OPTIONAL, None: Arity.ONE}
    for name, (kind, nargs) in registered.items():
        expected = {"flag": Arity.NONE, "bool": Arity.SWITCH}.get(kind, arity[nargs])
        assert table.by_name[name].arity is expected, name


@pytest.mark.parametrize(
    ("engine", "flag", "since", "until"),
    [
        (S, "--mamba-scheduler-strategy", "0.5.7", "0.5.19"),
        (S, "--mamba-radix-cache-strategy", "0.5.14", None),
        (S, "--cuda-graph-max-bs", None, "0.5.19"),
        (S, "--cuda-graph-max-bs-decode", "0.5.14", None),
        (S, "--disable-piecewise-cuda-graph", "0.5.10", "0.5.19"),
        (S, "--fp4-gemm-backend", "0.5.8", None),
        (S, "--language-only", "0.5.7", None),
        (S, "--speculative-adaptive", "0.5.11", None),
        (S, "--speculative-draft-kv-cache-dtype", "0.5.18", None),
        (S, "--ple-offload-embedding", "0.5.20", None),
        (S, "--qsa-indexer-dtype", "0.5.22", None),
        (S, "--enable-unified-memory", "0.5.15", None),
        (S, "--linear-attn-verify-backend", "0.5.17", None),
        (S, "--mamba-max-states-per-path", "0.5.17", None),
        (S, "--soft-watchdog-timeout", "0.5.7", None),
        (S, "--admin-api-key", "0.5.8", None),
        (S, "--enable-metrics", None, None),
        (V, "--swap-space", None, "0.17.1"),
        (V, "--calculate-kv-scales", None, "0.27.1"),
        (V, "--mamba-cache-mode", "0.16.0", None),
        (V, "--engram-config", "0.30.0", None),
        (V, "--max-num-active-seqs", "0.31.0", None),
        (V, "--use-replayssm", "0.27.1", None),
        (V, "--kv-cache-memory-bytes", None, None),
    ],
)
def test_periods_that_were_read_from_the_releases(
    engine: EngineKind, flag: str, since: str | None, until: str | None
) -> None:
    for version in known_versions(engine):
        there = flag in flag_table(engine, version).by_name
        assert there is in_range(version, since, until), version


def test_values_change_with_the_release() -> None:
    def choices(flag: str, version: str) -> tuple[str, ...]:
        return flag_table(S, version).by_name[flag].choices or ()

    assert "tc_piecewise" in choices("--cuda-graph-backend-prefill", "0.5.21")
    assert "tc_piecewise" not in choices("--cuda-graph-backend-prefill", "0.5.22")
    assert "extra_buffer_lazy" not in choices("--mamba-scheduler-strategy", "0.5.12")
    assert "extra_buffer_lazy" in choices("--mamba-scheduler-strategy", "0.5.13")
    assert "fp4_e2m1" in choices("--kv-cache-dtype", "0.5.20")
    assert "fp4_e2m1" not in choices("--kv-cache-dtype", "0.5.21")


def test_versions_between_and_beyond_the_known_ones() -> None:
    assert flag_table(S, "0.5.17").exact
    assert flag_table(S, "0.5.17.post1+cu130").exact
    assert not flag_table(S, "0.6.0").exact
    assert flag_table(S, "0.6.0").flags == flag_table(S, newest_version(S)).flags
    assert flag_table(S, "0.1").flags == flag_table(S, "0.5.6").flags
    assert flag_table(V, "0.18.1").flags == flag_table(V, "0.17.1").flags
    assert flag_table(EngineKind.DEMO).flags == flag_table(S).flags


def test_abbreviations_and_misspellings() -> None:
    table = flag_table(S, "0.5.23")
    spec = table.find("--max-run")
    assert spec is not None
    assert spec.name == "--max-running-requests"
    assert table.find("--cuda-graph-max-bs") is None
    assert set(table.candidates("--cuda-graph-max-bs")) == {
        "--cuda-graph-max-bs-decode",
        "--cuda-graph-max-bs-prefill",
    }
    assert "--max-running-requests" in table.near("--max-runing-requests")


def test_history_has_every_spelling() -> None:
    assert next(p.since for p in history(S)["--mamba-scheduler-strategy"]) == "0.5.7"
    assert "--no-enable-prefix-caching" in history(V)


STYLE_1 = """
CHOICES = ["a", "b"]
class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--one", type=int, default=1)
        parser.add_argument("-q", "--quick", action="store_true")
        parser.add_argument("--pick", choices=CHOICES + ["c"])
        parser.add_argument("--many", nargs="+", type=str)
        parser.add_argument("--old", action=DeprecatedAliasStoreAction, new_flag="--one")
        parser.add_argument("--gone", action=DeprecatedAction, error_message="use --one")
        parser.add_argument("positional")
"""
STYLE_2 = """
class ServerArgs:
    one: A[int, "help"] = 1
    quick: A[bool, Arg(help="x", aliases=["--fast"]), NS("x")] = False
    pick: A[Optional[str], Arg(help="x", choices=["a", "b"])] = None
    many: A[Optional[List[int]], Arg(help="x")] = None
    whole: A[List[str], Arg(help="x", type_parser=json.loads)] = None
    switch: A[Optional[bool], Arg(help="x", action=argparse.BooleanOptionalAction)] = None
    hidden: A[int, Arg(no_cli=True)] = 1
    plain: int = 3
    lit: A[Literal["x", "y"], "help"] = "x"
"""


def test_both_styles_of_sglang_are_read() -> None:
    first = {s.name: s for s in sglang_flags({"a": STYLE_1})}
    assert first["--quick"].names == ("--quick", "-q")
    assert first["--quick"].arity is Arity.NONE
    assert first["--pick"].choices == ("a", "b", "c")
    assert first["--many"].arity is Arity.MANY
    assert first["--old"].use == "--one"
    assert first["--gone"].refused == "use --one"
    assert "positional" not in first
    second = {s.name: s for s in sglang_flags({"a": STYLE_2})}
    assert set(second) == {
        *("--one", "--quick", "--pick", "--many", "--whole", "--switch", "--lit"),
    }
    assert second["--quick"].names == ("--quick", "--fast")
    assert second["--many"].arity is Arity.MANY
    assert second["--whole"].arity is Arity.ONE
    assert second["--switch"].arity is Arity.SWITCH
    assert second["--lit"].choices == ("x", "y")


def test_vllm_types_come_from_its_config_classes() -> None:
    engine = """
cache_kwargs = get_kwargs(CacheConfig)
group.add_argument("--enable-x", **{**cache_kwargs["enable_x"], "default": None})
group.add_argument("--names", **cache_kwargs["names"])
group.add_argument("--dtype", "-d", **cache_kwargs["dtype"])
"""
    config = """
DType = Literal["auto", "fp8"]
class Other:
    enable_x: str = ""
class CacheConfig:
    enable_x: bool | None = None
    names: list[str] | None = None
    dtype: DType = "auto"
"""
    frontend = "class FrontendArgs:\n    host: str | None = None\n    ssl: bool = False\n"
    found = {s.name: s for s in vllm_flags(engine, frontend, {"c": config})}
    assert found["--enable-x"].arity is Arity.SWITCH
    assert found["--names"].arity is Arity.MANY
    assert found["--dtype"].choices == ("auto", "fp8")
    assert found["--host"].arity is Arity.ONE
    assert found["--ssl"].arity is Arity.SWITCH


def make_install(root: Path, extra: str = "") -> EngineFound:
    source = root / "sglang" / "srt" / "server_args.py"
    source.parent.mkdir(parents=True, exist_ok=True)
    many = "".join(f'    flag_{i}: A[int, "help"] = 0\n' for i in range(60))
    source.write_text(f"class ServerArgs:\n{many}{extra}")
    return EngineFound("/py", S, "0.5.99", "test", str(root))


def test_the_installed_engine_tells_its_own_flags_and_is_asked_once(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "c", tmp_path / "s", tmp_path / "cache")
    found = make_install(tmp_path / "site", '    fork_only: A[bool, "help"] = False\n')
    table = installed_flags(found, paths)
    assert table is not None
    assert "--fork-only" in table.by_name
    cached = list((paths.cache / "flags").iterdir())
    assert len(cached) == 1
    assert cached[0].stat().st_mode & 0o777 == 0o600
    stamp = cached[0].stat().st_mtime_ns
    again = installed_flags(found, paths)
    assert again is not None
    assert again.flags == table.flags
    assert cached[0].stat().st_mtime_ns == stamp


@pytest.mark.parametrize("content", ["{", '{"format": 99, "flags": []}', "[]", '{"format": 1}'])
def test_a_broken_cache_is_read_again(tmp_path: Path, content: str) -> None:
    paths = Paths(tmp_path / "c", tmp_path / "s", tmp_path / "cache")
    found = make_install(tmp_path / "site")
    assert installed_flags(found, paths) is not None
    (cached,) = (paths.cache / "flags").iterdir()
    cached.write_text(content)
    table = installed_flags(found, paths)
    assert table is not None
    assert len(table.flags) == 60


@pytest.mark.parametrize("source", ["def broken(:", "x = 1\n", ""])
def test_what_cannot_be_read_is_unknown(tmp_path: Path, source: str) -> None:
    paths = Paths(tmp_path / "c", tmp_path / "s", tmp_path / "cache")
    found = make_install(tmp_path / "site")
    (tmp_path / "site" / "sglang" / "srt" / "server_args.py").write_text(source)
    assert installed_flags(found, paths) is None
    nothing = EngineFound("/docker", S, None, "container image", image="x")
    assert installed_flags(nothing, paths) is None


def test_an_editable_checkout_is_followed(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "c", tmp_path / "s", tmp_path / "cache")
    make_install(tmp_path / "fork" / "python", '    own: A[int, "help"] = 0\n')
    found = EngineFound(
        "/py", S, "0.1.0", "test", str(tmp_path / "empty"), f"file://{tmp_path / 'fork'}"
    )
    table = installed_flags(found, paths)
    assert table is not None
    assert "--own" in table.by_name
