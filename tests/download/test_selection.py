"""Which files are wanted: patterns, and what an engine opens."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwen_tui.services.download.listing import check_path
from qwen_tui.services.download.problems import Problem
from qwen_tui.services.download.selection import by_patterns, indexed_files, loaded_only

RELEASE = [
    "README.md",
    "config.json",
    "consolidated.safetensors",
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
    "model.safetensors.index.json",
    "model_mtp.safetensors",
    "onnx/model.onnx",
    "original/params.json",
    "original/weights.pth",
    "pytorch_model.bin",
    "qwen-q4_k_m.gguf",
    "tokenizer.json",
]


def test_the_index_decides_and_stays_itself() -> None:
    index = json.dumps(
        {
            "weight_map": {
                "a": "model-00001-of-00002.safetensors",
                "b": "model-00002-of-00002.safetensors",
                "mtp.x": "model_mtp.safetensors",
            }
        }
    ).encode()
    kept, out = loaded_only(RELEASE, indexed_files(index))
    assert out == [
        "consolidated.safetensors",
        "onnx/model.onnx",
        "original/weights.pth",
        "pytorch_model.bin",
        "qwen-q4_k_m.gguf",
    ]
    assert set(kept) | set(out) == set(RELEASE)
    assert "model.safetensors.index.json" in kept


def test_without_an_index_all_safetensors_of_the_top_folder_are_opened() -> None:
    kept, out = loaded_only(
        ["config.json", "a.safetensors", "b.safetensors", "x/c.safetensors"], None
    )
    assert out == ["x/c.safetensors"]
    assert kept == ["config.json", "a.safetensors", "b.safetensors"]


def test_a_lone_consolidated_copy_is_not_opened() -> None:
    _, out = loaded_only(["model.safetensors", "consolidated.safetensors"], None)
    assert out == ["consolidated.safetensors"]


def test_bin_files_count_where_there_is_nothing_better() -> None:
    _, out = loaded_only(["pytorch_model.bin", "training_args.bin", "model.pt"], None)
    assert out == ["training_args.bin", "model.pt"]


def test_an_index_of_another_sharding_takes_nothing_away() -> None:
    kept, out = loaded_only(["model.safetensors"], frozenset({"model-00001-of-00009.safetensors"}))
    assert (kept, out) == (["model.safetensors"], [])


@pytest.mark.parametrize("data", [b"", b"[]", b'{"weight_map": 3}', b"\xff", b'{"weight_map": []}'])
def test_a_broken_index_is_no_index(data: bytes) -> None:
    assert indexed_files(data) is None


@given(
    st.lists(st.sampled_from(RELEASE), unique=True), st.none() | st.sets(st.sampled_from(RELEASE))
)
def test_nothing_is_lost_and_nothing_but_weights_left_out(
    paths: list[str], indexed: set[str] | None
) -> None:
    kept, out = loaded_only(paths, None if indexed is None else frozenset(indexed))
    assert sorted(kept + out) == sorted(paths)
    assert not any(p.endswith((".json", ".md")) for p in out)
    weights = [p for p in paths if p.endswith((".safetensors", ".bin")) and "/" not in p]
    if weights:
        assert any(p in kept for p in weights)


def test_patterns_are_those_of_the_hubs_client() -> None:
    assert by_patterns(RELEASE, ["original/"], []) == [
        "original/params.json",
        "original/weights.pth",
    ]
    assert by_patterns(RELEASE, ["*.json"], ["original/*"]) == [
        "config.json",
        "model.safetensors.index.json",
        "tokenizer.json",
    ]


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a\\b", "x\n", ".cache/x", "a/./b", "x\x00y"],
)
def test_paths_that_could_leave_the_folder(path: str) -> None:
    with pytest.raises(Problem) as raised:
        check_path(path)
    assert raised.value.code == "unsafe_path"


def test_ordinary_paths_pass() -> None:
    for path in [*RELEASE, "a/b/c.txt", "名前.json", ".gitattributes", "x..y"]:
        assert check_path(path) == path
