"""Failures of C and C++ compilers, linkers and build tools.

Sources: GCC's and Clang's manuals (`FILE:LINE:COLUMN: error: …`, `internal compiler error`), binutils ld, LLVM lld,
ninja, GNU make, setuptools (`error: command '…' failed`), torch/utils/cpp_extension.py (`Error building extension`).
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.adapters.compilers.failures import SUMMARY, failure
from livedbg.logs.said import Form, Said

__all__ = ["FORMS"]

_SOURCES: Final = r"(?:c|cc|cpp|cxx|cu|cuh|h|hh|hpp|hxx|inl|ipp|hip|cppm|m|mm|s|S|f90|F90)"
_COMPILER = re.compile(
    r"^[ \t]{0,16}(?:In file included from [^\n]*\n)?(?P<file>[^\s:][^:\n]{0,400}\."
    + _SOURCES
    + r"):(?P<line>\d{1,9})(?::\d{1,9})?: "
    r"(?:fatal )?error: (?P<text>[^\n]{1,1000})",
    re.MULTILINE,
)
_DRIVER = re.compile(
    r"^[ \t]{0,16}(?:[\w./+-]{0,200}/)?(?P<tool>g\+\+|gcc|clang\+\+|clang|c\+\+|cc"
    r"|x86_64-[\w-]{1,60}|aarch64-[\w-]{1,60}|hipcc|cc1plus"
    r"|icpx|icx)(?:-[\d.]{1,8})?: (?P<kind>fatal error|error|internal compiler error): (?P<text>[^\n]{1,500})",
    re.MULTILINE,
)
_UNDEFINED = re.compile(
    r"^[ \t]{0,16}(?P<where>[^\n]{1,400}?): undefined reference to [`'](?P<name>[^'\n]{1,500})'"
    r"|(?:ld\.lld|ld|lld): error: undefined symbol: (?P<symbol>[^\n]{1,500})",
    re.MULTILINE,
)
_LINKER = re.compile(
    r"(?:^|[ /])(?:ld(?:\.\w{2,5})?|lld): "
    r"(?:(?P<missing>cannot find (?:-l)?[^\s:]{1,200})|error: (?P<text>[^\n]{1,300}))",
    re.MULTILINE,
)
_BUILD = re.compile(
    r"(?P<ninja>ninja: build stopped: [^\n]{1,100})|(?P<make>g?make(?:\[\d{1,3}\])?: \*\*\* [^\n]{1,300})"
    r"|(?P<setup>^ *error: command '[^\n]{1,600}' failed[^\n]{0,100})"
    r"|(?P<collect>collect2: (?:fatal )?error: [^\n]{1,200})|(?P<extension>Error building extension '[^'\n]{1,200}')"
    r"|(?P<linker>clang(?:\+\+)?(?:-[\d.]{1,8})?: error: linker command failed with exit code \d{1,3})",
    re.MULTILINE,
)

_MEMORY: Final = "let fewer compilers run at once (MAX_JOBS=4, make -j4), or give them more memory"


def _compiler(match: re.Match[str]) -> Said:
    tool = "nvcc" if match["file"].endswith((".cu", ".cuh")) else "The C++ compiler"
    return failure(tool, match["text"], f"{match['file']}:{match['line']}")


def _driver(match: re.Match[str]) -> Said | None:
    text, tool = match["text"], match["tool"]
    if "linker command failed" in text:
        return None  # the linker's own words stand before it
    if "Killed" in text or "signal terminated program" in text:
        return failure(tool, f"its compiler was killed ({text.strip()})", steps=(_MEMORY,))
    return failure(tool, text)


def _undefined(match: re.Match[str]) -> Said:
    name, where = match["name"] or match["symbol"], (match["where"] or "").strip()
    return failure("The linker", f"undefined reference to {name}", where.rpartition("ld: ")[2])


def _linker(match: re.Match[str]) -> Said | None:
    text = match["missing"] or match["text"]
    if "undefined symbol" in text or "exit status" in text:
        return None
    steps = ("install that library, or name its folder: LIBRARY_PATH, -L",) if match["missing"] else ()
    return failure("The linker", text, steps=steps)


def _build(match: re.Match[str]) -> Said:
    return failure("The build", match[0], code=SUMMARY)


FORMS: Final = (
    Form((": error: ", ": fatal error: "), _COMPILER, _compiler),
    Form((": error: ", ": fatal error: ", ": internal compiler error: "), _DRIVER, _driver),
    Form(("undefined reference to ", "error: undefined symbol: "), _UNDEFINED, _undefined),
    Form(("ld: cannot find ", "lld: error: ", "ld: error: "), _LINKER, _linker),
    Form(
        (
            *("ninja: build stopped", "make: *** ", "]: *** ", "error: command '", "collect2: ", "Error building ext"),
            "linker command failed",
        ),
        _BUILD,
        _build,
    ),
)
