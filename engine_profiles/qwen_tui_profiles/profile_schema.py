"""The shape of a profile file: which keys there are, of which type, and what they become.

::

    title, engine = "sglang" | "vllm" | "demo", mode = "speed" | "context", pair, host, port,
    engine-versions, needs-gpu, build, thinking, notes, extends,
    ignore = ["rule-id", { rule, reason }], smoke = ["tool-call", "long-prompt", "stress"]
    [model]       path, repo, served-name
    [launch]      kind = "python" (interpreter) | "container" (runtime, image, args)
    [args]        engine flags without dashes: value, list of values, true = bare flag, table = JSON
    [env]         variables of the engine; {model.path} stands for the model's folder
    [provenance]  "args.mem-fraction-static" = { source, figure, date, note }
    [published]   source, argv, env, differences = { "--flag" = "why" }
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.profile import (
    SMOKES,
    ContainerLaunch,
    EngineKind,
    EngineMode,
    EngineProfile,
    ModelRef,
    Provenance,
    Published,
    PythonLaunch,
)
from qwen_tui_profiles.text import Text, t
from qwen_tui_profiles.versions import satisfies

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_profiles.profile import Origin
    from qwen_tui_profiles.toml_io import Document

__all__ = ["RESERVED_ARGS", "argv_from_table", "build_profile", "merge"]

RESERVED_ARGS: Mapping[str, str] = MappingProxyType(
    {
        "model-path": "model.path",
        "model": "model.path",
        "served-model-name": "model.served-name",
        "host": "host",
        "port": "port",
    }
)
"""Flags that have a key of their own, so that one value cannot be given twice."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_FLAG = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_E = TypeVar("_E", EngineKind, EngineMode)

_TOP_KEYS = frozenset(
    {
        *("schema", "title", "engine", "mode", "pair", "host", "port", "engine-versions"),
        *("needs-gpu", "build", "thinking", "notes", "ignore", "extends", "smoke"),
        *("model", "launch", "args", "env", "provenance", "published"),
    }
)
_TABLE_KEYS = {
    "model": frozenset({"path", "repo", "served-name"}),
    "launch": frozenset({"kind", "interpreter", "runtime", "image", "args"}),
    "published": frozenset({"source", "argv", "env", "differences"}),
}


class _Reader:
    """Typed access to the values of one file; every refusal names the line of the key."""

    def __init__(self, data: Mapping[str, Any], document: Document) -> None:
        self.data = data
        self.document = document

    def fail(self, key: tuple[str, ...], reason: Text, remedy: Text | None = None) -> NoReturn:
        raise self.document.error(key, reason, remedy)

    def wrong(self, key: tuple[str, ...], expected: Text) -> NoReturn:
        self.fail(
            key,
            t("{key} must be {expected}.", key=".".join(key), expected=expected),
            t("Correct this line; the other profiles are not affected."),
        )

    def table(self, name: str) -> Mapping[str, Any]:
        value = self.data.get(name, {})
        if not isinstance(value, dict):
            self.wrong((name,), t("a table"))
        for key in value:
            if name in _TABLE_KEYS and key not in _TABLE_KEYS[name]:
                self.fail(
                    (name, key),
                    t("unknown key {key}.", key=f"{name}.{key}"),
                    t("Known keys: {keys}.", keys=", ".join(sorted(_TABLE_KEYS[name]))),
                )
        return value

    def text(self, *key: str, required: bool = False) -> str | None:
        value: Any = self.data
        for part in key:
            value = value.get(part) if isinstance(value, dict) else None
        if value is None and not required:
            return None
        if not isinstance(value, str) or not value or "\0" in value:
            self.wrong(key, t("a text that is not empty"))
        return value

    def flag(self, key: str) -> bool | None:
        value = self.data.get(key)
        if value is not None and not isinstance(value, bool):
            self.wrong((key,), t("true or false"))
        return value

    def texts(self, value: object, key: tuple[str, ...]) -> tuple[str, ...]:
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.wrong(key, t("a list of texts"))
        return tuple(value)

    def choice(self, kind: type[_E], key: str) -> _E:
        value = self.text(key, required=True) or ""
        try:
            return kind(value)
        except ValueError:
            names = ", ".join(member.value for member in kind)
            self.wrong((key,), t("one of {names}", names=names))


