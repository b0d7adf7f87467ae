"""``nvidia-smi`` as the second-best source, with a time limit; never called on a tick.

Only its CSV query form is read: the banner's words change (R610 renamed "CUDA Version"), and a
value that it does not have is ``[N/A]``, ``[Not Supported]`` or ``ERR!``, never a number.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.result import SkipReason
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.facts import Gathered

__all__ = ["FIELDS", "gather", "parse"]

LIMIT_S = 6.0
"""It once took over 60 s on a healthy H200."""
_MIB = 1024 * 1024

FIELDS: tuple[tuple[str, str, float | None], ...] = (
    # query field, our field, factor (None = text)
    ("index", "index", 1),
    ("name", "name", None),
    ("driver_version", "driver_version", None),
    ("memory.total", "memory_total_bytes", _MIB),
    ("memory.used", "memory_used_bytes", _MIB),
    ("memory.free", "memory_free_bytes", _MIB),
    ("compute_cap", "compute_capability", None),
    ("power.draw", "power_w", 1),
    ("temperature.gpu", "temperature_c", 1),
    ("mig.mode.current", "mig_enabled", None),
)
_WHOLE = {"index", "memory_total_bytes", "memory_used_bytes", "memory_free_bytes"}


def gather(context: Context, found: Gathered) -> None:
    """Gather ``gpu.devices`` from the tool, where it is there and answers in time."""
    tool = shutil.which("nvidia-smi", path=context.env.get("PATH"))
    if tool is None:
        return
    query = ",".join(field for field, _, _ in FIELDS)
    try:
        done = subprocess.run(
            [tool, f"--query-gpu={query}", "--format=csv,noheader,nounits"],
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
            env=dict(context.env) | {"LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired:
        found.put("gpu.smi", "timeout")
        return
    except OSError as error:
        found.put("gpu.smi", f"failed: {error.strerror}")
        return
    text = done.stdout.decode("utf-8", "replace")
    found.raw["nvidia-smi.csv"] = text
    if done.returncode != 0:
        message = (done.stderr or done.stdout).decode("utf-8", "replace")
        found.put("gpu.smi", clean(message.strip().partition("\n")[0])[:200])
        return
    devices = parse(text)
    if devices:
        found.put("gpu.smi", "ok")
        found.put("gpu.source", "nvidia-smi")
        found.put("gpu.devices", devices)
        found.absent.pop("gpu.devices", None)
        driver = devices[0].get("driver_version")
        if isinstance(driver, str):
            found.put("gpu.driver_version", driver)
            found.absent.pop("gpu.driver_version", None)
        for device in devices:
            found.lack(
                f"gpu.devices.{device['index']}", SkipReason.UNSUPPORTED, t("only nvidia-smi")
            )


def parse(text: str) -> list[dict[str, Any]]:
    """Read the CSV answer; a value that is not there is left out, a broken line is dropped."""
    devices: list[dict[str, Any]] = []
    for line in text.splitlines():
        values = [clean(value).strip() for value in line.split(",")]
        if len(values) != len(FIELDS):
            continue
        device: dict[str, Any] = {}
        for (_, name, factor), value in zip(FIELDS, values, strict=True):
            if not value or value.startswith("[") or value.upper().startswith(("N/A", "ERR")):
                continue
            if factor is None:
                device[name] = value
                continue
            try:
                number = float(value) * factor
            except ValueError:
                continue
            device[name] = int(number) if name in _WHOLE else number
        if "index" not in device:
            continue
        capability = str(device.pop("compute_capability", "")).split(".")
        if len(capability) == 2 and all(part.isdecimal() for part in capability):
            device["compute_capability"] = [int(part) for part in capability]
        mig = device.pop("mig_enabled", None)
        if mig in {"Enabled", "Disabled"}:
            device["mig_enabled"] = mig == "Enabled"
        if "memory_total_bytes" in device:
            # A part that shares the host's memory has no total here.
            device["unified"] = False
        devices.append(device)
    return devices
