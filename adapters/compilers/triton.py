"""Failures of Triton: errors of a kernel's source, of its passes, and kernels that need more than the GPU has.

Sources: triton/compiler/errors.py and code_generator.py (`CompilationError: at L:C:`, an excerpt, a caret, the reason),
triton/runtime/errors.py (`OutOfResources`), triton/compiler/compiler.py (`PassManager::run failed`).
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.adapters.compilers.failures import SUMMARY, failure, short
from livedbg.logs.said import Form, Said

__all__ = ["FORMS"]

_COMPILATION = re.compile(
    r"\b(?P<name>CompilationError|UnsupportedLanguageConstruct|CompileTimeAssertionFailure): "
    r"at (?P<line>\d{1,9}):(?P<column>\d{1,9}):(?P<source>(?:\n(?! *\^)[^\n]{0,2000}){0,60})"
    r"(?:\n(?P<caret> *)\^[^\n]{0,200}(?:\n(?P<why>[^\n]{1,1000}))?)?"
)
_DEF = re.compile(r"^\s{0,100}def (?P<kernel>\w{1,200})\s{0,100}\(", re.MULTILINE)
_RESOURCES = re.compile(
    r"(?:OutOfResources: )?out of resources?: (?P<what>[\w ]{1,40}), Required: (?P<wanted>\d{1,18}), "
    r"Hardware limit: (?P<most>\d{1,18})"
)
_PASSES = re.compile(r"PassManager::run failed")

_LESS: Final = "use smaller block sizes or fewer num_stages in the kernel's configuration"
_STEP: Final = "TRITON_DEBUG=1, and MLIR_ENABLE_DUMP=1 for the pass that fails"


def _compilation(match: re.Match[str]) -> Said:
    source = match["source"] or ""
    kernel = _DEF.search(source)
    lines = [line for line in source.split("\n") if line.strip()]
    name = f"kernel {kernel['kernel']}, " if kernel is not None else ""
    place = f"{name}at {match['line']}:{match['column']}"
    why = short(match["why"] or "", 120)
    code = short(lines[-1], 60) if lines and match["caret"] is not None else ""
    reason = why or match["name"]
    return failure("Triton", f"{reason}{f', in `{code}`' if code and not code.startswith('def ') else ''}", place)


def _resources(match: re.Match[str]) -> Said:
    wanted, most = int(match["wanted"]), int(match["most"])
    unit = " bytes" if "memory" in match["what"] else ""
    said = f"a kernel needs {wanted:,}{unit} of {match['what'].strip()}, the GPU has {most:,}"
    return failure("Triton", said, steps=(_LESS,))


def _passes(match: re.Match[str]) -> Said:
    return failure("Triton", "PassManager::run failed", steps=(_STEP,), code=SUMMARY)


FORMS: Final = (
    Form(
        ("CompilationError: at ", "UnsupportedLanguageConstruct: at ", "CompileTimeAssertionFailure: at "),
        _COMPILATION,
        _compilation,
    ),
    Form(("out of resource",), _RESOURCES, _resources),
    Form(("PassManager::run failed",), _PASSES, _passes),
)
