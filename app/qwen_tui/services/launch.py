"""The launch: refuse what cannot work, write the intent, start the process, record it."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from qwen_tui.services.kinds.container import with_identity
from qwen_tui.services.ports import require_free_port
from qwen_tui.services.process import RUN_VARIABLE, boot_id, identify, seconds_since_boot
from qwen_tui.services.runs import RunRecord
from qwen_tui.services.secret_args import hide_secrets
from qwen_tui_profiles.errors import LaunchError, ProfileError, QwenTuiError, UsageError
from qwen_tui_profiles.foreign import REDACTED, is_secret_name, redact, redact_argv
from qwen_tui_profiles.loader import load_profiles
from qwen_tui_profiles.profile import (
    ContainerLaunch,
    EngineKind,
    EngineMode,
    EngineProfile,
    ModelRef,
    PythonLaunch,
)
from qwen_tui_profiles.text import as_record, t

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from qwen_tui.services.engines import EngineFound
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.prelaunch import Preflight
    from qwen_tui.services.runs import RunStore
    from qwen_tui.services.spawner import Child, Spawner
    from qwen_tui_profiles.text import Text
__all__ = [
    "Prepared",
    "api_key_of",
    "find_engine",
    "launch",
    "launched_profile",
    "profile_snapshot",
    "require_way_back",
]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that a launch needs, found before anything is stopped or started."""

    engine: EngineFound
    flight: Preflight
    warnings: tuple[Text, ...] = ()
    """What is kept with the run: warnings, and errors that were overridden."""
    forced: str | None = None
    """Why errors were overridden; ``None`` = there were none."""


def find_engine(
    profile: EngineProfile, paths: Paths, *, interpreter: str | None = None
) -> EngineFound:
    """Find the engine and the model of a profile.

    Raises:
        EngineError: no interpreter with this engine.
        LaunchError: the model folder is missing.
        UsageError: an interpreter was named for a profile that takes none.
    """
    from qwen_tui.services.engines import resolve_interpreter

    if interpreter is not None:
        if profile.simulated or isinstance(profile.launch, ContainerLaunch):
            raise UsageError(
                t("{profile} is not launched with a Python of your choice.", profile=profile.name),
                t("Leave the interpreter out: this profile brings its own."),
            )
        profile = replace(profile, launch=PythonLaunch(interpreter))
    engine = resolve_interpreter(profile, paths)
    _require_model(profile)
    return engine


def launch(
    profile: EngineProfile,
    store: RunStore,
    spawner: Spawner,
    *,
    clock: Callable[[], float],
    prepared: Prepared,
) -> tuple[RunRecord, Child]:
    """Start a prepared profile. The caller holds the lease.

    Raises:
        LaunchError: the port is taken or the process cannot be started. Nothing is left behind.
        ConfigError: the state folder cannot be written.
    """
    from qwen_tui_profiles.launch import build_launch, engine_arguments

    engine = prepared.engine
    require_free_port(profile.host, profile.port)
    spec = build_launch(profile, interpreter=engine.interpreter, engine_version=engine.version)
    run = store.new_id()
    folder = store.folder / run
    contained = isinstance(profile.launch, ContainerLaunch)
    command = with_identity(spec.argv, run, folder / "container.id") if contained else spec.argv
    us = identify(os.getpid())
    record = store.begin(
        RunRecord(
            id=run,
            kind="container" if contained else "process",
            profile=profile.name,
            engine=profile.engine.value,
            url=profile.url,
            host=profile.host,
            port=profile.port,
            created=clock(),
            created_boot_s=seconds_since_boot(),
            boot=boot_id(),
            launcher=None if us is None else (us.pid, us.create_time),
            argv=redact_argv(command),
            asked=redact_argv(engine_arguments(profile, engine_version=engine.version)),
            env=_redacted(spec.env),
            snapshot=profile_snapshot(profile),
            interpreter=engine.interpreter,
            engine_version=engine.version,
            simulated=profile.simulated,
            forced=prepared.forced,
            warnings=tuple(str(w) for w in prepared.warnings),
            warning_parts=tuple(as_record(w) for w in prepared.warnings),
            prediction=dict(prepared.flight.prediction),
        )
    )
    try:
        hidden = hide_secrets(
            profile.engine, engine.version, command, spec.env, folder, contained=contained
        )
        child = spawner.spawn(
            hidden.argv,
            {**hidden.env, RUN_VARIABLE: record.id},
            folder=folder,
            log=folder / "engine.log",
        )
    except QwenTuiError:
        store.discard(record)
        raise
    # Even if it has died already: not reaped yet, it still has its pid and create time.
    process = identify(child.pid, even_dead=True)
    record = replace(
        record,
        pid=child.pid,
        create_time=None if process is None else process.create_time,
        session=child.pid,
        launcher=None,
    )
    store.save(record)
    store.prune()
    return record, child


