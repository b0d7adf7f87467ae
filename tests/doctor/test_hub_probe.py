"""The Hub probe against a local server that plays Hub, mirror and CDN."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from qwen_tui_diagnostics.context import Context, Target
from qwen_tui_diagnostics.facts import Gathered
from qwen_tui_diagnostics.probes import hub

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "hf_" + "b" * 34

SIBLINGS = [
    {"rfilename": "model-00001.safetensors", "size": 9_000_000_000, "lfs": {"sha256": "0" * 64}},
    {"rfilename": "config.json", "size": 1000},
    {"rfilename": "README.md"},
]


class Hub:
    """What the server answers, and what it was asked."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self.gated: Any = False
        self.redirect: str | None = None
        self.seen: list[tuple[str, str, str | None]] = []
        self.url = ""


@pytest.fixture
def served() -> Iterator[Hub]:
    state = Hub()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            state.seen.append((self.command, self.path, self.headers.get("Authorization")))
            body = b""
            status = state.status
            headers = dict(state.headers)
            if self.path.startswith("/api/models/") and status == 200:
                body = json.dumps({"gated": state.gated, "siblings": SIBLINGS}).encode()
            elif "/resolve/" in self.path and state.redirect:
                status, headers["Location"] = 302, state.redirect
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_GET = do_HEAD = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        Thread(target=httpd.serve_forever, args=(0.02,), daemon=True).start()
        state.url = f"http://127.0.0.1:{httpd.server_address[1]}"
        yield state
        httpd.shutdown()


def collect(state: Hub, home: Path, **env: str) -> Gathered:
    found = Gathered()
    target = Target(profile="p", repo="org/model", model_path=str(home / "m"))
    variables = {"HF_ENDPOINT": state.url, "NO_PROXY": "127.0.0.1"} | env
    hub.collect(Context(target=target, env=variables, home=home), found)
    assert TOKEN not in json.dumps(found.values)
    return found


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")


def test_sizes_and_the_host_of_big_files(served: Hub, tmp_path: Path) -> None:
    served.redirect = served.url.replace("127.0.0.1", "localhost") + "/cdn/file?sig=1"
    values = collect(served, tmp_path, HF_TOKEN=TOKEN).values["hub"]
    assert values["status"] == 200
    assert values["total_bytes"] == 9_000_001_000
    assert values["largest_bytes"] == 9_000_000_000
    assert values["missing_bytes"] == 9_000_001_000
    assert values["redirect_host"] == "localhost"
    assert values["redirect_error"] == ""
    assert values["token_length"] == 37
    assert abs(values["clock_off_s"]) < 60
    by_path = {path: token for _, path, token in served.seen}
    assert by_path["/api/models/org/model?blobs=true"] == f"Bearer {TOKEN}"
    # Our token must not travel to another host.
    assert by_path["/cdn/file?sig=1"] is None


def test_what_is_there_needs_no_room(served: Hub, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_bytes(b"x" * 1000)
    values = collect(served, tmp_path).values["hub"]
    assert values["missing_bytes"] == 9_000_000_000


def test_a_complete_model_leaves_the_network_alone(served: Hub, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.safetensors").write_bytes(b"x")
    found = collect(served, tmp_path)
    assert served.seen == []
    assert str(found.absent["hub.status"].detail) == "the model is already there"


def test_a_redirect_to_a_host_that_does_not_answer(served: Hub, tmp_path: Path) -> None:
    served.redirect = "http://127.0.0.1:9/blocked"
    values = collect(served, tmp_path).values["hub"]
    assert values["status"] == 200
    assert values["redirect_error"] == "refused"


@pytest.mark.parametrize(
    ("status", "code"), [(403, "GatedRepo"), (401, "RepoNotFound"), (404, None)]
)
def test_refusals_keep_their_code(
    served: Hub, tmp_path: Path, status: int, code: str | None
) -> None:
    served.status = status
    served.headers = {} if code is None else {"X-Error-Code": code, "X-Error-Message": "no\x07pe"}
    values = collect(served, tmp_path).values["hub"]
    assert values["status"] == status
    assert values.get("error_code") == code
    assert values["error"] == ""


def test_no_server_and_no_name(served: Hub, tmp_path: Path) -> None:
    served.url = "http://127.0.0.1:9"
    found = collect(served, tmp_path)
    assert found.values["hub"]["error"] == "refused"
    assert "hub.status" in found.absent
    served.url = "http://no-such-host.invalid"
    assert collect(served, tmp_path).values["hub"]["error"] in {"dns", "network"}


def test_the_token_file_is_the_second_place(served: Hub, tmp_path: Path) -> None:
    (tmp_path / ".cache/huggingface").mkdir(parents=True)
    (tmp_path / ".cache/huggingface/token").write_text(TOKEN + "\n")
    values = collect(served, tmp_path).values["hub"]
    assert (values["token_from"], values["token_length"]) == ("token file", 37)
    assert collect(served, tmp_path, HF_HOME=str(tmp_path)).values["hub"]["token_from"] == "none"
