"""What the console asks of probes: a menu from what the server says, both ways, a command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.paths import Paths
from qwen_tui.services.probe_desk import RealProbes
from qwen_tui_profiles.errors import ConfigError
from support.metrics_server import Handler, document, serve, sse

if TYPE_CHECKING:
    from pathlib import Path

    from qwen_tui.services.snapshots import ProbeResult

JSON = "application/json"


def engine(*, vision: bool = True, model: str = "m") -> dict[str, Handler]:
    said = {"choices": [{"index": 0, "delta": {"content": "Hello"}}],
            "usage": {"prompt_tokens": 20, "completion_tokens": 5}}  # fmt: skip
    return {
        "/v1/models": document(
            json.dumps({"data": [{"id": model, "owned_by": "sglang"}]}), kind=JSON
        ),
        "/model_info": document(json.dumps({"has_image_understanding": vision}), kind=JSON),
        "/server_info": document(json.dumps({"max_req_input_len": 4090}), kind=JSON),
        "/v1/chat/completions": sse([(0.01, json.dumps(said)), (0.0, "[DONE]")]),
    }


class Desk:
    """A real desk over a folder of its own; notes what the alarms would be told."""

    def __init__(self, folder: Path, settings: str = "", key: str | None = None) -> None:
        paths = Paths(folder, folder, folder)
        paths.settings.write_text(settings)
        self.noted: list[ProbeResult] = []

        async def api_key(_: str) -> str | None:
            return key

        self.probes = RealProbes(paths, api_key, self.noted.append)


@pytest.mark.parametrize("vision", [True, False])
async def test_the_menu_is_what_the_server_says(tmp_path: Path, vision: bool) -> None:
    async with serve(engine(vision=vision)) as server:
        menu = await Desk(tmp_path).probes.menu(server.url)
    assert menu.usable_context == 4090
    assert menu.gateway is None
    assert ("image" in {k.name for k in menu.kinds}) is vision
    assert menu.kinds[-1].name == "boundary"


async def test_a_server_that_does_not_say_is_offered_everything(tmp_path: Path) -> None:
    async with serve({}) as server:
        menu = await Desk(tmp_path).probes.menu(server.url)
    assert menu.usable_context is None
    assert "image" in {k.name for k in menu.kinds}


async def test_without_a_gateway_one_request_is_sent(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    async with serve(engine()) as server:
        report = await desk.probes.send(server.url, "code")
        assert server.paths().count("/v1/chat/completions") == 1
    assert report.result.tokens == 5
    assert report.comparison is None
    assert desk.noted == [report.result]


async def test_a_configured_gateway_is_measured_with_its_own_key_and_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATE_KEY", "gate-secret")
    async with serve(engine()) as server, serve(engine()) as gateway:
        settings = f'[gateway]\nurl = "{gateway.url}"\nmodel = "alias"\nkey-env = "GATE_KEY"\n'
        desk = Desk(tmp_path, settings, key="engine-secret")
        report = await desk.probes.send(server.url, "prose")
        assert (await desk.probes.menu(server.url)).gateway == gateway.url
        through = [r for r in gateway.seen if r.path == "/v1/chat/completions"]
        directly = [r for r in server.seen if r.path == "/v1/chat/completions"]
    assert len(through) == len(directly) == 2  # one pair is discarded
    assert json.loads(through[-1].body)["model"] == "alias"
    assert through[-1].headers["authorization"] == "Bearer gate-secret"
    assert directly[-1].headers["authorization"] == "Bearer engine-secret"
    assert report.comparison is not None
    assert report.comparison.ttft_added_ms is not None
    assert desk.noted == [report.comparison.direct[-1]]


async def test_a_gateway_that_is_down_does_not_cost_the_direct_figures(tmp_path: Path) -> None:
    desk = Desk(tmp_path, '[gateway]\nurl = "http://127.0.0.1:9"\n')
    async with serve(engine()) as server:
        report = await desk.probes.send(server.url, "prose")
    assert report.result.error is None
    assert report.comparison is not None
    assert report.comparison.gateway[0].error is not None


async def test_a_gateway_key_that_is_not_set_is_named(tmp_path: Path) -> None:
    desk = Desk(tmp_path, '[gateway]\nurl = "http://127.0.0.1:9"\nkey-env = "NO_SUCH_KEY"\n')
    async with serve(engine()) as server:
        with pytest.raises(ConfigError, match="NO_SUCH_KEY"):
            await desk.probes.send(server.url, "prose")


async def test_the_command_names_the_served_model_and_never_the_key(tmp_path: Path) -> None:
    async with serve(engine(model="qwen")) as server:
        command = await Desk(tmp_path, key="engine-secret").probes.curl(server.url, "prose")
    assert command.startswith(f"curl -N {server.url}/v1/chat/completions")
    assert '"model": "qwen"' in command
    assert "${QWEN_TUI_API_KEY}" in command
    assert "engine-secret" not in command
