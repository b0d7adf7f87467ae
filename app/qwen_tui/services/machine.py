"""What makes two boots comparable: short fingerprints of engine, model, flags and machine.

Read from files, without NVML and without the engine: this runs at every launch.
"""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui.services.records import RunRecord

__all__ = ["fingerprints", "machine_print", "model_print"]

# Where a server listens and what it is called says nothing about how it boots.
_NOT_THE_POINT = frozenset({"--host", "--port", "--served-model-name", "--api-key"})


def fingerprints(record: RunRecord) -> Mapping[str, str]:
    """Return the fingerprints of a run, by ``engine``, ``model``, ``flags`` and ``machine``."""
    model = record.snapshot.get("model")
    return {
        "engine": _digest([record.engine, record.engine_version, record.interpreter]),
        "model": model_print(model if isinstance(model, dict) else {}),
        "flags": _digest(sorted(_flags(record.asked))),
        "machine": machine_print(),
    }


def model_print(model: Mapping[str, object]) -> str:
    """Return the fingerprint of a profile's model: what it names, and its config.json."""
    path = model.get("path")
    return _digest([dict(model), _config_digest(path if isinstance(path, str) else None)])


def machine_print() -> str:
    """Return the fingerprint of this machine."""
    return _digest(_machine())


def _flags(asked: tuple[str, ...]) -> list[str]:
    """Return flags with their values, one string each, without those that do not matter."""
    flags: list[str] = []
    for item in asked:
        if item.startswith("--"):
            flags.append(item)
        elif flags:
            flags[-1] += f" {item}"
    return [f for f in flags if f.split()[0].partition("=")[0] not in _NOT_THE_POINT]


def _config_digest(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        data = (Path(path).expanduser() / "config.json").read_bytes()
    except OSError:
        return None
    return hashlib.sha256(data).hexdigest()


@functools.cache
def _machine() -> tuple[str, ...]:
    facts = []
    gpus = Path("/proc/driver/nvidia/gpus")
    for file in (*sorted(gpus.glob("*/information")), Path("/proc/driver/nvidia/version")):
        facts += [line for line in _lines(file) if line.startswith(("Model", "NVRM"))]
    facts += [line for line in _lines(Path("/proc/meminfo")) if line.startswith("MemTotal")]
    facts += [line for line in _lines(Path("/proc/cpuinfo")) if line.startswith("model name")][:1]
    return tuple(facts)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, default=str).encode()).hexdigest()[:16]
