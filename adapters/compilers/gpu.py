"""Failures of NVIDIA's compilers: ptxas, nvlink, nvcc and its passes, NVRTC.

Sources: CUDA's manuals of nvcc and NVRTC, and the tools' own output: `ptxas FILE, line N; error : …`, `ptxas fatal :
…`, `FILE(LINE): error: …` of the EDG front end, `nvcc error : 'cicc' died due to signal 9`, `nvrtc: error: …`.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.adapters.compilers.failures import SUMMARY, failure
from livedbg.logs.said import Form, Said

__all__ = ["FORMS"]

_ASSEMBLER = re.compile(
    r"(?P<tool>ptxas(?:-\w{1,20})?|nvlink|nvcc|fatbinary|cicc|cudafe\+\+)(?:\"?)(?: "
    r"(?P<file>application ptx input|[^\s,;]{1,400}), line (?P<line>\d{1,9});)? ?(?P<level>error|fatal) *: "
    r"(?P<text>[^\n]{1,1000})"
)
_SHARED = re.compile(
    r"Entry function '(?P<kernel>[^']{1,1000})' uses too much (?P<what>shared|local|const\w*|parameter) \w{1,20} "
    r"\((?P<used>0x[0-9a-f]{1,16}|\d{1,18}) bytes, (?P<most>0x[0-9a-f]{1,16}|\d{1,18}) max\)"
)
_DIED = re.compile(r"'(?P<what>[\w+-]{1,40})' died due to signal (?P<number>\d{1,2})(?: \((?P<name>[^)\n]{1,60})\))?")
_FRONT = re.compile(
    r"^[ \t]{0,16}(?P<file>[^\s()\"'][^()\n\"']{0,400})\((?P<line>\d{1,9})\): "
    r"(?:catastrophic error|error)(?: #\d{1,6}(?:-D)?)?: "
    r"(?P<text>[^\n]{1,1000})",
    re.MULTILINE,
)
_NVRTC = re.compile(r"nvrtc: error: (?P<text>[^\n]{1,500})")
_RESULT = re.compile(r"\b(?P<name>NVRTC_ERROR_[A-Z_]{1,60})\b")

_ARCHITECTURE: Final = (
    "compile for this GPU: TORCH_CUDA_ARCH_LIST, -arch=sm_NN (nvidia-smi --query-gpu=compute_cap --format=csv)"
)
_NEWER: Final = "use a CUDA toolkit that knows this GPU (TRITON_PTXAS_PATH names the ptxas that Triton runs)"
_LESS: Final = "use smaller blocks or fewer stages, or dynamic shared memory with a raised limit"
_DTYPE: Final = "use another type on this GPU (float16 where bfloat16 needs sm_80), or a newer GPU"
_MEMORY: Final = "let fewer compilers run at once (MAX_JOBS=4), or give them more memory"


def _number(text: str) -> int:
    return int(text, 16) if text.startswith("0x") else int(text)


def _assembler(match: re.Match[str]) -> Said | None:
    text, tool = match["text"], match["tool"]
    if "aborted due to errors" in text or "previous errors" in text:
        return None  # the errors stand before it
    place = f"{match['file']}:{match['line']}" if match["file"] else ""
    shared = _SHARED.search(text)
    if shared is not None:
        used, most = _number(shared["used"]), _number(shared["most"])
        said = f"kernel {shared['kernel'][:80]} uses {used:,} bytes of {shared['what']} memory, {most:,} at most"
        return failure(tool, said, place, (_LESS,))
    died = _DIED.search(text)
    if died is not None:
        steps = (_MEMORY,) if died["number"] == "9" else ()
        name = f", {died['name']}" if died["name"] else ""
        return failure(tool, f"{died['what']} was ended by signal {died['number']}{name}", place, steps)
    return failure(tool, text, place, _advice(text))


def _advice(text: str) -> tuple[str, ...]:
    if "is not defined for option" in text or "Unsupported gpu architecture" in text:
        return _NEWER, _ARCHITECTURE
    if "requires .target" in text or "not supported on .target" in text:
        return _DTYPE, _ARCHITECTURE
    if "Unresolved extern" in text or "Undefined reference" in text:
        return ("compile with -rdc=true and link the device code, or include the definition",)
    return ()


def _front(match: re.Match[str]) -> Said | None:
    file = match["file"]
    if "/" not in file and "." not in file and not file.endswith("program"):
        return None  # somebody's own message: `step(3): error: …`
    runtime = file == "default_program" or file.endswith(("_program", ".jit"))
    return failure("NVRTC" if runtime else "nvcc", match["text"], f"{file}:{match['line']}")


def _nvrtc(match: re.Match[str]) -> Said:
    text = match["text"]
    steps: tuple[str, ...] = (_NEWER, _ARCHITECTURE) if "architecture" in text else ()
    if "builtins" in text:
        steps = ("let LD_LIBRARY_PATH find libnvrtc-builtins of the same CUDA as libnvrtc",)
    return failure("NVRTC", text, steps=steps)


def _result(match: re.Match[str]) -> Said:
    return failure("NVRTC", match["name"], code=SUMMARY)


FORMS: Final = (
    Form(
        ("ptxas ", "ptxas-", "nvlink ", "nvcc error", "nvcc fatal", "fatbinary ", "cicc ", "cudafe++ "),
        _ASSEMBLER,
        _assembler,
    ),
    Form(("): error: ", "): error #", "): catastrophic error"), _FRONT, _front),
    Form(("nvrtc: error: ",), _NVRTC, _nvrtc),
    Form(("NVRTC_ERROR_",), _RESULT, _result),
)
