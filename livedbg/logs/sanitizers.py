"""Reports of the compilers' sanitizers: kind of error, and place in the user's code.

Sources of the texts: compiler-rt and libsanitizer, asan_errors.cpp, asan_descriptions.cpp, lsan_common.cpp,
tsan_report.cpp, ubsan_diag.cpp, sanitizer_stacktrace_printer.cpp (frames as asan, with a BuildId since LLVM 15, and as
tsan, the module after the place, print them).

Invariants:
    sanitizers.S1. Addresses and pids, which differ from run to run, are neither in the type nor in the message.
    sanitizers.S2. A frame is the user's own unless its function, file or module is of the sanitizer, the C or the C++
        library.
    sanitizers.S3. The caller of an allocator that is one by its name is no place if a frame with a line is below it, of
        another file. A constructor (`tank_new`) is no such allocator.
    sanitizers.S4. Of a race both accesses are told: what each did, and which thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import dropwhile, islice
from typing import Final, NamedTuple

from livedbg.model import Frame
from livedbg.text.patterns import lazy_re

ENDED: Final = "sanitizer"
"""Kind of a report with which the sanitizer ended the program."""

WARNED: Final = "sanitizer-warning"
"""Kind of a report after which the program continued, or that was printed at its end."""

_FRAMES: Final = 60
_LINES: Final = 600
_LONGEST: Final = 2000  # characters of a line
_HEAD: Final = lazy_re(
    r"^(?:==\d{1,18}==ERROR: |WARNING: |==\d{1,18}==WARNING: )(?P<tool>\w{2,20}Sanitizer): (?P<text>.*)$"
)
_KIND_ENDS: Final = lazy_re(r" (?:on|of) (?:unknown )?(?:address\b|0x)|: | \(| 0x")
_UNDEFINED: Final = lazy_re(
    r"^(?:<unknown>|(?P<file>[^\s:][^:\n]{0,1000}):(?P<line>\d{1,9})(?::\d{1,9})?): runtime error: (?P<text>.+)$"
)
_SUMMARY: Final = lazy_re(
    r"^SUMMARY: (?P<tool>(?:HW)?AddressSanitizer|MemorySanitizer): (?P<kind>[a-zA-Z][\w-]{2,60}) "
    r"(?:(?P<file>[^\s:()]{1,1000}):(?P<line>\d{1,9})(?::\d{1,9})?|\([^\s()]{1,1000}\)) in (?P<function>\S.{0,1000})$"
)
"""The last line of a report, of which no more may have been copied."""
_ADDRESS: Final = lazy_re(r"\b0x[0-9a-f]{5,}\b")
_FRAME: Final = lazy_re(r"^ *#\d{1,4} (?:0x(?P<address>[0-9a-f]{1,16}) (?:in )?)? ?(?P<rest>.*)$")
_MODULE: Final = lazy_re(r" ?\((?P<module>[^()]+)\+0x(?P<offset>[0-9a-f]{1,16})\)$")
_MODULE_FIRST: Final = lazy_re(r"(?P<module>[^\s()]+)\+0x(?P<offset>[0-9a-f]{1,16}) +(?=\S)")
_BUILD_ID: Final = lazy_re(r" \(BuildId: \w+\)$")
_PLACES: Final = (
    lazy_re(r"^(?P<function>.+?) (?P<file>/[^:\n]{1,1000}):(?P<line>\d{1,9})(?::\d{1,9})?$"),  # a path may have blanks
    lazy_re(r"^(?P<function>.+) (?P<file>[^\s:]+):(?P<line>\d{1,9})(?::\d{1,9})?$"),
    lazy_re(r"^(?P<file>[^\s:]+):(?P<line>\d{1,9})(?::\d{1,9})? (?P<function>\S.*)$"),  # by a build's own symbolizer
)
_ACCESS: Final = lazy_re(r"^ *((?:[Aa]tomic )?(?:READ|WRITE|[Rr]ead|[Ww]rite) of size \d{1,18})", re.MULTILINE)
_SIGNAL_ACCESS: Final = lazy_re(r"The signal is caused by an? (READ|WRITE|UNKNOWN) memory access")
_PLACED: Final = lazy_re(
    r"(?:0x[0-9a-f]+ is located|Address 0x[0-9a-f]+ is located(?= in)) (?P<where>.{1,200}?)(?: \[0x.*| of thread .*)?$",
    re.MULTILINE,
)
_GLOBAL: Final = lazy_re(
    r"Location is (global '.{1,200}?' of size \d{1,18}|heap block of size \d{1,18}|stack of .{1,4000}?)(?: at |$)"
)
_LEAK: Final = lazy_re(r"^Direct leak of (\d{1,18}) byte")
_SECTIONS: Final = (
    ("freed", lazy_re(r"^freed by thread")),
    ("allocated", lazy_re(r"^(?:previously )?allocated by thread")),
)
_RACING: Final = lazy_re(
    r"^ *(?:Previous )?(?P<how>(?:[Aa]tomic )?(?:[Rr]ead|[Ww]rite)) of size (?P<size>\d{1,18}) at 0x[0-9a-f]{1,16} by "
    r"(?P<who>main thread|thread T\d{1,9})\b[^\n]{0,400}:$"
)
_ALLOCATES: Final = lazy_re(r"(?:malloc|calloc|realloc|posix_memalign|aligned_alloc|memalign|operator new(?:\[\])?)\b")
_FREES: Final = lazy_re(r"(?:free|operator delete(?:\[\])?)(?![\w:])")
_WRAPS_ALLOCATOR: Final = lazy_re(r".{0,300}(?:alloc|free|strn?dup)|(?:\w{1,2}_)?(?:new|delete)(?:_|$)", re.IGNORECASE)
_NOT_OWN_FUNCTION: Final = lazy_re(
    r"^(?:__interceptor_|___interceptor_|__asan|__tsan|__msan|__lsan|__ubsan|__sanitizer|__libc_start|_start$|clone3?$"
    r"|start_thread$|asan_thread_start|operator (?:new|delete)\b|(?:std|__gnu_cxx|__sanitizer)::|<null>$"
    r"|(?:malloc|calloc|realloc|free|posix_memalign|aligned_alloc|abort|raise)$|pthread_\w+$"
    r"|(?:mem|str|wcs|wmem)(?:n?(?:cpy|cat|cmp|len|dup)|move|set|r?chr|str|casecmp|tol)$)"
)
_NOT_OWN_FILE: Final = lazy_re(r"(?:^|/)(?:libsanitizer|compiler-rt|sysdeps|csu)/|/include/c\+\+/")
_NOT_OWN_MODULE: Final = lazy_re(
    r"^(?:lib(?:asan|tsan|ubsan|lsan|msan|hwasan|stdc\+\+|c\+\+|gcc_s|pthread|c|clang_rt\.\w+)|ld-linux)(?![A-Za-z])"
)


class SanitizerReport(NamedTuple):
    """A sanitizer's report (ENDED or WARNED) of an error: `AddressSanitizer: heap-use-after-free`."""

    kind: str
    type: str
    message: str
    stack: tuple[Frame, ...]
    leaks: int = 0
    """Bytes of the leak whose stack it is."""