def build_profile(data: Mapping[str, Any], document: Document, origin: Origin) -> EngineProfile:
    """Make the profile that a file describes; its name is the file's.

    Raises:
        ProfileFileError: a key is unknown, missing, of the wrong type or contradictory.
    """
    read = _Reader(data, document)
    name = Path(document.path).stem
    if not _NAME.fullmatch(name):
        read.fail(
            (),
            t("{name} is not a profile name.", name=repr(name)),
            t("Use lower-case letters, digits, dots and dashes in the file name."),
        )
    for key in data:
        if key not in _TOP_KEYS:
            read.fail(
                (key,),
                t("unknown key {key}.", key=key),
                t("Engine flags belong under [args]; known keys: {keys}.", keys=_shown(_TOP_KEYS)),
            )
    engine = read.choice(EngineKind, "engine")
    ignore, reasons = _ignores(read)
    read.table("model")
    profile = EngineProfile(
        name=name,
        title=read.text("title") or name,
        engine=engine,
        mode=read.choice(EngineMode, "mode"),
        argv=argv_from_table(read.table("args"), document),
        host=read.text("host") or "127.0.0.1",
        port=_port(read),
        pair=read.text("pair"),
        launch=_launch(read),
        model=ModelRef(
            read.text("model", "path"),
            read.text("model", "repo"),
            read.text("model", "served-name"),
        ),
        env=_with_model(_env(read, read.table("env"), ("env",)), read.text("model", "path")),
        needs_gpu=engine is not EngineKind.DEMO if (gpu := read.flag("needs-gpu")) is None else gpu,
        engine_versions=_versions(read),
        notes=read.texts(data.get("notes"), ("notes",)),
        ignore=ignore,
        ignore_reasons=reasons,
        build=read.text("build"),
        published=_published(read),
        thinking=read.flag("thinking"),
        smoke=_smokes(read),
        extends=read.text("extends"),
        provenance=_provenance(read),
        origin=origin,
    )
    if engine is not EngineKind.DEMO and profile.model.path is None and profile.model.repo is None:
        read.fail(
            ("model",),
            t("the profile names no model."),
            t('Add [model] with path = "…" (a local folder) or repo = "…".'),
        )
    return profile


