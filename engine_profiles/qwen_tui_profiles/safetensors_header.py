"""The header of a safetensors file: parsed and judged as the reference reader judges it.

Pure: bytes in, tensors out. A file that ``safetensors`` 0.8 refuses is refused here, too (a few
oddities that it lets pass, such as entries written as arrays, are refused as well). Nothing is
allocated in proportion to what a hostile header claims; nothing recurses.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_profiles.text import Text

__all__ = [
    "DTYPE_BITS",
    "LARGEST_HEADER_BYTES",
    "LARGEST_READ_BYTES",
    "MOST_MARKS",
    "Header",
    "HeaderError",
    "HeaderFault",
    "TensorEntry",
    "count_marks",
    "parse_header",
]

LARGEST_HEADER_BYTES: Final = 100_000_000
"""The format's own limit; the reference reader says ``header too large`` above it."""
LARGEST_READ_BYTES: Final = 48 << 20
"""What we read into memory. The largest known release has 30 MB of headers in all its files."""
MOST_MARKS: Final = 4_000_000
"""Most of ``{ [ , "`` in one header (a tensor has about 19): bounds the parsed objects' memory."""

_U64: Final = (1 << 64) - 1
_DEEPEST: Final = 120

DTYPE_BITS: Final[Mapping[str, int]] = MappingProxyType({
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8,
    "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64,
})  # fmt: skip
"""Every dtype that safetensors 0.8 knows, with its bits; any other makes a file unreadable."""


class HeaderFault(StrEnum):
    """What kind of damage a header has."""

    UTF8 = "utf8"
    JSON = "json"
    ENTRY = "entry"
    DTYPE = "dtype"
    OFFSETS = "offsets"
    SIZE = "size"
    TOO_COMPLEX = "too-complex"


class HeaderError(ValueError):
    """A header that the reference reader refuses (or that is too large to look at).

    Attributes:
        fault: The kind of damage.
        text: What was observed, in a sentence part.
        tensor: The first tensor concerned, cleaned.
    """

    def __init__(self, fault: HeaderFault, text: Text, tensor: str | None = None) -> None:
        super().__init__(str(text))
        self.fault = fault
        self.text = text
        self.tensor = tensor


class TensorEntry(NamedTuple):
    """One tensor as a header declares it."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    """First byte, counted from the end of the header."""
    end: int

    @property
    def size_bytes(self) -> int:
        """Bytes of its data."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class Header:
    """A header whose entries cover their data without gap or overlap."""

    tensors: Mapping[str, TensorEntry]
    metadata: Mapping[str, str]
    duplicates: Mapping[str, bool]
    """Names that occur more than once; True where the entries are equal."""
    data_bytes: int
    """Bytes of data that the entries cover; the file must end there."""
    length: int
    """Bytes of the header itself."""
    tidy: bool
    """Begins with ``{`` and is padded to a multiple of 8, as writers do."""


def count_marks(raw: bytes) -> int:
    """Count the characters that make JSON parsers allocate."""
    return raw.count(b"{") + raw.count(b"[") + raw.count(b",") + raw.count(b'"')


class _NotWhole:
    """Stands for a number with a fraction or an exponent, which no header field may be."""


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _float(text: str) -> _NotWhole:
    if float(text) in {float("inf"), float("-inf")}:
        raise ValueError("number out of range")
    return _NotWhole()


def _int(text: str) -> int | _NotWhole:
    value = int(text)
    # The reference reader takes -0 and what exceeds 64 bits as floating point.
    return _NotWhole() if text.startswith("-0") or value > _U64 else value


# Objects become tuples of pairs, arrays lists: duplicates stay visible and no Python is called.
_FAST = json.JSONDecoder(
    object_pairs_hook=tuple, parse_constant=_refuse_constant, parse_float=_float
)
_CAREFUL = json.JSONDecoder(
    object_pairs_hook=tuple,
    parse_constant=_refuse_constant,
    parse_float=_float,
    parse_int=_int,
)


def parse_header(raw: bytes) -> Header:
    """Parse the bytes between the length and the data.

    Raises:
        HeaderError: The reference reader would refuse it, or it is too large to look at.
    """
    if len(raw) > LARGEST_READ_BYTES or (len(raw) > MOST_MARKS < count_marks(raw)):
        raise HeaderError(
            HeaderFault.TOO_COMPLEX,
            t("a header of {size} bytes is larger than any known release's", size=len(raw)),
        )
    # Escapes, booleans and a negative zero need looks that cost time; real headers have none.
    careful = b"\\" in raw or b"true" in raw or b"false" in raw or b"-0" in raw
    pairs = _pairs(raw, careful=careful)
    tensors: dict[str, TensorEntry] = {}
    duplicates: dict[str, bool] = {}
    metadata: Mapping[str, str] | None = None
    kinds: dict[tuple[str, tuple[int, ...]], tuple[int, str, tuple[int, ...]]] = {}
    new = tuple.__new__
    position = 0
    in_order = True
    for name, value in pairs:
        if name == "__metadata__":
            if metadata is not None:
                raise HeaderError(HeaderFault.JSON, t("__metadata__ occurs twice"))
            metadata = _metadata(value)
            continue
        if type(value) is tuple and len(value) == 3:
            (key_0, dtype), (key_1, dims), (key_2, offsets) = value
            if key_0 != "dtype" or key_1 != "shape" or key_2 != "data_offsets":
                dtype, dims, offsets = _fields(name, value)
        else:
            dtype, dims, offsets = _fields(name, value)
        if (
            type(dims) is not list
            or type(dtype) is not str
            or type(offsets) is not list
            or len(offsets) != 2
        ):
            raise _bad_entry(name)
        begin, end = offsets
        if type(begin) is not int or type(end) is not int:
            raise _bad_entry(name)
        shape = tuple(dims)
        known = None if careful else kinds.get((dtype, shape))
        if known is None:
            size = _size(name, dtype, shape)
            if not careful:
                # One object for each kind: experts by the thousand share dtype and shape.
                kinds[dtype, shape] = (size, dtype, shape)
        else:
            size, dtype, shape = known
        entry: TensorEntry = new(TensorEntry, (dtype, shape, begin, end))
        if name in tensors:
            duplicates[name] = duplicates.get(name, True) and tensors[name] == entry
        tensors[name] = entry
        if begin != position or end - begin != size:
            in_order = False
            if not 0 <= begin <= _U64 or not 0 <= end <= _U64:
                raise _bad_entry(name)
        position = end
    if not in_order or duplicates:
        position = _cover(tensors)
    return Header(
        tensors=tensors,
        metadata=metadata or {},
        duplicates=duplicates,
        data_bytes=position,
        length=len(raw),
        tidy=raw.startswith(b"{") and len(raw) % 8 == 0,
    )


