"""What stack copies and core files hold of an x86-64: its registers and its ABI.

An unwinder for another machine needs a module like this one. Registers are in the order of struct user_regs_struct
(sys/user.h), which is also that of a core file's NT_PRSTATUS.
"""

from __future__ import annotations

from typing import Final

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
