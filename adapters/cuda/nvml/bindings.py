"""Calls NVML through `nvidia-ml-py` (NVIDIA's own bindings, an optional dependency).

Source: NVML API Reference. A value is left out if the GPU does not support the call, or the call is not permitted.
`nvmlDeviceGetProcessUtilization` returns NOT_FOUND if no process used the GPU recently. Import this module only if
libnvidia-ml.so.1 can be loaded: the bindings are large.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import pynvml
from msgspec import Struct, field

from livedbg.model.errors import SourceError
from livedbg.text.sanitize import clean_line

T = TypeVar("T")

_LOST: Final = {15: "the GPU is lost", 16: "the GPU must be reset"}  # NVML_ERROR_GPU_IS_LOST, _RESET_REQUIRED
_HELD_DOWN: Final = {  # nvmlClocksEventReasons; those left out are no trouble (idle, set by the user)
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "heat (software)",
    0x40: "heat (hardware)",
    0x80: "power brake",
}
_FAILURES: Final = {
    4: ("no-permission", "NVML may not be used by this user", "check the permissions of /dev/nvidiactl"),
    9: ("no-driver", "the NVIDIA driver is not loaded", "nvidia-smi   (or: modprobe nvidia, as root)"),
    18: (
        "driver-mismatch",
        "NVML and the loaded driver are of different versions (the driver was updated and not loaded again)",
        "reboot, or load the driver again",
    ),
}


class Gpu(Struct, frozen=True):
    """Constant properties of a GPU, with its PCI address and total memory."""

    index: int
    name: str = ""
    uuid: str = ""
    bus: str = ""
    memory_bytes: int | None = None
    driver: str = ""


class GpuSample(Struct):
    """One GPU at one moment.

    Attributes:
        counters: by name; unreported ones are left out.
        held_down: reasons for reduced clocks.
        processes: pid -> bytes of its memory (None: not reported); in the PID namespace of the driver.
        busy: pid -> percent of recent time in which its kernels ran.
        lost: NVML's words if the GPU does not answer any more.
    """

    gpu: Gpu
    counters: dict[str, float] = field(default_factory=dict)
    held_down: tuple[str, ...] = ()
    processes: dict[int, int | None] = field(default_factory=dict)
    busy: dict[int, int] = field(default_factory=dict)
    lost: str = ""


class Nvml:
    """An open NVML, or SourceError is raised. Its methods block, and belong to one thread."""

    def __init__(self) -> None:
        self._called(pynvml.nvmlInit)
        self._driver = self._text("nvmlSystemGetDriverVersion")
        self._known: dict[int, Gpu] = {}
        self._since_us: dict[int, int] = {}

    def sample(self) -> list[GpuSample]:
        """Sample all GPUs; raise SourceError if NVML does not answer."""
        count = int(self._called(pynvml.nvmlDeviceGetCount))
        return [self._gpu(index) for index in range(count)]

    def _gpu(self, index: int) -> GpuSample:
        gpu = self._known.get(index, Gpu(index))
        sample = GpuSample(gpu)
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            if index not in self._known:
                gpu = sample.gpu = self._known[index] = self._describe(index, handle)
            self._count(handle, sample)
            self._processes(handle, sample)
        except pynvml.NVMLError as error:
            number = int(error.value)
            sample.lost = _LOST.get(number, "") or f"NVML says: {clean_line(str(error), 200)}"
        return sample

    def _describe(self, index: int, handle: object) -> Gpu:
        pci = self._optional("nvmlDeviceGetPciInfo", handle)
        bus = getattr(pci, "busId", b"")
        memory = self._optional("nvmlDeviceGetMemoryInfo", handle)
        return Gpu(
            index=index,
            name=self._text("nvmlDeviceGetName", handle),
            uuid=self._text("nvmlDeviceGetUUID", handle),
            bus=clean_line(bus.decode("ascii", "replace") if isinstance(bus, bytes) else str(bus), 40),
            memory_bytes=int(memory.total) if memory is not None else None,
            driver=self._driver,
        )

    def _count(self, handle: object, sample: GpuSample) -> None:
        counters = sample.counters
        rates = self._optional("nvmlDeviceGetUtilizationRates", handle)
        if rates is not None:
            counters["utilisation_percent"] = float(rates.gpu)
            counters["memory_utilisation_percent"] = float(rates.memory)
        memory = self._optional("nvmlDeviceGetMemoryInfo", handle)
        if memory is not None:
            counters["memory_used_bytes"] = float(int(memory.used) >> 20 << 20)  # in whole MiB
        simple: tuple[tuple[str, str, tuple[object, ...]], ...] = (
            ("sm_clock_mhz", "nvmlDeviceGetClockInfo", (pynvml.NVML_CLOCK_SM,)),
            ("memory_clock_mhz", "nvmlDeviceGetClockInfo", (pynvml.NVML_CLOCK_MEM,)),
            ("temperature_celsius", "nvmlDeviceGetTemperature", (pynvml.NVML_TEMPERATURE_GPU,)),
            ("uncorrected_ecc_errors", "nvmlDeviceGetTotalEccErrors",
             (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC)),
            ("retired_pages_pending", "nvmlDeviceGetRetiredPagesPendingStatus", ()),
        )  # fmt: skip
        for name, call, arguments in simple:
            value = self._optional(call, handle, *arguments)
            if isinstance(value, int):
                counters[name] = float(value)
        power = self._optional("nvmlDeviceGetPowerUsage", handle)
        if power is not None:
            counters["power_watts"] = float(round(int(power) / 5000) * 5)  # in steps of 5 W, so that noise is no news
        rows = self._optional("nvmlDeviceGetRemappedRows", handle)
        if rows is not None:
            counters["remapped_rows"] = float(rows[0] + rows[1])
            counters["remapping_pending"] = float(rows[2])
            counters["remapping_failed"] = float(rows[3])
        reasons = self._optional("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if reasons is None:
            reasons = self._optional("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        if reasons is not None:
            sample.held_down = tuple(word for bit, word in _HELD_DOWN.items() if int(reasons) & bit)

    def _processes(self, handle: object, sample: GpuSample) -> None:
        for process in self._optional("nvmlDeviceGetComputeRunningProcesses", handle) or ():
            used = process.usedGpuMemory
            sample.processes[int(process.pid)] = int(used) if used is not None else None
        index = sample.gpu.index
        since = self._since_us.get(index, time.time_ns() // 1000 - 2_000_000)
        try:
            samples = pynvml.nvmlDeviceGetProcessUtilization(handle, since)
        except pynvml.NVMLError as error:
            if int(error.value) in _LOST:
                raise
            if int(error.value) != pynvml.NVML_ERROR_NOT_FOUND:
                return  # not supported, or not for us: then nobody's share is known
            samples = ()
        except AttributeError:  # older bindings
            return
        for one in samples:
            sample.busy[int(one.pid)] = int(one.smUtil)
            self._since_us[index] = max(self._since_us.get(index, 0), int(one.timeStamp))
        for pid in sample.processes:
            sample.busy.setdefault(pid, 0)  # not found: it ran nothing

    def _text(self, name: str, *arguments: object) -> str:
        """Return a name or version; older bindings return bytes."""
        value = self._optional(name, *arguments) or ""
        return clean_line(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value), 100)

    @staticmethod
    def _optional(name: str, *arguments: object) -> Any:
        """Return the answer of a call; None if there is none, or older bindings lack it. Raises for a lost GPU."""
        try:
            return getattr(pynvml, name)(*arguments)
        except pynvml.NVMLError as error:
            if int(error.value) in _LOST:
                raise
            return None
        except (UnicodeDecodeError, AttributeError):
            return None

    @staticmethod
    def _called(call: Callable[[], T]) -> T:
        try:
            return call()
        except pynvml.NVMLError as error:
            number, text = int(error.value), clean_line(str(error), 200)
            code, sentence, remedy = _FAILURES.get(
                number, ("nvml-failed", f"NVML says: {text}", "nvidia-smi   (shows whether the driver works)")
            )
            raise SourceError(f"The GPUs can't be sampled: {sentence}.", remedy, code) from None
