"""Profiles from TOML: the presets that ship, overridden by the user's files.

A user file replaces the preset of the same name, or, with ``extends = "NAME"``, changes single
keys of another profile (``false`` removes a flag). A file that cannot be used becomes a
:class:`~qwen_tui_profiles.toml_io.ProfileFileError` in :attr:`ProfileSet.problems` and takes
nothing else down with it.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from qwen_tui_profiles.errors import ProfileError
from qwen_tui_profiles.profile import EngineMode, Origin
from qwen_tui_profiles.profile_schema import build_profile, merge
from qwen_tui_profiles.text import t
from qwen_tui_profiles.toml_io import Document, read_toml

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from qwen_tui_profiles.profile import EngineProfile

__all__ = ["PRESETS_DIR", "ProfileSet", "load_profiles", "load_profiles_from"]

PRESETS_DIR = Path(__file__).with_name("presets")


@dataclass(frozen=True, slots=True)
class ProfileSet:
    """Every usable profile, and what was wrong with the others."""

    profiles: Mapping[str, EngineProfile]
    """By name: presets in shipped order, then the user's."""
    problems: tuple[ProfileError, ...] = ()

    def get(self, name: str) -> EngineProfile:
        """Return the profile called ``name``.

        Raises:
            ProfileError: there is none; the message names the nearest, or the file at fault.
        """
        found = self.profiles.get(name)
        if found is not None:
            return found
        for problem in self.problems:
            if Path(getattr(problem, "path", "")).stem == name:
                raise problem
        near = difflib.get_close_matches(name, self.profiles, n=3, cutoff=0.5)
        shown = ", ".join(near or self.profiles)
        if near:
            remedy = t("Did you mean {names}? `qwen-tui profiles list` shows all.", names=shown)
        else:
            remedy = t("Known profiles: {names}.", names=shown)
        raise ProfileError(t("There is no profile called {name}.", name=repr(name)), remedy)

    def pair_of(self, profile: EngineProfile) -> EngineProfile | None:
        """Return the profile on the other side of the swap; ``None`` when there is none."""
        return self.profiles.get(profile.pair) if profile.pair else None


def load_profiles(user_folder: Path | None) -> ProfileSet:
    """Load the presets and the user's profiles; never raises for a file that is broken."""
    return load_profiles_from(PRESETS_DIR, user_folder)


def load_profiles_from(preset_folder: Path, user_folder: Path | None) -> ProfileSet:
    """Like :func:`load_profiles`, with the presets taken from ``preset_folder``."""
    problems: list[ProfileError] = []
    documents: dict[str, tuple[Document, str]] = {}
    shadowed: dict[str, tuple[Document, str]] = {}
    presets = [(document, "preset") for document in _documents(preset_folder, problems)]
    own = [(document, "user") for document in _documents(user_folder, problems)]
    for document, kind in (*presets, *own):
        name = Path(document.path).stem
        if name in documents:
            shadowed[name] = documents[name]
        documents[name] = (document, kind)

    profiles: dict[str, EngineProfile] = {}
    for name, entry in documents.items():
        # A user file that cannot be used leaves the preset that it was meant to replace in place.
        for document, kind in (entry, shadowed[name]) if name in shadowed else (entry,):
            try:
                data = _resolved(document, documents, shadowed, ())
                profiles[name] = build_profile(data, document, Origin(kind, document.path))
            except ProfileError as problem:
                problems.append(problem)
            else:
                break
    shipped = {Path(document.path).stem for document, _ in presets}
    ordered = dict(sorted(profiles.items(), key=lambda item: _rank(item[1], shipped)))
    return ProfileSet(MappingProxyType(ordered), tuple(problems))


def _rank(profile: EngineProfile, shipped: Set[str]) -> tuple[bool, bool, str, bool]:
    """Presets before the user's own, the demo last, pairs together, speed before context."""
    own = profile.name not in shipped
    together = min(profile.name, profile.pair or profile.name)
    return own, profile.simulated, together, profile.mode is EngineMode.CONTEXT


def _documents(folder: Path | None, problems: list[ProfileError]) -> list[Document]:
    if folder is None:
        return []
    try:
        paths = sorted(p for p in folder.iterdir() if p.suffix == ".toml" and p.name[0] != ".")
    except FileNotFoundError:
        return []
    except OSError as error:
        reason = error.strerror or type(error).__name__
        problems.append(
            ProfileError(
                t("Cannot read the folder {path} ({reason}).", path=str(folder), reason=reason),
                t("Make it a readable folder; the shipped profiles are available meanwhile."),
            )
        )
        return []
    documents = []
    for path in paths:
        try:
            documents.append(read_toml(path))
        except ProfileError as problem:
            problems.append(problem)
    return documents


def _resolved(
    document: Document,
    documents: Mapping[str, tuple[Document, str]],
    shadowed: Mapping[str, tuple[Document, str]],
    seen: tuple[str, ...],
) -> Mapping[str, object]:
    """Return the document's data with what it extends merged beneath it."""
    base_name = document.data.get("extends")
    if base_name is None:
        return document.data
    own_name = Path(document.path).stem
    if not isinstance(base_name, str) or base_name in seen:
        raise document.error(
            ("extends",),
            t("extends must name another profile, without a circle."),
            t("Write the name of a shipped profile, such as 27b-nvfp4-speed."),
        )
    # A file that extends its own name means the preset that it stands in front of.
    entry = (shadowed if base_name == own_name else documents).get(base_name)
    if entry is None:
        near = difflib.get_close_matches(base_name, documents, n=3, cutoff=0.5)
        raise document.error(
            ("extends",),
            t("there is no profile {name} to extend.", name=repr(base_name)),
            t("Known profiles: {names}.", names=", ".join(near or documents)),
        )
    base = _resolved(entry[0], documents, shadowed, (*seen, own_name, base_name))
    return merge(base, document.data)
