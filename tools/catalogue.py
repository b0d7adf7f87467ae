"""Keeps the message catalogue: what the sources say, what the translations say, what is missing.

::

    tools/catalogue.py extract      the sources' templates → locale/qwen_tui.pot
    tools/catalogue.py update       the templates → locale/LANGUAGE/…/qwen_tui.po, keeping what is
                                    translated and dropping what no source says any more
    tools/catalogue.py merge FILE…  translations from {template: translation} JSON files → .po
    tools/catalogue.py missing      the untranslated templates as {template: ""} JSON on stdout
    tools/catalogue.py compile      .po → .mo, which is what the product reads
    tools/catalogue.py check        all of the above agree; placeholders are whole (exit 1 if not)

The key of a message is its English template, as ``t("…")`` has it. Entries name the files that use
them, without line numbers: an edit elsewhere in a file is no change of the catalogue.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import fcntl
import io
import json
import os
import re
import string
import sys
import tomllib
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from babel.messages.catalog import Catalog
from babel.messages.mofile import read_mo, write_mo
from babel.messages.pofile import read_po, write_po

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[1]
SOURCES = ("app", "engine_profiles", "diagnostics")
PROFILES = ROOT / "engine_profiles/qwen_tui_profiles"
LOCALE = PROFILES / "locale"
TEMPLATE = LOCALE / "qwen_tui.pot"
LANGUAGES = ("zh_CN",)

_STEADY = datetime(2026, 1, 1, tzinfo=UTC)
"""Date in every header: the day of an extraction would make each one a change of the files."""

_PERCENT = re.compile(r"%(?:\(\w+\))?[sdr](?!\w)")
"""The fields of argparse's own sentences."""

Messages = dict[str, list[str]]
"""Template → the files that use it, in the order of the sources."""


def po_path(language: str) -> Path:
    """Return where a language's translations are kept."""
    return LOCALE / language / "LC_MESSAGES" / "qwen_tui.po"


def mo_path(language: str) -> Path:
    """Return where a language's compiled catalogue is."""
    return po_path(language).with_suffix(".mo")


# What the sources say.


def sources() -> Messages:
    """Return every template of the product's sources and of the profiles that ship with it."""
    found: Messages = {}
    for root in SOURCES:
        for path in sorted((ROOT / root).rglob("*.py")):
            for template in templates_of(path.read_text(encoding="utf-8"), path):
                _add(found, template, path)
    for path in sorted((PROFILES / "presets").glob("*.toml")):
        for template in preset_texts(path.read_text(encoding="utf-8")):
            _add(found, template, path)
    return found


def templates_of(source: str, path: Path) -> Iterator[str]:
    """Yield the literal templates of ``t(…)`` calls; the parser has joined adjacent literals.

    Raises:
        ValueError: a template is no literal, so that it could not be translated.
    """
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        if node.func.id != "t" or not node.args:
            continue
        template = node.args[0]
        if not (isinstance(template, ast.Constant) and isinstance(template.value, str)):
            raise ValueError(f"{path}:{node.lineno}: the template is no literal string")
        yield template.value


def preset_texts(source: str) -> Iterator[str]:
    """Yield what a shipped profile says to people: title, notes, figures, what was changed."""
    data = tomllib.loads(source)
    yield from (data["title"], *data.get("notes", ()))
    for origin in data.get("provenance", {}).values():
        if isinstance(origin, dict):
            yield from (origin[key] for key in ("figure", "note") if key in origin)
    yield from (row["reason"] for row in data.get("ignore", ()) if "reason" in row)
    yield from data.get("published", {}).get("differences", {}).values()
    if "build" in data:
        yield data["build"]


def _add(found: Messages, template: str, path: Path) -> None:
    if not template.strip():
        return
    places = found.setdefault(template, [])
    name = path.relative_to(ROOT).as_posix()
    if name not in places:
        places.append(name)


# Files.


def new_catalogue(language: str | None) -> Catalog:
    """Return an empty catalogue with the header that all of ours have."""
    return Catalog(
        locale=language,
        project="qwen-tui",
        version="1",
        header_comment="# qwen-tui: written by tools/catalogue.py",
        msgid_bugs_address="",
        creation_date=_STEADY,
        revision_date=_STEADY,
        last_translator="qwen-tui",
        language_team="qwen-tui",
        fuzzy=False,
        charset="utf-8",
    )


def build(messages: Messages, language: str | None, said: Mapping[str, str]) -> Catalog:
    """Return the catalogue of ``messages``, with what ``said`` translates."""
    catalogue = new_catalogue(language)
    for template, places in messages.items():
        flags = ("python-brace-format",) if fields_of(template) else ()
        catalogue.add(
            template,
            said.get(template, ""),
            locations=[(place, 0) for place in places],
            flags=flags,
        )
    return catalogue


def translations(language: str) -> dict[str, str]:
    """Return what a language's ``.po`` translates; empty translations are left out."""
    path = po_path(language)
    if not path.exists():
        return {}
    with path.open("rb") as file:
        catalogue = read_po(file, locale=language)
    return {
        message.id: message.string
        for message in catalogue
        if isinstance(message.id, str)
        and message.id
        and isinstance(message.string, str)
        and message.string
    }


def po_bytes(catalogue: Catalog) -> bytes:
    """Return a catalogue as ``.po`` text."""
    out = io.BytesIO()
    write_po(out, catalogue, width=100, include_lineno=False)
    return out.getvalue()


