"""A bundle: the facts and raw tool outputs of one machine, to be judged on another.

::

    {"schema": "qwen-tui.doctor-bundle/1", "version", "started", "target", "facts", "absent", "raw"}

A bundle is foreign input: its size is limited, its strings are cleaned, and the typed accessors of
:class:`~qwen_tui_diagnostics.facts.Facts` refuse values of the wrong type.
"""

from __future__ import annotations

import gzip
import io
import json
import time
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.context import Target
from qwen_tui_diagnostics.facts import Absence, absences_from_json
from qwen_tui_diagnostics.privacy import cleaned, private
from qwen_tui_diagnostics.probes.environment import VARIABLES
from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.foreign import redact_argv
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from qwen_tui_diagnostics.privacy import Identity

__all__ = ["SCHEMA", "Bundle", "dump_bundle", "read_bundle"]

SCHEMA = "qwen-tui.doctor-bundle/1"
MOST_BYTES = 64 * 1024 * 1024
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Bundle:
    """What was read from a file."""

    version: str
    started: float
    target: Target
    facts: dict[str, Any]
    absent: dict[str, Absence]


def dump_bundle(
    *,
    version: str,
    started: float,
    target: Target,
    facts: Mapping[str, Any],
    absent: Mapping[str, Absence],
    raw: Mapping[str, str],
    identity: Identity,
) -> bytes:
    """Return the file's content, redacted; the target's variables are limited to known ones."""
    shown = target.as_json()
    shown["argv"] = list(redact_argv(target.argv))
    shown["env"] = {name: value for name, value in target.env.items() if _is_public(name)}
    document = {
        "schema": SCHEMA,
        "version": version,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "started_unix": round(started),
        "target": shown,
        "facts": dict(facts),
        "absent": {path: absence.as_json() for path, absence in absent.items()},
        "raw": dict(raw),
    }
    return json.dumps(private(document, identity), indent=1, ensure_ascii=False).encode()


def read_bundle(path: Path) -> Bundle:
    """Read a bundle.

    Raises:
        InputError: the file cannot be read, is too big, or is not a bundle.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(
            t("Cannot read {path}: {reason}.", path=str(path), reason=error.strerror or "error"),
            t("Give a file that `qwen-tui doctor --raw FILE` has written."),
        ) from error
    if data.startswith(_GZIP):
        try:
            # One byte more than allowed is enough to refuse a small file that grows without end.
            with gzip.open(io.BytesIO(data)) as file:
                data = file.read(MOST_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise _not_a_bundle(path) from error
    if len(data) > MOST_BYTES:
        raise InputError(
            t("{path} is larger than {limit} MiB.", path=str(path), limit=MOST_BYTES >> 20),
            t("Give a file that `qwen-tui doctor --raw FILE` has written."),
        )
    try:
        document: Any = cleaned(json.loads(data))
        if document["schema"] != SCHEMA:
            raise _not_a_bundle(path)
        facts = document["facts"]
        if not isinstance(facts, dict):
            raise _not_a_bundle(path)
        return Bundle(
            version=str(document["version"]),
            started=float(document["started_unix"]),
            target=Target.from_json(document["target"]),
            facts=facts,
            absent=absences_from_json(document["absent"]),
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise _not_a_bundle(path) from error


def _is_public(name: str) -> bool:
    return name in VARIABLES or name.startswith("SGLANG_QWEN4_PLE_NVME_")


def _not_a_bundle(path: Path) -> InputError:
    return InputError(
        t("{path} is not a doctor bundle ({schema}).", path=str(path), schema=SCHEMA),
        t("Give a file that `qwen-tui doctor --raw FILE` has written."),
    )
