from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qwen_tui.services.runs import Ending, RunRecord, RunStore
from qwen_tui.services.state import ServerState
from qwen_tui_profiles.errors import ConfigError, LaunchError
from qwen_tui_profiles.text import set_language, t, tr

if TYPE_CHECKING:
    from pathlib import Path

    from qwen_tui.services.paths import Paths


def record(run: str = "000001-x", **changes: object) -> RunRecord:
    blank = RunRecord(
        id=run,
        kind="process",
        profile="demo-speed",
        engine="demo",
        url="http://127.0.0.1:30000",
        host="127.0.0.1",
        port=30000,
        created=1.5,
        created_boot_s=10.0,
        boot="b",
        launcher=(2**22 + 1, 1.0),
        argv=("python", "-m", "qwen_tui.demo_engine"),
        snapshot={"name": "demo-speed"},
    )
    return replace(blank, **changes)  # type: ignore[arg-type]


def test_a_record_survives_the_disk(paths: Paths) -> None:
    store = RunStore(paths)
    begun = store.begin(record())
    ended = replace(
        begun,
        state=ServerState.FATAL,
        pid=7,
        create_time=3.25,
        session=7,
        family=((8, 3.5),),
        phases=({"phase": "kv_pool", "started": None, "seconds": 1.0},),
        ending=Ending(2.0, -9, "died", "killed", None, {"class": "killed"}),
    )
    assert store.save(ended)
    assert RunStore(paths).load(ended.id) == ended


def test_how_it_ended_is_told_in_every_language(paths: Paths) -> None:
    store = RunStore(paths)
    begun = store.begin(record())
    message = t("Process {pid} runs, but {url} does not answer.", pid=7, url="http://x")
    remedy = t("Read the end of its log: qwen-tui logs.")
    ending = Ending.of(2.0, None, "died", message, remedy)
    store.save(replace(begun, state=ServerState.FATAL, ending=ending))
    on_disk = json.loads((store.folder / begun.id / "run.json").read_bytes())["ending"]
    assert (on_disk["message"], on_disk["remedy"]) == (str(message), str(remedy))
    loaded = RunStore(paths).load(begun.id)
    assert loaded is not None
    assert loaded.ending is not None
    assert set_language("zh_CN")
    try:
        assert tr(loaded.ending.told) == tr(message) != str(message)
        assert loaded.ending.advice is not None
        assert tr(loaded.ending.advice) == tr(remedy) != str(remedy)
    finally:
        set_language("en")


def test_endings_of_older_and_newer_programs_are_read(paths: Paths) -> None:
    store = RunStore(paths)
    begun = store.begin(record())
    store.save(replace(begun, state=ServerState.FATAL, ending=Ending(2.0, 1, "died", "Killed.")))
    path = store.folder / begun.id / "run.json"
    raw = json.loads(path.read_bytes())
    for gone in ("message_parts", "remedy_parts"):
        del raw["ending"][gone]
    raw["ending"]["of_a_newer_program"] = 1
    path.write_text(json.dumps(raw))
    loaded = RunStore(paths).load(begun.id)
    assert loaded is not None
    assert loaded.ending is not None
    assert str(loaded.ending.told) == "Killed."
    assert loaded.ending.advice is None


@given(cut=st.integers(0, 2000), junk=st.binary(max_size=20))
@settings(max_examples=60, deadline=None)
def test_a_file_cut_in_half_falls_back_to_the_intent(
    tmp_path_factory: pytest.TempPathFactory, cut: int, junk: bytes
) -> None:
    from qwen_tui.services.paths import Paths

    home = tmp_path_factory.mktemp("home")
    store = RunStore(Paths(home / "c", home / "s", home / "k"))
    begun = store.begin(record())
    path = store.folder / begun.id / "run.json"
    whole = path.read_bytes()
    path.write_bytes(whole[: min(cut, len(whole) - 2)] + junk)
    found = store.load(begun.id)
    assert found is not None
    assert (found.id, found.port, found.profile) == (begun.id, begun.port, begun.profile)


def test_both_files_broken_is_nothing_and_the_older_run_counts(paths: Paths) -> None:
    store = RunStore(paths)
    store.begin(record("000001-a"))
    begun = store.begin(record("000002-b"))
    for name in ("run.json", "launch.json"):
        (store.folder / begun.id / name).write_text("{")
    assert store.load(begun.id) is None
    latest = store.latest()
    assert latest is not None
    assert latest.id == "000001-a"
    # A damaged run still keeps its number.
    assert store.new_id().startswith("000003-")


def test_fields_of_a_newer_version_are_ignored(paths: Paths) -> None:
    store = RunStore(paths)
    begun = store.begin(record())
    path = store.folder / begun.id / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "invented_later": 1}))
    assert store.load(begun.id) == begun


def test_update_sees_what_others_wrote_and_drops_what_is_illegal(paths: Paths) -> None:
    store = RunStore(paths)
    begun = store.begin(record())
    store.update(begun, lambda r: r.step(ServerState.STOPPING, stop_asked=5.0))
    late = store.update(begun, lambda r: r.step(ServerState.RUNNING, ready_at=6.0))
    assert (late.state, late.stop_asked, late.ready_at) == (ServerState.STOPPING, 5.0, None)
    assert store.load(begun.id) == late


def test_a_full_disk_never_raises_after_the_intent(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RunStore(paths)
    begun = store.begin(record())

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("qwen_tui.services.runs.write_private", full)
    assert not store.save(replace(begun, pid=5))
    assert store.update(begun, lambda r: r.step(ServerState.RUNNING)).state is ServerState.RUNNING
    with pytest.raises(ConfigError, match="No space left"):
        store.begin(record("000002-b"))
    assert store.ids() == [begun.id]


async def test_the_lease_is_exclusive_and_names_its_holder(paths: Paths) -> None:
    store = RunStore(paths)
    assert not store.busy()
    async with store.lease(t("starting {profile}", profile="x")):
        assert store.busy()
        with pytest.raises(LaunchError, match=rf"pid {os.getpid()}, starting x"):
            async with RunStore(paths).lease(t("stopping"), wait_s=0.1):
                raise AssertionError
        assert set_language("zh_CN")
        try:
            with pytest.raises(LaunchError) as caught:
                async with RunStore(paths).lease(t("stopping"), wait_s=0.1):
                    raise AssertionError
            assert tr(t("starting {profile}", profile="x")) in tr(caught.value.message)
        finally:
            set_language("en")
    assert not store.busy()
    async with store.lease(t("again")):
        pass
    assert stat.S_IMODE((paths.state / "control.lock").stat().st_mode) == 0o600


def test_ids_sort_whatever_the_clock_says(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    store = RunStore(paths)
    first = store.begin(record(store.new_id()))
    monkeypatch.setattr("time.gmtime", lambda: __import__("time").struct_time((1999,) + (1,) * 8))
    second = store.begin(record(store.new_id()))
    assert store.ids() == [first.id, second.id]
