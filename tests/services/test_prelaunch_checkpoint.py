from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import TYPE_CHECKING

from qwen_tui.services.prelaunch_checkpoint import checkpoint_findings
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.profile import EngineKind, ModelRef
from support.supervise import fake_profile

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from qwen_tui.services.paths import Paths
    from qwen_tui_profiles.profile import EngineProfile


def checkpoint(folder: Path, *, missing_shard: bool) -> None:
    """Two tensors, of which the second's shard may be missing: the engine dies an hour later."""
    folder.mkdir()
    (folder / "config.json").write_text(
        json.dumps({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"})
    )
    shards = {"a.weight": "model-00001-of-00002.safetensors"}
    shards["b.weight"] = "model-00002-of-00002.safetensors"
    for name, file in shards.items():
        if missing_shard and name == "b.weight":
            continue
        header = {name: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
        data = json.dumps(header).encode()
        (folder / file).write_bytes(struct.pack("<Q", len(data)) + data + bytes(8))
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 16}, "weight_map": shards})
    )


def profile(folder: Path) -> EngineProfile:
    model = ModelRef(path=str(folder))
    return replace(fake_profile(port=30000), engine=EngineKind.SGLANG, model=model)


def errors(paths: Paths, folder: Path) -> list[str]:
    found = checkpoint_findings(profile(folder), "0.5.23", paths)
    return [f"{f.title} {f.evidence}" for f in found if f.severity is Severity.ERROR]


def test_a_missing_shard_stops_the_launch(paths: Paths, tmp_path: Path) -> None:
    checkpoint(tmp_path / "model", missing_shard=True)
    (first, *_) = errors(paths, tmp_path / "model")
    assert "model-00002-of-00002.safetensors" in first
    assert errors(paths, tmp_path / "model")[0] == first  # from the cache


def test_the_cache_sees_a_repaired_folder(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint(tmp_path / "model", missing_shard=False)
    assert errors(paths, tmp_path / "model") == []
    monkeypatch.setattr("qwen_tui_diagnostics.checkpoint.verify", None)
    assert errors(paths, tmp_path / "model") == []  # nothing is judged again
    monkeypatch.undo()
    (tmp_path / "model" / "model-00002-of-00002.safetensors").unlink()
    assert errors(paths, tmp_path / "model")


def test_nothing_to_judge(paths: Paths, tmp_path: Path) -> None:
    assert checkpoint_findings(fake_profile(port=30000), None, paths) == ()
    assert checkpoint_findings(profile(tmp_path / "nowhere"), None, paths) == ()


def test_dummy_weights_need_no_checkpoint(paths: Paths, tmp_path: Path) -> None:
    """Seen on an H200: a launch with made-up weights was refused for its missing shards."""
    checkpoint(tmp_path / "model", missing_shard=True)
    real = profile(tmp_path / "model")
    dummy = replace(real, argv=(*real.argv, "--load-format", "dummy"))
    assert checkpoint_findings(dummy, "0.5.17", paths) == ()
    assert checkpoint_findings(real, "0.5.17", paths)
