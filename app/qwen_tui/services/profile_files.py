"""Writing the user's profile files: new, edited, imported. Comments and order are kept."""

from __future__ import annotations

import datetime
import os
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from qwen_tui.services.paths import write_private
from qwen_tui_profiles.errors import ConfigError, ProfileError, UsageError
from qwen_tui_profiles.loader import load_profiles
from qwen_tui_profiles.text import t
from qwen_tui_profiles.toml_io import read_toml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tomlkit import TOMLDocument

    from qwen_tui.services.paths import Paths
    from qwen_tui_profiles.cmdline.to_profile import ImportedProfile
    from qwen_tui_profiles.profile import EngineProfile

__all__ = [
    "change_profile",
    "edit_profile",
    "import_profile",
    "imported_text",
    "new_profile",
    "parse_changes",
    "profile_path",
]

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_TABLES = frozenset({"args", "env", "model", "launch"})


def profile_path(paths: Paths, name: str) -> Path:
    """Return where a user profile of this name is kept.

    Raises:
        UsageError: the name cannot be a file name of ours.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            t("{name} is not a profile name.", name=repr(name[:64])),
            t("Use lower-case letters, digits, dots and dashes."),
        )
    return paths.profiles / f"{name}.toml"


def new_profile(
    paths: Paths, name: str, base: str, changes: Mapping[str, str | None]
) -> EngineProfile:
    """Create a profile that extends another one and return it as it is read back.

    Raises:
        UsageError: the name is taken or unusable, or a change is not understood.
        ProfileError: ``base`` does not exist, or the result is not a usable profile.
    """
    import tomlkit

    load_profiles(paths.profiles).get(base)
    path = _fresh(paths, name)
    document = tomlkit.document()
    document.add(tomlkit.comment(f"Made from {base}; only what differs stands here."))
    document.add(tomlkit.comment("Under [args], false removes a flag."))
    document["extends"] = base
    _apply(document, changes)
    return _write_checked(paths, path, name, document)


def change_profile(paths: Paths, name: str, changes: Mapping[str, str | None]) -> EngineProfile:
    """Change keys of a user profile; for a shipped one, make a file that overrides it first.

    Args:
        paths: Our folders.
        name: Profile to change.
        changes: Dotted key → new value; ``None`` removes the key from the file.

    Raises:
        UsageError: a change is not understood.
        ProfileError: the profile does not exist, or would not be usable; nothing is written then.
    """
    import tomlkit

    path = _override(paths, name)
    document = tomlkit.parse(read_toml(path).text) if path.exists() else _overriding(name)
    _apply(document, changes)
    return _write_checked(paths, path, name, document)


def edit_profile(paths: Paths, name: str) -> Path:
    """Open a profile in the user's editor and return its file.

    For a shipped profile a file that overrides it is made first.

    Raises:
        UsageError: there is no terminal, or no editor that can be started.
        ProfileError: the profile does not exist.
    """
    import tomlkit

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            t("There is no terminal to open an editor in."),
            t("Change single keys: qwen-tui profiles edit {name} --set port=30001", name=name),
        )
    path = _override(paths, name)
    if not path.exists():
        _save(paths, path, tomlkit.dumps(_overriding(name)))
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        finished = subprocess.run([*shlex.split(editor), str(path)], check=False)
    except (OSError, ValueError) as error:
        raise UsageError(
            t("The editor {editor} cannot be started.", editor=editor),
            t("Set EDITOR, or edit {path} yourself.", path=str(path)),
        ) from error
    if finished.returncode != 0:
        raise UsageError(
            t("The editor ended with code {code}.", code=finished.returncode),
            t("The file is {path}.", path=str(path)),
        )
    return path


def import_profile(paths: Paths, name: str, found: ImportedProfile, origin: str) -> EngineProfile:
    """Write an imported launch as a user profile and return it as it is read back.

    Raises:
        UsageError: the name is taken or unusable.
        ProfileError: the launch cannot be written as a profile.
    """
    import tomlkit

    path = _fresh(paths, name)
    return _write_checked(paths, path, name, tomlkit.parse(imported_text(found, name, origin)))


def imported_text(found: ImportedProfile, name: str, origin: str) -> str:
    """Return the TOML of an imported launch."""
    import tomlkit

    document = tomlkit.document()
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    document.add(tomlkit.comment(f"Imported from {origin} on {day}."))
    for note in found.notes:
        document.add(tomlkit.comment(str(note)))
    document["title"] = name
    document["engine"] = found.engine.value
    document["mode"] = found.mode
    document["host"] = found.host
    document["port"] = found.port
    model = {
        "path": found.model_path,
        "repo": found.model_repo,
        "served-name": found.served_name,
    }
    launch: dict[str, Any] = {}
    if found.image is not None:
        launch = {
            "kind": "container",
            "runtime": found.runtime,
            "image": found.image,
            "args": list(found.run_args),
        }
    elif found.interpreter is not None:
        launch = {"kind": "python", "interpreter": found.interpreter}
    tables: tuple[tuple[str, Mapping[str, Any]], ...] = (
        ("model", {key: value for key, value in model.items() if value is not None}),
        ("launch", launch),
        ("args", found.args),
        ("env", found.env),
    )
    for heading, content in tables:
        if content:
            table = tomlkit.table()
            for key, value in content.items():
                table[key] = value
            document[heading] = table
    return tomlkit.dumps(document)


def _fresh(paths: Paths, name: str) -> Path:
    path = profile_path(paths, name)
    if path.exists() or name in load_profiles(paths.profiles).profiles:
        raise UsageError(
            t("There is a profile {name} already.", name=name),
            t("Choose another name, or change it with `qwen-tui profiles edit {name}`.", name=name),
        )
    return path


def _override(paths: Paths, name: str) -> Path:
    path = profile_path(paths, name)
    if not path.exists():
        load_profiles(paths.profiles).get(name)
    return path


def _overriding(name: str) -> TOMLDocument:
    import tomlkit

    document = tomlkit.document()
    document.add(tomlkit.comment("Your changes to the shipped profile of this name."))
    document.add(tomlkit.comment("Under [args], false removes a flag."))
    document["extends"] = name
    return document


def _apply(document: TOMLDocument, changes: Mapping[str, str | None]) -> None:
    import tomlkit
    from tomlkit.items import Table

    for dotted, value in changes.items():
        table, dot, key = dotted.partition(".")
        if dot and table not in _TABLES:
            raise UsageError(
                t("{key} cannot be set here.", key=dotted),
                t("Use args.FLAG, env.NAME, model.path, launch.interpreter, or a top-level key."),
            )
        target: Any = document
        if dot:
            if not isinstance(document.get(table), Table):
                document[table] = tomlkit.table()
            target = document[table]
        name = (key if dot else dotted).removeprefix("--")
        if value is None:
            target.pop(name, None)
        else:
            target[name] = value if table == "env" else _parsed(value)


def _parsed(text: str) -> object:
    """Read a value as TOML where it is TOML (``3``, ``true``, ``[1, 2]``), else as a text."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return tomlkit.parse(f"value = {text}\n")["value"]
    except TOMLKitError:
        return text


