"""Finding the engine in a command line or script: who is launched, with which arguments."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from qwen_tui_profiles.cmdline.docker import ContainerRun, read_container_run
from qwen_tui_profiles.cmdline.shell import SimpleCommand, read_script
from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.flags.tables import history
from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["EngineCommand", "find_engine", "parse_command", "parse_words"]

_MODULES = {
    "sglang.launch_server": EngineKind.SGLANG,
    "sglang.srt.entrypoints.http_server": EngineKind.SGLANG,
    "sglang.cli.main": EngineKind.SGLANG,
    "vllm.entrypoints.openai.api_server": EngineKind.VLLM,
    "vllm.entrypoints.cli.main": EngineKind.VLLM,
    "vllm": EngineKind.VLLM,
    "sglang": EngineKind.SGLANG,
    "qwen_tui.demo_engine": EngineKind.DEMO,
}
_SCRIPTS = {"sglang": EngineKind.SGLANG, "vllm": EngineKind.VLLM}
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?|python3?-dbg")
_IMAGE_VERSION = re.compile(
    r"(?:^|/)(?:(?:lmsysorg/)?sglang|vllm/vllm-openai)[^:/]*:v?(\d+\.\d+\.\d+(?:\.?(?:rc|post)\d+)?)(?:-|$)"
)
_DASHES = re.compile(r"^[\u2010-\u2015\u2212\ufe58\uff0d]+(?=[A-Za-z])")
_QUOTES = re.compile("[\u201c\u201d\u201e\u2018\u2019]")
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """One launch of an engine, whatever it was wrapped in."""

    engine: EngineKind
    argv: tuple[str, ...]
    """The engine's own arguments."""
    entry: str
    """How it is started: ``python -m MODULE``, ``vllm serve``, ``image``, ``flags``."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables that the text sets for it (the container's when there is one)."""
    interpreter: str | None = None
    container: ContainerRun | None = None
    image_version: str | None = None
    """Engine release that an official image tag names."""
    unresolved: tuple[str, ...] = ()
    """Shell expansions in the arguments whose value is not known."""
    oddities: tuple[str, ...] = ()
    """Words that were written with typographic dashes or quotes."""
    script: tuple[str, ...] = ()
    """The other commands of the text that it was found in."""


def parse_command(text: str) -> EngineCommand:
    """Find the engine launch in a pasted command line or script.

    Raises:
        InputError: a quote is open, nothing is launched that we know, or the text is too large.
    """
    words = _exec_form(text)
    if words is not None:
        return parse_words(words)
    commands = read_script(text)
    for command in reversed(commands):
        # Scripts prepare and launch last; a later `exec` is the one that runs.
        found = find_engine(command)
        if found is not None:
            others = tuple(" ".join(c.words) for c in commands if c is not command)
            return replace(found, script=others)
    for command in reversed(commands):
        found = _bare_flags(command)
        if found is not None:
            return found
    raise _nothing_found(text)


def parse_words(words: Sequence[str], env: Mapping[str, str] | None = None) -> EngineCommand:
    """Find the engine launch in words that a shell has already split.

    One word with blanks in it is a quoted command line and is read as text.

    Raises:
        InputError: as :func:`parse_command`.
    """
    if len(words) == 1 and (re.search(r"\s", words[0].strip()) or words[0].startswith("[")):
        return parse_command(words[0])
    # Left over when somebody split a pasted command at blanks.
    kept = tuple(word for word in words if word not in {"\\", "\n", "\\\n"})
    if any(word in {"&&", "||", ";", "|", "&"} for word in kept):
        return parse_command(" ".join(_quoted(word) for word in kept))
    assignments = dict(env or {})
    index = 0
    while index < len(kept) and re.match(r"[A-Za-z_]\w*=", kept[index]):
        name, _, value = kept[index].partition("=")
        assignments[name] = value
        index += 1
    command = SimpleCommand(kept[index:], assignments, _open_variables(kept[index:]))
    found = find_engine(command) or _bare_flags(command)
    if found is None:
        raise _nothing_found(" ".join(words))
    return found


