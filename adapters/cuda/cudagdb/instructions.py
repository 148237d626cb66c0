"""What the instruction means at which warps are: whether it waits, and for what.

Names by the CUDA Binary Utilities manual ("Instruction Set Reference": Volta to Blackwell). The program counter of a
warp is that of its next instruction: the warp has not executed it yet, or runs in a loop around it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from livedbg.text.sanitize import clean_line

_LINE: Final = re.compile(
    r"^(?:=>|\*>|\*=>)?\s{0,100}0x[0-9a-fA-F]{1,400}(?: <[^\n]{0,2000}?>)?:\s{1,100}(\S[^\n]{0,2000})$", re.MULTILINE
)
_NAME: Final = re.compile(r"^(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)((?:\.[A-Z0-9_]+)*)")

_MEANINGS: Final[Mapping[str, str]] = {
    "BAR": "waits at a block barrier (__syncthreads)",
    "B2R": "waits at a block barrier (__syncthreads)",
    "UCGABAR_WAIT": "waits at a cluster barrier",
    "BSYNC": "waits for the other lanes of its warp to come back together",
    "WARPSYNC": "waits for the other lanes of its warp (__syncwarp)",
    "WARPSYNCS": "waits for the other lanes of its warp (__syncwarp)",
    "SYNCS": "waits at an mbarrier (asynchronous copies, cluster barriers)",
    "NANOSLEEP": "sleeps between two polls (__nanosleep)",
    "YIELD": "yields in a loop",
    "DEPBAR": "waits for its own memory accesses",
    "LDGDEPBAR": "waits for its own asynchronous copies",
    "MEMBAR": "waits until its writes are seen (__threadfence)",
    "ERRBAR": "waits until errors of its accesses are known",
    "WARPGROUP": "waits for a matrix operation of its warp group",
    "ACQBULK": "waits for the kernel before it (programmatic launch)",
    "BPT": "stopped at a trap (__trap, or an assert)",
    "EXIT": "is about to end",
}
_FAMILIES: Final = (
    (re.compile(r"LD|ULD"), "reads memory: in a loop it polls"),
    (re.compile(r"ATOM|RED"), "changes memory atomically: in a loop it polls"),
    (re.compile(r"ST"), "writes memory"),
    (re.compile(r"BRA|JMP|BRX|JMX|BREAK"), "jumps: it runs in a loop"),
    (re.compile(r"ISETP|UISETP|PLOP"), "compares: it runs in a loop, or soon continues"),
)


def instruction_of(printed: str) -> str:
    """The instruction in what `x/i ADDRESS` prints; "" where there is none."""
    found = _LINE.search(printed[:4096])
    return clean_line(found[1], 120).strip() if found else ""


def meaning_of(instruction: str) -> str:
    """What a warp at that instruction does; "" where that is not known."""
    found = _NAME.match(instruction)
    if found is None:
        return ""
    name = found[1]
    if name == "BAR" and ".ARV" in found[2]:
        return ""  # arrives, and goes on
    if name in _MEANINGS:
        return _MEANINGS[name]
    return next((words for family, words in _FAMILIES if family.match(name)), "")