def argv_from_table(table: Mapping[str, Any], document: Document) -> tuple[str, ...]:
    """Turn ``[args]`` into engine flags, in the order of the file.

    Raises:
        ProfileFileError: a name is no flag, or a value cannot be written on a command line.
    """
    argv: list[str] = []
    for name, value in table.items():
        key = ("args", name)
        if not _FLAG.fullmatch(name):
            raise document.error(
                key,
                t("{name} is not a flag name.", name=repr(name)),
                t("Write the engine's long flag without its dashes: mem-fraction-static = 0.92."),
            )
        if name in RESERVED_ARGS:
            raise document.error(
                key,
                t("{flag} has a key of its own.", flag=f"--{name}"),
                t("Set {key} instead.", key=RESERVED_ARGS[name]),
            )
        if value is False:
            continue
        argv.append(f"--{name}")
        if value is True:
            continue
        for item in value if isinstance(value, list) else [value]:
            argv.append(_argument(item, key, document))
    return tuple(argv)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Lay one file over another: tables key by key, every other value replaced.

    A value that the upper file sets is the user's, whatever the lower one said about its origin.
    """
    out = dict(base)
    for key, value in over.items():
        lower = out.get(key)
        mergeable = key not in {"published", "launch"}
        if isinstance(value, dict) and isinstance(lower, dict) and mergeable:
            out[key] = {**lower, **value}
        else:
            out[key] = value
    origins = dict(out.get("provenance", {}))
    own = over.get("provenance", {})
    for table in ("args", "env"):
        entries = over.get(table, {})
        for name in entries if isinstance(entries, dict) else ():
            if not isinstance(own, dict) or f"{table}.{name}" not in own:
                origins[f"{table}.{name}"] = {"source": "user"}
    out["provenance"] = origins
    return out


def _argument(item: object, key: tuple[str, ...], document: Document) -> str:
    if isinstance(item, dict):
        return json.dumps(item, separators=(",", ":"), ensure_ascii=False)
    if isinstance(item, str) and "\0" not in item:
        return item
    if isinstance(item, (int, float)) and not isinstance(item, bool):
        return str(item)
    raise document.error(
        key,
        t("the value of {flag} cannot be written on a command line.", flag=f"--{key[-1]}"),
        t("Use a text, a number, true, a list of those, or a table for JSON."),
    )


def _ignores(read: _Reader) -> tuple[tuple[str, ...], Mapping[str, str]]:
    value = read.data.get("ignore", [])
    expected = t('a list of rule ids, or of { rule = "…", reason = "…" }')
    if not isinstance(value, list):
        read.wrong(("ignore",), expected)
    rules: list[str] = []
    reasons: dict[str, str] = {}
    for item in value:
        entry = {"rule": item} if isinstance(item, str) else item
        if not isinstance(entry, dict) or not isinstance(entry.get("rule"), str):
            read.wrong(("ignore",), expected)
        rules.append(entry["rule"])
        if isinstance(entry.get("reason"), str):
            reasons[entry["rule"]] = entry["reason"]
    return tuple(rules), MappingProxyType(reasons)


def _smokes(read: _Reader) -> tuple[str, ...]:
    smokes = read.texts(read.data.get("smoke"), ("smoke",))
    if not set(smokes) <= set(SMOKES):
        read.wrong(("smoke",), t("a list of: {names}", names=", ".join(SMOKES)))
    return smokes


def _port(read: _Reader) -> int:
    value = read.data.get("port", 30000)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 65536:
        read.wrong(("port",), t("a whole number from 1 to 65535"))
    return value


def _versions(read: _Reader) -> str | None:
    specifier = read.text("engine-versions")
    if specifier is not None:
        try:
            satisfies("0", specifier)
        except InputError as error:
            read.fail(("engine-versions",), error.message, error.remedy)
    return specifier


def _launch(read: _Reader) -> PythonLaunch | ContainerLaunch:
    table = read.table("launch")
    kind = read.text("launch", "kind") or ("container" if "image" in table else "python")
    if kind == "python":
        for key in ("runtime", "image", "args"):
            if key in table:
                read.fail(
                    ("launch", key),
                    t("{key} is only for a container.", key=key),
                    t('Set launch.kind = "container", or remove the key.'),
                )
        return PythonLaunch(read.text("launch", "interpreter"))
    if kind != "container":
        read.wrong(("launch", "kind"), t("python or container"))
    runtime = read.text("launch", "runtime") or "docker"
    if Path(runtime).name not in {"docker", "podman", "nerdctl"}:
        read.wrong(("launch", "runtime"), t("docker, podman or nerdctl"))
    return ContainerLaunch(
        runtime,
        read.text("launch", "image", required=True) or "",
        read.texts(table.get("args"), ("launch", "args")),
    )


def _env(read: _Reader, table: Mapping[str, Any], key: tuple[str, ...]) -> Mapping[str, str]:
    for name, value in table.items():
        if not _VARIABLE.fullmatch(name):
            read.wrong((*key, name), t("the name of an environment variable"))
        if isinstance(value, bool) or not isinstance(value, (str, int)) or "\0" in str(value):
            read.wrong((*key, name), t("a text or a whole number"))
    return MappingProxyType({name: str(value) for name, value in table.items()})


def _with_model(env: Mapping[str, str], path: str | None) -> Mapping[str, str]:
    """Put the model's folder where a value says ``{model.path}``, so that it is named once."""
    folder = os.path.expanduser(path or "")  # noqa: PTH111 (text for the engine, not a path of ours)
    return MappingProxyType(
        {name: value.replace("{model.path}", folder) for name, value in env.items()}
    )


def _provenance(read: _Reader) -> Mapping[str, Provenance]:
    out: dict[str, Provenance] = {}
    for key, value in read.table("provenance").items():
        entry = {"source": value} if isinstance(value, str) else value
        fields = {"source", "date", "figure", "note"}
        if (
            not isinstance(entry, dict)
            or not isinstance(entry.get("source"), str)
            or not set(entry) <= fields
        ):
            read.wrong(("provenance", key), t("{ source, figure, date, note }, source required"))
        out[key] = Provenance(**{name: str(item) for name, item in entry.items()})
    return MappingProxyType(out)


def _published(read: _Reader) -> Published | None:
    if "published" not in read.data:
        return None
    table = read.table("published")
    differences = table.get("differences", {})
    if not isinstance(differences, dict) or not all(
        isinstance(value, str) for value in differences.values()
    ):
        read.wrong(("published", "differences"), t("a table of flag = reason"))
    env = table.get("env", {})
    if not isinstance(env, dict):
        read.wrong(("published", "env"), t("a table"))
    return Published(
        read.text("published", "source", required=True) or "",
        read.texts(table.get("argv"), ("published", "argv")),
        MappingProxyType(dict(differences)),
        _env(read, env, ("published", "env")),
    )


def _shown(keys: frozenset[str]) -> str:
    return ", ".join(sorted(keys))