def find_engine(command: SimpleCommand) -> EngineCommand | None:
    """Return the engine launch in one command, looking through wrappers and containers."""
    words = list(command.words)
    for index, word in enumerate(words):
        run = read_container_run(words[index:])
        if run is not None:
            return _contained(run, command)
        name = PurePosixPath(word).name
        if name in _SHELLS:
            script = _shell_argument(words[index + 1 :])
            if script is not None:
                return _nested(script, command)
        started = _started(words, index)
        if started is not None:
            engine, entry, start = started
            interpreter = word if _PYTHON.fullmatch(name) else None
            return _finish(
                EngineCommand(
                    engine,
                    tuple(words[start:]),
                    entry,
                    {**command.env, **_assignments(words[:index])},
                    interpreter,
                    unresolved=command.unresolved,
                )
            )
    return None


def _started(words: Sequence[str], index: int) -> tuple[EngineKind, str, int] | None:
    """Tell whether an engine starts at ``index``: engine, entry, index of its first argument."""
    name = PurePosixPath(words[index]).name
    following = list(words[index + 1 : index + 12])
    if _PYTHON.fullmatch(name):
        skip = 0
        while skip < len(following) and following[skip].startswith("-"):
            if following[skip] == "-m":
                break
            skip += 2 if following[skip] in {"-W", "-X"} else 1
        if skip + 1 < len(following) and following[skip] == "-m":
            module = following[skip + 1]
            if module in _MODULES:
                start = index + skip + 3
                serve = start < len(words) and words[start] == "serve"
                return _MODULES[module], f"python -m {module}", start + serve
        if skip < len(following) and following[skip].endswith("launch_server.py"):
            return EngineKind.SGLANG, "python launch_server.py", index + skip + 2
        if skip < len(following) and following[skip].endswith("openai/api_server.py"):
            return EngineKind.VLLM, "python api_server.py", index + skip + 2
        if skip < len(following) and PurePosixPath(following[skip]).name in _SCRIPTS:
            return _started(words, index + skip + 1)
        return None
    if name in _SCRIPTS and following[:1] == ["serve"]:
        return _SCRIPTS[name], f"{name} serve", index + 2
    if words[index] in _MODULES and "." in words[index] and index == 0:
        return _MODULES[words[index]], words[index], index + 1
    return None


def _contained(run: ContainerRun, command: SimpleCommand) -> EngineCommand | None:
    inner = SimpleCommand(run.command, run.env, command.unresolved)
    match = _IMAGE_VERSION.search(run.image)
    version = match[1] if match else None
    found = find_engine(inner)
    if found is not None:
        return replace(found, container=run, image_version=version)
    engine = _engine_of_image(run.image) or _engine_of_flags(run.command, certain=True)
    if engine is None or not any(word.startswith("-") for word in run.command):
        return None
    arguments = run.command
    if arguments[:1] == ("serve",):
        arguments = arguments[1:]
    return _finish(
        EngineCommand(
            engine,
            arguments,
            "image",
            run.env,
            container=run,
            image_version=version,
            unresolved=command.unresolved,
        )
    )


def _nested(script: str, command: SimpleCommand) -> EngineCommand | None:
    for inner in reversed(read_script(script, command.env)):
        found = find_engine(inner)
        if found is not None:
            return found
    return None


def _bare_flags(command: SimpleCommand) -> EngineCommand | None:
    """Read a list of flags without a program in front of it."""
    words = command.words
    start = next((i for i, w in enumerate(words) if _DASHES.sub("--", w).startswith("--")), None)
    if start is None or start > 1:
        return None
    engine = _engine_of_flags(words)
    if engine is None:
        return None
    return _finish(
        EngineCommand(
            engine, tuple(words[start:]), "flags", command.env, unresolved=command.unresolved
        )
    )


def _engine_of_image(image: str) -> EngineKind | None:
    name = image.lower()
    if "sglang" in name:
        return EngineKind.SGLANG
    return EngineKind.VLLM if "vllm" in name else None


