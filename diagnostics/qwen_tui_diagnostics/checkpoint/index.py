"""The index pass: which files the loader opens, and index against headers both ways (rules N)."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.checkpoint.headers import BESIDE
from qwen_tui_diagnostics.checkpoint.report import Reach
from qwen_tui_diagnostics.checkpoint.signatures import looks_like_page, read_pointer
from qwen_tui_diagnostics.checkpoint.source import FileKind
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.safetensors_header import count_marks
from qwen_tui_profiles.text import Text, from_record, t

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from qwen_tui_diagnostics.checkpoint.collect import Findings
    from qwen_tui_diagnostics.checkpoint.headers import Shard
    from qwen_tui_diagnostics.checkpoint.source import Source

__all__ = ["INDEX_NAME", "Index", "check_index", "load_order", "read_index", "read_json"]

INDEX_NAME = "model.safetensors.index.json"
_LARGEST_BYTES = 64 << 20
_MOST_MARKS = 8_000_000
_DIGITS = re.compile(r"([^0-9]*)([0-9]{0,18})")
_NUMBERED = re.compile(r"^(?P<stem>.*?)-?(?P<number>\d{5})-of-(?P<total>\d{5})\.safetensors$")


@dataclass(slots=True)
class Index:
    """The index, and what follows from it for the files."""

    weight_map: Mapping[str, str] | None = None
    """None without a usable index: then every file is loaded."""
    total_size: float | None = None
    loaded: tuple[str, ...] = ()
    """Names of the files that the engine opens, in its order."""
    skipped: tuple[str, ...] = ()
    """Safetensors files in the folder that it does not open."""
    missing: tuple[str, ...] = ()
    """Files that the index names and that are not there."""
    broken: bool = False
    lost: tuple[str, ...] = ()
    """Keys of the index that no readable file holds."""
    moved: tuple[str, ...] = ()
    """Files named with a folder part."""


def read_json(source: Source, name: str, largest_bytes: int) -> tuple[Any, Text | None]:
    """Return a JSON document, or None and what is wrong with it (cleaned)."""
    file = source.files().get(name)
    if file is None:
        return None, t("absent")
    if file.kind is FileKind.DANGLING:
        return None, t("a link to a file that is not there")
    if file.kind is not FileKind.FILE:
        return None, t("not a regular file")
    if file.size > largest_bytes:
        return None, t("{size:,} bytes, larger than any real one", size=file.size)
    try:
        data = source.read(name, 0, file.size)
    except OSError as error:
        return None, from_record(None, error.strerror or "I/O error")
    pointer = read_pointer(data[:1024])
    if pointer is not None:
        return None, t("a Git LFS pointer")
    if looks_like_page(data[:512]):
        begin = clean(data[:80].decode("utf-8", "replace"))
        return None, t("an error page: {begin}", begin=begin)
    if count_marks(data) > _MOST_MARKS:
        return None, t("more entries than any real one")
    try:
        return json.loads(data), None
    except RecursionError:
        return None, t("nested too deeply")
    except ValueError as error:
        return None, t("not JSON: {cause}", cause=clean(str(error))[:100])


def read_index(source: Source, found: Findings) -> Index:
    """Read the index and decide which files are loaded, as the engine does."""
    here = [
        name
        for name, file in sorted(source.files().items())
        if name.endswith(".safetensors") and file.kind is not FileKind.FOLDER
    ]
    index = Index()
    if INDEX_NAME in source.files():
        document, problem = read_json(source, INDEX_NAME, _LARGEST_BYTES)
        weight_map = document.get("weight_map") if isinstance(document, dict) else None
        problem = problem or _map_problem(weight_map)
        if problem is None and weight_map is not None:
            index.weight_map = weight_map
            metadata = document.get("metadata")
            total = metadata.get("total_size") if isinstance(metadata, dict) else None
            if isinstance(total, int | float) and total is not True and math.isfinite(total):
                index.total_size = total
        else:
            index.broken = True
            found.add("N01", evidence=problem or t("no weight_map"), files=[INDEX_NAME])
    if index.weight_map is None:
        index.loaded = tuple(name for name in here if not (BESIDE.match(name) and len(here) > 1))
        index.skipped = tuple(name for name in here if name not in index.loaded)
        return index
    named = dict.fromkeys(index.weight_map.values())
    index.moved = tuple(name for name in named if "/" in name)
    # A folder under a file's name is named and found, and judged when it is read.
    index.loaded = tuple(sorted(name for name in named if name in source.files()))
    index.missing = tuple(
        name for name in named if name not in source.files() and not source.exists(name)
    )
    index.skipped = tuple(name for name in here if name not in named)
    return index


def _map_problem(weight_map: object) -> Text | None:
    if not isinstance(weight_map, dict):
        return t("no weight_map")
    for value in set(map(str, weight_map.values())):
        parts = value.split("/")
        if not value or value.startswith("/") or ".." in parts or "\\" in value or "\0" in value:
            return t("{name!r} is not a plain relative file name", name=clean(value)[:80])
    if not all(isinstance(value, str) for value in weight_map.values()):
        return t("values that are not file names")
    return None if weight_map else t("an empty weight_map")


def load_order(names: Iterable[str], engine: str) -> list[str]:
    """Return the files in the order of loading: later ones overwrite earlier ones."""
    if engine != "vllm":
        return sorted(names)
    return sorted(names, key=_natural)


def _natural(name: str) -> list[tuple[str, int]]:
    """Compare digits as numbers, as vLLM does."""
    return [(text, int(digits or 0)) for text, digits in _DIGITS.findall(name)]


def check_index(
    index: Index, shards: Mapping[str, Shard], found: Findings, *, engine: str
) -> Reach:
    """Compare index and headers both ways and return how far that could be done."""
    if index.missing:
        _say_missing(index, found)
    reachable = [name for name in index.moved if name not in index.missing]
    if reachable:
        found.add("N08", evidence=reachable[0], files=reachable)
    holders = _holders(load_order(index.loaded, engine), shards)
    whole = all(shards[name].header is not None for name in index.loaded)
    if index.weight_map is None:
        _check_numbering(index, found)
        _check_leftovers(index, holders, shards, found)
        return Reach.PARTIAL if index.broken or not whole else Reach.FULL
    if not holders.double and index.weight_map == holders.last:
        if index.total_size:
            _say_total(index.total_size, sum(_data_bytes(s) for s in shards.values()), found)
        return Reach.FULL
    index.lost = tuple(key for key in index.weight_map if key not in holders.last)
    unread = {name for name in index.loaded if shards[name].header is None}
    _check_map(index, index.weight_map, holders, unread, found)
    _check_copies(index.weight_map, holders, shards, found)
    if whole and not index.missing and not index.moved and index.total_size:
        total = 0
        for key in index.weight_map:
            header = shards[holders.last[key]].header if key in holders.last else None
            total += 0 if header is None else header.tensors[key].size_bytes
        _say_total(index.total_size, total, found)
    return Reach.FULL if whole and not index.missing else Reach.PARTIAL


@dataclass(frozen=True, slots=True)
class _Holders:
    """Which files hold a tensor, in the order of loading."""

    last: dict[str, str]
    """Tensor → the file that is read last and wins."""
    double: dict[str, list[str]]
    """Tensors in several files."""

    def of(self, key: str) -> list[str]:
        return self.double.get(key) or [self.last[key]]


def _holders(order: list[str], shards: Mapping[str, Shard]) -> _Holders:
    headers = [(name, shards[name].header) for name in order]
    last: dict[str, str] = {}
    total = 0
    for name, header in headers:
        if header is not None:
            last.update(dict.fromkeys(header.tensors, name))
            total += len(header.tensors)
    double: dict[str, list[str]] = {}
    if len(last) < total:
        every: dict[str, list[str]] = {}
        for name, header in headers:
            for key in () if header is None else header.tensors:
                every.setdefault(key, []).append(name)
        double = {key: names for key, names in every.items() if len(names) > 1}
    return _Holders(last, double)


def _data_bytes(shard: Shard) -> int:
    return 0 if shard.header is None else shard.header.data_bytes


def _say_missing(index: Index, found: Findings) -> None:
    other = not index.loaded and index.skipped
    found.add(
        "N02",
        evidence=index.missing[0],
        detail=t(
            "None of the named files is here, but {count} others are: the index belongs to "
            "another sharding.",
            count=len(index.skipped),
        )
        if other
        else t(
            "{missing} of {named} named files are missing.",
            missing=len(index.missing),
            named=len(index.missing) + len(index.loaded),
        ),
        files=index.missing,
    )


def _check_numbering(index: Index, found: Findings) -> None:
    groups: dict[tuple[str, int], set[int]] = {}
    for name in index.loaded:
        match = _NUMBERED.match(name)
        if match:
            key = (match["stem"], int(match["total"]))
            groups.setdefault(key, set()).add(int(match["number"]))
    for (stem, total), numbers in groups.items():
        # Counting from 0 happens; either way `total` files make a set.
        if len(numbers) < total:
            first = 0 if 0 in numbers else 1
            absent = [n for n in range(first, min(total + first, 10_000)) if n not in numbers]
            found.add(
                "N09",
                evidence=t(
                    "{stem}: {count} of {total}", stem=clean(stem), count=len(numbers), total=total
                ),
                detail=t("Missing numbers: {numbers}.", numbers=", ".join(map(str, absent[:8]))),
                count=total - len(numbers),
            )


def _check_leftovers(
    index: Index, holders: _Holders, shards: Mapping[str, Shard], found: Findings
) -> None:
    numbered = {m["total"] for name in index.loaded if (m := _NUMBERED.match(name))}
    double = list(holders.double)
    differ = [key for key in double if _differ(key, holders.of(key), shards)]
    if differ:
        _say_copies(differ, holders, found, severity=Severity.ERROR, stale=False)
    elif double:
        files = dict.fromkeys(name for key in double for name in holders.of(key))
        found.add(
            "N10",
            evidence=t("{count} tensors in more than one file", count=len(double)),
            tensors=double,
            count=len(double),
            files=files,
        )
    elif numbered and "model.safetensors" in index.loaded and len(index.loaded) > 1:
        found.add("N10", evidence="model.safetensors", files=["model.safetensors"])


def _check_map(
    index: Index,
    weight_map: Mapping[str, str],
    holders: _Holders,
    unread: set[str],
    found: Findings,
) -> None:
    gone = unread | set(index.missing) | set(index.moved)
    lost = [key for key, name in weight_map.items() if key not in holders.last and name not in gone]
    if lost:
        found.add(
            "N03",
            evidence=f"{lost[0]} → {weight_map[lost[0]]}",
            tensors=lost,
            count=len(lost),
            files=dict.fromkeys(weight_map[key] for key in lost),
        )
    elsewhere = [
        key
        for key, name in weight_map.items()
        if key in holders.last and name not in holders.of(key) and name not in gone
    ]
    if elsewhere:
        key = elsewhere[0]
        found.add(
            "N04",
            evidence=t(
                "{key}: index {weight_map}, stored in {of}",
                key=key,
                weight_map=weight_map[key],
                of=holders.of(key)[0],
            ),
            tensors=elsewhere,
            count=len(elsewhere),
            files=dict.fromkeys(weight_map[key] for key in elsewhere),
        )
    extra = [key for key in holders.last if key not in weight_map]
    if extra:
        found.add(
            "N06",
            evidence=extra[0],
            tensors=extra,
            count=len(extra),
            files=dict.fromkeys(name for key in extra for name in holders.of(key)),
        )


def _check_copies(
    weight_map: Mapping[str, str],
    holders: _Holders,
    shards: Mapping[str, Shard],
    found: Findings,
) -> None:
    double = list(holders.double)
    if not double:
        return
    differ = [key for key in double if _differ(key, holders.of(key), shards)]
    stale = [key for key in double if key in weight_map and weight_map[key] != holders.last[key]]
    if differ:
        _say_copies(differ, holders, found, severity=Severity.ERROR, stale=False)
    if stale and not differ:
        _say_copies(stale, holders, found, severity=Severity.ERROR, stale=True)
    if not differ and not stale:
        _say_copies(double, holders, found, severity=Severity.WARN, stale=False)


def _differ(key: str, names: list[str], shards: Mapping[str, Shard]) -> bool:
    kinds = set()
    for name in names:
        header = shards[name].header
        if header is not None:
            kinds.add(header.tensors[key][:2])
    return len(kinds) > 1


def _say_copies(
    keys: list[str],
    holders: _Holders,
    found: Findings,
    *,
    severity: Severity,
    stale: bool,
) -> None:
    if stale:
        detail = t(
            "The index means the copy in another file than {last}, which is read last and wins.",
            last=clean(holders.last[keys[0]]),
        )
    elif severity is Severity.ERROR:
        detail = t("The copies differ in dtype or shape; {last} wins.",
                   last=clean(holders.last[keys[0]]))  # fmt: skip
    else:
        detail = t("The copies have the same dtype and shape.")
    found.add(
        "N05",
        severity=severity,
        evidence=f"{keys[0]}: {', '.join(holders.of(keys[0]))}",
        detail=detail,
        tensors=keys,
        count=len(keys),
        files=dict.fromkeys(name for key in keys for name in holders.of(key)),
    )


def _say_total(declared: float, total: int, found: Findings) -> None:
    if total == int(declared):
        return
    far = abs(total - declared) > 0.01 * max(total, 1)
    found.add(
        "N11",
        severity=Severity.WARN if far else Severity.INFO,
        evidence=t(
            "total_size {declared:,}, tensors {total:,}", declared=int(declared), total=total
        ),
        files=[INDEX_NAME],
    )
