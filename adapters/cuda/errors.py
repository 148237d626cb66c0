"""The error codes of CUDA: number, names, text, and whether the context survives; and the texts that mark a CUDA error.

Sources: CUDA Runtime API, "Error Handling" and the enumeration cudaError; CUDA Driver API, CUresult. Both have had the
same numbers since CUDA 10.1. A code whose documentation says "the context can no longer be used" (or "must be
terminated and relaunched") is sticky: every later call in that process returns it again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["RAISED_FROM", "RULE", "WORDS", "CudaError", "by_name", "by_number", "by_text", "known_texts"]

RULE: Final = "========="
"""What compute-sanitizer begins its lines with."""

RAISED_FROM: Final = "Exception raised from c10_cuda_check_implementation"
"""PyTorch's listing of C++ frames below an error."""


class CudaError(NamedTuple):
    """One code.

    Attributes:
        name: of the runtime (`cudaErrorIllegalAddress`).
        driver: of the driver (`CUDA_ERROR_ILLEGAL_ADDRESS`), or "".
        text: what cudaGetErrorString says.
        sticky: the context is lost.
        of_kernel: a kernel did it, so that the call that reports it is not the one that failed.
        hardware: the GPU or its links failed, whatever the program did.
    """

    number: int
    name: str
    driver: str
    text: str
    sticky: bool = False
    of_kernel: bool = False
    hardware: bool = False


