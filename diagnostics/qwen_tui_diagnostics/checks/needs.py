"""What a launch needs: memory, disk, CUDA, by model family and by how PLE is kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.checks.tables import engine_row
from qwen_tui_diagnostics.checks.units import GIB
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_profiles.text import Text

__all__ = ["NEEDS", "Needs", "engine_cuda", "family_of", "install_commands", "needs_of"]


@dataclass(frozen=True, slots=True)
class Needs:
    """Published measurements; the host's memory is an estimate of the same source."""

    family: str
    ple: str | None
    ram_bytes: int
    """Comfortable."""
    ram_floor_bytes: int
    """Below this the launch fails."""
    gpu_floor_bytes: int
    """Weights, draft, state of one request, a little KV: below this nothing serves."""
    disk_bytes: int


NEEDS: tuple[Needs, ...] = (
    # 18.6 GB weights + 0.8 to 5.5 GB MTP + about 1 GB state; 32 GiB of host memory are comfortable.
    Needs("27b", None, 32 * GIB, 12 * GIB, int(19.5 * GIB), 20 * 10**9),
    # The page or row cache of the profile comes on top (20 GiB by default).
    Needs("flash", "nvme", 12 * GIB, 6 * GIB, 76 * GIB, 126 * GIB),
    Needs("flash", "pinned", 64 * GIB, 56 * GIB, 76 * GIB, 126 * GIB),
    Needs("flash", "file", 16 * GIB, 8 * GIB, 76 * GIB, int(173.7 * GIB)),
    Needs("flash", None, 32 * GIB, 16 * GIB, 124 * GIB, 126 * GIB),
)


def family_of(target: Target, facts: Facts) -> str | None:
    """Return ``27b`` or ``flash`` from the checkpoint's type, else from its name."""
    if facts.has("model.config.model_type"):
        kind = facts.text("model.config.model_type")
        if kind.startswith("qwen4"):
            return "flash"
    name = f"{target.repo or ''} {target.model_path or ''} {target.profile or ''}".lower()
    if "flash-next" in name or "flash_next" in name or target.ple is not None:
        return "flash"
    return "27b" if "27b" in name else None


def needs_of(target: Target, facts: Facts) -> Needs | None:
    """Return the needs of the launch, or ``None`` when its model is not known."""
    family = family_of(target, facts)
    rows = [row for row in NEEDS if row.family == family]
    found = next((row for row in rows if row.ple == target.ple), rows[-1] if rows else None)
    if found is not None and found.ple == "nvme":
        cache = target.ple_cache_bytes
        return replace(
            found, ram_bytes=found.ram_bytes + cache, ram_floor_bytes=found.ram_floor_bytes + cache
        )
    return found


def engine_cuda(facts: Facts, target: Target) -> tuple[tuple[int, ...], Text | str] | None:
    """Return the CUDA that the engine is built for, and where that is known from.

    Returns:
        ``None`` when there is no engine in an interpreter here, or its release is not in the table.

    Raises:
        MissingFact: it was not found out whether there is one.
    """
    if target.image is not None:
        return None
    installs = facts.rows("engine.installs")
    if not installs:
        return None
    install = installs[0]
    if install.has("torch.cuda"):
        return install.integers("torch.cuda"), "torch/version.py"
    row = engine_row(install.text("version"))
    if row is not None and install.text("engine") == "sglang":
        return row.cuda, t("release table")
    return None


def install_commands(engine: str | None, version: str = "") -> tuple[str, str]:
    """Return how to put an engine into an environment of its own, where it will be found."""
    name = engine if engine in {"sglang", "vllm"} else "sglang"
    package = f"'{name}{version}'" if version else name
    return f"python3 -m venv ~/{name}-venv", f"~/{name}-venv/bin/python -m pip install {package}"
