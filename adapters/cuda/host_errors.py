"""Errors of CUDA as programs on the host report them: PyTorch, Triton, JAX, NCCL, cuBLAS, cuDNN, checking macros.

Sources: PyTorch c10/cuda/CUDAException.cpp and CUDAMiscFunctions.cpp (the lines below `CUDA error:`; the line about
asynchronous errors is left out under CUDA_LAUNCH_BLOCKING=1), CUDACachingAllocator.cpp (out of memory),
aten/src/ATen/cuda/CUDABlas.cpp, aten/src/ATen/cudnn/Exceptions.h; ggml src/ggml-cuda/ggml-cuda.cu; NCCL
src/include/checks.h (`Cuda failure 2 'out of memory'`); NVIDIA cuda-samples Common/helper_cuda.h (`CUDA error at F:L
code=700(NAME) "CALL"`); thrust's and XLA's `NAME: TEXT`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from livedbg.adapters.cuda.errors import CudaError, by_name, by_number, by_text, known_texts
from livedbg.adapters.cuda.record_text import line_of, outside_source, quoted
from livedbg.adapters.cuda.sizes import bytes_of
from livedbg.adapters.cuda.statement import Statement, place_of
from livedbg.model import Frame, Severity

__all__ = ["host_error", "more_frames"]

_LIMIT: Final = 200_000  # characters of a record that are searched
_FRAMES: Final = 100
_TORCH: Final = re.compile(r"CUDA (?:driver )?error: (?P<text>[^\n]+)")
_LIBRARY: Final = re.compile(
    r"(?:CUDA error|cuDNN error|cuSPARSE error|cusolver error|cuFFT error): "
    r"(?P<status>CU[A-Z]+_STATUS_\w+)(?:,? when calling `(?P<call>\w+))?"
)
_MEMORY: Final = re.compile(r"CUDA out of memory\.(?P<rest>[^\n]*)")
_SAMPLES: Final = re.compile(
    r"CUDA error at (?P<file>\S+?):(?P<line>\d{1,9}) code=(?P<number>\d{1,9})\((?P<name>\w+)\) "
    r"\"(?P<call>[^\"\n]{1,500})\""
)
_AT_LINE: Final = re.compile(  # bitsandbytes csrc/ops.cuh, CUDA_CHECK_RETURN, after which it exits
    r"^Error (?P<text>[a-z][^\n]{4,200}) at line (?P<line>\d{1,9}) in file (?P<file>\S{1,300})", re.MULTILINE
)
_GPU_ASSERT: Final = re.compile(
    r"GPUassert: (?P<text>.{1,4000}?) (?P<file>\S{1,1000}) (?P<line>\d{1,9})[ \t]{0,400}$", re.MULTILINE
)
_BELOW: Final = re.compile(  # ggml-cuda.cu's ggml_cuda_error
    r"\n +current device: (?P<device>-?\d{1,9}), in function (?P<function>\w{1,200}) at "
    r"(?P<file>(?:[A-Za-z]:\\)?[^\s:]{1,500}):(?P<line>\d{1,9})"
    r"(?:\n +(?P<call>cu\w{1,100})\()?"
)
_NCCL: Final = re.compile(r"Cuda failure (?:(?P<number>\d{1,9}) )?'(?P<text>[^'\n]+)'")
_TRITON: Final = re.compile(r"Triton Error \[CUDA\]: (?P<text>[^\n]+)")
_NAMED: Final = re.compile(r"(?P<name>cudaError[A-Z]\w+|CUDA_ERROR_[A-Z_]+)(?:\W{1,3}(?P<text>[a-zA-Z][^\n]*))?")
_OF_KERNEL: Final = re.compile("|".join(map(re.escape, known_texts(of_kernel=True))))
_NAMED_FAILURE: Final = re.compile(r"error|fail|results in|returned|terminat|exception|abort", re.IGNORECASE)
_MACRO_PLACE: Final = re.compile(r"(?P<file>[\w./\\-]{1,400}\.(?:cu|cuh|cpp|cc|c|h|hpp|py)):(?P<line>\d{1,9})")
_CALL: Final = re.compile(r"\b(?P<call>cu(?:da)?[A-Z]\w+) ?\(")
_SIZE: Final = r"(?P<{}>[\d.]{{1,40}} (?:[KMGT]?i?B|bytes))"
_SIZES: Final = {
    "tried": re.compile(r"Tried to allocate " + _SIZE.format("size")),
    "total": re.compile(r"total capacity of " + _SIZE.format("size")),
    "free": re.compile(r"of which " + _SIZE.format("size") + " is free"),
    "used": re.compile(r"this process has " + _SIZE.format("size") + " memory in use"),
    "allocated": re.compile(_SIZE.format("size") + r" (?:is allocated by PyTorch|already allocated)"),
    "unused": re.compile(_SIZE.format("size") + r" is reserved by PyTorch but unallocated"),
}
_GPU: Final = re.compile(r"GPU (\d{1,3})")
_OTHER_PROCESS: Final = re.compile(r"\bProcess (\d{1,10}) has ([\d.]+ [KMGT]?i?B)")
_ROUNDED: Final = 0.995  # sizes are rounded to two digits
_PYTHON_FRAME: Final = re.compile(r'^[ \t]*(?:[|+] *)*File "([^"\n]+)", line (\d{1,9}), in (.+)$', re.MULTILINE)
_NATIVE_FRAME: Final = re.compile(
    r"^[ \t]{0,400}frame #\d{1,18}:? {1,100}(?P<function>.{1,4000}?)(?: \+ 0x[0-9a-f]{1,16})? "
    r"\(0x(?P<address>[0-9a-f]{1,16}) in (?P<module>[^)\n]{1,2000})\)$",
    re.MULTILINE,
)
_ASYNC: Final = "CUDA kernel errors might be asynchronously reported"
_TORCH_HINT: Final = "TORCH_USE_CUDA_DSA"
_BARE: Final = re.compile(r"(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}(?:Error|Exception): \S")
"""The last line of a traceback, whose other lines are not there."""
_UNCAUGHT: Final = (
    *("Traceback (most recent call last)", "terminate called", "terminated with exception", "' panicked at "),
    "Check failure stack trace",
)


def host_error(text: str, severity: Severity) -> Statement | None:
    """The CUDA error that a record reports.

    Args:
        text: the record, without the prefixes of its lines.
        severity: of the record.
    """
    if severity is Severity.DEBUG:
        return None
    if len(text) > _LIMIT:
        text = text[: _LIMIT // 2] + "\n" + text[-_LIMIT // 2 :]
    statement = _memory(text) or _library(text) or _checked(text) or _torch(text) or _named(text, severity)
    if statement is None:
        return None
    statement.frames = _frames(text)
    python = _innermost(text)
    if python:
        statement.host = python
    attributes = statement.attributes
    if any(word in text for word in _UNCAUGHT) or _BARE.match(text) is not None:
        attributes["uncaught"] = "yes"
        if statement.hit and ("Traceback (most" in text or "terminate called" in text):
            statement.hit = ""  # the decoder of crashes has it, with its own type
    if severity.rank < Severity.ERROR.rank and "uncaught" not in attributes:
        attributes["logged"] = str(severity)
    if _ASYNC in text:
        attributes["synchronous"] = "no"
    elif _TORCH_HINT in text:
        attributes["synchronous"] = "yes"
    return statement


def more_frames(statement: Statement, text: str) -> None:
    """The C++ frames of an error, in a record of their own (`Exception raised from …`)."""
    if not statement.frames:
        statement.frames = _native_frames(text)


def _coded(code: CudaError | None, text: str, call: str = "", place: str = "") -> Statement:
    """The statement of an error that is reported with its code."""
    name = code.name if code is not None else ""
    words = code.text if code is not None else text.strip()[:300]
    attributes = {"text": words, "call": call}
    if code is not None:
        attributes |= {
            "error": name,
            "number": str(code.number),
            "sticky": "yes" if code.sticky else "no",
            "of_kernel": "yes" if code.of_kernel else "no",
            "hardware": "yes" if code.hardware else "",
        }
    reported = f" ({name})" if name else ""
    return Statement(
        "error",
        f"CUDA error: {words}{reported}",
        key=(call, place),
        host=place,
        hit=name or "CUDA error",
        attributes={key: value for key, value in attributes.items() if value},
    )


def _torch(text: str) -> Statement | None:
    match = outside_source(_TORCH, text) or outside_source(_TRITON, text)
    if match is None:
        return None
    said = match["text"]
    named = _NAMED.match(said)
    code = (by_name(named["name"]) if named is not None else None) or by_text(said) or _wrapped(said)
    below = _BELOW.match(text, match.end())
    if below is None:
        return _coded(code, said)
    place = place_of(below["file"].replace("\\", "/"), below["line"])
    device = f", device {below['device']}" if not below["device"].startswith("-") else ""
    return _coded(code, said, below["call"] or "", f"{below['function']} at {place}{device}")


def _wrapped(said: str) -> CudaError | None:
    """The code behind a caller's words: XLA's `Could not synchronize CUDA stream: CUDA_ERROR_…: …`."""
    named = _NAMED.search(said) if "CUDA_ERROR_" in said or "cudaError" in said else None
    code = by_name(named["name"]) if named is not None else None
    return code if code is not None and named is not None and (named["text"] or "").startswith(code.text) else None


def _checked(text: str) -> Statement | None:
    """What a checking macro or NCCL printed."""
    samples = _SAMPLES.search(text)
    if samples is not None:
        code = by_name(samples["name"]) or by_number(int(samples["number"]))
        place = place_of(samples["file"], samples["line"])
        return _coded(code, samples["name"], samples["call"].partition("(")[0], place)
    at_line = _AT_LINE.search(text)
    if at_line is not None and (code := by_text(at_line["text"])) is not None:
        found = _coded(code, at_line["text"], place=place_of(at_line["file"], at_line["line"]))
        found.attributes["uncaught"] = "yes"
        return found
    gpu_assert = _GPU_ASSERT.search(text)
    if gpu_assert is not None:
        place = place_of(gpu_assert["file"], gpu_assert["line"])
        return _coded(by_text(gpu_assert["text"]), gpu_assert["text"], place=place)
    nccl = _NCCL.search(text)
    if nccl is not None:
        code = by_number(int(nccl["number"])) if nccl["number"] else by_text(nccl["text"])
        return _coded(code, nccl["text"], call="NCCL")
    return None


def _named(text: str, severity: Severity) -> Statement | None:
    """A line with the name or the text of a code, that reports a failure."""
    for match in _NAMED.finditer(text):
        code = by_name(match["name"])
        if code is None or code.number == 600 or quoted(text, match.start()):
            continue
        line = line_of(text, match.start())
        explained = bool(match["text"]) and match["text"].startswith(code.text)
        if explained or severity.rank >= Severity.ERROR.rank or _NAMED_FAILURE.search(line.replace(match["name"], "")):
            return _placed(code, line)
    match_text = outside_source(_OF_KERNEL, text)
    if match_text is not None:
        line = line_of(text, match_text.start())
        if severity.rank >= Severity.ERROR.rank or _NAMED_FAILURE.search(line.replace(match_text[0], "")):
            return _placed(by_text(match_text[0]), line)
    return None


def _placed(code: CudaError | None, line: str) -> Statement:
    call, place = _CALL.search(line), _MACRO_PLACE.search(line)
    at = place_of(place["file"].replace("\\", "/"), place["line"]) if place is not None else ""
    return _coded(code, line, call["call"] if call is not None else "", at)


def _library(text: str) -> Statement | None:
    """cuBLAS, cuDNN, and NCCL's word for an error of CUDA."""
    match = outside_source(_LIBRARY, text)
    if match is not None:
        status, call = match["status"], match["call"] or ""
        library = {"CUBLAS": "cuBLAS", "CUDNN": "cuDNN", "CUSPARSE": "cuSPARSE", "CUSOLVER": "cuSOLVER"}.get(
            status.partition("_")[0], "CUDA library"
        )
        what = f"{library} error: {status}" + (f" from {call}" if call else "")
        attributes = {"error": status, "call": call, "library": library}
        return Statement("library-error", what, hit=status, attributes={k: v for k, v in attributes.items() if v})
    if "unhandled cuda error" in text:
        attributes = {"error": "ncclUnhandledCudaError", "library": "NCCL"}
        return Statement("library-error", "NCCL error: unhandled CUDA error", hit="ncclUnhandledCudaError",
                         attributes=attributes)  # fmt: skip
    return None