def sanitizer_report(lines: Sequence[str]) -> SanitizerReport | None:
    """Return the first report in some lines, or None."""
    lines = [line[:_LONGEST] for line in lines[:_LINES]]
    for number, line in enumerate(lines):
        if "Sanitizer: " in line and (head := _HEAD.match(line)) is not None:
            return _report(head, lines[number:])
        if ": runtime error: " in line and (undefined := _UNDEFINED.match(line)) is not None:
            return _undefined(undefined, lines[number + 1 :])
    summary = _SUMMARY.match(lines[0]) if lines else None
    if summary is None:
        return None
    place = int(summary["line"]) if summary["line"] else None
    frame = Frame(function=summary["function"], file=summary["file"], line=place, language="native")
    return SanitizerReport(ENDED, f"{summary['tool']}: {summary['kind']}", "", (frame,))


def own_frames(frames: Sequence[Frame]) -> tuple[Frame, ...]:
    """Return the frames of the user's own code (S2)."""
    return tuple(
        frame
        for frame in frames
        if not _NOT_OWN_FUNCTION.match(frame.function)
        and not (frame.file and _NOT_OWN_FILE.search(frame.file))
        and not (frame.module and _NOT_OWN_MODULE.match(frame.module))
    )


def _report(head: re.Match[str], lines: Sequence[str]) -> SanitizerReport:
    text = "\n".join(lines)
    title = head["text"]
    kind = title[: found.start()] if (found := _KIND_ENDS.search(title)) is not None else title
    kind = kind.removeprefix("attempting ").removeprefix("detected ").strip()[:100]
    if kind == "free":
        kind = "bad-free"
    leak = head["tool"] == "LeakSanitizer"
    cut = "ERROR: " in head[0] and not leak and "\nSUMMARY: " not in text  # the last word of a program
    ended = cut or "==ABORTING" in text or "\nExiting" in text
    largest, begin = _largest(lines) if leak else (0, 0)
    stack = _stack(lines, begin)
    message = "; ".join(dict.fromkeys(_details(text, lines)))
    return SanitizerReport(ENDED if ended else WARNED, f"{head['tool']}: {kind}", message, stack, largest)


def _largest(lines: Sequence[str]) -> tuple[int, int]:
    """Return the bytes of the largest leak, and the number of the line that heads it."""
    leaks = [(int(leak[1]), -number) for number, line in enumerate(lines) if (leak := _LEAK.match(line)) is not None]
    size, number = max(leaks, default=(0, 0))
    return size, -number


