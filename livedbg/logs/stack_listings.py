"""Formats of stack listings in logs, innermost frame first, and their frames.

Sources: gdb's `#0  0x… in f () at a.cpp:3` (addr2line's `[inlined by] f` below it), a library's
`frame #1: f + 0x1c (0x… in lib.so)`; UCX src/ucs/debug/debug.c
(` 8 0x… f()  /src/a.c:3`, ` 2 /l.so(f+0xf09) [0x…]`); google/glog and abseil symbolize (`    @     0x… f`); LLVM
lib/Support/Signals.cpp (` #1 0x… f() /a.cpp:3:5`); libgfortran/runtime/backtrace.c; Julia src/stackwalk.c and
base/errorshow.jl; Go src/runtime/traceback.go; .NET; java.lang.Throwable;
Rust library/std/src/backtrace.rs; Intel Fortran's run-time library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from livedbg.model import Frame
from livedbg.text.patterns import lazy_re

_LIMIT: Final = 200
_OUTERMOST_FIRST: Final = "Stack trace (most recent call last)"
_NOTHING: Final = lazy_re(r"(?!)")
_TANGLED: Final = lazy_re(
    r"^((?:#\d{1,4} [^\n]{1,4000}\n){2,8})((?:[^\S\n]{1,20}at [^\s:][^\n]{0,1000}(?:\n|\Z)){2,8})", re.MULTILINE
)
"""Frames of threads that wrote their stacks at once, and below these their places in the same order."""


class Listing(NamedTuple):
    """A format of a stack listing.

    Attributes:
        pattern: finds its frames; its groups are fields of them, and one that ends with `_2` is another place of one.
        report: functions of the report itself, and of the end of a process, to leave out.
    """

    pattern: re.Pattern[str]
    language: str = "native"
    report: re.Pattern[str] = _NOTHING


_LISTINGS: Final[Mapping[str, Listing]] = MappingProxyType(
    {
        "native": Listing(
            lazy_re(
                r"^[^\S\n]*(?:(?:frame )?#\d{1,18}:?|[\[(]inlined by[\])]) +"
                r"(?:0x(?P<address>[0-9a-f]{1,16}) in )?(?P<function>.{1,4000}?)"
                r"(?: \+ 0x[0-9a-f]{1,16})?(?: \(0x(?P<address_2>[0-9a-f]{1,16}) in (?P<module>[^)]{1,1000})\)"
                r"|(?: |\n[^\S\n]{1,20})(?:at|from) (?P<file>[^\s:]{1,1000})(?::(?P<line>\d{1,18}))?(?::\d{1,18})?)?$",
                re.MULTILINE,
            ),
            report=lazy_re(r"\?\?\?$"),
        ),
        "ucx": Listing(
            lazy_re(
                r"^ {0,2}\d{1,3} +(?:0x(?P<address>[0-9a-f]{4,16}) (?P<function>\S.{0,400}?)\(\)  "
                r"(?:\?\?\?:\d{1,9}|[^\s:]{0,400}:0|(?P<file>[^\s:]{0,400}):(?P<line>\d{1,9}))"
                r"|(?P<module>/\S{1,300}?)\((?P<function_2>[^()\s]{0,300}?)\+0x[0-9a-f]{1,16}\)"
                r" \[0x(?P<address_2>[0-9a-f]{4,16})\])[ \t]*$",
                re.MULTILINE,
            ),
            report=lazy_re(
                r"(?:ucs_(?:handle_error|fatal_error|log_|debug_)\w{0,100}|__sigaction|__restore_rt|gsignal|raise|abort|\?)$"
            ),
        ),
        "backward": Listing(  # outermost first
            lazy_re(
                r'^#\d{1,4} +(?:Object "(?P<module>[^"\n]{1,400})", at 0x[0-9a-f]{1,16}'
                r'|Source "(?P<file>[^"\n]{1,400})", line (?P<line>\d{1,9})), in '
                r"(?P<function>[^\n]{1,2000}?)(?: \[0x(?P<address>[0-9a-f]{1,16})\])?$",
                re.MULTILINE,
            ),
            report=lazy_re(
                r"(?:__GI_)?(?:raise|abort|pthread_kill|gsignal)$|std::terminate|__cxa_throw|__verbose_term|$"
            ),
        ),
        "report": Listing(  # of glog, abseil and LLVM
            lazy_re(
                r"^(?: {2,8}@ +0x(?P<address>[0-9a-f]{1,16}) +(?:\d{1,9} +)?(?P<function>\S.{0,2000})"
                r"| *#\d{1,4} 0x(?P<address_2>[0-9a-f]{1,16}) (?P<function_2>\S.{0,2000}?) "
                r"(?:(?P<file>[^\s:()]{1,300}):(?P<line>\d{1,9}):\d{1,9}|\((?P<module>[^\s()]{1,300})\+0x[0-9a-f]{1,16}\)))$",
                re.MULTILINE,
            ),
            report=lazy_re(
                r"(?:google::|absl::|llvm::sys::|\(unknown\)|SignalHandler|CrashHandler|__restore_rt|_{0,4}raise$|gsignal$"
                r"|_{0,4}abort$|__GI_|__assert|__pthread_kill|pthread_kill|__cxa_|std::terminate|ray::TerminateHandler)"
            ),
        ),
        "go": Listing(
            lazy_re(
                r"^(?P<function>[\w./*()-]{1,300}?)\((?:[^()\n]{0,300}|\{[^\n]{0,300})\)\n"
                r"(?:\t| {4,8})(?P<file>(?!_testmain\.go)(?:[A-Z]:)?[^\s:]{1,300}):(?P<line>\d{1,9})",
                re.MULTILINE,
            ),
            "go",
            lazy_re(r"panic$|runtime\.|testing\."),
        ),
        "rust": Listing(
            lazy_re(
                r"^ {1,5}\d{1,3}: {1,8}(?:0x[0-9a-f]{1,16} - )?(?P<function>\S[^\n]{0,1000}?)(?:::h[0-9a-f]{16})?\n"
                r" {8,40}at (?P<file>[^\s:]{1,300}):(?P<line>\d{1,9})(?::\d{1,9})?$",
                re.MULTILINE,
            ),
            "rust",
            lazy_re(r"(?:backtrace|std|core|alloc)::|rust_begin_unwind$|__rust_"),
        ),
        "intel": Listing(  # Intel Fortran's table: image, address, routine, line, source
            lazy_re(
                r"^(?P<module>\S{1,100}) {1,40}(?P<address>[0-9A-F]{8,16})  (?P<function>\S{1,100}) {1,60}"
                r"(?P<line>\d{1,9}) {1,20}(?P<file>\S{1,200})$",
                re.MULTILINE,
            ),
            "fortran",
        ),
        "julia": Listing(
            lazy_re(
                r"^(?:(?P<function>\S.{0,1000}?) at (?P<file>[^\s:]{1,1000})(?::(?P<line>\d{1,9})(?: \[inlined\])?"
                r"| \(unknown line\))| *\[\d{1,4}\] (?P<function_2>\S[^\n(]{0,300})[^\n]{0,2000}\n"
                r" +@ (?!(?:Base|Core)\b|\.[/\\])(?:\S{1,200} )?"
                r"(?P<file_2>(?:[A-Z]:)?[^\s:]{1,1000}):(?P<line_2>\d{1,9})(?: \[inlined\])?)$",
                re.MULTILINE,
            ),
            "julia",
            lazy_re(
                r"_?i?jl_|jfptr_|gc_|unknown function|in expression starting$"
                r"|(?:do_call|eval_\w{1,40}|true_main|main|exec_options|_start|error)$"
            ),
        ),
        "dotnet": Listing(
            lazy_re(
                r"^ {2,4}at (?P<function>[\w.<>`\[\],]{1,300})\([^\n]{0,300}?\)"
                r"(?: in (?P<file>[^\n]{1,300}?):line (?P<line>\d{1,9}))?",
                re.MULTILINE,
            ),
            "csharp",
        ),
        "script": Listing(  # V8's and Dart's; Crystal's and Zig's; without frames of runtimes and packages
            lazy_re(
                r"^(?:#\d{1,3} +| {2,8}at (?:async )?)(?P<function>[^\s(][^\n(]{0,120}?) \((?:file://)?"
                r"(?P<file>(?!node:|internal/|\w{1,40}\.js:|dart:|package:|[^\n()]{0,200}/node_modules/)[^\s():]{1,300})"
                r":(?P<line>\d{1,9}):\d{1,9}\)$"
                r"|^(?: {2,8}from )?(?P<file_2>[^\s:]{1,300}):(?P<line_2>\d{1,9}):\d{1,9}:? (?:0x[0-9a-f]{1,16} )?in "
                r"['`]?(?P<function_2>[\w.]{1,200})",
                re.MULTILINE,
            ),
            "script",
        ),
        "java": Listing(
            lazy_re(
                r"^[^\S\n]+at (?:[\w.@-]{1,80}/{1,2})?(?P<function>[\w.$<>]{1,300})"
                r"\((?:(?P<file>\w{1,100}\.(?:java|scala|kt)):(?P<line>\d{1,9})|Native Method|Unknown Source"
                r"|[\w.]{1,100})\)",
                re.MULTILINE,
            ),
            "java",
        ),
        "lldb": Listing(  # LLVM lldb/source/Core/Debugger.cpp, the format of frames
            lazy_re(
                r"^[ *]{0,8}frame #\d{1,4}: 0x(?P<address>[0-9a-f]{1,16}) (?P<module>[^\s`]{1,300})`"
                r"(?P<function>[^\n(]{1,500}?)(?:\([^\n]{0,2000}?\))?(?: const)?"
                r"(?: \+ \d{1,9})?(?: at (?P<file>[^\s:]{1,300}):(?P<line>\d{1,9})(?::\d{1,9})?)?(?: \[\w{1,20}\])?$",
                re.MULTILINE,
            ),
            "c++",
        ),
        "faulthandler": Listing(  # CPython Python/traceback.c (dump_frame)
            lazy_re(
                r'^\s{0,8}File "(?P<file>[^"\n]{1,500})", line (?P<line>\d{1,9}) in (?P<function>[^\n]{1,300})$',
                re.MULTILINE,
            ),
            "python",
        ),
        "py-spy": Listing(  # benfred/py-spy src/dump.rs; its native frames, too
            lazy_re(
                r"^ {4,8}(?P<function>[^\s(][^(\n]{0,300}) \((?P<file>[^)\n:]{1,300})(?::(?P<line>\d{1,9}))?\)$",
                re.MULTILINE,
            ),
            "python",
        ),
        "visual-studio": Listing(  # its window of the call stack
            lazy_re(
                r"^[ \t>]{0,8}(?:\[Inline Frame\] )?(?P<module>[^\s!(]{1,200})!(?P<function>[^\n(]{1,500})"
                r"[^\n]{0,2000}?"
                r"(?: Line (?P<line>\d{1,9})(?: \((?P<file>[^\n()]{1,400}?)(?::\d{1,9})?\))?(?:\t[^\n]{0,40})?"
                r"|\tUnknown[^\n]{0,40})$",
                re.MULTILINE,
            ),
        ),
        "gdb": Listing(  # where it says that a program stopped
            lazy_re(
                r"^(?P<number>#\d{1,3} +)?(?:0x[0-9a-f]{1,16} in )?(?P<function>[A-Za-z_~?][^\n]{0,300}?) "
                r"\((?!anonymous namespace\))(?:[^\n]|\n {4}){0,500}?\)(?: \[clone [^\]\n]{1,60}\])?"
                r"(?:\s{1,8}at (?P<file>[^\s:]{1,300}):(?P<line>\d{1,9})"
                r"|\s{1,8}(?:from|at) (?P<module>/[^\s:]{1,300})$|(?(number)$|(?!)))",
                re.MULTILINE,
            ),
            "c++",
        ),
    }
)
"""By name."""


def listed(name: str, text: str, begin: int = 0, end: int | None = None) -> tuple[Frame, ...]:
    """Return the frames of a listing, at most 200."""
    form, frames = _LISTINGS[name], list[Frame]()
    for match in form.pattern.finditer(text, begin, len(text) if end is None else end):
        parts: dict[str, str] = {key.removesuffix("_2"): value for key, value in match.groupdict().items() if value}
        function = parts.get("function", "?").strip()
        if form.report.match(function) is None:
            line, address = parts.get("line"), parts.get("address")
            frames.append(
                Frame(
                    function=function,
                    file=_slashed(parts.get("file")),
                    line=int(line) if line and "file" in parts else None,
                    module=parts.get("module", "").rpartition("/")[2] or None,
                    language=form.language,
                    address=int(address, 16) if address else None,
                )
            )
        if len(frames) == _LIMIT:
            break
    return tuple(frames)


def _slashed(file: str | None) -> str | None:
    """Return a path of Windows with the slashes of others."""
    return file.replace("\\", "/") if file and file[1:3] == ":\\" else file


def native_frames(text: str, begin: int = 0) -> tuple[Frame, ...]:
    """Return the native frames listed in a debugger's format, with `frame #1: `, or as UCX and backward-cpp do."""
    if "==== backtrace " in text:
        return listed("ucx", text, begin)
    if _OUTERMOST_FIRST in text and (frames := listed("backward", text, begin)):
        return frames[::-1]
    if "#" not in text:
        return ()
    plain = _TANGLED.sub(lambda found: _untangled(found[1].splitlines(), found[2].splitlines()), text[begin:])
    return listed("native", text[:begin] + plain, begin)


def _untangled(frames: list[str], places: list[str]) -> str:
    without = max(0, len(frames) - len(places))
    pairs = [f"{frame}\n{place}" for frame, place in zip(frames[without:], places, strict=False)]
    return "\n".join((*frames[:without], *pairs, *places[len(frames) :])) + "\n"