def profile_snapshot(profile: EngineProfile) -> dict[str, Any]:
    """Return the profile as plain values, secrets redacted."""
    return {
        "name": profile.name,
        "title": profile.title,
        "engine": profile.engine.value,
        "mode": profile.mode.value,
        "argv": list(redact_argv(profile.argv)),
        "env": _redacted(profile.env),
        "host": profile.host,
        "port": profile.port,
        "pair": profile.pair,
        "model": asdict(profile.model),
        "launch": {"kind": type(profile.launch).__name__, **_plain(asdict(profile.launch))},
        "needs_gpu": profile.needs_gpu,
        "ignore": list(profile.ignore),
        "smoke": list(profile.smoke),
    }


def launched_profile(record: RunRecord, paths: Paths) -> EngineProfile | None:
    """Return the profile of a run as it was launched.

    The file may have been edited since; then it is rebuilt from the record. Only a secret is not
    in the record, so a profile that has one is taken from its file as it is now.
    """
    try:
        profile: EngineProfile | None = load_profiles(paths.profiles).get(record.profile)
    except ProfileError:
        profile = None
    snapshot = dict(record.snapshot)
    if profile is not None and profile_snapshot(profile) == snapshot:
        return profile
    if not snapshot or REDACTED in str(snapshot):
        return profile
    return _from_snapshot(snapshot)


def require_way_back(running: EngineProfile | None, target: EngineProfile, paths: Paths) -> None:
    """Refuse a swap that could not go back: it would end a good server for a doubtful one.

    Args:
        running: What runs, as :func:`launched_profile` gives it.
        target: What is to be started.
        paths: Where engines and profiles are found.

    Raises:
        LaunchError: its profile, its engine or its model is gone since it was launched.
    """
    two_steps = t(
        "Bring it back; or go on without a way back: qwen-tui down, then qwen-tui up {target}",
        target=target.name,
    )
    if running is None:
        raise LaunchError(
            t(
                "What runs could not be started again if {target} failed: its profile is gone.",
                target=target.name,
            ),
            two_steps,
        )
    try:
        find_engine(running, paths)
    except QwenTuiError as error:
        raise LaunchError(
            t(
                "{profile} could not be started again if {target} failed: {reason}",
                profile=running.name,
                target=target.name,
                reason=error.message,
            ),
            two_steps,
        ) from error


def _from_snapshot(snapshot: Mapping[str, Any]) -> EngineProfile | None:
    try:
        how = dict(snapshot["launch"])
        kind = how.pop("kind")
        if kind == "ContainerLaunch":
            how["args"] = tuple(how["args"])
        return EngineProfile(
            name=snapshot["name"],
            title=snapshot["title"],
            engine=EngineKind(snapshot["engine"]),
            mode=EngineMode(snapshot["mode"]),
            argv=tuple(snapshot["argv"]),
            env=MappingProxyType(dict(snapshot["env"])),
            host=snapshot["host"],
            port=snapshot["port"],
            pair=snapshot["pair"],
            model=ModelRef(**snapshot["model"]),
            launch=ContainerLaunch(**how) if kind == "ContainerLaunch" else PythonLaunch(**how),
            needs_gpu=snapshot["needs_gpu"],
            ignore=tuple(snapshot["ignore"]),
            smoke=tuple(snapshot["smoke"]),
        )
    except (KeyError, TypeError, ValueError):
        return None


def api_key_of(profile: EngineProfile) -> str | None:
    """Return the key that clients of this profile must send, if it sets one."""
    flags = iter(profile.argv)
    for flag in flags:
        name, equals, value = flag.partition("=")
        if name == "--api-key":
            return value if equals else next(flags, None)
    return profile.env.get("VLLM_API_KEY")


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return values as JSON gives them back, so that a record can be compared with a profile."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


def _redacted(env: Mapping[str, str]) -> dict[str, str]:
    return {k: REDACTED if is_secret_name(k) else redact(v) for k, v in env.items()}


def _require_model(profile: EngineProfile) -> None:
    path = profile.model.path
    if path is None or profile.simulated:
        return
    folder = Path(path).expanduser()
    try:
        present = any(folder.glob("*.json"))
    except OSError as error:
        raise LaunchError(
            t(
                "The model folder {path} cannot be read: {reason}.",
                path=str(folder),
                reason=error.strerror or "",
            ),
            t("Make it readable for this user."),
        ) from error
    if not present:
        remedy = t("Set the profile's model path to the folder that holds config.json.")
        if profile.model.repo is not None:
            remedy = t("Fetch it first: qwen-tui download {repo}", repo=profile.model.repo)
        raise LaunchError(
            t("The model folder {path} is missing or holds no config.json.", path=str(folder)),
            remedy,
        )
