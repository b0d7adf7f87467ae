"""Facts of the machine that a measured result was taken on."""

from __future__ import annotations

import datetime
import os
import platform
from pathlib import Path

import psutil


def machine_facts() -> dict[str, object]:
    """Return date, processor, cores, memory and versions; no host name, no addresses."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": {
            "cpu": model,
            "cores": os.cpu_count(),
            "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
            "kernel": platform.release(),
            "python": platform.python_version(),
        },
    }
