"""Whole downloads against the fake hub, in the real worker process."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qwen_tui.services.download import DownloadRequest, DownloadSession
from qwen_tui_profiles.errors import DownloadError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.fake_hub import FakeHub


@dataclass
class Run:
    """What one download said."""

    events: list[dict[str, Any]] = field(default_factory=list)
    error: DownloadError | None = None

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [e for e in self.events if e["event"] == kind]

    @property
    def plan(self) -> dict[str, Any]:
        return self.of("plan")[0]

    @property
    def result(self) -> dict[str, Any]:
        return self.of("result")[0]

    @property
    def status(self) -> str:
        assert self.error is None, self.error
        status: str = self.result["status"]
        return status


@dataclass
class Bench:
    """A hub, an empty home, and a target folder."""

    hub: FakeHub
    home: Path
    dest: Path

    def environment(self, **more: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING"))}
        kept = {k: v for k, v in kept.items() if not k.lower().endswith("_proxy")}
        home = {"HOME": str(self.home), "HF_HOME": str(self.home / "hf")}
        return {**kept, **home, **more}

    def request(self, **changes: Any) -> DownloadRequest:
        settings: dict[str, Any] = {
            "repo": self.hub.repo,
            "dest": str(self.dest),
            "endpoint": self.hub.endpoint,
            "backoff_s": 0.005,
            "stall_s": 5.0,
        }
        return DownloadRequest(**{**settings, **changes})

    def session(self, environment: dict[str, str], **changes: Any) -> DownloadSession:
        request = self.request(**changes)
        return DownloadSession(request, environment=environment)

    async def download(
        self,
        on_event: Callable[[DownloadSession, dict[str, Any]], None] | None = None,
        env: dict[str, str] | None = None,
        **changes: Any,
    ) -> Run:
        run = Run()
        environment = self.environment(**(env or {}))
        async with self.session(environment, **changes) as session:
            try:
                async for event in session.events():
                    run.events.append(event)
                    if event["event"] == "plan":
                        session.start()
                    if on_event is not None:
                        on_event(session, event)
            except DownloadError as error:
                run.error = error
        return run

    def whole(self) -> bool:
        """Whether every file of the hub is in the folder, byte for byte."""
        return all(
            (self.dest / path).read_bytes() == content
            for path, content in self.hub.files.items()
            if isinstance(content, bytes)
        )