def _details(text: str, lines: Sequence[str]) -> Iterator[str]:
    access, race = _ACCESS.search(text), _race(lines)
    if race or access is not None:
        yield race or (access[1] if access is not None else "")
    signal = _SIGNAL_ACCESS.search(text)
    if signal is not None:
        verb = f"{signal[1]} of " if signal[1] != "UNKNOWN" else ""
        yield (
            f"{verb}an address near 0" if "points to the zero page" in text else f"{verb}an address that is not mapped"
        )
    placed = _PLACED.search(text) or _GLOBAL.search(text)
    if placed is not None:
        yield placed[1]
    for number, line in enumerate(lines):
        leak = _LEAK.match(line)
        if leak is not None:
            yield f"{leak[1]} bytes"
        for word, begin in _SECTIONS:
            section = begin.match(line)
            if section is not None:
                place = place_of(_stack(lines, number))
                yield f"{word} in {place}" if place else word


def _race(lines: Sequence[str]) -> str:
    """Return `a write of 8 bytes by thread T1 races with a free in fill at a.c:7 by the main thread` (S4), or ""."""
    found = ((number, access) for number, line in enumerate(lines) if (access := _RACING.match(line)) is not None)
    told: list[str] = []
    for number, access in islice(found, 2):
        stack = _stack(lines[number + 1 :], 0, at_once=True)
        where = f" in {place}" if told and (place := place_of(stack)) else ""
        who = "the main thread" if access["who"] == "main thread" else access["who"]
        told.append(f"{_did(access['how'].lower(), int(access['size']), stack)}{where} by {who}")
    return " races with ".join(told) if len(told) > 1 else ""


def _did(how: str, size: int, stack: Sequence[Frame]) -> str:
    called = stack[0].function if stack else ""
    if _FREES.match(called) is not None:
        return "a free"
    if _ALLOCATES.match(called) is not None:
        return "an allocation"
    return f"{'an' if how[0] == 'a' else 'a'} {how} of {size} byte{'s' if size != 1 else ''}"


def place_of(stack: Sequence[Frame]) -> str:
    """Return the first frame of the user's own code, in words, or "" (S3)."""
    own = own_frames(stack)
    allocates = bool(stack) and (_FREES.match(stack[0].function) or _ALLOCATES.match(stack[0].function)) is not None
    callers = tuple(dropwhile(lambda frame: _WRAPS_ALLOCATOR.match(frame.function), own)) if allocates else own
    known = callers if callers and callers[0].line and callers[0].file != own[0].file else own
    frame = next(iter(known), None)
    if frame is None:
        return ""
    return f"{frame.function[:100]}{_where(frame)}"


def _where(frame: Frame) -> str:
    if not frame.file or not frame.line:
        return ""
    if frame.file == "-":  # a compiler that read its source from a pipe, or did not name it
        return f" at line {frame.line}"
    return f" at {frame.file.rpartition('/')[2]}:{frame.line}"


def _undefined(head: re.Match[str], lines: Sequence[str]) -> SanitizerReport:
    """Parse UBSan's report: one line, and frames with print_stacktrace=1."""
    text = head["text"].strip()
    kind, _, more = text.partition(": ")
    stack = _stack(lines, 0)
    if not own_frames(stack):
        name = f"{head['file'].rpartition('/')[2]}:{head['line']}" if head["file"] else "an unknown place"
        stack = (Frame(function=name),)
    return SanitizerReport(WARNED, f"UndefinedBehaviorSanitizer: {kind[:100]}", _ADDRESS.sub("0x…", more), stack)


def _stack(lines: Sequence[str], begin: int, *, at_once: bool = False) -> tuple[Frame, ...]:
    frames: list[Frame] = []
    for line in lines[begin:]:
        match = _FRAME.match(line)
        if match is not None:
            frames.append(_frame(match))
        elif frames or at_once:
            break
        if len(frames) == _FRAMES:
            break
    return tuple(frames)


def _frame(match: re.Match[str]) -> Frame:
    rest = _BUILD_ID.sub("", match["rest"])
    module = _MODULE.search(rest) or _MODULE_FIRST.match(rest)
    name = module["module"].rpartition("/")[2] if module is not None else None
    if module is not None:
        rest = rest[: module.start()] or rest[module.end() :]
    address = int(match["address"], 16) if match["address"] else None
    rest = rest.removesuffix(" <null>").strip()
    for pattern in _PLACES:
        place = pattern.match(rest)
        if place is not None:
            line = int(place["line"])
            return Frame(function=place["function"], file=place["file"], line=line, module=name, address=address)
    function = rest if rest and rest != "<null>" else f"{name}+0x{module['offset']}" if module is not None else "?"
    return Frame(function=function, module=name, address=address)
