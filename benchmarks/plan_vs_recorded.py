"""The plan against every recorded boot and published table: predicted, measured, error.

Needs no GPU: ``python benchmarks/plan_vs_recorded.py [--json OUT]``. Flags, free memory and figures
are those of ``tests/plan/boots.py``; the plan sees flags and free memory alone. "live" rows start
from the free memory before the launch (NVML), "printed" rows from the engine's own line.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from plan.boots import (
    BOOTS,
    MEASURED_BOOTS,
    MEASURED_MODEL,
    REPLICAS,
    SEED_004,
    SEED_004_GROWTH_GIB,
    MeasuredBoot,
    config,
)
from qwen_tui_profiles.plan.calibrate import Calibration
from qwen_tui_profiles.plan.predict import PlanRequest, predict


def rows() -> list[dict[str, Any]]:
    """Plan every recorded boot and every row of seed 004."""
    out: list[dict[str, Any]] = []
    for boot in (*BOOTS, *REPLICAS):
        started = time.process_time()
        plan = predict(
            PlanRequest(
                boot.args.split(),
                config(boot.model),
                engine_version="0.5.17",
                free_gib=boot.free_gib,
            )
        )
        out.append(
            {
                "name": boot.name,
                "source": "H200, SGLang 0.5.17",
                "predicted": plan.kv_tokens.as_json(),
                "measured": boot.tokens,
                "error_pct": _error(plan.kv_tokens.value, boot.tokens),
                "requests": [plan.requests, boot.requests],
                "cpu_ms": round((time.process_time() - started) * 1000, 1),
            }
        )
    for measured in MEASURED_BOOTS:
        out.append(_measured_row(measured, printed=False))
        out.append(_measured_row(measured, printed=True))
    for row in SEED_004:
        plan = predict(
            PlanRequest(
                row.args.split(),
                config("qwen38-27b"),
                engine_version=row.version,
                free_gib=row.free_gib,
                weights_gib=17.67,
                draft_gib=row.draft_gib,
                calibration=Calibration(
                    boots=1, gain_gib=0.0, unaccounted_gib=-SEED_004_GROWTH_GIB
                ),
            )
        )
        out.append(
            {
                "name": row.name,
                "source": "seed 004, free memory fitted to its first row",
                "predicted": plan.kv_tokens.as_json(),
                "measured": row.published,
                "error_pct": _error(plan.kv_tokens.value, row.published),
                "requests": [plan.requests, row.requests],
                "cpu_ms": None,
            }
        )
    return out


def _measured_row(boot: MeasuredBoot, *, printed: bool) -> dict[str, Any]:
    """Plan from the free memory before the launch, or from what the engine printed later."""
    started = time.process_time()
    plan = predict(
        PlanRequest(
            boot.args,
            config(MEASURED_MODEL),
            engine_version="0.5.17",
            live_free_gib=None if printed else boot.live_free_gib,
            free_gib=boot.load_begin_gib if printed else None,
            total_gib=boot.total_gib,
        )
    )
    return {
        "name": f"{boot.name}, {'printed' if printed else 'live'}",
        "source": "H200, SGLang 0.5.17, planned before the boot",
        "predicted": plan.kv_tokens.as_json(),
        "measured": boot.tokens,
        "error_pct": _error(plan.kv_tokens.value, boot.tokens),
        "requests": [plan.requests, boot.requests],
        "cpu_ms": round((time.process_time() - started) * 1000, 1),
    }


def _error(predicted: int | None, measured: int | None) -> float | None:
    if predicted is None or measured is None:
        return None
    return round((predicted / measured - 1) * 100, 4)


def main() -> int:
    parser = argparse.ArgumentParser(description="The plan against recorded boots.")
    parser.add_argument("--json", metavar="OUT", help="also write the rows to this file")
    options = parser.parse_args()
    table = rows()
    print(f"{'boot':<32}{'predicted':>12}{'measured':>12}{'error %':>10}   requests")
    for row in table:
        value = row["predicted"]["value"]
        print(
            f"{row['name']:<32}{value if value is not None else '—':>12}"
            f"{row['measured'] if row['measured'] is not None else '—':>12}"
            f"{row['error_pct'] if row['error_pct'] is not None else '—':>10}"
            f"   {row['requests'][0]} (got {row['requests'][1]})"
        )
    errors = [abs(row["error_pct"]) for row in table if row["error_pct"] is not None]
    print(f"{len(errors)} pools, largest error {max(errors):.3f} %")
    if options.json:
        Path(options.json).write_text(json.dumps(table, indent=1), encoding="utf-8")
    return 0 if max(errors) <= 0.5 else 1


if __name__ == "__main__":
    sys.exit(main())