_CODES: Final = (
    CudaError(1, "cudaErrorInvalidValue", "CUDA_ERROR_INVALID_VALUE", "invalid argument"),
    CudaError(2, "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
    CudaError(3, "cudaErrorInitializationError", "CUDA_ERROR_NOT_INITIALIZED", "initialization error"),
    CudaError(4, "cudaErrorCudartUnloading", "CUDA_ERROR_DEINITIALIZED", "driver shutting down"),
    CudaError(9, "cudaErrorInvalidConfiguration", "", "invalid configuration argument"),
    CudaError(35, "cudaErrorInsufficientDriver", "", "CUDA driver version is insufficient for CUDA runtime version"),
    CudaError(
        46,
        "cudaErrorDevicesUnavailable",
        "CUDA_ERROR_DEVICE_UNAVAILABLE",
        "CUDA-capable device(s) is/are busy or unavailable",
    ),
    CudaError(98, "cudaErrorInvalidDeviceFunction", "", "invalid device function"),
    CudaError(100, "cudaErrorNoDevice", "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"),
    CudaError(101, "cudaErrorInvalidDevice", "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"),
    CudaError(200, "cudaErrorInvalidKernelImage", "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"),
    CudaError(201, "cudaErrorDeviceUninitialized", "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"),
    CudaError(
        209,
        "cudaErrorNoKernelImageForDevice",
        "CUDA_ERROR_NO_BINARY_FOR_GPU",
        "no kernel image is available for execution on the device",
    ),
    CudaError(
        214,
        "cudaErrorECCUncorrectable",
        "CUDA_ERROR_ECC_UNCORRECTABLE",
        "uncorrectable ECC error encountered",
        sticky=True,
        hardware=True,
    ),
    CudaError(218, "cudaErrorInvalidPtx", "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"),
    CudaError(
        220,
        "cudaErrorNvlinkUncorrectable",
        "CUDA_ERROR_NVLINK_UNCORRECTABLE",
        "uncorrectable NVLink error detected during the execution",
        sticky=True,
        hardware=True,
    ),
    CudaError(
        222,
        "cudaErrorUnsupportedPtxVersion",
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        "the provided PTX was compiled with an unsupported toolchain",
    ),
    CudaError(400, "cudaErrorInvalidResourceHandle", "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"),
    CudaError(500, "cudaErrorSymbolNotFound", "CUDA_ERROR_NOT_FOUND", "named symbol not found"),
    CudaError(
        700,
        "cudaErrorIllegalAddress",
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "an illegal memory access was encountered",
        sticky=True,
        of_kernel=True,
    ),
    CudaError(
        701,
        "cudaErrorLaunchOutOfResources",
        "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
        "too many resources requested for launch",
    ),
    CudaError(
        702,
        "cudaErrorLaunchTimeout",
        "CUDA_ERROR_LAUNCH_TIMEOUT",
        "the launch timed out and was terminated",
        sticky=True,
        of_kernel=True,
    ),
    CudaError(
        709, "cudaErrorContextIsDestroyed", "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed", sticky=True
    ),
    CudaError(
        710,
        "cudaErrorAssert",
        "CUDA_ERROR_ASSERT",
        "device-side assert triggered",
        sticky=True,
        of_kernel=True,
    ),
    CudaError(
        714,
        "cudaErrorHardwareStackError",
        "CUDA_ERROR_HARDWARE_STACK_ERROR",
        "hardware stack error",
        sticky=True,
        of_kernel=True,
    ),
    CudaError(
        715,
        "cudaErrorIllegalInstruction",
        "CUDA_ERROR_ILLEGAL_INSTRUCTION",
        "an illegal instruction was encountered",
        sticky=True,
        of_kernel=True,
    ),
    CudaError(
        716,
        "cudaErrorMisalignedAddress",
        "CUDA_ERROR_MISALIGNED_ADDRESS",
        "misaligned address",
        sticky=True,
        of_kernel=True,
    ),
    CudaError(
        717,
        "cudaErrorInvalidAddressSpace",
        "CUDA_ERROR_INVALID_ADDRESS_SPACE",
        "operation not supported on global/shared address space",
        sticky=True,
        of_kernel=True,
    ),
    CudaError(
        718, "cudaErrorInvalidPc", "CUDA_ERROR_INVALID_PC", "invalid program counter", sticky=True, of_kernel=True
    ),
    CudaError(
        719,
        "cudaErrorLaunchFailure",
        "CUDA_ERROR_LAUNCH_FAILED",
        "unspecified launch failure",
        sticky=True,
        of_kernel=True,
    ),
    CudaError(
        720,
        "cudaErrorCooperativeLaunchTooLarge",
        "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
        "too many blocks in cooperative launch",
    ),
    CudaError(800, "cudaErrorNotPermitted", "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"),
    CudaError(801, "cudaErrorNotSupported", "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"),
    CudaError(802, "cudaErrorSystemNotReady", "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"),
    CudaError(
        803,
        "cudaErrorSystemDriverMismatch",
        "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        "system has unsupported display driver / cuda driver combination",
    ),
    CudaError(
        900,
        "cudaErrorStreamCaptureUnsupported",
        "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        "operation not permitted when stream is capturing",
    ),
    CudaError(
        901,
        "cudaErrorStreamCaptureInvalidated",
        "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        "operation failed due to a previous error during capture",
    ),
    CudaError(999, "cudaErrorUnknown", "CUDA_ERROR_UNKNOWN", "unknown error", sticky=True),
)


_NUMBERS: Final = {code.number: code for code in _CODES}


_NAMES: Final = {name: code for code in _CODES for name in (code.name, code.driver) if name}


_NAMES["CUDA_ERROR_INVALID_SOURCE"] = CudaError(
    300, "cudaErrorInvalidSource", "CUDA_ERROR_INVALID_SOURCE", "device kernel image is invalid"
)


_TEXTS: Final = {code.text: code for code in _CODES}


def by_number(number: int) -> CudaError | None:
    """The code of a number."""
    return _NUMBERS.get(number)


def by_name(name: str) -> CudaError | None:
    """The code of a name of the runtime or of the driver."""
    return _NAMES.get(name)


def by_text(text: str) -> CudaError | None:
    """The code that a text of cudaGetErrorString is of; what follows it in the text doesn't matter."""
    exact = _TEXTS.get(text.strip().rstrip("."))
    if exact is not None:
        return exact
    return next((code for known, code in _TEXTS.items() if text.startswith(known)), None)


def known_texts(of_kernel: bool = False) -> tuple[str, ...]:
    """The texts, longest first.

    Args:
        of_kernel: only those of errors that kernels make.
    """
    texts = (code.text for code in _CODES if code.of_kernel or not of_kernel)
    return tuple(sorted(texts, key=len, reverse=True))


WORDS: Final = (
    *("CUDA error", "CUDA driver error", "CUDA Error", "CUDA out of memory", "Cuda failure", "cuDNN error"),
    *("Triton Error [CUDA]", "GPUassert: ", "cudaError", "CUDA_ERROR_", "unhandled cuda error"),
    *known_texts(of_kernel=True),
    *(f"Error {text} at line" for text in known_texts(of_kernel=False)),
)


"""Every CUDA error that a program on the host reports contains one of these."""
