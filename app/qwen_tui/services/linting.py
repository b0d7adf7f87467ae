"""Lint one launch: a pasted command, a file, or a profile, for the engine that is there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qwen_tui.services.engine_flags import installed_flags
from qwen_tui_profiles.cmdline import parse_file, parse_words
from qwen_tui_profiles.errors import EngineError, InputError, UsageError
from qwen_tui_profiles.flags import known_versions
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.rules import command_of, judge, model_facts
from qwen_tui_profiles.rules.lint import FORK_BASES
from qwen_tui_profiles.text import t
from qwen_tui_profiles.versions import Version

if TYPE_CHECKING:
    from qwen_tui.services.engines import EngineFound
    from qwen_tui.services.paths import Paths
    from qwen_tui_profiles.cmdline import EngineCommand
    from qwen_tui_profiles.flags import FlagTable
    from qwen_tui_profiles.profile import EngineProfile
    from qwen_tui_profiles.rules import Judgement, ModelFacts

__all__ = ["LintOptions", "lint"]

_CARDS = {
    "sm120": 120, "rtx5090": 120, "rtxpro6000": 120, "sm121": 121, "gb10": 121, "sm100": 100,
    "b200": 100, "sm103": 103, "sm90": 90, "h100": 90, "h200": 90, "sm89": 89, "rtx4090": 89,
    "sm86": 86, "rtx3090": 86, "sm80": 80, "a100": 80,
}  # fmt: skip
"""Names that ``--card`` takes, without blanks and dashes, and their compute capability."""


@dataclass(frozen=True, slots=True)
class LintOptions:
    """What to lint, and for what."""

    words: tuple[str, ...] = ()
    """The pasted command, as the shell split it."""
    file: str | None = None
    profile: EngineProfile | None = None
    engine: str | None = None
    """``sglang==0.5.17``, ``vllm``, …"""
    model: str | None = None
    """Folder whose ``config.json`` tells what the checkpoint is."""
    card: str | None = None
    """A card's name, see :data:`_CARDS`."""
    card_here: int | None = None
    """Compute capability times ten of the card that would be used; ``card`` wins over it."""


def lint(options: LintOptions, paths: Paths) -> Judgement:
    """Apply the rules.

    Raises:
        UsageError: there is nothing to lint, or an option has an unknown value.
        InputError: the command, file or ``config.json`` cannot be read.
    """
    kind, version = _engine(options.engine)
    table: FlagTable | None = None
    fork = False
    if options.profile is not None:
        engine = None if version else _found(options.profile, paths)
        fork = _has_build(options.profile, engine)
        found = version or (engine.version if engine is not None and not fork else None)
        # What is installed here is what will read the flags, a fork's build above all.
        table = installed_flags(engine, paths) if engine is not None else None
        command = command_of(options.profile, version=found)
    elif options.file is not None:
        command, found = parse_file(Path(options.file).expanduser()), version
    elif options.words:
        command, found = parse_words(options.words), version
    else:
        raise UsageError(
            t("There is no command to lint."),
            t("Write it behind two dashes: qwen-tui lint -- python -m sglang.launch_server …"),
        )
    if kind is not None and kind is not command.engine and command.entry != "flags":
        raise UsageError(
            t(
                "The command launches {found}, not {asked}.",
                found=command.engine.value,
                asked=kind.value,
            ),
            t("Name its engine: --engine {found}==VERSION.", found=command.engine.value),
        )
    profile = options.profile
    return judge(
        command,
        version=found or _version_here(command, profile, paths),
        model=_model(options.model) or _model_beside(command),
        card=options.card_here if options.card is None else _card(options.card),
        fork=fork,
        table=table,
        ignore=() if profile is None else profile.ignore,
    )


def _engine(spec: str | None) -> tuple[EngineKind | None, str | None]:
    if spec is None:
        return None, None
    name, separator, version = spec.partition("==")
    try:
        kind = EngineKind(name.strip().lower())
    except ValueError:
        raise UsageError(
            t("{spec} is not an engine.", spec=repr(clean(spec)[:60])),
            t("Write sglang==0.5.17, vllm==0.33.0, or the name alone."),
        ) from None
    return kind, str(Version.parse(version)) if separator else None


def _version_here(
    command: EngineCommand, profile: EngineProfile | None, paths: Paths
) -> str | None:
    """Return the version found on this machine, where the command itself does not tell better."""
    from qwen_tui.services.engines import find_engines

    told = command.image_version is not None or command.container is not None
    forked = any(name.startswith(tuple(FORK_BASES)) for name in command.env)
    if told or forked or profile is not None or command.engine is EngineKind.DEMO:
        return None
    found = (e.version for e in find_engines(paths) if e.kind is command.engine)
    return next(found, None)


def _found(profile: EngineProfile, paths: Paths) -> EngineFound | None:
    from qwen_tui.services.engines import resolve_interpreter

    try:
        return resolve_interpreter(profile, paths)
    except EngineError:
        # Linting for an engine that is not installed yet is the normal case.
        return None


def _has_build(profile: EngineProfile, engine: EngineFound | None) -> bool:
    """Tell whether the build that a profile needs can be there; a release from an index is not."""
    if profile.build is None:
        return False
    if engine is None or engine.image is not None or engine.build is not None:
        return True
    return engine.version not in known_versions(engine.kind)


def _card(name: str | None) -> int | None:
    if name is None:
        return None
    found = _CARDS.get(name.lower().replace(" ", "").replace("-", "").replace("_", ""))
    if found is None:
        raise UsageError(
            t("{name} is not a known card.", name=repr(clean(name)[:40])),
            t("Known: {names}.", names=", ".join(_CARDS)),
        )
    return found


def _model_beside(command: EngineCommand) -> ModelFacts | None:
    """Return the facts of the checkpoint that the launch itself names, where it lies here."""
    words = list(command.argv)
    named = [
        words[index + 1]
        for index, word in enumerate(words[:-1])
        if word in {"--model-path", "--model"}
    ]
    if not named and words and not words[0].startswith("-"):
        named = words[:1]
    folder = named[-1] if named else None
    if folder is None or not (Path(folder).expanduser() / "config.json").is_file():
        return None
    try:
        return _model(folder)
    except InputError:
        # The engine will say it better; here the name has to do.
        return None


def _model(folder: str | None) -> ModelFacts | None:
    if folder is None:
        return None
    path = Path(folder).expanduser() / "config.json"
    try:
        with path.open("rb") as file:
            data = json.loads(file.read(1 << 24))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or t("it is not JSON")
        raise InputError(
            t("Cannot read {path}: {reason}.", path=str(path), reason=reason),
            t("Name the folder of the checkpoint; config.json alone is enough."),
        ) from error
    if not isinstance(data, dict):
        raise InputError(
            t("{path} holds no object.", path=str(path)),
            t("Name the folder of the checkpoint; config.json alone is enough."),
        )
    return model_facts(data)
