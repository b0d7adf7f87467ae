"""The application: routes, keys, access log."""

from __future__ import annotations

import secrets
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from qwen_tui.demo_engine.api import native, openai
from qwen_tui.demo_engine.log import uvicorn_line

if TYPE_CHECKING:
    from starlette.exceptions import HTTPException
    from starlette.requests import Request as HttpRequest
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from qwen_tui.demo_engine.engine import Engine

__all__ = ["build_app"]

_OPEN = ("/health", "/ready", "/metrics")
"""Never need a key (prefixes)."""
_ADMIN = ("/flush_cache", "/set_internal_state", "/start_profile", "/stop_profile")
"""Need the admin key once there is one."""


def build_app(engine: Engine) -> ASGIApp:
    """Return the ASGI application of one engine."""
    both = ["GET", "POST"]
    routes = [
        Route("/health", native.health),
        Route("/health_generate", native.health),
        Route("/ready", native.ready),
        Route("/model_info", native.model_info),
        Route("/get_model_info", native.deprecated),
        Route("/server_info", native.server_info),
        Route("/get_server_info", native.deprecated),
        Route("/v1/loads", native.loads),
        Route("/v1/models", openai.models),
        Route("/metrics", native.metrics),
        Route("/metrics/", native.metrics),
        Route("/flush_cache", native.flush_cache, methods=both),
        Route("/freeze_gc", native.freeze_gc, methods=both),
        Route("/abort_request", native.abort_request, methods=["POST"]),
        Route("/generate", native.generate, methods=["POST", "PUT"]),
        Route("/v1/chat/completions", openai.chat_completions, methods=["POST"]),
        Route("/v1/completions", openai.completions, methods=["POST"]),
    ]
    app = Starlette(routes=routes, exception_handlers={404: _detail, 405: _detail})
    app.state.engine = engine
    return _Outer(app, engine)


async def _detail(http: HttpRequest, error: Exception) -> JSONResponse:
    del http
    http_error: HTTPException = error  # type: ignore[assignment]
    return JSONResponse({"detail": http_error.detail}, status_code=http_error.status_code)


class _Outer:
    """Checks keys, counts requests and writes the access log, as SGLang and uvicorn do."""

    def __init__(self, app: ASGIApp, engine: Engine) -> None:
        self._app = app
        self._engine = engine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path, method = scope["path"], scope["method"]
        observer = self._engine.observer
        observer.http(method, path, None)
        status = 500

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                uvicorn_line(_access(scope, status))
            await send(message)

        try:
            if self._allowed(scope, path):
                await self._app(scope, receive, note)
            else:
                refusal = JSONResponse({"error": "Unauthorized"}, status_code=401)
                await refusal(scope, receive, note)
        finally:
            observer.http(method, path, status)

    def _allowed(self, scope: Scope, path: str) -> bool:
        s = self._engine.settings
        if path.startswith(_OPEN):
            return True
        wanted = s.api_key
        if s.admin_api_key is not None and path.startswith(_ADMIN):
            wanted = s.admin_api_key
        if wanted is None:
            return True
        given = dict(scope["headers"]).get(b"authorization", b"")
        return secrets.compare_digest(given, b"Bearer " + wanted.encode())


def _access(scope: Scope, status: int) -> str:
    host, port = scope.get("client") or ("-", 0)
    query = scope["query_string"].decode("latin-1")
    target = scope["path"] + (f"?{query}" if query else "")
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:
        reason = ""
    line = f"{scope['method']} {target} HTTP/{scope['http_version']}"
    return f'{host}:{port} - "{line}" {status} {reason}'
