"""Registers and ABI of x86-64, for stack copies and core files.

An unwinder for another machine needs a module like this one. Registers are in the order of struct user_regs_struct
(sys/user.h), which is also that of a core file's NT_PRSTATUS.

Also loops of x86-64 code that only read memory: few instructions, of which each is known to write to nothing but
general registers, or to make a spin lock's attempt (`xchg`, `lock cmpxchg`). Capstone decodes them.

Invariants:
    x86_64_loops.P1. An instruction that is not in this table ends the search: its effect is not known.
    x86_64_loops.P2. Of instructions that compute in vector registers, none is taken that could count there: no integer
        ones, and no sum, product or quotient of any precision. Roots, minima, maxima, comparisons and conversions reach
        a fixed value within a few steps.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

from livedbg.text.patterns import lazy_re

MACHINE: Final = "x86_64"
"""As uname(2) says it."""

COUNT: Final = 21
"""Registers of a copy: up to ss."""

USER_COUNT: Final = 27
"""Words of struct user_regs_struct (sys/user.h), which ptrace(2) gives."""

PERF_NUMBERS: Final = (23, 22, 21, 20, 6, 1, 19, 18, 17, 16, 0, 2, 3, 4, 5, None, 8, 10, 9, 7, 11)
"""The number that perf has for each (asm/perf_regs.h); None for what it hasn't."""

KEPT: Final = {"r15": 0, "r14": 1, "r13": 2, "r12": 3, "rbx": 5}
"""Places of the registers, but the frame pointer, that a function gives back as they were (ABI, 3.2.1)."""

PC: Final = 16
"""Place of the program counter (rip) among the registers."""

SP: Final = 19
"""Place of the stack pointer (rsp)."""

FRAME_POINTER: Final = 4
"""Place of the frame pointer (rbp), where the code keeps one."""

FRAME_POINTER_NAME: Final = "rbp"
"""What drgn calls it."""

GENERAL: Final = range(15)
"""Places of the registers that code computes with: r15 to rdi."""

CALL_NUMBER: Final = 15
"""Place of the number of the system call (orig_rax)."""

ARGUMENTS: Final = (14, 13, 12, 7, 9, 8)
"""Places of the arguments of a system call: rdi, rsi, rdx, r10, r8, r9 (syscall(2))."""

CALL_ARGUMENTS: Final = (14, 13, 12, 11, 9, 8)
"""Places of the first arguments of a function: rdi, rsi, rdx, rcx, r8, r9 (System V AMD64 ABI, 3.2.3)."""

CONSTANTS: Final = {17: 0x33, 18: 0x246, 20: 0x2B}
"""Values that user code has in cs, flags and ss."""

RED_ZONE: Final = 128
"""Bytes below the stack pointer that a function may use (System V AMD64 ABI, 3.2.2)."""

ELF_MACHINE: Final = 62
"""EM_X86_64 (elf.h)."""

PRSTATUS_SIZE: Final = 336
"""Bytes of struct elf_prstatus (linux/elfcore.h)."""

PRSTATUS_REGISTERS: Final = 112
"""Where its registers begin."""


REACH: Final = 128
"""Bytes before and after an instruction within which its loop lies."""

_MOST: Final = 64  # instructions that are looked at
_LONGEST: Final = 15
_KNOWN: Final = frozenset(
    {
        "add",
        "and",
        "bt",
        "cmp",
        "lea",
        "mov",
        "movabs",
        "movsx",
        "movsxd",
        "movzx",
        "nop",
        "or",
        "pause",
        "sub",
        "test",
        "xor",
    }
)
_BY_CONDITION: Final = ("cmov", "set")
_FLOATS: Final = lazy_re(
    r"v?(?:(?:sqrt|min|max|mov[au]?|and|andn|or|xor|unpck[lh]|shuf|blend|round|cmp\w*)[sp][sd]|u?comis[sd]|cvt\w+|"
    r"broadcasts[sd]|rndscale[sp][sd])"
)
"""Floating-point instructions that a loop may have (P2)."""
_TRIES: Final = frozenset({"xchg", "cmpxchg", "lock cmpxchg"})
"""These write to memory, as who tries to take a spin lock does."""


class _Instruction(NamedTuple):
    end: int
    jump: int | None = None
    falls_through: bool = True


@lru_cache(1024)
def reading_loop(code: bytes, base: int, pc: int, floats: bool = False) -> frozenset[int]:
    """Return the addresses of the instructions of the shortest loop through one, if they only read; else empty.

    `floats` allows floating-point instructions: they change no register that a sample has.
    """
    came_from: dict[int, int] = {}
    todo, seen = [pc], 0
    while todo and seen < _MOST:
        at = todo.pop(0)
        seen += 1
        one = _decoded(code, at - base, floats)
        if one is None:
            continue
        for after in ((one.end,) if one.falls_through else ()) + ((one.jump,) if one.jump is not None else ()):
            target = after + base
            if target == pc:
                return frozenset(_path(came_from, at, pc))
            if target not in came_from and abs(target - pc) < REACH:
                came_from[target] = at
                todo.append(target)
    return frozenset()


def _path(came_from: dict[int, int], at: int, pc: int) -> list[int]:
    path = [at]
    while path[-1] != pc:
        path.append(came_from[path[-1]])
    return path


def _decoded(code: bytes, start: int, floats: bool) -> _Instruction | None:
    engine = _engine()
    if engine is None or not 0 <= start < len(code) - _LONGEST:
        return None
    one = next(engine.disasm(code[start : start + _LONGEST], start, 1), None)
    if one is None:
        return None
    end: int = one.address + one.size
    name: str = one.mnemonic
    if name.startswith("j"):
        return _jump(one, end)
    known = name in _KNOWN or name.startswith(_BY_CONDITION) or (floats and _FLOATS.fullmatch(name) is not None)
    if name in _TRIES or (known and not _writes_memory(one)):
        return _Instruction(end)
    return None


def _jump(one: Any, end: int) -> _Instruction | None:
    from capstone import x86

    if len(one.operands) != 1 or one.operands[0].type != x86.X86_OP_IMM:
        return None
    target: int = one.operands[0].imm
    return _Instruction(end, target, falls_through=one.mnemonic != "jmp")


def _writes_memory(one: Any) -> bool:
    import capstone
    from capstone import x86

    if one.mnemonic == "nop":  # its operand is not touched
        return False
    return any(part.type == x86.X86_OP_MEM and part.access & capstone.CS_AC_WRITE for part in one.operands)


@cache
def _engine() -> Any:
    try:
        import capstone
    except ImportError:
        return None
    engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    engine.detail = True
    return engine