def mo_bytes(language: str) -> bytes:
    """Return a language's translations compiled; what is not translated stays English."""
    said = translations(language)
    out = io.BytesIO()
    write_mo(out, build({template: [] for template in sorted(said)}, language, said))
    return out.getvalue()


def compiled(language: str) -> dict[str, str]:
    """Return what a language's ``.mo`` says; the header is left out, it names Babel's version."""
    path = mo_path(language)
    if not path.exists():
        return {}
    with path.open("rb") as file:
        return {str(m.id): str(m.string) for m in read_mo(file) if m.id}


# Judging.


def fields_of(template: str) -> Counter[tuple[str, str, str]] | None:
    """Return the fields of a template: name, conversion and format; ``None`` = not a format."""
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError:
        return None
    return Counter(
        (name, conversion or "", spec or "") for _, name, spec, conversion in parts if name
    )


def broken(template: str, translation: str) -> str | None:
    """Return what is wrong with a translation's placeholders, or nothing."""
    if _PERCENT.findall(template) != _PERCENT.findall(translation):
        return f"%-fields differ: {_PERCENT.findall(template)}"
    wanted, got = fields_of(template), fields_of(translation)
    if wanted is None:
        return None if got is None or not got else "fields where the template has none"
    if got is None:
        return "braces that are no field"
    if set(wanted) != set(got):
        missing = sorted(set(wanted) - set(got))
        extra = sorted(set(got) - set(wanted))
        return f"fields missing: {missing}, not in the template: {extra}"
    return None


def problems(messages: Messages) -> list[str]:
    """Return everything that does not agree, one sentence each."""
    found: list[str] = []
    kept = template_ids()
    found += [f"qwen_tui.pot lacks {template!r}" for template in messages if template not in kept]
    found += [f"qwen_tui.pot has {template!r}, unused" for template in kept - messages.keys()]
    for language in LANGUAGES:
        found += language_problems(messages, language)
    return found


def language_problems(messages: Messages, language: str) -> Iterator[str]:
    """Yield what is missing, broken, unused or not compiled in a language."""
    said = translations(language)
    for template in messages:
        if template not in said:
            yield f"{language}: {template!r} is not translated"
        elif (wrong := broken(template, said[template])) is not None:
            yield f"{language}: {template!r}: {wrong}"
    for template in sorted(_ids(po_path(language)) - messages.keys()):
        yield f"{language}: {template!r} is used nowhere"
    if compiled(language) != said:
        yield f"{language}: qwen_tui.mo is not what qwen_tui.po compiles to"


def template_ids() -> set[str]:
    """Return the templates of ``qwen_tui.pot``."""
    return _ids(TEMPLATE)


def _ids(path: Path) -> set[str]:
    if not path.exists():
        return set()
    with path.open("rb") as file:
        return {m.id for m in read_po(file) if isinstance(m.id, str) and m.id}


# Commands.


def extract() -> None:
    """Write the templates of the sources."""
    LOCALE.mkdir(exist_ok=True)
    _write(TEMPLATE, po_bytes(build(sources(), None, {})))


def update(added: Mapping[str, str] | None = None) -> None:
    """Bring every ``.po`` to what the sources say, keeping and adding translations."""
    messages = sources()
    for language in LANGUAGES:
        said = translations(language) | dict(added or {})
        path = po_path(language)
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, po_bytes(build(messages, language, said)))


def merge(paths: Sequence[Path]) -> int:
    """Take translations from JSON files; those with broken placeholders are named and left out."""
    good: dict[str, str] = {}
    refused = 0
    for path in paths:
        for template, translation in json.loads(path.read_text(encoding="utf-8")).items():
            wrong = broken(template, translation)
            if wrong is not None:
                print(f"{path.name}: {template!r}\n  {translation!r}\n  {wrong}", file=sys.stderr)
                refused += 1
            elif translation:
                good[template] = translation
    update(good)
    print(f"{len(good)} taken, {refused} refused", file=sys.stderr)
    return 1 if refused else 0


def missing() -> dict[str, str]:
    """Return the templates that some language lacks, without a translation."""
    messages = sources()
    lacking: dict[str, str] = {}
    for language in LANGUAGES:
        said = translations(language)
        lacking |= {template: "" for template in messages if template not in said}
    return lacking


def compile_all() -> None:
    """Write the ``.mo`` of every language."""
    for language in LANGUAGES:
        _write(mo_path(language), mo_bytes(language))


def _write(path: Path, data: bytes) -> None:
    """Replace a file at once: a reader never meets half of it."""
    half = path.with_name(f".{path.name}.{os.getpid()}")
    half.write_bytes(data)
    half.replace(path)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Let one run at a time change the files: each reads, adds and writes all of them."""
    LOCALE.mkdir(exist_ok=True)
    handle = os.open(LOCALE, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one of the commands of the module's description."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "command", choices=("extract", "update", "merge", "missing", "compile", "check")
    )
    parser.add_argument("files", nargs="*", type=Path, help="JSON files, for merge")
    args = parser.parse_args(argv)
    with _alone():
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    if args.command == "extract":
        extract()
    elif args.command == "update":
        update()
    elif args.command == "merge":
        return merge(args.files)
    elif args.command == "missing":
        json.dump(missing(), sys.stdout, ensure_ascii=False, indent=1)
    elif args.command == "compile":
        compile_all()
    else:
        found = problems(sources())
        print("\n".join(found) or "the catalogue is whole")
        return 1 if found else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
