"""Engine versions: parsing, order, and the ranges that every table of facts is keyed by.

A small reading of PEP 440, enough for what SGLang, vLLM and their forks print (``0.5.23``,
``0.5.10rc0``, ``0.5.17.post1``, ``0.1.0+cu130``, ``0.20.2.dev5+gabc``): the release, then
``dev < a < b < rc < release < post``. The local part (``+…``) says how a wheel was built, not what
its code does, so it takes no part in the order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering

from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.text import t

__all__ = ["Version", "in_range", "satisfies"]

_VERSION = re.compile(
    r"v?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>a|alpha|b|beta|c|rc|pre|preview)[-_.]?(?P<pre_n>\d*))?"
    r"(?:[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_n>\d*))?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_n>\d*))?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?",
    re.IGNORECASE,
)
_PRE_RANK = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}
_CLAUSE = re.compile(r"(?P<operator>~=|===?|!=|<=|>=|<|>)\s*(?P<version>\S+)")


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """One version of an engine; comparable and hashable."""

    text: str
    """As it was written, without surrounding blanks."""
    release: tuple[int, ...]
    """The numbers of the release: ``(0, 5, 17)``."""
    stage: tuple[int, int, int, int]
    """Rank inside the release: kind and number of the pre-release, of the post, of the dev."""
    local: str | None = None
    """Build tag after ``+``; ignored in comparisons."""

    @classmethod
    def parse(cls, text: str) -> Version:
        """Read one version; surrounding blanks and a leading ``v`` are allowed.

        Raises:
            InputError: ``text`` is not a version.
        """
        bare = text.strip()
        match = _VERSION.fullmatch(bare)
        if match is None or len(bare) > 64:
            raise InputError(
                t("{text} is not a version.", text=repr(text[:64])),
                t("Write numbers separated by dots, such as 0.5.23 or 0.5.23rc1."),
            )
        pre, post, dev = match["pre"], match["post"], match["dev"]
        if pre:
            stage_kind, stage_number = _PRE_RANK[pre.lower()], int(match["pre_n"] or 0)
        else:
            # A bare dev release comes before every pre-release; a final one after all of them.
            stage_kind, stage_number = (-1, 0) if dev and not post else (3, 0)
        post_rank = int(match["post_n"] or 0) + 1 if post else 0
        dev_rank = int(match["dev_n"] or 0) if dev else 1 << 31
        release = tuple(int(part) for part in match["release"].split("."))
        return cls(bare, release, (stage_kind, stage_number, post_rank, dev_rank), match["local"])

    @property
    def _key(self) -> tuple[tuple[int, ...], tuple[int, int, int, int]]:
        numbers = self.release
        while len(numbers) > 1 and numbers[-1] == 0:
            numbers = numbers[:-1]
        return numbers, self.stage

    @property
    def base(self) -> str:
        """The release alone: ``0.5.17`` of ``0.5.17.post1+cu130``."""
        return ".".join(str(number) for number in self.release)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Version):
            return NotImplemented
        return self._key == other._key

    def __lt__(self, other: Version) -> bool:
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        return self.text


def in_range(version: Version | str, since: str | None, until: str | None) -> bool:
    """Tell whether a release lies in the closed range of a fact; ``None`` leaves an end open.

    Facts are read from releases, so pre-, post- and dev-releases count as the release they belong
    to: ``0.5.17.post1`` is still in ``0.5.14..0.5.17``. An end with fewer numbers covers the whole
    line: ``until="0.5"`` holds for every 0.5.x.

    Raises:
        InputError: one of the three is not a version.
    """
    have = _release(version)
    if since is not None and _compare(have, _release(since)) < 0:
        return False
    return until is None or _compare(have, _release(until)) <= 0


def satisfies(version: Version | str, specifier: str) -> bool:
    """Tell whether ``version`` meets a specifier such as ``>=0.5.18,<0.6`` or ``==0.5.*``.

    An empty specifier accepts everything.

    Raises:
        InputError: the version or a clause cannot be read.
    """
    have = version if isinstance(version, Version) else Version.parse(version)
    clauses = [part.strip() for part in specifier.split(",")]
    return all(_clause(have, part) for part in clauses if part)


def _clause(have: Version, text: str) -> bool:
    match = _CLAUSE.fullmatch(text)
    if match is None:
        raise InputError(
            t("{text} is not a version condition.", text=repr(text[:64])),
            t("Write an operator and a version, such as >=0.5.18 or ==0.5.*."),
        )
    operator, wanted = match["operator"], match["version"]
    if wanted.endswith(".*") and operator in {"==", "!="}:
        prefix = Version.parse(wanted[:-2]).release
        same = _padded(have.release, len(prefix))[: len(prefix)] == prefix
        return same if operator == "==" else not same
    bound = Version.parse(wanted)
    if operator == "~=":
        prefix = bound.release[:-1]
        return have >= bound and have.release[: len(prefix)] == prefix
    return {
        "==": have == bound,
        "===": have.text == bound.text,
        "!=": have != bound,
        "<=": have <= bound,
        ">=": have >= bound,
        "<": have < bound,
        ">": have > bound,
    }[operator]


def _release(version: Version | str) -> tuple[int, ...]:
    return (version if isinstance(version, Version) else Version.parse(version)).release


def _compare(have: tuple[int, ...], bound: tuple[int, ...]) -> int:
    numbers = _padded(have, len(bound))[: len(bound)]
    return (numbers > bound) - (numbers < bound)


def _padded(numbers: tuple[int, ...], length: int) -> tuple[int, ...]:
    return numbers + (0,) * (length - len(numbers))
