"""Computes a function's frame depth at an instruction from its machine code, for code without unwind tables.

The code is followed from the start of the function along its jumps, counting what each instruction does to the stack
pointer and the frame pointer. x86-64 only; capstone decodes.

Invariants:
    code_heights.H1. A depth is given only where all ways to the instruction that were found agree on it.
    code_heights.H2. What is followed is bounded (`_MOST`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

from livedbg.text.patterns import lazy_re

_MOST: Final = 4000  # instructions
_LONGEST: Final = 15  # bytes of an instruction (Intel SDM 2, 2.3.11)
_WORD: Final = 8
_ENDS: Final = frozenset({"ret", "retf", "hlt", "ud2", "int3", "iretq"})
_PREFIXES: Final = lazy_re(r"^(?:bnd|notrack|repz|repnz|rep|repne|repe) ")
_MOVED: Final = lazy_re(r"^(rsp|rbp), \[(rsp|rbp)(?: ([+-]) (0x[0-9a-f]+|\d+))?\]$")
_THROUGH: Final = lazy_re(r"^qword ptr \[rip ([+-]) (0x[0-9a-f]+|\d+)\]$")
_READS: Final = frozenset({"cmp", "test", "call"})


class Depth(NamedTuple):
    """Offsets within a frame, in bytes up from the stack pointer at an instruction.

    Attributes:
        saved_frame_pointer: None if the caller's frame pointer is still in its register, or lost.
        kept: the caller's frame pointer is in its register.
        frame_pointer: where the frame pointer points to; None if the function keeps none.
    """

    return_address: int
    saved_frame_pointer: int | None
    kept: bool
    frame_pointer: int | None


class _State(NamedTuple):
    """Bytes between the return address and each pointer; None if unknown. `kept`: the frame pointer is the caller's."""

    stack: int | None = 0
    frame: int | None = None
    saved: int | None = None
    kept: bool = True


@cache
def _decoder() -> Any:
    try:
        import capstone
    except ImportError:
        return None
    return capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)


def usable() -> bool:
    """Return whether capstone is installed."""
    return _decoder() is not None


def depth_at(read: Callable[[int, int], bytes], start: int, pc: int) -> Depth | None:
    """Return the depth at an instruction; None if the code does not say it, or does not lead there.

    Args:
        read: takes an address and a number of bytes, and returns as much code as there is, up to that number.
        pc: the instruction; for a call, the next instruction.
    """
    known, whole = _followed(read, start)
    state = known.get(pc, _State(None))
    if not whole or state.stack is None or state.stack < 0:
        return None
    saved = None if state.saved is None else state.stack - state.saved
    frame = None if state.frame is None else state.stack - state.frame
    return Depth(state.stack, saved, state.kept, frame)


def leads_to(read: Callable[[int, int], bytes], start: int, pc: int) -> bool:
    """Return whether code that begins at `start` can reach `pc` without a call; for `read` see `depth_at`."""
    return pc in _followed(read, start)[0]


def follows_call(before: bytes, pc: int) -> tuple[bool, int | None]:
    """Return whether code is directly behind a call, and the called address if the instruction has it.

    `before` are the seven bytes before `pc`, or as many as there are.
    """
    if len(before) >= 5 and before[-5] == 0xE8:
        return True, pc + int.from_bytes(before[-4:], "little", signed=True) & (1 << 64) - 1
    return any(len(before) >= size and _is_indirect(before[-size:]) for size in (2, 3, 4, 6, 7)), None


def _is_indirect(code: bytes) -> bool:
    """Return whether the bytes are one `call` through a register or memory."""
    if 0x40 <= code[0] <= 0x4F:
        code = code[1:]
    if len(code) < 2 or code[0] != 0xFF or code[1] >> 3 & 7 != 2:
        return False
    kind, where = code[1] >> 6, code[1] & 7
    if kind == 3:
        return len(code) == 2
    has_index = where == 4
    size = 2 + has_index + {0: 0, 1: 1, 2: 4}[kind]
    if kind == 0 and (where == 5 or (has_index and len(code) > 2 and code[2] & 7 == 5)):
        size += 4
    return len(code) == size


