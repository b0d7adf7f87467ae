"""A stand-in for the ``pynvml`` module that replays recorded answers and error codes.

A card is a dict in the shape of ``tests/doctor/data/nvml-h200.json``: the key is the NVML call
without ``nvmlDeviceGet``; a value that starts with ``!`` is the exception that the real driver
raised; an ``int`` wrapped in :class:`Code` raises that NVML code; a call that is not there answers
"not supported", as drivers do.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml

H200_FILE = Path(__file__).parent.parent / "doctor" / "data" / "nvml-h200.json"


class Code(int):
    """An NVML return code that a call raises."""


def h200(**changes: Any) -> dict[str, Any]:
    """Return the recorded answers of a real H200, with some replaced."""
    card: dict[str, Any] = json.loads(H200_FILE.read_text())
    card["UUID"] = "GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
    return card | changes


class FakeNvml:
    """The few functions of ``pynvml`` that the probe calls, over recorded cards."""

    NVMLError = pynvml.NVMLError

    def __init__(
        self,
        *cards: dict[str, Any],
        init: int = 0,
        driver: str = "580.159.04",
        cuda: int = 13000,
        count_code: int = 0,
        hang_s: float = 0.0,
        without: tuple[str, ...] = (),
    ) -> None:
        self._cards = cards
        self._init = init
        self._driver = driver
        self._cuda = cuda
        self._count_code = count_code
        self._hang_s = hang_s
        self._without = without
        self.calls: list[str] = []

    def nvmlInit(self) -> None:  # noqa: N802
        """Raise the code that was asked for."""
        time.sleep(self._hang_s)
        self._check(self._init)

    def nvmlShutdown(self) -> None:  # noqa: N802
        """Do nothing."""

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        """Return the driver's version."""
        return self._driver

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:  # noqa: N802
        """Return the CUDA API, 13000 for 13.0."""
        return self._cuda

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        """Return the number of cards."""
        self._check(self._count_code)
        return len(self._cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:  # noqa: N802
        """Return the card as its own handle."""
        handle = self._cards[index]
        self._raise(handle.get("HANDLE"))
        return handle

    def nvmlDeviceGetP2PStatus(self, one: dict[str, Any], two: Any, caps: int) -> int:  # noqa: N802
        """Return 0 where the first card says that it has peers."""
        del two, caps
        return int(one.get("P2P", 6))

    def nvmlDeviceGetMaxMigDeviceCount(self, card: dict[str, Any]) -> int:  # noqa: N802
        """Return how many slices a card could have."""
        return len(card.get("MIG", ()))

    def nvmlDeviceGetMigDeviceHandleByIndex(  # noqa: N802
        self, card: dict[str, Any], number: int
    ) -> dict[str, Any]:
        """Return a slice as its own handle; a gap is "not found"."""
        if card["MIG"][number] is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        handle: dict[str, Any] = card["MIG"][number]
        return handle

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in self._without:
            raise AttributeError(name)
        if not name.startswith("nvmlDeviceGet"):
            return getattr(pynvml, name)
        key = name.removeprefix("nvmlDeviceGet")

        def call(handle: dict[str, Any], *arguments: Any, version: int | None = None) -> Any:
            self.calls.append(name)
            return self._answer(handle, key, arguments, version)

        return call

    def _answer(
        self, card: dict[str, Any], key: str, arguments: tuple[Any, ...], version: int | None
    ) -> Any:
        if key == "MemoryInfo" and version is not None:
            key = "MemoryInfo_v2"
        if key in {"Temperature", "TemperatureV"}:
            key = "Temp"
        if key == "TemperatureThreshold":
            key = "TempThrSlow"
        if key == "ClockInfo":
            key = {pynvml.NVML_CLOCK_SM: "ClockSM", pynvml.NVML_CLOCK_MEM: "ClockMem"}[arguments[0]]
        if key == "MaxClockInfo":
            key = "MaxClockSM"
        if key == "PciInfo":
            key = "PciInfo_v3"
        value = card.get(key, Code(pynvml.NVML_ERROR_NOT_SUPPORTED))
        self._raise(value)
        if key == "CudaComputeCapability" and isinstance(value, str):
            return [int(part) for part in value.strip("()").split(",")]
        if isinstance(value, dict):
            return SimpleNamespace(**value)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return [SimpleNamespace(**item) for item in value]
        return value

    def _raise(self, value: Any) -> None:
        if isinstance(value, Code):
            self._check(int(value))
        if isinstance(value, str) and value.startswith("!NVMLError_NotSupported"):
            self._check(pynvml.NVML_ERROR_NOT_SUPPORTED)

    @staticmethod
    def _check(code: int) -> None:
        if code:
            raise pynvml.NVMLError(code)