def _pairs(raw: bytes, *, careful: bool) -> tuple[tuple[str, Any], ...]:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise HeaderError(
            HeaderFault.UTF8, t("byte {offset} is not UTF-8", offset=error.start)
        ) from error
    try:
        document = (_CAREFUL if careful else _FAST).decode(text)
        if careful:
            _check_strings(document)
    except RecursionError as error:
        raise HeaderError(HeaderFault.JSON, t("it is nested too deeply")) from error
    except ValueError as error:
        raise HeaderError(
            HeaderFault.JSON, t("it is not JSON ({cause})", cause=clean(str(error))[:100])
        ) from error
    if type(document) is not tuple:
        raise HeaderError(HeaderFault.JSON, t("it is not a JSON object"))
    return document


def _check_strings(document: Any) -> None:
    """Refuse escapes that stand for no character (half a surrogate pair)."""
    for value, _ in _walk(document):
        if isinstance(value, str):
            try:
                value.encode("utf-8")
            except UnicodeEncodeError as error:
                raise ValueError("an escape is half a surrogate pair") from error


def _walk(document: Any) -> list[tuple[Any, int]]:
    """Return every value with its depth, without recursion."""
    found: list[tuple[Any, int]] = []
    todo: list[tuple[Any, int]] = [(document, 0)]
    while todo:
        value, depth = todo.pop()
        found.append((value, depth))
        if isinstance(value, tuple | list):
            todo.extend((item, depth + 1) for item in value)
    return found


def _metadata(value: Any) -> Mapping[str, str]:
    if value is None:
        return {}
    if type(value) is not tuple or not all(isinstance(item, str) for _, item in value):
        raise HeaderError(HeaderFault.JSON, t("__metadata__ does not map strings to strings"))
    return dict(value)


def _fields(name: str, value: Any) -> tuple[Any, Any, Any]:
    """Return dtype, shape and offsets of an entry that is not written the usual way."""
    if type(value) is not tuple:
        raise _bad_entry(name)
    fields: dict[str, Any] = {}
    for key, item in value:
        if key in fields and key in {"dtype", "shape", "data_offsets"}:
            raise _bad_entry(name)
        fields[key] = item
    # Two levels of tuples per object: the reference reader stops at 128 levels of JSON.
    if len(fields) > 3 and any(depth > _DEEPEST for _, depth in _walk(value)):
        raise HeaderError(HeaderFault.JSON, t("it is nested too deeply"))
    try:
        return fields["dtype"], fields["shape"], fields["data_offsets"]
    except KeyError:
        raise _bad_entry(name) from None


def _size(name: str, dtype: str, shape: tuple[Any, ...]) -> int:
    bits = DTYPE_BITS.get(dtype)
    if bits is None:
        raise HeaderError(
            HeaderFault.DTYPE,
            t("unknown dtype {dtype}", dtype=clean(dtype)[:40]),
            clean(name)[:200],
        )
    count = 1
    for dim in shape:
        if type(dim) is not int or not 0 <= dim <= _U64:
            raise _bad_entry(name)
        count *= dim
        if count > _U64:
            break
    if count * bits > _U64:
        raise HeaderError(
            HeaderFault.SIZE, t("the size of a tensor overflows 64 bits"), clean(name)[:200]
        )
    if count * bits % 8:
        raise HeaderError(
            HeaderFault.SIZE, t("a tensor does not fill whole bytes"), clean(name)[:200]
        )
    return count * bits // 8


def _cover(tensors: Mapping[str, TensorEntry]) -> int:
    """Return where the data ends; every byte before it must belong to exactly one tensor."""
    position = 0
    for name, entry in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != position or entry.end < entry.begin:
            word = t("a gap") if entry.begin > position else t("an overlap")
            raise HeaderError(
                HeaderFault.OFFSETS,
                t(
                    "{what} at byte {position} of the data (the entry begins at {begin})",
                    what=word,
                    position=position,
                    begin=entry.begin,
                ),
                clean(name)[:200],
            )
        size = _size(name, entry.dtype, entry.shape)
        if entry.end - entry.begin != size:
            raise HeaderError(
                HeaderFault.SIZE,
                t(
                    "{have} bytes are declared, {dtype} {shape} needs {need}",
                    have=entry.end - entry.begin,
                    dtype=entry.dtype,
                    shape=str(list(entry.shape)),
                    need=size,
                ),
                clean(name)[:200],
            )
        position = entry.end
    return position


def _bad_entry(name: str) -> HeaderError:
    return HeaderError(
        HeaderFault.ENTRY,
        t("an entry does not hold dtype, shape and data_offsets in whole numbers"),
        clean(name)[:200],
    )
