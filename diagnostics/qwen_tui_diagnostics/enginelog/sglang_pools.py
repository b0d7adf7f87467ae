"""SGLang's announcements of what its pools changed (source of 0.4.6 to 0.5.23, printed logs)."""

from __future__ import annotations

from qwen_tui_diagnostics.enginelog.changes import Change, ChangeKind, change
from qwen_tui_profiles.text import t

__all__ = ["MAMBA_REMEDY", "SGLANG_POOL_CHANGES"]

E = "sglang"
_DEFAULT, _CHOSEN = ChangeKind.DEFAULT, ChangeKind.CHOSEN
_SPEC = t("speculative decoding")

MAMBA_REMEDY = t(
    "Raise --max-mamba-cache-size (slots per request × requests, plus one) or "
    "--mamba-full-memory-ratio, or halve the state with --mamba-ssm-dtype bfloat16."
)

SGLANG_POOL_CHANGES: tuple[Change, ...] = (
    change(
        "mamba_cap",
        E,
        "max_running_requests is capped to ",
        r"max_running_requests is capped to (?P<got>\d+) by the mamba state cache "
        r"\(max_mamba_cache_size=(?P<slots>\d+), (?P<per>\d+) state slots per request\)",
        "--max-running-requests",
        t("mamba state cache"),
        t("Each running request needs several recurrent-state slots, and the cache has too few."),
        remedy=MAMBA_REMEDY,
        since="0.5.17",
    ),
    change(
        "kv_cap",
        E,
        "max_running_requests was reduced from the requested ",
        r"max_running_requests was reduced from the requested (?P<asked>\d+) to (?P<got>\d+)",
        "--max-running-requests",
        t("KV pool or mamba state cache"),
        t(
            "The pools that were allocated serve fewer requests at once (this version names the "
            "KV cache also when the state cache is the cause)."
        ),
        remedy=MAMBA_REMEDY,
        since="0.5.14",
    ),
    change(
        "post_capture_cap",
        E,
        "Post-capture KV sizing: max_running_requests ",
        r"Post-capture KV sizing: max_running_requests (?P<asked>\d+) -> (?P<got>\d+)",
        "--max-running-requests",
        t("KV pool"),
        t("The KV pool as sized after graph capture serves fewer requests."),
        since="0.5.16",
    ),
    change(
        "max_num_reqs",
        E,
        "from the finalized token capacity: max_num_reqs=",
        r"Max concurrent requests \(per dp worker\) from the finalized token capacity: "
        r"max_num_reqs=(?P<got>\d+)",
        "--max-running-requests",
        t("KV pool or mamba state cache"),
        t("The limit that follows from the pools."),
        kind=_CHOSEN,
        since="0.5.13",
        until="0.5.13",
    ),
    change(
        "max_total_tokens",
        E,
        "is larger than the profiled value",
        r"max_total_tokens=(?P<asked>\d+) is larger than the profiled value (?P<got>\d+)",
        "--max-total-tokens",
        t("KV pool"),
        t("The flag only lowers the pool: more tokens than the memory holds are ignored."),
        remedy=t(
            "Free memory for the pool: a larger --mem-fraction-static, fewer state slots, "
            "an 8-bit KV cache, or no draft."
        ),
    ),
    change(
        "context",
        E,
        "fewer than --context-length ",
        r"KV pool holds (?P<pool>\d+) tokens, fewer than --context-length (?P<asked>\d+)",
        "--context-length",
        t("KV pool"),
        t("One request cannot be longer than the KV pool."),
        since="0.5.23",
    ),
    change(
        "draft_window",
        E,
        "Ignoring --speculative-draft-window-size",
        r"Ignoring --speculative-draft-window-size=(?P<asked>\d+)",
        "--speculative-draft-window-size",
        _SPEC,
        t("The flag does not apply to this configuration."),
        since="0.5.12",
    ),
    change(
        "radix_off",
        E,
        "Hybrid GDN model detected, disable radix cache",
        None,
        "--disable-radix-cache",
        t("hybrid model"),
        t("This version has no prefix cache for hybrid models."),
        asked=False,
        got=True,
        kind=_DEFAULT,
        remedy=t("Use 0.5.4 or later: it caches prefixes of hybrid models."),
        until="0.5.3",
    ),
    change(
        "radix_off",
        E,
        "Radix cache is disabled for multimodal models",
        None,
        "--disable-radix-cache",
        t("Transformers fallback"),
        t("The Transformers backend has no prefix cache for multimodal models."),
        asked=False,
        got=True,
        kind=_DEFAULT,
        since="0.5.10",
    ),
    change(
        "chunked_off",
        E,
        "Chunked prefill is disabled for multimodal models",
        None,
        "--chunked-prefill-size",
        t("Transformers fallback"),
        t("The Transformers backend cannot split multimodal prompts."),
        got=-1,
        kind=_DEFAULT,
        since="0.5.10",
    ),
    change(
        "context_over",
        E,
        "User-specified context_length (",
        r"Warning: User-specified context_length \((?P<asked>\d+)\) is greater than the derived "
        r"context_length \((?P<derived>\d+)\)\. This may lead to incorrect model outputs or CUDA "
        r"errors\.(?!.*To allow overriding)",
        "context_len_derived",
        t("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"),
        t("The declared context is longer than the model's own; answers may be wrong there."),
        kind=_CHOSEN,
    ),
    change(
        "small_chunk",
        E,
        "smaller than mamba_cache_chunk_size=",
        r"Mamba radix extra-buffer is enabled with chunked_prefill_size=(?P<asked>\d+) smaller "
        r"than mamba_cache_chunk_size=(?P<need>\d+)",
        "mamba prefix checkpoints",
        t("chunked prefill size"),
        t("Chunks are shorter than a checkpoint, so prefixes of hybrid models are not cached."),
        got="skipped",
        kind=_CHOSEN,
        remedy=t("Raise --chunked-prefill-size to at least 64 and the page size."),
        since="0.5.17",
    ),
)
