"""Order follows PEP 440 (`packaging` implements it); ranges follow the tables of facts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version as Reference

from qwen_tui_profiles.errors import InputError
from qwen_tui_profiles.versions import Version, in_range, satisfies

VERSIONS = st.builds(
    lambda release, pre, post, dev, local: release + pre + post + dev + local,
    st.lists(st.integers(0, 30), min_size=1, max_size=4).map(lambda n: ".".join(map(str, n))),
    st.sampled_from(["", "a1", "b2", "rc0", "rc12"]),
    st.sampled_from(["", ".post1", ".post2"]),
    st.sampled_from(["", ".dev0", ".dev7"]),
    st.sampled_from(["", "+cu130", "+g1a2b3c"]),
)


@given(VERSIONS, VERSIONS)
def test_order_is_that_of_pep_440_without_the_local_part(left: str, right: str) -> None:
    ours = Version.parse(left), Version.parse(right)
    theirs = Reference(left.partition("+")[0]), Reference(right.partition("+")[0])
    assert (ours[0] < ours[1]) == (theirs[0] < theirs[1])
    assert (ours[0] == ours[1]) == (theirs[0] == theirs[1])
    assert (hash(ours[0]) == hash(ours[1])) or theirs[0] != theirs[1]


@given(
    VERSIONS,
    st.sampled_from(
        [">=0.5.18,<0.6", "==0.5.17", "==0.5.*", "!=0.5.17", "~=0.5.14", ">=0.5.9", "<1", ""]
    ),
)
def test_specifiers_agree_with_packaging(version: str, specifier: str) -> None:
    bare = version.partition("+")[0]
    reference = Reference(bare)
    if reference.is_prerelease or reference.is_postrelease:
        # PEP 440 has exclusion rules for these (`<0.6` refuses 0.6rc1); ours is plain order.
        return
    assert satisfies(bare, specifier) == SpecifierSet(specifier).contains(bare)


@pytest.mark.parametrize(
    ("version", "since", "until", "inside"),
    [
        ("0.5.14", "0.5.14", "0.5.17", True),
        ("0.5.17", "0.5.14", "0.5.17", True),
        ("0.5.17.post1", "0.5.14", "0.5.17", True),
        ("0.5.17+cu130", "0.5.14", "0.5.17", True),
        ("0.5.14rc1", "0.5.14", None, True),
        ("0.5.13", "0.5.14", "0.5.17", False),
        ("0.5.18", "0.5.14", "0.5.17", False),
        ("0.5.9", "0.5.10", None, False),
        ("0.5.9", None, "0.5", True),
        ("0.6.0", None, "0.5", False),
        ("9.9", None, None, True),
    ],
)
def test_ranges_are_closed_and_count_by_release(
    version: str, since: str | None, until: str | None, *, inside: bool
) -> None:
    assert in_range(version, since, until) is inside


@pytest.mark.parametrize("text", ["", "latest", "0.5.", "1..2", "0.5.17; rm", "1" * 100])
def test_what_is_no_version_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(InputError) as caught:
        Version.parse(text)
    assert repr(text[:64]) in str(caught.value.message)


@pytest.mark.parametrize("specifier", ["0.5.18", ">=", ">=x", "=>0.5"])
def test_a_broken_condition_is_refused(specifier: str) -> None:
    with pytest.raises(InputError):
        satisfies("0.5.18", specifier)
