"""Loops that only read, by their bytes: what the assembler made of known instructions."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from livedbg.linux.x86_64 import REACH, reading_loop

BASE, PC = 0x400000, 0x400000 + REACH
pytestmark = pytest.mark.skipif(shutil.which("as") is None, reason="needs an assembler")

READS = {
    "flag in a register": "1: mov (%rdi), %eax; test %eax, %eax; je 1b",
    "byte": "1: movzbl 0x10(%rdi,%rsi,4), %eax; test %al, %al; je 1b",
    "compared in memory": "1: cmpl $0, 0x1234(%rip); je 1b",
    "compared with a long immediate": "1: cmpq $0x12345678, (%r12); jne 1b",
    "words": "1: cmpw $0x1234, 8(%rsp); jne 1b",
    "pause": "1: pause; mov 0x200(%r13), %rax; cmp %rdx, %rax; jne 1b",
    "jump in the middle": "1: jmp 2f; nopw 0(%rax,%rax,1); 2: testb $1, (%rbx); je 1b",
    "far jump": "1: cmp %rax, (%rcx); .byte 0x0f, 0x85; .long 1b - . - 4",
    "test and set": "1: mov $1, %eax; xchg %al, (%rdi); test %al, %al; jne 1b",
    "compare and swap": "1: xor %eax, %eax; lock cmpxchg %ecx, (%rdi); jne 1b",
    "for ever": "1: jmp 1b",
    "set and tested": "1: mov (%rdi), %rax; setne %cl; movabs $0x1122334455667788, %rdx; test %cl, %cl; jne 1b",
    "an exit between": "1: mov (%rdi), %eax; cmp $2, %eax; je 2f; test %eax, %eax; je 1b; 2: ret",
}
OTHERS = {
    "stores": "1: mov %eax, (%rdi); test %eax, %eax; je 1b",
    "counts in memory": "1: subl $1, (%rdi); jne 1b",
    "counts with a lock": "1: lock subl $1, (%rdi); jne 1b",
    "adds and fetches": "1: lock xadd %eax, (%rdi); test %eax, %eax; jne 1b",
    "sets a byte of memory": "1: sete (%rdi); jmp 1b",
    "pushes": "1: push %rax; pop %rax; jmp 1b",
    "calls": "1: call 2f; test %eax, %eax; je 1b; 2: ret",
    "asks the kernel": "1: syscall; test %eax, %eax; je 1b",
    "reads the time": "1: rdtsc; cmp %rbx, %rax; jb 1b",
    "floats": "1: mulsd %xmm1, %xmm0; ucomisd %xmm2, %xmm0; ja 1b",
    "wide vectors": "1: vaddpd %ymm0, %ymm1, %ymm1; test %eax, %eax; je 1b",
    "copies": "1: rep movsb; test %eax, %eax; je 1b",
    "scans": "1: repne scasb; test %eax, %eax; je 1b",
    "no loop": "1: mov (%rdi), %eax; test %eax, %eax; ret",
    "a loop elsewhere": "1: test %eax, %eax; 2: je 2b",
}


FLOATS = {
    "a root in a register": "1: vsqrtss %xmm3, %xmm3, %xmm3; vucomiss %xmm2, %xmm3; ja 1b",
    "a limit": "1: minss %xmm1, %xmm0; maxss %xmm3, %xmm0; ucomiss %xmm2, %xmm0; ja 1b",
    "a root of doubles": "1: sqrtsd %xmm0, %xmm0; ucomisd %xmm2, %xmm0; ja 1b",
}
COUNTING = {
    "counts in singles": "1: addss %xmm1, %xmm0; ucomiss %xmm2, %xmm0; jb 1b",
    "shrinks a single": "1: mulss %xmm1, %xmm0; ucomiss %xmm2, %xmm0; ja 1b",
    "divides a single": "1: divss %xmm1, %xmm0; ucomiss %xmm2, %xmm0; ja 1b",
    "adds by a fused product": "1: vfmadd213ss %xmm1, %xmm2, %xmm0; ucomiss %xmm2, %xmm0; ja 1b",
    "counts in doubles": "1: addsd %xmm1, %xmm0; ucomisd %xmm2, %xmm0; jb 1b",
    "shrinks a double": "1: mulsd %xmm1, %xmm0; ucomisd %xmm2, %xmm0; ja 1b",
    "adds by a fused product of doubles": "1: vfmadd213sd %xmm1, %xmm2, %xmm0; ucomisd %xmm2, %xmm0; ja 1b",
    "counts in a vector": "1: vpaddd %xmm1, %xmm0, %xmm0; vptest %xmm2, %xmm0; je 1b",
    "stores": "1: vsqrtss %xmm3, %xmm3, %xmm3; movss %xmm3, (%rdi); ucomiss %xmm2, %xmm3; ja 1b",
    "calls": "1: sqrtss %xmm3, %xmm3; call 2f; ucomiss %xmm2, %xmm3; ja 1b; 2: ret",
}


def assembled(text: str, folder: Path) -> bytes:
    source, made, code = folder / "loop.s", folder / "loop.o", folder / "loop.bin"
    source.write_text(text.replace(";", "\n") + "\n")
    subprocess.run(["as", "--64", source, "-o", made], check=True)
    subprocess.run(["objcopy", "-O", "binary", "-j", ".text", made, code], check=True)
    return code.read_bytes()


def loop(text: str, folder: Path, floats: bool = False) -> frozenset[int]:
    code = b"\xcc" * REACH + assembled(text, folder)
    return reading_loop(code.ljust(2 * REACH, b"\xcc"), BASE, PC, floats)


@pytest.mark.parametrize("name", READS)
def test_a_loop_that_only_reads_is_found_from_each_of_its_instructions(name: str, tmp_path: Path) -> None:
    found = loop(READS[name], tmp_path)
    assert PC in found
    code = b"\xcc" * REACH + assembled(READS[name], tmp_path)
    for place in found:
        assert reading_loop(code.ljust(3 * REACH, b"\xcc"), BASE, place) == found


@pytest.mark.invariant("x86_64_loops.P1")
@pytest.mark.parametrize("name", OTHERS)
def test_what_writes_or_calls_or_is_not_known_is_no_such_loop(name: str, tmp_path: Path) -> None:
    assert loop(OTHERS[name], tmp_path) == frozenset()


@pytest.mark.parametrize("name", FLOATS)
def test_a_loop_that_computes_in_floating_point_registers_is_taken_where_that_is_asked_for(
    name: str, tmp_path: Path
) -> None:
    assert PC in loop(FLOATS[name], tmp_path, floats=True) and loop(FLOATS[name], tmp_path) == frozenset()


@pytest.mark.invariant("x86_64_loops.P2")
@pytest.mark.parametrize("name", COUNTING)
def test_P2_what_could_count_in_a_vector_register_or_in_memory_is_no_such_loop(name: str, tmp_path: Path) -> None:
    assert loop(COUNTING[name], tmp_path, floats=True) == frozenset()


@pytest.mark.parametrize("code", [b"", b"\x8b", b"\xeb\xfe", b"\x66" * 40, bytes(range(256)), b"\x0f" * 300])
def test_any_bytes_are_read_without_an_error(code: bytes) -> None:
    for at in range(-2, len(code) + 2):
        reading_loop(code, BASE, BASE + at)
