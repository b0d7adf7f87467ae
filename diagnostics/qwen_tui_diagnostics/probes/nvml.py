"""NVML (``libnvidia-ml.so.1`` through ``nvidia-ml-py``): GPU facts, each absence with its reason.

Every call is wrapped on its own, because every card, driver and mode lacks some of them: a failed
call becomes ``None`` with a reason, never zero. Failures are told apart by NVML's error *codes*;
the texts change with the bindings.

A call can block for a long time when a card has fallen off the bus. Call from a thread (console) or
from a child process that can be killed (``python -m qwen_tui_diagnostics.probes.nvml_child``).
"""

from __future__ import annotations

import importlib
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.probes.gpu_reading import (
    GpuProcess,
    GpuReading,
    MissingReason,
    NvmlSystem,
)
from qwen_tui_diagnostics.probes.meminfo import read_meminfo
from qwen_tui_diagnostics.probes.nvml_calls import (
    CODE_DRIVER_NOT_LOADED,
    CODE_GPU_LOST,
    CODE_LIBRARY_NOT_FOUND,
    CODE_MISMATCH,
    CODE_NO_PERMISSION,
    CODE_UNKNOWN,
    CODE_UNSUPPORTED,
    DETAIL,
    LIVE,
    VALUE_FIELDS,
    DeviceReader,
    WrappedCall,
    process_size,
    short_uuid,
    text_of,
)
from qwen_tui_profiles.errors import ProbeError
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import Text, t

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["GpuProcess", "GpuReading", "Nvml", "NvmlError", "NvmlSystem"]

INTEGRATED_CAPABILITIES = frozenset({(7, 2), (8, 7), (11, 0), (12, 1)})
"""Xavier, Orin, Thor, GB10/N1X: parts whose GPU has no memory of its own (CUDA's list of SMs)."""


class NvmlError(ProbeError):
    """NVML itself cannot be used.

    Attributes:
        code: NVML's return code; ``None`` when the Python binding is missing.
    """

    def __init__(self, code: int | None, message: Text, remedy: Text | None = None) -> None:
        super().__init__(message, remedy)
        self.code = code


