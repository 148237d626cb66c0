"""GPUs as NVIDIA's management library (NVML) counts them: how busy, how full, how hot, who uses them."""

from livedbg.adapters.cuda.nvml.adapter import NvmlAdapter

__all__ = ["NvmlAdapter"]
