"""User-facing text: one catalogue, translated at the edge that shows it.

Every sentence a person may read is written ``t("… {name} …", name=value)``. The English template
is the catalogue key (as gettext has it), so the source reads naturally and nothing can be missing
in English. ``str()`` of a :class:`Text` is always English: JSON documents, logs and stored records
use it. Only the console and the text reports call :func:`tr`, which looks the template up for the
language chosen with :func:`set_language`.

Templates are literals (a test extracts them with ``ast``); values go through fields, never through
f-strings.
"""

from __future__ import annotations

import gettext
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "LOCALE_DIR",
    "Text",
    "as_record",
    "from_record",
    "joined",
    "language",
    "listing",
    "set_language",
    "t",
    "tr",
    "tr_shipped",
]

LOCALE_DIR = Path(__file__).with_name("locale")
"""Holds ``<language>/LC_MESSAGES/qwen_tui.mo``."""

_NO_FIELDS: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Text:
    """A sentence for people: an English template and its values."""

    template: str
    """English, with ``{name}`` fields; the catalogue key."""
    fields: Mapping[str, object] = field(default_factory=lambda: _NO_FIELDS)
    """Values for the template. A nested :class:`Text` is translated with it."""

    def __str__(self) -> str:
        """Return the English sentence."""
        return _fill(self.template, self.fields)


class _Language:
    """The catalogue in use; English (no catalogue) until :func:`set_language` is called."""

    current: gettext.NullTranslations = gettext.NullTranslations()
    tag: str = "en"


def t(template: str, /, **fields: object) -> Text:
    """Mark a literal English template as user-facing text."""
    return Text(template, MappingProxyType(fields) if fields else _NO_FIELDS)


_SYSTEM_WORDS = {
    text.template: text
    for text in (
        t("Permission denied"),
        t("Operation not permitted"),
        t("No such file or directory"),
        t("Is a directory"),
        t("Not a directory"),
        t("File exists"),
        t("Directory not empty"),
        t("Text file busy"),
        t("Device or resource busy"),
        t("Read-only file system"),
        t("No space left on device"),
        t("Disk quota exceeded"),
        t("File too large"),
        t("File name too long"),
        t("Too many levels of symbolic links"),
        t("Too many open files"),
        t("Input/output error"),
        t("Invalid argument"),
        t("Exec format error"),
        t("Cannot allocate memory"),
        t("Function not implemented"),
        t("Operation not supported"),
        t("Stale file handle"),
        t("Broken pipe"),
        t("Address already in use"),
        t("Cannot assign requested address"),
        t("Connection refused"),
        t("Connection reset by peer"),
        t("Connection timed out"),
        t("No route to host"),
        t("Network is unreachable"),
    )
}
"""What the C library says of an errno, where it is the whole value of a field."""


def tr(text: Text | str) -> str:
    """Return ``text`` in the language in use; a plain ``str`` is foreign and passes unchanged."""
    if isinstance(text, str):
        return text
    if not text.template:
        return ""  # gettext answers the header of the catalogue
    values = {k: _shown(v) for k, v in text.fields.items()}
    return _fill(_Language.current.gettext(text.template), values)


def _shown(value: object) -> object:
    if isinstance(value, Text):
        return tr(value)
    known = _SYSTEM_WORDS.get(value) if isinstance(value, str) else None
    return value if known is None else tr(known)


def listing(words: Sequence[Text | str]) -> Text:
    """Return words in a row, with the mark between them that a language uses."""
    if not words:
        return Text("")
    said: Text | str = words[0]
    for word in words[1:]:
        said = t("{first}, {second}", first=said, second=word)
    return said if isinstance(said, Text) else t("{word}", word=said)


def joined(words: Iterable[Text | str]) -> str:
    """Return words in a row, translated."""
    return tr(listing(tuple(words)))


def tr_shipped(text: str) -> str:
    """Return a text of a data file that ships with us (a profile's title or note), translated.

    The catalogue has these too; a text that a user wrote is not in it and passes unchanged.
    """
    return _Language.current.gettext(text) if text else text


def as_record(text: Text) -> dict[str, object]:
    """Return ``{template, fields}`` of plain values, to be stored beside ``str(text)``.

    The English sentence stays what the record says; this only lets :func:`from_record` show it in
    another language later.
    """
    return {
        "template": text.template,
        "fields": {name: _plain(value) for name, value in text.fields.items()},
    }


def from_record(record: object, english: str) -> Text:
    """Return a stored sentence as it was before it was stored.

    Args:
        record: What :func:`as_record` gave; ``None`` or anything else where nothing was stored.
        english: The sentence itself. It decides: a record that does not say the same is not used,
            and the catalogue is then asked for the sentence as it stands.
    """
    if isinstance(record, dict) and record:
        text = _from_plain(record)
        if text is not None and str(text) == english:
            return text
    return Text(english)


def _plain(value: object) -> object:
    if isinstance(value, Text):
        return as_record(value)
    if value is None or type(value) in {str, int, float, bool}:
        return value
    return str(value)


def _from_plain(record: Mapping[str, object]) -> Text | None:
    template, values = record.get("template"), record.get("fields")
    if not isinstance(template, str) or not isinstance(values, dict):
        return None
    restored = {
        name: (_from_plain(value) or "") if isinstance(value, dict) else value
        for name, value in values.items()
    }
    return Text(template, MappingProxyType(restored) if restored else _NO_FIELDS)


def set_language(tag: str) -> bool:
    """Choose the language by its tag (``en``, ``zh_CN``).

    Returns:
        False when there is no catalogue for it; English is then in use.
    """
    _Language.current, _Language.tag = gettext.NullTranslations(), "en"
    if tag.split("_", maxsplit=1)[0] == "en":
        return True
    try:
        _Language.current = gettext.translation("qwen_tui", LOCALE_DIR, languages=[tag])
    except OSError:
        return False
    _Language.tag = tag
    return True


def language() -> str:
    """Return the tag of the language in use."""
    return _Language.tag


def _fill(template: str, values: Mapping[str, object]) -> str:
    if not values:
        return template
    try:
        return template.format_map(values)
    except (KeyError, IndexError, ValueError):
        # A translator's broken placeholder must not take a report down with it.
        return template
