"""Recorded boots and published tables that the planner is measured against.

Figures of ``BOOTS`` stand in the logs of H200 with SGLang 0.5.17 (dummy weights, true
dimensions): ``avail mem`` at ``Load weight begin``, ``#tokens`` and the ``max_running_requests``
lines. Those of the seed rows stand in the published tables; the prediction beside each is what the
arithmetic gives with the one unknown, the free memory, fitted to the row marked so.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent / "data"


def config(name: str) -> dict[str, object]:
    document: dict[str, object] = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    return document


@dataclass(frozen=True)
class Boot:
    name: str
    model: str
    args: str
    free_gib: float
    tokens: int | None
    slots: int | None
    slots_per_request: int
    requests: int | None
    limited: bool
    available_after_load: float
    """As printed at the last ``Load weight end``."""


_NEXTN = (
    "--speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1 "
    "--speculative-num-draft-tokens 4 "
)
_TWO = (
    "--max-running-requests 2 --max-mamba-cache-size 16 --mamba-ssm-dtype bfloat16 "
    "--mem-fraction-static 0.62 --kv-cache-dtype fp8_e4m3 --context-length 32768 "
)

# Two replicas of one launch on two H200; the first GPU holds the pictures' buffer as well.
_DP2 = (
    "--dp-size 2 --speculative-algorithm EAGLE --speculative-num-steps 3 "
    "--speculative-eagle-topk 1 --speculative-num-draft-tokens 4 "
    "--mamba-radix-cache-strategy extra_buffer_lazy --max-running-requests 4 "
    "--max-mamba-cache-size 9 --mamba-ssm-dtype bfloat16 --page-size 32 "
    "--mem-fraction-static 0.45 --kv-cache-dtype fp8_e4m3 --context-length 131072"
)

REPLICAS = (
    Boot("dp2, GPU 0", "hybrid-27b-cg", _DP2, 137.58, 148_032, 9, 4, 2, True, 81.85),
    Boot("dp2, GPU 1", "hybrid-27b-cg", _DP2, 139.09, 170_304, 9, 4, 2, True, 83.36),
)

BOOTS = (
    Boot(
        "b27-nextn-auto",
        "hybrid-27b",
        _NEXTN + "--mem-fraction-static 0.62 --kv-cache-dtype fp8_e4m3",
        139.13,
        540_276,
        41,
        3,
        13,
        True,
        83.43,
    ),
    Boot(
        "b27-notenough",
        "hybrid-27b",
        _NEXTN + "--mem-fraction-static 0.40",
        139.13,
        None,
        None,
        3,
        None,
        False,
        83.43,
    ),
    Boot(
        "cg27-nodraftpath", "hybrid-27b-cg", _NEXTN + _TWO, 137.58, 898_183, 16, 5, 2, False, 81.85
    ),
    Boot(
        "cg27-draftpath",
        "hybrid-27b-cg",
        _NEXTN + _TWO + "--speculative-draft-model-path /models/hybrid-27b-cg",
        137.58,
        179_636,
        16,
        5,
        2,
        False,
        81.85,
    ),
    Boot(
        "cg27-lazy-5-1-6",
        "hybrid-27b-cg",
        "--speculative-algorithm EAGLE --speculative-num-steps 5 --speculative-eagle-topk 1 "
        "--speculative-num-draft-tokens 6 --mamba-radix-cache-strategy extra_buffer_lazy "
        "--max-running-requests 4 --max-mamba-cache-size 8 --page-size 32 "
        "--chunked-prefill-size 2048 --mem-fraction-static 0.62 --kv-cache-dtype fp8_e4m3 "
        "--context-length 159776",
        137.58,
        840_736,
        8,
        4,
        2,
        True,
        81.85,
    ),
    Boot(
        "tiny-maxtotal",
        "hybrid-tiny",
        "--max-running-requests 8 --max-mamba-cache-size 12 --max-total-tokens 50000 "
        "--context-length 131072 --mem-fraction-static 0.1",
        139.09,
        50_000,
        12,
        3,
        4,
        True,
        137.64,
    ),
    Boot(
        "tiny-hicache",
        "hybrid-tiny",
        "--max-running-requests 2 --max-mamba-cache-size 8 --mem-fraction-static 0.1 "
        "--enable-hierarchical-cache --hicache-size 2",
        139.09,
        1_599_522,
        8,
        3,
        2,
        False,
        137.64,
    ),
)


@dataclass(frozen=True)
class SeedRow:
    name: str
    args: str
    free_gib: float
    draft_gib: float | None
    predicted: int
    published: int | None
    version: str = "0.5.17"
    requests: int | None = None


@dataclass(frozen=True)
class MeasuredBoot:
    """A boot that was planned from flags and live free memory before it ran."""

    name: str
    args: tuple[str, ...]
    live_free_gib: float
    """Free on the card before the launch, from NVML."""
    total_gib: float
    load_begin_gib: float
    load_end_gib: float
    draft_load_begin_gib: float | None
    """The target's rotary caches have grown between ``load_end_gib`` and this."""
    weights_gib: float
    draft_gib: float | None
    tokens: int
    slots: int
    requests: int | None
    """None where the recording ended before the summary line."""


def _measured_boots() -> tuple[MeasuredBoot, ...]:
    document = json.loads((DATA / "h200-boots.json").read_text(encoding="utf-8"))
    common = document["common_args"]
    return tuple(
        MeasuredBoot(**{**row, "args": (*common, *row["args"])}) for row in document["boots"]
    )