def _followed(read: Callable[[int, int], bytes], start: int) -> tuple[dict[int, _State], bool]:
    known: dict[int, _State] = {}
    left = [(start, _State())]
    for _ in range(_MOST):
        if not left:
            break
        at, state = left.pop()
        before = known.get(at)
        if before is not None:
            state = _agreed(before, state)
        if state != before:
            known[at] = state
            left += _next(read, at, state)
    return known, not left


def _agreed(one: _State, other: _State) -> _State:
    return _State(
        one.stack if one.stack == other.stack else None,
        one.frame if one.frame == other.frame else None,
        one.saved if one.saved == other.saved else None,
        one.kept and other.kept,
    )


def _next(read: Callable[[int, int], bytes], at: int, state: _State) -> list[tuple[int, _State]]:
    one = next(iter(_decoder().disasm_lite(read(at, _LONGEST), at, 1)), None)
    if one is None:
        return []
    _, size, mnemonic, operands = one
    name = _PREFIXES.sub("", mnemonic)
    after = at + size
    if name in _ENDS:
        return []
    if name == "jmp":
        return [(target, state) for target in (_target(read, after, operands),) if target is not None]
    if name.startswith(("j", "loop")):
        target = _target(read, after, operands)
        return [(after, state)] + ([(target, state)] if target is not None else [])
    return [(after, _changed(state, name, operands))]


def _target(read: Callable[[int, int], bytes], after: int, operands: str) -> int | None:
    if operands.startswith("0x"):
        return int(operands, 16)
    through = _THROUGH.match(operands)  # of a table that the linker made: what it was bound to
    if through is None:
        return None
    place = after + int(f"{through[1]}{through[2]}", 0)
    word = read(place, _WORD)
    return int.from_bytes(word, "little") if len(word) == _WORD else None


def _changed(state: _State, name: str, operands: str) -> _State:
    stack, frame, saved, kept = state
    first, _, second = operands.partition(", ")
    if name in ("push", "pushfq"):
        stack = None if stack is None else stack + _WORD
        if first == "rbp" and saved is None and kept:
            saved = stack
    elif name in ("pop", "popfq"):
        stack = None if stack is None else stack - _WORD
        if first == "rbp":
            kept = saved is not None and stack is not None and stack + _WORD == saved
            frame = saved = None
        elif first == "rsp":
            stack = None
    elif name == "leave":
        kept = frame is not None and frame == saved
        stack, frame, saved = (None if frame is None else frame - _WORD), None, None
    elif name == "enter":
        stack = frame = None
        kept = False
    elif first in ("rsp", "esp", "sp", "spl") and name not in _READS:
        stack = _new_stack(state, name, operands, second)
    elif first in ("rbp", "ebp", "bp", "bpl") and name not in _READS:
        frame = stack if (name, second) == ("mov", "rsp") else None
        moved = _MOVED.match(operands) if name == "lea" else None
        if moved is not None and moved[2] == "rsp" and stack is not None:
            frame = stack - _offset(moved)
        kept = False
    elif name.startswith(("xchg", "cmpxchg")) and second in ("rsp", "rbp"):
        stack, frame, kept = (None, frame, kept) if second == "rsp" else (stack, None, False)
    return _State(stack, frame, saved, kept)


def _new_stack(state: _State, name: str, operands: str, second: str) -> int | None:
    stack, frame = state.stack, state.frame
    if name in ("sub", "add") and stack is not None and re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", second):
        value = int(second, 0)
        value -= (1 << 64) if value >> 63 else 0
        return stack + (value if name == "sub" else -value)
    if (name, second) == ("mov", "rbp"):
        return frame
    moved = _MOVED.match(operands) if name == "lea" else None
    if moved is None:
        return None
    base = stack if moved[2] == "rsp" else frame
    return None if base is None else base - _offset(moved)


def _offset(moved: re.Match[str]) -> int:
    return int(f"{moved[3]}{moved[4]}", 0) if moved[3] else 0
