"""What leaves the product: the text file, the JSON lines, the fleet, the command."""

from __future__ import annotations

import asyncio
import contextlib
import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from qwen_tui.cli import main
from qwen_tui.services.live import Pace
from qwen_tui.services.live.document import live_json
from qwen_tui.services.live.fleet import Fleet
from qwen_tui.services.live.textfile import exposition_text, write_textfile
from qwen_tui.services.snapshots import Alarm, GpuSnapshot, LiveSnapshot
from qwen_tui_profiles.errors import ConfigError
from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.text import t
from support.exporter import Exporter
from support.live_watch import Watcher
from support.metrics_server import Request, document, serve

DATA = Path(__file__).with_name("data")
H200 = (DATA / "sglang-h200-0.5.17.prom").read_text()
BOUNDS = [0.1, 0.2, 0.4, 0.6, 0.8, 1.0]


def busy_snapshot() -> LiveSnapshot:
    exporter = Exporter({"model_name": "m", "tp_rank": "0"})
    exporter.set("sglang:num_running_reqs", 1)
    exporter.set("sglang:num_queue_reqs", 0)
    exporter.set("sglang:realtime_tokens_total", 0, mode="decode")
    exporter.observe("sglang:time_to_first_token_seconds", 0.3, BOUNDS, n=0)
    watcher = Watcher()
    watcher.scrape(exporter)
    for _ in range(5):
        exporter.add("sglang:realtime_tokens_total", 150, mode="decode")
        exporter.observe("sglang:time_to_first_token_seconds", 0.3, BOUNDS)
        snapshot = watcher.scrape(exporter)
    return snapshot


CARD = GpuSnapshot(
    index=0,
    name='RTX "5090"',
    memory_total_bytes=32 * 2**30,
    memory_used_bytes=30 * 2**30,
    memory_ours_bytes=None,
    utilisation=0.98,
    power_w=400.0,
    power_limit_w=575.0,
    temperature_c=70.0,
    throttle=None,
)


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (s.name, tuple(sorted(s.labels.items()))): s.value
        for f in text_string_to_metric_families(text)
        for s in f.samples
    }


def test_the_text_file_is_prometheus_and_leaves_out_what_is_unknown() -> None:
    snapshot = busy_snapshot()
    alarm = Alarm("vram_low", Severity.WARN, t("x"), None, 1.0)
    snapshot = replace(snapshot, alarms=(alarm,))
    url = "http://127.0.0.1:30000"
    found = samples(exposition_text({url: snapshot}, (CARD,)))
    server = ("server", url)
    assert found["qwen_tui_up", (server,)] == 1
    assert found["qwen_tui_running_requests", (server,)] == 1
    assert found["qwen_tui_decode_tokens_per_second", (server,)] == pytest.approx(150)
    # 0.3 s lies in the bucket 0.2 to 0.4, whose middle is the interpolated median.
    assert found["qwen_tui_ttft_seconds", (("quantile", "0.5"), server)] == pytest.approx(0.3)
    assert found["qwen_tui_alarm", (("kind", "vram_low"), server, ("severity", "warn"))] == 1
    assert found["qwen_tui_gpu_utilisation_ratio", (("gpu", "0"), ("name", 'RTX "5090"'))] == 0.98
    names = {name for name, _ in found}
    assert "qwen_tui_accept_length_tokens" not in names  # no speculation here
    assert "qwen_tui_gpu_memory_ours_bytes" not in names


def test_old_figures_are_not_repeated_in_the_text_file() -> None:
    stale = replace(busy_snapshot(), stale_s=12.0, error=t("gone"))
    found = samples(exposition_text({"http://h:1": stale}))
    assert found == {("qwen_tui_up", (("server", "http://h:1"),)): 0}


def test_the_text_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "qwen.prom"
    write_textfile(path, "a 1\n")
    before = path.stat().st_ino
    write_textfile(path, "b 2\n")
    assert path.read_text() == "b 2\n"
    assert path.stat().st_ino != before, "written beside and moved over: no reader sees half of it"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644, "node_exporter runs as another user"
    assert [p.name for p in tmp_path.iterdir()] == ["qwen.prom"]


def test_the_text_file_is_readable_from_its_first_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[int] = []
    replace_file = Path.replace

    def watched(self: Path, target: Path) -> Path:
        moved.append(stat.S_IMODE(self.stat().st_mode))
        return replace_file(self, target)

    monkeypatch.setattr(Path, "replace", watched)
    write_textfile(tmp_path / "qwen.prom", "a 1\n")
    assert moved == [0o644]


def test_a_text_file_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no/such/x\.prom"):
        write_textfile(tmp_path / "no/such/x.prom", "a 1\n")


def test_json_has_null_and_never_zero_for_the_unknown() -> None:
    shown = live_json(LiveSnapshot(at=1.0, source="unknown", error=t("nobody there")))
    assert shown["schema"] == "qwen-tui.live/1"
    assert next(iter(shown)) == "schema"
    assert shown["error"] == "nobody there"
    for key in ("running", "queue", "kv_used", "decode_tok_s", "ttft_ms", "gpu", "accept_length"):
        assert shown[key] is None, key
    json.dumps(shown, allow_nan=False)