MEASURED_BOOTS = _measured_boots()
MEASURED_MODEL = "hybrid-27b-cg"

# Seed 004: weights 17.67 GiB and draft 5.53 GiB as printed there, 0.79 GiB once its copies of
# embedding and output head are not built; free memory fitted to the first row. The fit stands for
# what is left after the rotary caches have grown: 2 MiB of text and 38 MiB of vision cache.
SEED_004_GROWTH_GIB = 40 / 1024
_S4 = "--kv-cache-dtype fp8_e4m3 --page-size 1 --mem-fraction-static "
_S4_FREE = 29.903
_PATH = " --speculative-draft-model-path /models/int4 " + _NEXTN

SEED_004 = (
    SeedRow(
        "no drafts, 0.92", _S4 + "0.92 --max-mamba-cache-size 6", _S4_FREE, None, 289_577, 289_577
    ),
    SeedRow(
        "drafts, 0.92",
        _S4 + "0.92 --max-mamba-cache-size 6 --max-running-requests 2" + _PATH,
        _S4_FREE,
        5.53,
        14_157,
        14_161,
        requests=1,
    ),
    SeedRow(
        "patched, 0.92",
        _S4
        + "0.92 --max-mamba-cache-size 16 --mamba-ssm-dtype bfloat16 --max-running-requests 2"
        + _PATH,
        _S4_FREE,
        0.79,
        45_430,
        45_423,
        requests=2,
    ),
    SeedRow(
        "patched, 0.97",
        _S4
        + "0.97 --max-mamba-cache-size 16 --mamba-ssm-dtype bfloat16 --max-running-requests 2"
        + _PATH,
        _S4_FREE,
        0.79,
        55_228,
        55_228,
    ),
    SeedRow(
        "patched, 0.97, 262144 asked",
        _S4 + "0.97 --max-mamba-cache-size 16 --mamba-ssm-dtype bfloat16 --max-running-requests 2 "
        "--max-total-tokens 262144" + _PATH,
        _S4_FREE,
        0.79,
        55_228,
        55_228,
    ),
    SeedRow(
        "patched, 0.99",
        _S4
        + "0.99 --max-mamba-cache-size 16 --mamba-ssm-dtype bfloat16 --max-running-requests 2"
        + _PATH,
        _S4_FREE,
        0.79,
        59_148,
        59_150,
    ),
    SeedRow(
        "patched, 0.97, one request",
        _S4
        + "0.97 --max-mamba-cache-size 8 --mamba-ssm-dtype bfloat16 --max-running-requests 1"
        + _PATH,
        _S4_FREE,
        0.79,
        60_974,
        60_973,
    ),
    SeedRow(
        "drafts without the path, 0.92",
        _S4 + "0.92 --max-mamba-cache-size 6 --max-running-requests 2 " + _NEXTN,
        _S4_FREE,
        5.53,
        70_785,
        None,
    ),
    SeedRow(
        "patched without the path, 0.92",
        _S4 + "0.92 --max-mamba-cache-size 6 --max-running-requests 2 " + _NEXTN,
        _S4_FREE,
        0.79,
        226_106,
        None,
    ),
)

# Seed 000: 18.59 and 5.53 GiB as printed there. The free memory fitted to the first row is smaller
# than what the fraction refers to by a constant of that box, so that the static part is given.
_S0 = (
    "--kv-cache-dtype fp8_e4m3 --speculative-algorithm EAGLE --speculative-num-steps 5 "
    "--speculative-eagle-topk 1 --speculative-num-draft-tokens 6 --mamba-ssm-dtype bfloat16 "
    "--mamba-radix-cache-strategy extra_buffer_lazy --page-size 32 --mem-fraction-static 0.97 "
)


@dataclass(frozen=True)
class StaticRow:
    name: str
    args: str
    static_gib: float
    tokens: int
    slots: int
    requests: int


SEED_000 = (
    StaticRow(
        "R 1", _S0 + "--max-running-requests 1 --max-mamba-cache-size 8", 5.6241, 134_016, 8, 1
    ),
    StaticRow(
        "R 2", _S0 + "--max-running-requests 2 --max-mamba-cache-size 16", 5.6241, 100_480, 16, 2
    ),
    StaticRow(
        "R 4", _S0 + "--max-running-requests 4 --max-mamba-cache-size 32", 5.6241, 33_440, 32, 4
    ),
    StaticRow(
        "asked 4", _S0 + "--max-running-requests 4 --max-mamba-cache-size 8", 5.6241, 119_648, 8, 2
    ),
    StaticRow(
        "ratio 0.9",
        _S0 + "--max-running-requests 4 --mamba-full-memory-ratio 0.9",
        4.9915,
        94_112,
        10,
        2,
    ),
    StaticRow(
        "ratio 3.0",
        _S0 + "--max-running-requests 4 --mamba-full-memory-ratio 3.0",
        4.9915,
        48_640,
        17,
        4,
    ),
    StaticRow(
        "ratio 8.26",
        _S0 + "--max-running-requests 4 --mamba-full-memory-ratio 8.26",
        4.9915,
        39_072,
        21,
        4,
    ),
    StaticRow(
        "ratio 0.3",
        _S0 + "--max-running-requests 4 --mamba-full-memory-ratio 0.3",
        5.6063,
        143_008,
        4,
        1,
    ),
)
