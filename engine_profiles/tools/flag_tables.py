"""Makes the flag tables in ``qwen_tui_profiles/flags/data`` from unpacked engine releases.

For maintainers; needed when a new engine release is added. Unpack the releases side by side::

    SRC/0.5.23/sglang/srt/…        (from `pip download --no-deps sglang==0.5.23`)
    VSRC/0.33.0/vllm/…             (from the source archive)
    python engine_profiles/tools/flag_tables.py sglang SRC
    python engine_profiles/tools/flag_tables.py vllm VSRC

Only facts are kept: names, number of values, choices, the notice of a deprecated spelling.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwen_tui_profiles.flags.source import read_sglang, read_vllm
from qwen_tui_profiles.versions import Version

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui_profiles.flags.spec import FlagSpec

DATA = Path(__file__).parent.parent / "qwen_tui_profiles" / "flags" / "data"


def table(folder: Path, read: Callable[[Path], tuple[FlagSpec, ...]]) -> dict[str, Any]:
    """Return one document for every release below ``folder``."""
    versions = sorted((p.name for p in folder.iterdir() if p.is_dir()), key=Version.parse)
    seen: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for index, version in enumerate(versions):
        for spec in read(folder / version):
            row = {
                "names": list(spec.names),
                "arity": spec.arity.value,
                "choices": None if spec.choices is None else list(spec.choices),
                "use": spec.use,
                "refused": spec.refused,
                "number": spec.number,
            }
            seen.setdefault(spec.name, []).append((index, row))
    rows: list[dict[str, Any]] = []
    for _, entries in sorted(seen.items()):
        start, previous, row = entries[0][0], entries[0][0], entries[0][1]
        for index, following in entries[1:]:
            if index != previous + 1 or following != row:
                rows.append(_row(row, versions, start, previous))
                start, row = index, following
            previous = index
        rows.append(_row(row, versions, start, previous))
    return {"versions": versions, "flags": rows}


def _row(row: dict[str, Any], versions: list[str], start: int, end: int) -> dict[str, Any]:
    until = None if end == len(versions) - 1 else versions[end]
    kept = {key: value for key, value in row.items() if value is not None}
    return {**kept, "since": versions[start], "until": until}


def main(engine: str, folder: str) -> None:
    """Write the table of one engine."""
    document = table(Path(folder), read_sglang if engine == "sglang" else read_vllm)
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in document["flags"])
    versions = json.dumps(document["versions"], separators=(",", ":"))
    text = f'{{"engine":"{engine}","versions":{versions},"flags":[\n{lines}\n]}}\n'
    (DATA / f"{engine}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
