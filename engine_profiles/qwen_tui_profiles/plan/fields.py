"""Reading numbers out of foreign JSON documents, with named errors instead of guesses."""

from __future__ import annotations

from collections.abc import Mapping

from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import t

__all__ = ["LARGEST", "number", "optional_whole", "section", "whole", "words"]

LARGEST = 1 << 40
"""No dimension of a model is larger; a bigger number is a damaged or hostile file."""


def section(document: Mapping[str, object], name: str) -> Mapping[str, object]:
    """Return a nested object; an empty one where it is absent or not an object."""
    value = document.get(name)
    return value if isinstance(value, Mapping) else {}


def whole(document: Mapping[str, object], *names: str) -> int:
    """Return the first of several spellings of a positive whole number.

    Raises:
        InputError: None of them is there, or the value is not a positive whole number.
    """
    value = optional_whole(document, *names)
    if value is None:
        raise InputError(
            t("config.json has no {name}; the memory plan needs it.", name=names[0]),
            t("Check that config.json is complete and belongs to this checkpoint."),
        )
    return value


def optional_whole(document: Mapping[str, object], *names: str) -> int | None:
    """Like :func:`whole`, but None where the field is absent or null."""
    for name in names:
        value = document.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= LARGEST:
            raise InputError(
                t(
                    "config.json: {name} is {value}; a positive whole number is expected.",
                    name=name,
                    value=clean(repr(value))[:60],
                ),
                t("Check that config.json is complete and belongs to this checkpoint."),
            )
        return value
    return None


def number(document: Mapping[str, object], name: str, default: float) -> float:
    """Return a positive number, or the default where the field is absent or null."""
    value = document.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST:
        raise InputError(
            t(
                "config.json: {name} is {value}; a positive number is expected.",
                name=name,
                value=clean(repr(value))[:60],
            ),
            t("Check that config.json is complete and belongs to this checkpoint."),
        )
    return float(value)


def words(document: Mapping[str, object], name: str) -> tuple[str, ...]:
    """Return a list of strings; empty where the field is absent or something else."""
    value = document.get(name)
    if not isinstance(value, list | tuple):
        return ()
    return tuple(item for item in value if isinstance(item, str))
