"""Values of one sample through NVML."""

from __future__ import annotations

from msgspec import Struct, field


class NvmlTrouble(Exception):
    """NVML is there but does not answer as it should; `code` is stable."""

    def __init__(self, code: str, sentence: str, remedy: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
        self.remedy = remedy


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


class Sample(Struct, frozen=True):
    """All GPUs at one moment."""

    gpus: tuple[GpuSample, ...]
