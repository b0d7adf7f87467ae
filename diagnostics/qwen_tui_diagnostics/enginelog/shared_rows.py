"""Lines that both engines print: the HTTP server's and the progress bars'."""

from __future__ import annotations

from qwen_tui_diagnostics.enginelog.grammar import compile_rows, row

__all__ = ["SHARED_ROWS"]

_U = r"(?:INFO:\s+)?"

SHARED_ROWS = compile_rows(
    (
        row(
            "uvicorn_process",
            None,
            "Started server process",
            rf"{_U}Started server process \[",
            "uvicorn starts",
            phase="warmup",
        ),
        row(
            "uvicorn_wait",
            None,
            "Waiting for application startup",
            rf"{_U}Waiting for application startup",
            "uvicorn starts",
            phase="warmup",
        ),
        row(
            "uvicorn_ready",
            None,
            "Application startup complete",
            rf"{_U}Application startup complete",
            "vLLM: ready. SGLang: the port is open, nothing more",
            phase="warmup",
        ),
        row(
            "uvicorn_port",
            None,
            "Uvicorn running on",
            rf"{_U}Uvicorn running on \w+://(?P<host>\S+):(?P<port>\d+)",
            "the address",
            phase="warmup",
            facts={"port": "port"},
        ),
        row(
            "uvicorn_end",
            None,
            "plication shutdown",
            rf"{_U}(?:Waiting for application shutdown|Application shutdown complete)",
            "uvicorn ends",
            boot=False,
        ),
        row(
            "uvicorn_end",
            None,
            "Finished server process",
            rf"{_U}Finished server process \[",
            "uvicorn ends",
            boot=False,
        ),
        row(
            "shards",
            None,
            "% Completed |",
            r"(?:Loading \w+ checkpoint shards|Multi-thread loading shards|Loading .*?shards)"
            r":\s+(?P<percent>\d+)% Completed \| (?P<done>\d+)/(?P<total>\d+)",
            "weight files read so far",
            phase="load_weights",
        ),
        row(
            "capture_bar",
            None,
            "Capturing ",
            r"Capturing (?:batches|num tokens|CUDA graphs?).*?(?P<percent>\d+)%\|",
            "graphs captured so far",
            phase="graph_capture",
        ),
    )
)
