"""What a changed flag means: rows of knowledge for comparing two profiles."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_profiles.text import Text

__all__ = ["CONSEQUENCES", "Consequence", "Step"]


class Step(StrEnum):
    """In which direction a value went."""

    ADDED = "added"
    REMOVED = "removed"
    RAISED = "raised"
    LOWERED = "lowered"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Consequence:
    """What follows when ``key`` goes in one of ``steps``; the first row that matches counts."""

    key: str
    """Flag with its dashes, variable, or ``model``, ``port``, ``host``, ``engine``."""
    steps: tuple[Step, ...]
    text: Text
    source: str
    engine: EngineKind | None = None
    value: str | None = None
    """Only when the new value (``REMOVED``: the old one) is this."""


_A, _R, _UP, _DOWN, _C = Step.ADDED, Step.REMOVED, Step.RAISED, Step.LOWERED, Step.CHANGED
_ANY = (_A, _R, _UP, _DOWN, _C)
_V = EngineKind.VLLM

CONSEQUENCES: tuple[Consequence, ...] = (
    Consequence(
        "model", _ANY, t("Another checkpoint: whatever was measured before says nothing here."),
        "seed 000, measurement protocol",
    ),
    Consequence(
        "engine", _ANY, t("A simulated engine: no GPU, no model, no real answers."), "—",
        value="demo",
    ),
    Consequence(
        "engine", _ANY, t("Another engine: pool sizes and metrics are not comparable by number."),
        "vLLM prints concurrency times context, SGLang token slots",
    ),
    Consequence("port", _ANY, t("Clients must change their address."), "—"),
    Consequence("host", _ANY, t("Changes who can reach the server."), "—"),
    Consequence(
        "--speculative-algorithm", (_A,),
        t("MTP: about twice the decode speed (165.0 against 74.2 tok/s short), a quarter of the "
          "context (62,880 against 272,800 tokens at fraction 0.90)."),
        "seed 000, with and without MTP",
    ),
    Consequence(
        "--speculative-algorithm", (_R,),
        t("No MTP: about half the decode speed, four times the context (272,800 against 62,880 "
          "tokens at fraction 0.90); the fraction must not exceed 0.90."),
        "seed 000, with and without MTP",
    ),
    Consequence(
        "--speculative-algorithm", (_C,), t("Another drafter: accept lengths are not comparable."),
        "seed 000",
    ),
    Consequence(
        "--speculative-num-steps", (_UP,),
        t("Longer drafts: faster on code and echoes, slower on prose (accept rate 0.51 at 3 steps, "
          "0.42 at 5), and more state to roll back per request."),
        "seed 004 §11",
    ),
    Consequence(
        "--speculative-num-steps", (_DOWN,),
        t("Shorter drafts: better on prose, slower on code, less state per request."),
        "seed 004 §11",
    ),
    Consequence(
        "--speculative-draft-model-path", (_A,),
        t("On SGLang 0.5.14 to 0.5.17 the KV pool shrinks to a fifth."), "seed 004 §5",
    ),
    Consequence(
        "--speculative-draft-model-path", (_R,),
        t("On SGLang 0.5.14 to 0.5.17 the KV pool becomes five times as large."), "seed 004 §5",
    ),
    Consequence(
        "--context-length", (_UP, _DOWN, _A, _R),
        t("Declares only: the pool stays as it is. What fits is max_total_num_tokens of the boot."),
        "seed 000, second trap", EngineKind.SGLANG,
    ),
    Consequence(
        "--max-total-tokens", (_A, _DOWN), t("Caps the pool at this number."), "pool source",
    ),
    Consequence(
        "--max-total-tokens", (_R, _UP), t("The pool may grow to what memory gives, never more."),
        "seed 004 §7",
    ),
    Consequence(
        "--kv-cache-dtype", (_A, _C), t("Half the bytes of a bf16 cache: twice the tokens; "
          "decoding at 128K drops from 41.5 to 34-37 tok/s."),
        "seed 004 §9", value="fp8_e4m3",
    ),
    Consequence(
        "--kv-cache-dtype", (_A, _R, _C),
        t("Another size of a cached token: 65,536 bytes in bf16, 32,768 in fp8 for the 27B."),
        "cache arithmetic",
    ),
    Consequence(
        "--attention-backend", (_A, _C),
        t("Triton on SM120: 11 percent faster at 1K, 63 percent slower at 50K."), "seed 000",
        value="triton",
    ),
    Consequence("--attention-backend", _ANY, t("Other kernels: measure again."), "seed 000"),
    Consequence(
        "--page-size", _ANY,
        t("Prefix hits come in whole pages; the pool is rounded down to one."), "pool source",
    ),
    Consequence(
        "--chunked-prefill-size", (_UP,),
        t("Fewer, larger prefill steps: faster prefill, more activation memory."), "seed 004 §7",
    ),
    Consequence(
        "--chunked-prefill-size", (_DOWN,),
        t("Smaller prefill steps: less activation memory, slower prefill of long prompts."),
        "seed 004 §7",
    ),
    Consequence(
        "--mamba-radix-cache-strategy", _ANY,
        t("Slots a request: extra_buffer 5, extra_buffer_lazy 4, no_buffer 3. The same slots serve "
          "another number of requests."),
        "slot table 0.5.13-0.5.23",
    ),
    Consequence(
        "--mamba-full-memory-ratio", (_UP, _A),
        t("More memory for states, less for KV: 0.9 gave 94,112 tokens, 8.26 gave 39,072."),
        "seed 000, third trap",
    ),
    Consequence(
        "--enable-hierarchical-cache", (_A,),
        t("A host tier for prefixes; on hybrid models it has returned wrong answers."),
        "sgl-project/sglang #39830",
    ),
    Consequence(
        "--enable-hierarchical-cache", (_R,),
        t("No host tier: evicted prefixes are computed again; host memory is free."), "seed 004",
    ),
    Consequence(
        "--disable-radix-cache", (_A,), t("No prefix cache: every turn computes its whole prompt."),
        "seed 000",
    ),
    Consequence(
        "--enable-metrics", (_R,), t("/metrics answers 404: the live panels stay empty."), "—",
    ),
    Consequence(
        "--sleep-on-idle", (_R,), t("An idle server keeps one CPU core busy."),
        "sgl-project/sglang #1730",
    ),
    Consequence(
        "--language-only", (_A,), t("Text only; images are refused and less memory is reserved."),
        "engine source",
    ),
    Consequence("--language-only", (_R,), t("Images are accepted again."), "engine source"),
    Consequence(
        "--trust-remote-code", (_A,), t("Python from the checkpoint is run."), "engine source",
    ),
    Consequence(
        "--gpu-memory-utilization", (_UP,),
        t("More KV: 0.78 to 0.85 gave 264 to 443 blocks (1.68 times) on a GB10."),
        "seed 003, settings", _V,
    ),
    Consequence(
        "--gpu-memory-utilization", (_DOWN,), t("Less KV, more room for the page cache."),
        "seed 003, settings", _V,
    ),
    Consequence(
        "--max-num-seqs", (_UP,),
        t("More callers at once: first token under 2.7 s up to 16, 16 s at 32, 70 s at 64."),
        "seed 003, how many at once", _V,
    ),
    Consequence(
        "--max-num-seqs", (_DOWN,),
        t("Callers queue sooner: at 2 slots eight callers waited 150.8 s for a first token."),
        "seed 003, how many at once", _V,
    ),
    Consequence(
        "--max-model-len", _ANY,
        t("vLLM refuses to start when one request of this length does not fit; its printed token "
          "count changes with it at equal memory."),
        "vLLM cache source", _V,
    ),
    Consequence(
        "--enable-prefix-caching", _ANY,
        t("Changes every prefill figure: published ones are cache-free."), "seed 003", _V,
    ),
    Consequence(
        "SGLANG_QWEN4_PLE_NVME_CACHE_PAGES", _ANY,
        t("Host memory of the PLE cache: 4 KiB a page."), "seed 002",
    ),
    Consequence(
        "SGLANG_QWEN4_PLE_NVME_CACHE_MODE", _ANY,
        t("Pages hold neighbours of a row as well; rows hold exactly what was read."), "seed 002",
    ),
)  # fmt: skip
"""First match counts."""
