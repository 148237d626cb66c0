"""Loops of x86-64 code that only read memory: few instructions, of which each is known to write to nothing but general
registers, or to do what a spin lock does to try (`xchg`, `lock cmpxchg`).

Opcodes: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, appendix A.

Invariants:
    x86_64_loops.P1. An instruction that is not in these tables ends the search: what it does is not known.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["REACH", "reading_loop"]

REACH: Final = 128
"""Bytes before and after an instruction within which its loop lies."""

_MOST: Final = 64  # instructions that are looked at
_LONGEST: Final = 15
_LOADS: Final = frozenset(
    {0x03, 0x0B, 0x23, 0x2B, 0x33, 0x38, 0x39, 0x3A, 0x3B, 0x63, 0x84, 0x85, 0x86, 0x87, 0x8A, 0x8B, 0x8D}
)
_BYTE_LOADS: Final = frozenset({0x02, 0x0A, 0x22, 0x2A, 0x32})
_TO_REGISTER: Final = frozenset({0x00, 0x01, 0x08, 0x09, 0x20, 0x21, 0x28, 0x29, 0x30, 0x31, 0x88, 0x89})
"""These write to memory unless their operand is a register."""

_LONG_LOADS: Final = frozenset({*range(0x40, 0x50), 0x1F, 0xA3, 0xB6, 0xB7, 0xBE, 0xBF})
"""Behind 0F: cmov, nop, bt, movzx, movsx."""

_IMMEDIATE_BYTE: Final = frozenset({0x04, 0x0C, 0x24, 0x2C, 0x34, 0x3C, 0xA8, *range(0xB0, 0xB8)})
_IMMEDIATE: Final = frozenset({0x05, 0x0D, 0x25, 0x2D, 0x35, 0x3D, 0xA9, *range(0xB8, 0xC0)})
_COMPARE: Final = 7
_TEST: Final = 0


class _Instruction(NamedTuple):
    """Where it ends, and where else it goes."""

    end: int
    jump: int | None = None
    falls_through: bool = True


def reading_loop(code: bytes, base: int, pc: int) -> frozenset[int]:
    """The addresses of the instructions of the shortest loop through one, if they only read; empty if there is none.

    Args:
        code: some bytes around it.
        base: the address of the first of these.
        pc: the address of the instruction.
    """
    came_from: dict[int, int] = {}
    todo, seen = [pc], 0
    while todo and seen < _MOST:
        at = todo.pop(0)
        seen += 1
        one = _decoded(code, at - base)
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


def _decoded(code: bytes, start: int) -> _Instruction | None:
    """The instruction at a place; None for one that is not in the tables (P1)."""
    if not 0 <= start < len(code) - _LONGEST:
        return None
    at, wide, locked, repeated = start, 4, False, False
    while code[at] in {0x66, 0xF0, 0xF3}:
        wide = 2 if code[at] == 0x66 else wide
        locked, repeated = locked or code[at] == 0xF0, repeated or code[at] == 0xF3
        at += 1
        if at - start > 3:
            return None
    rex_w = False
    if code[at] >> 4 == 4:
        rex_w, at = bool(code[at] & 8), at + 1
    opcode = code[at]
    at += 1
    if opcode == 0x90:  # nop, pause
        return _Instruction(at)
    if repeated:
        return None
    if opcode == 0x0F:
        return _two_bytes(code, at, locked)
    if locked:
        return None
    if opcode >> 4 == 7 or opcode == 0xEB:
        return _jump(at + 1, code[at : at + 1], falls_through=opcode != 0xEB)
    if opcode == 0xE9:
        return _jump(at + 4, code[at : at + 4], falls_through=False)
    if opcode in _LOADS or opcode in _BYTE_LOADS:
        return _Instruction(_operand_end(code, at))
    if opcode in _TO_REGISTER and _is_register(code[at]):
        return _Instruction(at + 1)
    if opcode in _IMMEDIATE_BYTE:
        return _Instruction(at + 1)
    if opcode in _IMMEDIATE:
        return _Instruction(at + (8 if rex_w and opcode >= 0xB8 else wide))
    return _group(code, at, opcode, wide)


def _group(code: bytes, at: int, opcode: int, wide: int) -> _Instruction | None:
    """An instruction whose operation is in the byte of its operand."""
    operation = code[at] >> 3 & 7
    end = _operand_end(code, at)
    if opcode in {0x80, 0x81, 0x83} and (operation == _COMPARE or _is_register(code[at])):
        return _Instruction(end + (wide if opcode == 0x81 else 1))
    if opcode in {0xF6, 0xF7} and operation == _TEST:
        return _Instruction(end + (wide if opcode == 0xF7 else 1))
    return None


def _two_bytes(code: bytes, at: int, locked: bool) -> _Instruction | None:
    opcode = code[at]
    at += 1
    if opcode in {0xB0, 0xB1}:  # cmpxchg
        return _Instruction(_operand_end(code, at))
    if locked:
        return None
    if opcode >> 4 == 8:
        return _jump(at + 4, code[at : at + 4], falls_through=True)
    if opcode >> 4 == 9 and _is_register(code[at]):  # setcc
        return _Instruction(at + 1)
    return _Instruction(_operand_end(code, at)) if opcode in _LONG_LOADS else None


def _jump(end: int, distance: bytes, *, falls_through: bool) -> _Instruction:
    return _Instruction(end, end + int.from_bytes(distance, "little", signed=True), falls_through)


def _is_register(operand: int) -> bool:
    return operand >> 6 == 3


def _operand_end(code: bytes, at: int) -> int:
    """Where an operand (ModRM, SIB and displacement) ends."""
    mode, register = code[at] >> 6, code[at] & 7
    end = at + 1
    if mode == 3:
        return end
    base = register
    if register == 4:
        base = code[end] & 7
        end += 1
    if mode == 1:
        return end + 1
    return end + 4 if mode == 2 or base == 5 else end
