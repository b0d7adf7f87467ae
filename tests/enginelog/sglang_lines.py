"""SGLang lines for tests."""

from __future__ import annotations

__all__ = ["ARGS", "READY", "SUMMARY", "at"]


def at(text: str, second: int = 0, rank: str = "") -> str:
    return f"[2026-11-29 14:{second // 60:02d}:{second % 60:02d}{rank}] {text}\n"


SUMMARY = (
    "max_total_num_tokens=840736, chunked_prefill_size=2048, max_prefill_tokens=16384, "
    "max_running_requests={running}, context_len=32768, available_gpu_mem=5.04 GB"
)
READY = at("The server is fired up and ready to roll!", 50)
ARGS = "server_args=ServerArgs(model_path='/m', max_running_requests={asked}, tp_size=1)"
