"""Compiles a kernel by NVRTC and launches it by the CUDA driver: what `nvcc` and main.h do, for a box without nvcc.

    python launch.py hung.cu BLOCKS THREADS

It needs libcuda.so.1 and a libnvrtc, e.g. that of a torch with CUDA (NVRTC documentation; CUDA driver API).
"""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
from pathlib import Path


def nvrtc() -> ctypes.CDLL:
    """libnvrtc: of the system, or of a wheel that is installed beside torch."""
    found = ctypes.util.find_library("nvrtc")
    if found:
        return ctypes.CDLL(found)
    for folder in map(Path, sys.path):
        for file in sorted(folder.glob("nvidia/*/lib/libnvrtc.so.*"), reverse=True):
            if "builtins" not in file.name:
                return ctypes.CDLL(str(file))
    raise SystemExit("FAILED no libnvrtc")


class Driver:
    """The CUDA driver; every call that fails ends the program."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")

    def __call__(self, name: str, *arguments: object, fatal: bool = True) -> int:
        code = int(getattr(self.library, name)(*arguments))
        if code and fatal:
            raise SystemExit(f"FAILED {name} {code}")
        return code


def compiled(source: Path, machine: str) -> bytes:
    """The cubin of a source file, with line information."""
    library, program, size = nvrtc(), ctypes.c_void_p(), ctypes.c_size_t()
    library.nvrtcCreateProgram(ctypes.byref(program), source.read_bytes(), str(source).encode(), 0, None, None)
    options = [f"--gpu-architecture={machine}".encode(), b"--generate-line-info"]
    code = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    if code:
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        raise SystemExit(f"FAILED {log.value.decode(errors='replace')}")
    library.nvrtcGetCUBINSize(program, ctypes.byref(size))
    cubin = ctypes.create_string_buffer(size.value)
    library.nvrtcGetCUBIN(program, cubin)
    return cubin.raw


def main(source: Path, blocks: int, threads: int) -> int:
    cuda = Driver()
    device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    function, flag = ctypes.c_void_p(), ctypes.c_uint64()
    major, minor = ctypes.c_int(), ctypes.c_int()
    cuda("cuInit", 0)
    cuda("cuDeviceGet", ctypes.byref(device), 0)
    cuda("cuDeviceGetAttribute", ctypes.byref(major), 75, device)  # compute capability, major and minor
    cuda("cuDeviceGetAttribute", ctypes.byref(minor), 76, device)
    cuda("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    cuda("cuCtxSetCurrent", context)
    cuda("cuModuleLoadData", ctypes.byref(module), compiled(source, f"sm_{major.value}{minor.value}"))
    cuda("cuModuleGetFunction", ctypes.byref(function), module, source.stem.encode())
    cuda("cuMemAlloc_v2", ctypes.byref(flag), ctypes.c_size_t(4))
    cuda("cuMemsetD8_v2", flag, ctypes.c_ubyte(0), ctypes.c_size_t(4))
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(flag))
    cuda("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, arguments, None)
    print("READY", flush=True)
    code = cuda("cuCtxSynchronize", fatal=False)
    print("ENDED", code, flush=True)
    return 1 if code else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), int(sys.argv[2]), int(sys.argv[3])))