def _engine_of_flags(words: Sequence[str], *, certain: bool = False) -> EngineKind | None:
    """Guess the engine by whose flags these are, over all versions.

    Args:
        words: The arguments.
        certain: Take only flags that one engine alone has as evidence (an image may run anything).
    """
    names = [
        _DASHES.sub("--", word).partition("=")[0].partition(".")[0]
        for word in words
        if _DASHES.sub("--", word).startswith("--")
    ]
    known = {
        engine: {name for name in names if name in history(engine)}
        for engine in (EngineKind.SGLANG, EngineKind.VLLM)
    }
    alone = {
        engine: len(known[engine] - known[other])
        for engine, other in (
            (EngineKind.SGLANG, EngineKind.VLLM),
            (EngineKind.VLLM, EngineKind.SGLANG),
        )
    }
    best = max(alone, key=lambda engine: alone[engine])
    if alone[best] and len(set(alone.values())) > 1:
        return best if not certain or 2 * len(known[best]) > len(names) else None
    if certain or not any(known.values()):
        return None
    # Both know --port and the like; SGLang is the engine that this product is for first.
    return EngineKind.SGLANG


def _shell_argument(words: Sequence[str]) -> str | None:
    """Return the script of ``bash -c '…'``."""
    for index, word in enumerate(words):
        if not word.startswith("-"):
            return None
        if "c" in word.lstrip("-") and not word.startswith("--"):
            return words[index + 1] if index + 1 < len(words) else None
    return None


def _assignments(words: Sequence[str]) -> dict[str, str]:
    """Return ``A=b`` words of wrappers such as ``env`` and ``sudo``."""
    pairs = (word.partition("=") for word in words if re.match(r"[A-Za-z_]\w*=", word))
    return {name: value for name, _, value in pairs}


def _finish(command: EngineCommand) -> EngineCommand:
    """Write typographic dashes as dashes, and remember where they were."""
    argv: list[str] = []
    odd: list[str] = []
    written = _served(command.argv) if command.entry.endswith("serve") else command.argv
    for word in written if command.engine is EngineKind.SGLANG else command.argv:
        plain = _DASHES.sub("--", word)
        if plain != word or (word.startswith("-") and _QUOTES.search(word)):
            odd.append(word)
        argv.append(plain)
    odd += [word for word in command.argv if not word.startswith("-") and _QUOTES.search(word)]
    return replace(command, argv=tuple(argv), oddities=tuple(odd))


def _exec_form(text: str) -> list[str] | None:
    """Return the words of a JSON list (Dockerfile ``CMD``, compose, Kubernetes ``args``)."""
    stripped = text.strip()
    if not stripped.startswith("["):
        return None
    try:
        words = json.loads(stripped)
    except ValueError:
        return None
    whole = isinstance(words, list) and len(words) > 1
    return words if whole and all(isinstance(word, str) for word in words) else None


def _served(argv: Sequence[str]) -> tuple[str, ...]:
    """Return ``sglang serve``'s arguments as the server gets them.

    The sub-command takes the model as its first word and ``--model-type`` for itself.
    """
    words = list(argv)
    if words and not _DASHES.sub("--", words[0]).startswith("-"):
        words.insert(0, "--model-path")
    for index, word in enumerate(words):
        if word == "--model-type":
            del words[index : index + 2]
            break
        if word.startswith("--model-type="):
            del words[index]
            break
    return tuple(words)


def _open_variables(words: Sequence[str]) -> tuple[str, ...]:
    found = (match for word in words for match in re.findall(r"\$\{?[A-Za-z_]\w*\}?", word))
    return tuple(dict.fromkeys(found))


def _quoted(word: str) -> str:
    return word if word in {"&&", "||", ";", "|", "&"} else "'" + word.replace("'", "'\\''") + "'"


def _nothing_found(text: str) -> InputError:
    shown = " ".join(text.split())[:80]
    return InputError(
        t("No SGLang or vLLM launch was found in {text}.", text=repr(shown)),
        t(
            "Paste a command such as `python -m sglang.launch_server …`, `sglang serve …`, "
            "`vllm serve …` or `docker run … IMAGE …`."
        ),
    )
