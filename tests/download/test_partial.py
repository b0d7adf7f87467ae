"""The partial file and its journal: what may be trusted, and what its size says."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qwen_tui.services.download import partial as module
from qwen_tui.services.download.partial import Journal, Partial

IDENTITY = "a" * 64


def opened(path: Path, size: int | None = 100, identity: str = IDENTITY) -> Partial:
    return Partial.open(path, identity, size)


def test_a_partial_never_looks_complete(tmp_path: Path) -> None:
    """The reserved space lies beyond the end: the size is what was received."""
    path = tmp_path / "x.incomplete"
    part = opened(path, size=1 << 20)
    part.reserve()
    part.write(b"abc")
    assert path.stat().st_size == 3
    assert path.stat().st_blocks * 512 >= 1 << 20
    part.close()
    assert path.stat().st_size == 3
    assert path.stat().st_blocks * 512 < 1 << 20


def test_bytes_of_the_same_boot_are_kept_without_a_sync(tmp_path: Path) -> None:
    path = tmp_path / "x.incomplete"
    part = opened(path)
    part.write(b"0123456789")
    # No close and no sync, as after SIGKILL.
    again = opened(path)
    assert again.resumed == 10
    assert again.synced == 0


def test_after_a_reboot_only_synced_bytes_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.incomplete"
    part = opened(path)
    part.write(b"0123456")
    part.sync()
    part.write(b"789")
    monkeypatch.setattr(module, "boot_id", lambda: "another boot")
    again = opened(path)
    assert again.resumed == 7
    assert path.read_bytes() == b"0123456"


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"identity": 1}', b"\xff\xfe"])
def test_an_unreadable_journal_means_from_the_start(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "x.incomplete"
    part = opened(path)
    part.write(b"0123456789")
    part.close()
    path.with_name("x.incomplete.json").write_bytes(text)
    assert opened(path).resumed == 0


def test_another_content_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / "x.incomplete"
    part = opened(path)
    part.write(b"0123456789")
    part.close()
    assert opened(path, identity="b" * 64).resumed == 0
    part = opened(path)
    part.write(b"0123456789")
    part.close()
    assert opened(path, size=200).resumed == 0


def test_more_bytes_than_the_file_has_are_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "x.incomplete"
    opened(path, size=4).close()
    path.write_bytes(b"01234")
    assert opened(path, size=4).resumed == 0


def test_the_final_name_appears_with_the_whole_content_only(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "x"
    part = opened(tmp_path / "x.incomplete", size=3)
    part.write(b"abc")
    assert not target.exists()
    part.finish(target)
    assert target.read_bytes() == b"abc"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["deep"]


def test_bad_bytes_are_set_aside_and_counted(tmp_path: Path) -> None:
    path, aside = tmp_path / "x.incomplete", tmp_path / "aside" / "x"
    part = opened(path)
    part.write(b"bad")
    part.set_aside(aside)
    assert aside.read_bytes() == b"bad"
    assert (part.length, part.tries) == (0, 1)
    part.close()
    assert opened(path).tries == 1


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.binary(min_size=1, max_size=30)),
            st.tuples(st.just("sync"), st.just(b"")),
            st.tuples(st.just("reopen"), st.just(b"")),
            st.tuples(st.just("reboot"), st.just(b"")),
            st.tuples(st.just("close"), st.just(b"")),
        ),
        max_size=20,
    )
)
def test_what_is_kept_is_always_a_prefix_and_never_less_than_synced(
    memory: Path, steps: list[tuple[str, bytes]]
) -> None:
    path = Path(tempfile.mkdtemp(dir=memory)) / "x.incomplete"
    boot = 0
    written = b""
    synced = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "boot_id", lambda: f"boot {boot}")
        part = opened(path, size=10_000)
        for action, data in steps:
            if action == "write":
                part.write(data)
                written += data
            elif action == "sync":
                part.sync()
                synced = len(written)
            else:
                if action == "close":
                    part.close()
                    synced = len(written)
                if action == "reboot":
                    boot += 1
                part = opened(path, size=10_000)
                assert part.length >= synced
                assert part.length == len(written) or action == "reboot"
                written = written[: part.length]
                synced = min(synced, part.length)
                assert path.read_bytes() == written
        part.close()


def test_the_journal_is_private_and_small(tmp_path: Path) -> None:
    path = tmp_path / "x.incomplete"
    opened(path).close()
    journal = path.with_name("x.incomplete.json")
    assert journal.stat().st_mode & 0o777 == 0o600
    assert set(json.loads(journal.read_bytes())) == {
        "identity", "size", "etag", "synced", "boot", "tries"
    }  # fmt: skip
    assert Journal.read(tmp_path / "nothing") is None


def test_two_writers_see_the_same_boot() -> None:
    assert module.boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert os.path.exists("/proc")  # noqa: PTH110
