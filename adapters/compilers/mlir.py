"""Failures of compilers that are built on MLIR (Triton, IREE, XLA, torch-mlir).

Source: mlir/lib/IR/Diagnostics.cpp (`FILE:LINE:COLUMN: error: …`, `note: see current operation: …`, `loc("…")`),
mlir/lib/Pass/PassCrashRecovery.cpp (`Pipeline failed while executing […]: reproducer generated at …`).
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.adapters.compilers.failures import SUMMARY, failure
from livedbg.logs.said import Form, Said

__all__ = ["FORMS"]

_NOT_SOURCES: Final = r"(?:c|cc|cpp|cxx|cu|cuh|h|hh|hpp|hxx|inl|ipp|hip)"
_ERROR = re.compile(
    r"^(?P<file>loc\([^\n]{1,400}?\)|<[\w.-]{1,100}>[\w.]{0,40}|<unknown>|-|[^\s:][^:\n]{0,400}?\.(?!"
    + _NOT_SOURCES
    + r":)\w{1,12})"
    r"(?::(?P<line>\d{1,9})(?::(?P<column>\d{1,9}))?)?: error: (?P<text>[^\n]{1,1000})",
    re.MULTILINE,
)
_PIPELINE = re.compile(
    r"Pipeline failed while executing \[(?P<passes>[^\n]{1,4000}?)\]"
    r"(?:: reproducer generated at [`'](?P<file>[^`'\n]{1,400}))?"
)
_PASS = re.compile(r"`(?P<pass>[^`\n]{1,300})` on '(?P<op>[^'\n]{1,100})' operation(?:: @(?P<name>[^\s,\]]{1,300}))?")
_OPERATION = re.compile(r"'(?P<op>[a-z_][\w]{0,40}(?:\.[\w.]{1,80}))'")
_SUMMARIES: Final = ("Failures have been detected while processing", "failed to run translation", "pass pipeline")


def _error(match: re.Match[str]) -> Said | None:
    text, file = match["text"], match["file"]
    located = match["column"] is not None or file.startswith("loc(")
    if not located and _OPERATION.search(text) is None:
        return None
    place = ":".join(part for part in (file, match["line"], match["column"]) if part is not None)
    summary = any(words in text for words in _SUMMARIES)
    return failure("MLIR", text, place, code=SUMMARY if summary else "compile-failed")


def _pipeline(match: re.Match[str]) -> Said | None:
    passes = list(_PASS.finditer(match["passes"]))
    if not passes:
        return None
    last = passes[-1]
    named = [one["name"] for one in passes if one["name"]]
    function = f" of @{named[0]}" if named else ""
    name = last["pass"].rpartition("::")[2]
    file = match["file"]
    steps = (f"{file} is a reproducer of that pass",) if file else ()
    return failure("MLIR", f"pass {name}{function}", steps=steps, code=SUMMARY)


FORMS: Final = (
    Form((": error: ",), _ERROR, _error),
    Form(("Pipeline failed while executing",), _PIPELINE, _pipeline),
)
