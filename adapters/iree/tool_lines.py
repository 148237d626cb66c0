"""What IREE's programs say of themselves: words of the command line, files that are not there, results that are wrong.

Sources, seen printed by the wheels 3.13.0: iree-compile's command line (LLVM's), its target for CPUs, iree-run-module's
`--expected_output`, google-benchmark's error lines.

Invariants:
    iree_tools.T1. Results that matched, a list of flags, and a processor that is ignored are no failure.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.logs.said import Form, Said
from livedbg.model import CauseClass

__all__ = ["FORMS", "RESULT", "TOOL"]

TOOL: Final = "iree-tool"
RESULT: Final = "iree-result"

_FLAG = re.compile(r"(?P<who>iree-[\w-]{1,40}): Unknown command line argument '(?P<flag>[^'\n]{1,200})'")
_MEANT = re.compile(r"\n[^\n]{0,80}Did you mean '(?P<flag>[^'\n]{1,200})'")
_FILE = re.compile(r"error opening input file: (?P<what>cannot open input file '[^'\n]{1,400}': [^\n]{1,100})")
_CPU = re.compile(r"Unknown CPU for target architecture (?P<arch>[\w-]{1,40})\.")
_UNEXPECTED = re.compile(r"\[FAILED\] result\[(?P<at>\d{1,6})\]: (?P<what>[^;\n]{1,300})")


def _flag(match: re.Match[str]) -> Said:
    meant = _MEANT.match(match.string, match.string.find("\n", match.end()))
    step = f"{match['who']} --help-list-hidden lists its flags"
    return _said(
        f"{match['who']} has no flag {match['flag']}",
        (f"it asks whether {meant['flag']} was meant; {step}" if meant is not None else step,),
    )


def _file(match: re.Match[str]) -> Said:
    return _said(f"IREE's compiler: {match['what'].rstrip('.')}", ("the path is relative to the working directory",))


def _cpu(match: re.Match[str]) -> Said:
    return _said(
        f"IREE's compiler does not know the processor that it is to compile for (architecture {match['arch']})",
        ("--iree-llvmcpu-target-cpu=host, or one of the list in the log",),
    )


def _unexpected(match: re.Match[str]) -> Said:
    return Said(
        code=RESULT,
        key=match["at"],
        sentence=f"Result {match['at']} (counted from 0) is not the expected one: {match['what']}",
        cause=CauseClass.PROCESS,
        steps=("livedbg iree -- CMD looks for the dispatch that makes it",),
    )


def _said(sentence: str, steps: tuple[str, ...]) -> Said:
    return Said(code=TOOL, key=sentence, sentence=sentence, cause=CauseClass.PROCESS, steps=steps)


FORMS: Final = (
    Form(("Unknown command line argument",), _FLAG, _flag),
    Form(("error opening input file: ",), _FILE, _file),
    Form(("Unknown CPU for target architecture",), _CPU, _cpu),
    Form(("[FAILED] result[",), _UNEXPECTED, _unexpected),
)
