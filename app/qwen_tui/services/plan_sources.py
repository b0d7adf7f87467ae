"""Where the figures of a plan come from: a folder, what is known of a release, a simulated card."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui.services.known_models import known_model
from qwen_tui_profiles.errors import InputError, UsageError
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.plan.headers import has_weights, read_stored_sizes
from qwen_tui_profiles.plan.model import read_config
from qwen_tui_profiles.plan.result import Assumption
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_profiles.plan.headers import StoredSizes
    from qwen_tui_profiles.profile import EngineProfile
    from qwen_tui_profiles.text import Text

__all__ = ["Checkpoint", "demo_checkpoint", "demo_flags", "demo_free_gib", "find_checkpoint"]

_DEMO_MODEL = "Qwen3.8-27B-NVFP4"
"""What the simulated engine imitates, unless its model path says INT4."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the planner is told about the weights."""

    config: Mapping[str, object]
    stored: StoredSizes | None = None
    """Sizes from headers; None = from the dimensions, or as published."""
    published_gib: float | None = None
    """What somebody's boot of this release printed for the target."""
    published_source: Text | str = ""
    assumed: tuple[Assumption, ...] = ()


def find_checkpoint(named: str | None, given: bool, profile: EngineProfile | None) -> Checkpoint:
    """Find a checkpoint's dimensions and sizes.

    Args:
        named: Folder, ``config.json`` or repository.
        given: The user named it for this plan (``--model``), so that it has to exist.
        profile: Whose checkpoint it is, for the repository that it comes from.

    Raises:
        UsageError: No checkpoint is named.
        InputError: It is not on this disk and nothing is known of it, or it cannot be read.
    """
    repo = None if profile is None else profile.model.repo
    if named is None and repo is None:
        raise UsageError(
            t("No checkpoint is named."),
            t("Give --model DIR; a folder with config.json alone is enough."),
        )
    folder = None if named is None else Path(named).expanduser()
    if folder is not None and (folder.is_file() or (folder / "config.json").is_file()):
        config = read_config(folder)
        stored = read_stored_sizes(folder) if folder.is_dir() and has_weights(folder) else None
        return Checkpoint(config, stored)
    known = None if given else _known(named, repo)
    if known is not None:
        return known
    if folder is not None and folder.is_dir():
        read_config(folder)  # says what is wrong with it
    remedy = t("Give the checkpoint's folder with --model; config.json alone is enough.")
    if repo is not None:
        remedy = t(
            "Fetch it (qwen-tui download {repo}), or give a folder with its config.json: --model.",
            repo=repo,
        )
    raise InputError(
        t("{path} does not exist.", path=clean(str(folder if folder is not None else repo))), remedy
    )


def _known(named: str | None, repo: str | None) -> Checkpoint | None:
    """Return what is known of a release by one of its names."""
    for name in (repo, named):
        row = None if name is None else known_model(name)
        if row is None:
            continue
        assumed = (
            Assumption(
                "checkpoint",
                row.folder.name,
                t("Not on this disk: dimensions that ship with qwen-tui, no headers were read."),
            ),
        )
        return Checkpoint(
            read_config(row.folder),
            published_gib=row.weights_gib,
            published_source=row.source,
            assumed=assumed,
        )
    return None


def demo_checkpoint(profile: EngineProfile) -> Checkpoint:
    """Return the dimensions and weights that the simulated engine imitates."""
    row = known_model(_DEMO_MODEL)
    path = (profile.model.path or _value(profile.argv, "--model-path") or "").lower()
    if "int4" in path:
        row = known_model(_DEMO_MODEL.replace("NVFP4", "INT4"))
    assert row is not None
    return Checkpoint(
        read_config(row.folder),
        published_gib=row.weights_gib,
        published_source=row.source,
        assumed=(
            Assumption("checkpoint", row.folder.name, t("What the simulated engine imitates.")),
        ),
    )


def demo_free_gib(profile: EngineProfile) -> float:
    """Return the free memory of the simulated card."""
    from qwen_tui.demo_engine.arguments import DemoOptions

    given = _value(profile.argv, "--demo-free-gib")
    try:
        return DemoOptions().free_gib if given is None else float(given)
    except ValueError:
        return DemoOptions().free_gib


def demo_flags(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out the simulation's own flags, which SGLang does not have."""
    out: list[str] = []
    skip = False
    for item in argv:
        if item.startswith("--"):
            skip = item.startswith("--demo-")
        if not skip:
            out.append(item)
    return tuple(out)


def _value(argv: tuple[str, ...], flag: str) -> str | None:
    for index, item in enumerate(argv):
        name, equals, value = item.partition("=")
        if name == flag:
            return value if equals else (argv[index + 1] if index + 1 < len(argv) else None)
    return None