def _memory(text: str) -> Statement | None:
    """PyTorch's allocator ran out of memory."""
    match = outside_source(_MEMORY, text)
    if match is None:
        return None
    attributes = {"error": "cudaErrorMemoryAllocation", "number": "2"}
    rest = text[match.start() : match.start() + 3_000]
    for name, pattern in _SIZES.items():
        found = pattern.search(rest)
        if found is not None:
            attributes[name] = found["size"]
    gpu = _GPU.search(rest)
    if gpu is not None:
        attributes["gpu"] = gpu[1]
    listed = _OTHER_PROCESS.findall(rest)
    own = _listed_itself(attributes, listed)
    others = [f"{pid} ({size})" for pid, size in listed if (pid, size) != own][:10]
    if others:
        attributes["others"] = ", ".join(others)
    return Statement("out-of-memory", "CUDA out of memory", hit="CUDA out of memory", attributes=attributes)


def _listed_itself(attributes: Mapping[str, str], listed: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """The process of the list that is the one that ran out of memory, in a PID namespace where it can't know itself.

    PyTorch (CUDACachingAllocator.cpp) writes `this process has` only of the one whose pid NVML gives as its own: in a
    container that is none. It is the smallest that holds what PyTorch has allocated and reserved.
    """
    if "used" in attributes or "allocated" not in attributes:
        return None
    least = sum(bytes_of([attributes["allocated"], attributes.get("unused")]))
    able = [one for one in listed if bytes_of([one[1]])[0] >= least * _ROUNDED]
    return min(able, key=lambda one: bytes_of([one[1]])[0], default=None)


def _frames(text: str) -> tuple[Frame, ...]:
    python = [
        Frame(function=function, file=file, line=int(line), language="python")
        for file, line, function in _PYTHON_FRAME.findall(text)[-_FRAMES:]
    ]
    return (*reversed(python), *_native_frames(text))[:_FRAMES]


def _native_frames(text: str) -> tuple[Frame, ...]:
    return tuple(
        Frame(
            function=match["function"],
            module=match["module"].rpartition("/")[2],
            address=int(match["address"], 16),
        )
        for _, match in zip(range(_FRAMES), _NATIVE_FRAME.finditer(text), strict=False)
    )


def _innermost(text: str) -> str:
    """The innermost Python frame that is not in a library: `step (train.py:14)`."""
    found = _PYTHON_FRAME.findall(text)
    own = [frame for frame in found if "-packages/" not in frame[0] and "/lib/python" not in frame[0]]
    if not found:
        return ""
    file, line, function = (own or found)[-1]
    return f"{function} ({place_of(file, line)})"
