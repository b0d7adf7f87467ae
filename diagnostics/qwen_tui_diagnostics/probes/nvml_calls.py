"""Which NVML call gives which field of a :class:`GpuReading`: the table and its reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.probes.gpu_reading import GpuReading, MissingReason
from qwen_tui_profiles.foreign import clean

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["VALUE_FIELDS", "DeviceReader", "WrappedCall", "process_size", "text_of"]

# nvml.h, nvmlReturn_t.
CODE_UNSUPPORTED = 3
CODE_NO_PERMISSION = 4
CODE_DRIVER_NOT_LOADED = 9
CODE_LIBRARY_NOT_FOUND = 12
CODE_NO_FUNCTION = 13
CODE_GPU_LOST = 15
CODE_MISMATCH = 18
CODE_ARGUMENT_VERSION = 25
CODE_UNKNOWN = 999

_REASONS = {
    CODE_UNSUPPORTED: MissingReason.UNSUPPORTED,
    CODE_NO_PERMISSION: MissingReason.NOT_PERMITTED,
    CODE_NO_FUNCTION: MissingReason.NO_FUNCTION,
    CODE_GPU_LOST: MissingReason.GPU_LOST,
    CODE_ARGUMENT_VERSION: MissingReason.NO_FUNCTION,
}

VALUE_FIELDS = tuple(
    name
    for name in GpuReading.__dataclass_fields__
    if name not in {"index", "unified", "missing", "codes"}
)

_HEX_DIGITS_SHOWN = 8
_ALL_ONES = 0xFFFF_FFFF_FFFF_FFFF
_SLOWEST_STATE = 15


class WrappedCall:
    """Runs NVML calls and keeps the code of the last failure."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.code: int | None = None
        self.reason: MissingReason | None = None

    def value(self, call: Callable[[], Any]) -> Any:
        """Return the call's value, or ``None`` with :attr:`code` and :attr:`reason` set."""
        self.code = self.reason = None
        try:
            return call()
        except self._library.NVMLError as error:
            self.code = int(error.value)
            self.reason = _REASONS.get(self.code, MissingReason.ERROR)
        except AttributeError:
            # The binding is older than the call.
            self.code, self.reason = CODE_NO_FUNCTION, MissingReason.NO_FUNCTION
        return None

    def first(self, *calls: Callable[[], Any]) -> Any:
        """Return the first value; a later call is tried only where the earlier does not exist."""
        for call in calls:
            found = self.value(call)
            if found is not None or self.reason is not MissingReason.NO_FUNCTION:
                return found
        return None


def text_of(value: Any) -> str:
    """Return NVML's text: ``bytes`` with old bindings, ``str`` with new ones."""
    raw = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return clean(raw).strip()


def process_size(size: Any) -> int | None:
    """Return a process's memory in bytes; NVML's "all ones" means that it is not reported."""
    return None if size is None or not 0 <= int(size) < _ALL_ONES else int(size)


def _percent(value: Any) -> float:
    return int(value) / 100


def _watts(value: Any) -> float:
    return int(value) / 1000


def _flag(value: Any) -> bool:
    return bool(int(value))


def _number(value: Any) -> int:
    return int(getattr(value, "value", value))


def _state(value: Any) -> int | None:
    return int(value) if int(value) <= _SLOWEST_STATE else None


def _capability(value: Any) -> tuple[int, int]:
    major, minor = value
    return int(major), int(minor)


def short_uuid(value: Any) -> str:
    uuid = text_of(value)
    kind, dash, rest = uuid.partition("-")
    return f"{kind}{dash}{rest[:_HEX_DIGITS_SHOWN]}" if dash else uuid[:_HEX_DIGITS_SHOWN]


def _bus_id(value: Any) -> str:
    """Return the bus id with the four-digit domain that sysfs uses."""
    bus_id = text_of(value).lower()
    domain, colon, rest = bus_id.partition(":")
    return f"{domain[-4:]}:{rest}" if colon else bus_id


@dataclass(frozen=True, slots=True)
class Row:
    """How one field is read."""

    field: str
    functions: tuple[str, ...]
    """In order of preference; the next is tried only where the driver lacks the one before."""
    convert: Callable[[Any], Any]
    arguments: tuple[str, ...] = ()
    """Names of NVML constants passed after the handle."""
    part: str | int | None = None
    """Attribute or position in the call's value, where it holds several."""