class Nvml:
    """A lazy connection to NVML. Nothing is imported or loaded before :meth:`open`.

    Args:
        library: Stands in for the ``pynvml`` module (tests).
        proc_root: Where ``meminfo`` and the names of processes are read.
    """

    def __init__(self, library: Any = None, *, proc_root: Path = Path("/proc")) -> None:
        self._given = library
        self._library: Any = None
        self._proc = proc_root

    def __enter__(self) -> Nvml:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        """Whether :meth:`open` succeeded and :meth:`close` was not called since."""
        return self._library is not None

    def open(self) -> None:
        """Load the library and initialise it; does nothing when it is open.

        Raises:
            NvmlError: NVML cannot be used here; ``code`` and the message say why.
        """
        if self._library is not None:
            return
        library = self._given if self._given is not None else _import()
        try:
            library.nvmlInit()
        except library.NVMLError as error:
            raise _open_error(int(error.value)) from error
        self._library = library

    def close(self) -> None:
        """Let NVML go; never raises."""
        library, self._library = self._library, None
        if library is not None:
            try:
                library.nvmlShutdown()
            except library.NVMLError:
                return

    def system(self) -> NvmlSystem:
        """Return driver, CUDA API and number of devices.

        Raises:
            NvmlError: NVML is not usable (any more).
        """
        library = self._use()
        driver = WrappedCall(library).value(library.nvmlSystemGetDriverVersion)
        cuda = WrappedCall(library).value(library.nvmlSystemGetCudaDriverVersion_v2)
        return NvmlSystem(
            driver_version=None if driver is None else text_of(driver),
            cuda_version=None if not cuda else (int(cuda) // 1000, int(cuda) % 1000 // 10),
            device_count=self._count(),
        )

    def devices(self, *, live_only: bool = False) -> tuple[GpuReading, ...]:
        """Read every device.

        Args:
            live_only: Read what changes from second to second (memory, load, power, temperature,
                clocks) and leave the rest ``None`` with the reason ``not-asked``; for ticks.

        Raises:
            NvmlError: NVML is not usable (any more). A single lost card does not raise: its values
                are ``None`` with the reason ``gpu-lost``.
        """
        return tuple(self._device(index, live_only) for index in range(self._count()))

    def processes(self, index: int) -> tuple[GpuProcess, ...] | None:
        """Return who holds memory on a device, biggest first; ``None`` when NVML does not tell.

        Raises:
            NvmlError: NVML is not open.
        """
        library = self._use()
        call = WrappedCall(library)
        handle = call.value(lambda: library.nvmlDeviceGetHandleByIndex(index))
        if handle is None:
            return None
        lists = {
            "compute": call.first(
                lambda: library.nvmlDeviceGetComputeRunningProcesses_v3(handle),
                lambda: library.nvmlDeviceGetComputeRunningProcesses(handle),
            ),
            "graphics": call.first(
                lambda: library.nvmlDeviceGetGraphicsRunningProcesses_v3(handle),
                lambda: library.nvmlDeviceGetGraphicsRunningProcesses(handle),
            ),
        }
        if all(found is None for found in lists.values()):
            return None
        kinds: dict[int, list[str]] = {}
        sizes: dict[int, int | None] = {}
        for kind, found in lists.items():
            for item in found or ():
                pid = int(item.pid)
                size = process_size(item.usedGpuMemory)
                kinds.setdefault(pid, []).append(kind)
                known = sizes.get(pid)
                sizes[pid] = size if known is None else max(known, size or 0)
        holders = [
            GpuProcess(pid, "+".join(kinds[pid]), sizes[pid], self._process_name(pid))
            for pid in kinds
        ]
        return tuple(sorted(holders, key=lambda p: (-(p.used_bytes or 0), p.pid)))

    def slices(self, index: int) -> tuple[dict[str, Any], ...]:
        """Return the MIG slices of a device: UUID and memory, as far as NVML tells."""
        library = self._use()
        call = WrappedCall(library)
        found: list[dict[str, Any]] = []
        card = call.value(lambda: library.nvmlDeviceGetHandleByIndex(index))
        count = call.value(lambda: library.nvmlDeviceGetMaxMigDeviceCount(card))
        for number in range(int(count or 0) if card is not None else 0):
            handle = call.value(partial(library.nvmlDeviceGetMigDeviceHandleByIndex, card, number))
            if handle is None:
                continue  # numbers are not dense
            uuid = call.value(partial(library.nvmlDeviceGetUUID, handle))
            memory = call.value(partial(library.nvmlDeviceGetMemoryInfo, handle))
            entry: dict[str, Any] = {} if uuid is None else {"uuid": short_uuid(uuid)}
            if memory is not None and int(memory.total) > 0:
                entry["memory_total_bytes"] = int(memory.total)
                entry["memory_free_bytes"] = int(memory.free)
            found.append(entry)
        return tuple(found)

    def p2p_read(self, first: int, second: int) -> bool | None:
        """Tell whether one device can read another's memory; ``None`` when NVML does not tell."""
        library = self._use()
        call = WrappedCall(library)
        status = call.value(
            lambda: library.nvmlDeviceGetP2PStatus(
                library.nvmlDeviceGetHandleByIndex(first),
                library.nvmlDeviceGetHandleByIndex(second),
                library.NVML_P2P_CAPS_INDEX_READ,
            )
        )
        return None if status is None else int(status) == 0

    # --- one device ---------------------------------------------------------------------------

    def _device(self, index: int, live_only: bool) -> GpuReading:
        library = self._use()
        call = WrappedCall(library)
        handle = call.value(lambda: library.nvmlDeviceGetHandleByIndex(index))
        if handle is None:
            reason = call.reason or MissingReason.ERROR
            return GpuReading(
                index=index,
                missing=MappingProxyType(dict.fromkeys(VALUE_FIELDS, reason.value)),
                codes=MappingProxyType(
                    {} if call.code is None else dict.fromkeys(VALUE_FIELDS, call.code)
                ),
            )
        reader = DeviceReader(library, handle)
        reader.read(LIVE)
        reader.read_memory()
        if live_only:
            reader.leave_out(MissingReason.NOT_ASKED)
        else:
            reader.read(DETAIL)
        values = reader.values
        if _is_unified(values, reader.missing, reader.codes):
            self._use_host_memory(index, reader)
        for name in VALUE_FIELDS:
            if values.get(name) is None:
                reader.missing.setdefault(name, MissingReason.UNSUPPORTED.value)
        return GpuReading(
            index=index,
            **values,
            missing=MappingProxyType(dict(reader.missing)),
            codes=MappingProxyType(dict(reader.codes)),
        )

    def _use_host_memory(self, index: int, reader: DeviceReader) -> None:
        """Unified memory: total and available are the host's, used is the sum of the processes."""
        host = read_meminfo(self._proc)
        holders = self.processes(index)
        sizes = [p.used_bytes for p in holders or () if p.used_bytes is not None]
        reader.values["unified"] = True
        reader.put("memory_total_bytes", host.get("MemTotal"))
        reader.put("memory_free_bytes", host.get("MemAvailable"))
        complete = holders is not None and len(sizes) == len(holders)
        reader.put("memory_used_bytes", sum(sizes) if complete else None)
        reader.put("memory_reserved_bytes", None)

    def _process_name(self, pid: int) -> str | None:
        try:
            name = (self._proc / str(pid) / "comm").read_text("utf-8", "replace")
        except OSError:
            return None
        return clean(name.strip()) or None

    # --- the connection -----------------------------------------------------------------------

    def _use(self) -> Any:
        if self._library is None:
            raise NvmlError(
                None,
                t("NVML was asked before it was opened."),
                t("This is a fault of qwen-tui; please report it."),
            )
        return self._library

    def _count(self) -> int:
        library = self._use()
        try:
            return int(library.nvmlDeviceGetCount())
        except library.NVMLError as error:
            raise _open_error(int(error.value)) from error


def _is_unified(values: dict[str, Any], missing: dict[str, str], codes: dict[str, int]) -> bool:
    """Tell an integrated part: no memory figure *and* a sign that it has no memory of its own."""
    capability = values.get("compute_capability")
    if capability in INTEGRATED_CAPABILITIES:
        # One such part succeeds with a wrong, small total: its own figure is not to be trusted.
        return missing.get("memory_total_bytes") in {None, MissingReason.UNSUPPORTED}
    if missing.get("memory_total_bytes") != MissingReason.UNSUPPORTED:
        return False
    return codes.get("pcie_width") == CODE_UNSUPPORTED


def _import() -> Any:
    try:
        return importlib.import_module("pynvml")
    except ImportError as error:
        raise NvmlError(
            None,
            t("The Python binding of NVML (nvidia-ml-py) is not installed beside qwen-tui."),
            t("Install it: pip install nvidia-ml-py"),
        ) from error


def _open_error(code: int) -> NvmlError:
    messages = {
        CODE_LIBRARY_NOT_FOUND: (
            t("The driver's library libnvidia-ml.so.1 was not found: no NVIDIA driver here."),
            t("Install the driver; in a container, start it with --gpus all."),
        ),
        CODE_DRIVER_NOT_LOADED: (
            t("The NVIDIA kernel module is not loaded."),
            t("Load it: sudo modprobe nvidia; if that fails, it was not built for this kernel."),
        ),
        CODE_MISMATCH: (
            t("The loaded kernel module and the installed NVIDIA library have different versions."),
            t("Reboot, so that the module of the installed driver is loaded."),
        ),
        CODE_NO_PERMISSION: (
            t("This user may not open the NVIDIA device nodes."),
            t("Check the permissions of /dev/nvidia* (group, ACL, cgroup rules)."),
        ),
        CODE_GPU_LOST: (
            t("A GPU has fallen off the bus."),
            t("Reboot; if it comes back, look at power cable, riser and heat."),
        ),
        CODE_UNKNOWN: (
            t("NVML answers with an unknown error; in a container, GPU access was lost."),
            t("Recreate the container (a systemd reload takes its GPU access away); else reboot."),
        ),
    }
    message, remedy = messages.get(
        code, (t("NVML cannot be used: error code {code}.", code=code), None)
    )
    return NvmlError(code, message, remedy)