def test_json_of_a_busy_server_is_complete() -> None:
    shown = live_json(busy_snapshot(), "http://h:1", (CARD,))
    json.dumps(shown, allow_nan=False)
    assert len(shown["windows"]) == 4
    assert shown["windows"][-1]["window_s"] is None
    assert shown["windows"][0]["ttft_ms"]["n"] == 5
    assert shown["windows"][0]["ttft_ms"]["p50_bucket"] == [200, 400]
    assert shown["bound"]["kind"] == "decode"
    assert shown["gpu"][0]["power_w"] == 400
    assert shown["peaks"]["decode_tok_s"] == pytest.approx(150)


async def test_one_server_that_hangs_delays_no_other() -> None:
    async def silent(_: Request, __: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    async with (
        serve({"/metrics": document(H200)}) as good,
        serve({"/metrics": silent}) as hung,
    ):
        fleet = Fleet([good.url, hung.url, good.url], pace=Pace(busy_s=0.02, timeout_s=2))
        assert list(fleet.pollers) == [good.url, hung.url]
        heard: list[str] = []
        stream = fleet.stream()
        async with contextlib.aclosing(stream):
            async for item in stream:
                heard.append(item.url)
                if hung.url in heard:
                    break
    assert heard.count(good.url) >= 5
    assert fleet.latest[good.url].source == "sglang"
    assert fleet.latest[hung.url].source == "unknown"


async def test_a_fleet_that_is_left_leaves_no_task() -> None:
    async def watch(heard: asyncio.Event) -> None:
        stream = Fleet(["http://127.0.0.1:9"]).stream()
        async with contextlib.aclosing(stream):
            async for _ in stream:
                heard.set()

    before, heard = asyncio.all_tasks(), asyncio.Event()
    watching = asyncio.create_task(watch(heard))
    await heard.wait()
    await asyncio.sleep(0)
    watching.cancel()
    await asyncio.wait({watching})
    assert asyncio.all_tasks() == before


async def run_cli(*argv: str) -> int:
    return await asyncio.to_thread(main, list(argv))


async def test_watch_prints_one_json_document_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    async with serve({"/metrics": document(H200)}) as server:
        code = await run_cli("watch", "--url", server.url, "--json", "--count", "2", "--no-gpu")
    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert len(lines) == 2
    assert all(json.loads(line)["schema"] == "qwen-tui.live/1" for line in lines)
    assert json.loads(lines[0])["kv_tokens"] == 840_736


async def test_watch_of_two_servers_writes_one_text_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "q.prom"
    async with serve({"/metrics": document(H200)}) as one, serve({}) as two:
        code = await run_cli(
            "watch",
            "--url",
            one.url,
            "--url",
            two.url,
            "--textfile",
            str(path),
            "--count",
            "3",
            "--no-gpu",
        )
    found = samples(path.read_text())
    assert code == 0
    assert found["qwen_tui_up", (("server", one.url),)] == 1
    assert found["qwen_tui_up", (("server", two.url),)] == 0
    assert capsys.readouterr().out == ""


async def test_watch_says_once_why_a_figure_is_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with serve({"/metrics": document(H200)}) as server:
        await run_cli("watch", "--url", server.url, "--count", "2", "--no-gpu")
    out = capsys.readouterr().out
    assert out.count("running 0") == 2
    assert out.count("TTFT counts streaming requests only") == 1


async def test_watch_names_a_router_and_shows_its_workers_side_by_side(
    capsys: pytest.CaptureFixture[str],
) -> None:
    router = Exporter()
    for worker, active, healthy in (("http://a:1", 2, 1), ("http://b:1", 0, 0)):
        router.set("smg_worker_requests_active", active, worker=worker)
        router.set("smg_worker_health", healthy, worker=worker)
    async with serve({"/metrics": document(router.text())}) as server:
        assert await run_cli("watch", "--url", server.url, "--count", "1", "--no-gpu") == 0
    first, alarm = capsys.readouterr().out.splitlines()
    assert first == (
        "router: 1 of 2 workers healthy, 2 in flight; so far — requests taken  "
        "[a:1: 2+—, b:1: does not answer]"
    )
    assert alarm == "  ERROR 1 of 2 workers behind the router do not answer: http://b:1."


async def test_watch_of_nobody_ends_with_one_and_says_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with serve({}) as server:
        url = server.url
    code = await run_cli("watch", "--url", url, "--count", "1", "--no-gpu")
    assert code == 1
    assert "Nobody listens" in capsys.readouterr().out


@pytest.mark.parametrize(
    "argv",
    [
        ["watch", "--url", "nonsense://x"],
        ["watch", "--url", "http://127.0.0.1:1", "--api-key-env", "NO_SUCH_VARIABLE_HERE"],
        ["probe", "--url", "http://127.0.0.1:99999"],
    ],
)
async def test_bad_arguments_are_one_line_and_exit_two(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert await run_cli(*argv) == 2
    err = capsys.readouterr().err
    assert err.startswith("qwen-tui: ")
    assert "Traceback" not in err
