"""What is known of one GPU at one moment: plain values, each ``None`` where it is not available."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "GpuProcess",
    "GpuReading",
    "MissingReason",
    "NvmlSystem",
    "throttle_text",
    "throttle_words",
]


class MissingReason(StrEnum):
    """Why a value is ``None``."""

    UNSUPPORTED = "unsupported"
    """This card or driver mode has no such value (NVML code 3)."""
    NOT_PERMITTED = "not-permitted"
    """NVML code 4."""
    NO_FUNCTION = "no-function"
    """The installed driver library is too old for the call (NVML code 13)."""
    GPU_LOST = "gpu-lost"
    """NVML code 15: fallen off the bus; a reboot is needed."""
    NOT_ASKED = "not-asked"
    """The caller wanted the live values only."""
    ERROR = "error"
    """Any other NVML code; the code is in :attr:`GpuReading.codes`."""


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that holds memory on a GPU."""

    pid: int
    kind: str
    """``compute``, ``graphics`` or ``compute+graphics``."""
    used_bytes: int | None
    """``None``: in use, size not reported (WSL2, MIG, foreign PID namespace)."""
    name: str | None = None
    """From ``/proc/PID/comm``; ``None`` where the process cannot be seen from here."""


@dataclass(frozen=True, slots=True)
class NvmlSystem:
    """What NVML says of the driver."""

    driver_version: str | None
    """``580.159.04``."""
    cuda_version: tuple[int, int] | None
    """Newest CUDA API of the driver: ``(13, 0)``."""
    device_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """One GPU at one moment. Every ``None`` has its reason in :attr:`missing`."""

    index: int
    """NVML's index: PCI bus order, which need not be CUDA's order."""
    name: str | None = None
    uuid: str | None = None
    """Shortened to ``GPU-`` and eight digits: enough to select by, not to identify a machine."""
    bus_id: str | None = None
    """``0000:01:00.0``, as in ``/sys/bus/pci/devices``."""
    compute_capability: tuple[int, int] | None = None

    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    """Used by processes, without what the driver reserves; on unified memory their sum."""
    memory_free_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    """Kept by the driver itself; ``None`` where only the old memory call exists."""
    unified: bool = False
    """CPU and GPU share one memory (GB10, N1X): the figures above come from ``/proc/meminfo``."""
    bar1_total_bytes: int | None = None

    utilisation: float | None = None
    """Share of time with a kernel running, 0 to 1."""
    memory_utilisation: float | None = None
    """Share of time with memory traffic, 0 to 1."""
    power_w: float | None = None
    power_limit_w: float | None = None
    """The limit in force."""
    power_default_w: float | None = None
    power_min_w: float | None = None
    power_max_w: float | None = None
    temperature_c: float | None = None
    temperature_slowdown_c: float | None = None
    fan: float | None = None
    """0 to 1; ``None`` for passively cooled cards."""
    clock_sm_mhz: int | None = None
    clock_sm_max_mhz: int | None = None
    clock_memory_mhz: int | None = None
    throttle_bits: int | None = None
    """NVML's clocks event reasons; see :func:`throttle_words`."""
    performance_state: int | None = None
    """0 (fastest) to 15."""

    pcie_generation: int | None = None
    """Drops at idle: no fault."""
    pcie_width: int | None = None
    pcie_generation_max: int | None = None
    """What this slot and card can do together."""
    pcie_width_max: int | None = None
    pcie_generation_gpu_max: int | None = None
    """What the card alone can do."""

    ecc_enabled: bool | None = None
    ecc_pending: bool | None = None
    ecc_uncorrected: int | None = None
    """Uncorrected errors since the driver was loaded."""
    mig_enabled: bool | None = None
    compute_mode: int | None = None
    """0 default, 1 exclusive thread, 2 prohibited, 3 exclusive process."""
    persistence: bool | None = None
    display_active: bool | None = None
    """A display is driven by this card."""
    display_connected: bool | None = None
    addressing_mode: int | None = None
    """0 none, 1 HMM, 2 ATS."""

    missing: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Field name → :class:`MissingReason`, for every value that is ``None``."""
    codes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Field name → NVML error code, where a call failed."""

    @property
    def throttle_reasons(self) -> tuple[str, ...]:
        """Why the clocks are below their maximum, as stable English words; empty when unknown."""
        return () if self.throttle_bits is None else throttle_words(self.throttle_bits)

    def as_json(self) -> dict[str, Any]:
        """Return every field, and the throttle reasons in words."""
        document: dict[str, Any] = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name not in {"missing", "codes"}
        }
        document["throttle_reasons"] = list(self.throttle_reasons)
        document["missing"] = dict(self.missing)
        document["codes"] = dict(self.codes)
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> GpuReading:
        """Rebuild a reading from :meth:`as_json`; unknown fields of a newer version are dropped."""
        known = {f.name for f in fields(cls)}
        values = {k: v for k, v in document.items() if k in known}
        capability = values.get("compute_capability")
        if capability is not None:
            values["compute_capability"] = (int(capability[0]), int(capability[1]))
        return cls(**values)


def process_json(process: GpuProcess) -> dict[str, Any]:
    """Return the fields of a process."""
    return asdict(process)


# Bits of nvml.h (nvmlClocksEventReason*), their stable word, and the sentence for people.
_THROTTLE: tuple[tuple[int, str, Text], ...] = (
    (0x001, "idle", t("idle")),
    (0x002, "application clocks", t("clocks set by an application")),
    (0x004, "power cap", t("power limit reached")),
    (0x008, "hardware slowdown", t("hardware slowdown")),
    (0x010, "sync boost", t("synchronised with other cards")),
    (0x020, "thermal", t("too hot (driver)")),
    (0x040, "hardware thermal", t("too hot (hardware)")),
    (0x080, "power brake", t("power brake from the power supply")),
    (0x100, "display clocks", t("display clock setting")),
)
_IDLE = 0x001


def throttle_words(bits: int) -> tuple[str, ...]:
    """Name the set bits; bits that this table does not know appear as ``bit 0x200``."""
    words = [word for bit, word, _ in _THROTTLE if bits & bit]
    unknown = bits & ~sum(bit for bit, _, _ in _THROTTLE)
    if unknown:
        words.append(f"bit {unknown:#x}")
    return tuple(words)


def throttle_text(bits: int | None) -> Text | None:
    """Say why the clocks are lowered; ``None`` when nothing but idleness (or nothing known)."""
    if not bits or not bits & ~_IDLE:
        return None
    texts = [text for bit, _, text in _THROTTLE if bits & bit & ~_IDLE]
    if not texts:
        return t("reason {bits}", bits=f"{bits:#x}")
    combined = texts[0]
    for text in texts[1:]:
        combined = t("{first}, {second}", first=combined, second=text)
    return combined