def _write_checked(paths: Paths, path: Path, name: str, document: TOMLDocument) -> EngineProfile:
    """Write, read back, and undo when the result is not a usable profile."""
    import tomlkit

    before = path.read_bytes() if path.exists() else None
    _save(paths, path, tomlkit.dumps(document))
    profiles = load_profiles(paths.profiles)
    mine = [p for p in profiles.problems if getattr(p, "path", None) == str(path)]
    if mine:
        if before is None:
            path.unlink(missing_ok=True)
        else:
            write_private(path, before)
        problem: ProfileError = mine[0]
        raise ProfileError(
            t("Nothing was written: {reason}", reason=problem.message), problem.remedy
        )
    return profiles.get(name)


def _save(paths: Paths, path: Path, text: str) -> None:
    paths.make(paths.profiles)
    try:
        write_private(path, text.encode())
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError(
            t("Cannot write {path} ({reason}).", path=str(path), reason=reason),
            t("Free space on that disk or make the folder writable; nothing was changed."),
        ) from error


def parse_changes(settings: Sequence[str], removals: Sequence[str]) -> dict[str, str | None]:
    """Turn ``KEY=VALUE`` words and keys to remove into changes.

    Raises:
        UsageError: a word has no equals sign.
    """
    changes: dict[str, str | None] = dict.fromkeys(removals)
    for word in settings:
        key, equals, value = word.partition("=")
        if not equals or not key.strip():
            raise UsageError(
                t("{word} is not KEY=VALUE.", word=repr(word[:80])),
                t("Write for example args.mem-fraction-static=0.90."),
            )
        changes[key.strip()] = value
    return changes