# What changes from second to second, and what tells the cards apart.
LIVE: tuple[Row, ...] = (
    Row("name", ("nvmlDeviceGetName",), text_of),
    Row("compute_capability", ("nvmlDeviceGetCudaComputeCapability",), _capability),
    Row("utilisation", ("nvmlDeviceGetUtilizationRates",), _percent, part="gpu"),
    Row("memory_utilisation", ("nvmlDeviceGetUtilizationRates",), _percent, part="memory"),
    Row("power_w", ("nvmlDeviceGetPowerUsage",), _watts),
    Row("power_limit_w", ("nvmlDeviceGetEnforcedPowerLimit",), _watts),
    Row(
        "temperature_c",
        ("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV"),
        float,
        ("NVML_TEMPERATURE_GPU",),
    ),
    Row("clock_sm_mhz", ("nvmlDeviceGetClockInfo",), int, ("NVML_CLOCK_SM",)),
    Row(
        "throttle_bits",
        ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"),
        int,
    ),
    Row("pcie_generation", ("nvmlDeviceGetCurrPcieLinkGeneration",), int),
    Row("pcie_width", ("nvmlDeviceGetCurrPcieLinkWidth",), int),
)
_LIMITS = ("nvmlDeviceGetPowerManagementLimitConstraints",)
# What does not change while a server runs.
DETAIL: tuple[Row, ...] = (
    Row("uuid", ("nvmlDeviceGetUUID",), short_uuid),
    Row("bus_id", ("nvmlDeviceGetPciInfo",), _bus_id, part="busId"),
    Row("bar1_total_bytes", ("nvmlDeviceGetBAR1MemoryInfo",), int, part="bar1Total"),
    Row("power_default_w", ("nvmlDeviceGetPowerManagementDefaultLimit",), _watts),
    Row("power_min_w", _LIMITS, _watts, part=0),
    Row("power_max_w", _LIMITS, _watts, part=1),
    Row(
        "temperature_slowdown_c",
        ("nvmlDeviceGetTemperatureThreshold",),
        float,
        ("NVML_TEMPERATURE_THRESHOLD_SLOWDOWN",),
    ),
    Row("fan", ("nvmlDeviceGetFanSpeed",), _percent),
    Row("clock_sm_max_mhz", ("nvmlDeviceGetMaxClockInfo",), int, ("NVML_CLOCK_SM",)),
    Row("clock_memory_mhz", ("nvmlDeviceGetClockInfo",), int, ("NVML_CLOCK_MEM",)),
    Row("performance_state", ("nvmlDeviceGetPerformanceState",), _state),
    Row("pcie_generation_max", ("nvmlDeviceGetMaxPcieLinkGeneration",), int),
    Row("pcie_width_max", ("nvmlDeviceGetMaxPcieLinkWidth",), int),
    Row("pcie_generation_gpu_max", ("nvmlDeviceGetGpuMaxPcieLinkGeneration",), int),
    Row("ecc_enabled", ("nvmlDeviceGetEccMode",), _flag, part=0),
    Row("ecc_pending", ("nvmlDeviceGetEccMode",), _flag, part=1),
    Row(
        "ecc_uncorrected",
        ("nvmlDeviceGetTotalEccErrors",),
        int,
        ("NVML_MEMORY_ERROR_TYPE_UNCORRECTED", "NVML_VOLATILE_ECC"),
    ),
    Row("mig_enabled", ("nvmlDeviceGetMigMode",), _flag, part=0),
    Row("compute_mode", ("nvmlDeviceGetComputeMode",), int),
    Row("persistence", ("nvmlDeviceGetPersistenceMode",), _flag),
    Row("display_active", ("nvmlDeviceGetDisplayActive",), _flag),
    Row("display_connected", ("nvmlDeviceGetDisplayMode",), _flag),
    Row("addressing_mode", ("nvmlDeviceGetAddressingMode",), _number),
)


class DeviceReader:
    """Reads one device, field by field."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._library = library
        self._handle = handle
        self._call = WrappedCall(library)
        self.values: dict[str, Any] = {}
        self.missing: dict[str, str] = {}
        self.codes: dict[str, int] = {}

    def read(self, rows: tuple[Row, ...]) -> None:
        """Read every field of the table; an absent one gets its reason and code."""
        for row in rows:
            self._keep(
                row.field, self._call.first(*(self._getter(row, name) for name in row.functions))
            )

    def read_memory(self) -> None:
        """Read memory by the second version of the call, which tells the driver's own part."""
        lib, handle = self._library, self._handle
        parts = {
            "memory_total_bytes": "total",
            "memory_used_bytes": "used",
            "memory_free_bytes": "free",
            "memory_reserved_bytes": "reserved",
        }
        found = self._call.value(
            lambda: lib.nvmlDeviceGetMemoryInfo(handle, version=lib.nvmlMemory_v2)
        )
        if found is None and self._call.reason is MissingReason.NO_FUNCTION:
            # Version 1 counts the driver's reserved part as used and does not state it.
            self._keep("memory_reserved_bytes", None)
            del parts["memory_reserved_bytes"]
            found = self._call.value(lambda: lib.nvmlDeviceGetMemoryInfo(handle))
        for name, part in parts.items():
            # "Success, total 0" is how one integrated part says "not supported".
            known = found is not None and int(found.total) > 0
            self._keep(name, int(getattr(found, part)) if known else None)

    def leave_out(self, reason: MissingReason) -> None:
        """Say of every field not read so far why it is ``None``."""
        for name in VALUE_FIELDS:
            if name not in self.values:
                self.missing[name] = reason.value

    def put(self, name: str, value: Any) -> None:
        """Set a field that has another source; ``None`` leaves the reason as it is."""
        self.values[name] = value
        if value is not None:
            self.missing.pop(name, None)
            self.codes.pop(name, None)

    def _getter(self, row: Row, function: str) -> Callable[[], Any]:
        def get() -> Any:
            arguments = [getattr(self._library, name) for name in row.arguments]
            value = getattr(self._library, function)(self._handle, *arguments)
            if isinstance(row.part, str):
                value = getattr(value, row.part)
            elif row.part is not None:
                value = value[row.part]
            return row.convert(value)

        return get

    def _keep(self, name: str, value: Any) -> None:
        self.values[name] = value
        if value is None:
            self.missing[name] = (self._call.reason or MissingReason.UNSUPPORTED).value
            if self._call.code is not None:
                self.codes[name] = self._call.code
