"""Readers of blocks of many lines, which signatures name by `block`: stacks, tracebacks, reports of sanitizers.

Invariants:
    blocks.J1. Of a chain of Java's causes the last `Caused by` is the root; its consequence is reported beside it. An
        exception of a thread other than the main one ends no program: it is none.
    blocks.J2. In a debugger's session, functions that throw, abort or check for others are not the place: that is their
        caller, and their arguments are the message.
    blocks.J3. A stack that a debugger printed ends at an empty line or another thread; a frame may span lines. In one
        of a function that aborts, that and what it called are not the place.

Sources: gdb/infrun.c, gdb/stack.c, gdb/break-catch-throw.c, LLVM lldb/source/Core/Debugger.cpp (`stop reason =`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import dropwhile, takewhile
from types import MappingProxyType
from typing import Final, NamedTuple

from livedbg.logs.printed_stacks import printed_frames
from livedbg.logs.printed_waits import awaited
from livedbg.logs.sanitizers import place_of, sanitizer_report
from livedbg.logs.stack_listings import listed, native_frames
from livedbg.logs.tracebacks import escaped_raised, faulthandler_frames, innermost_raised, main_place, paused_frames
from livedbg.model import Frame
from livedbg.text.patterns import lazy_re

HERE: Final = "here"
"""Of a signature whose values are the innermost frame; a stack of native code may be printed below it."""


_JAVA_READ: Final = 60_000
_JAVA: Final = lazy_re(
    r"^(?:Exception in thread \"(?P<thread>[^\"\n]{1,100})\" |(?P<cause>Caused by: ))?"
    r"(?:[^\n]{0,300}?(?<![\w.$]))??(?P<type>(?:[a-z_]\w{0,60}\.){1,12}[A-Z][\w$]{0,100})"
    r"(?:: (?P<said>[^\n]{0,1000}))?$"
    r"(?=(?:\n(?!\s+at |Caused by: )[^\n]{0,500}){0,4}\n\s+at [\w.$<>/]+\()",
    re.MULTILINE,
)
"""An exception of Java, Scala or Kotlin with its frames below."""


_AT_LINE: Final = lazy_re(
    r"^At line (?P<line>\d{1,9}) of file (?P<file>[^\n]{1,300}?)(?: \(unit =[^\n]{0,300})?$", re.MULTILINE
)
_EXPRESSION: Final = lazy_re(
    r"^in expression starting at (?P<file>(?!none|REPL)[^\s:]{1,300}):(?P<line>\d{1,9})$", re.MULTILINE
)


_RAISES: Final = lazy_re(
    r"(?:[\w~]{1,100}::){0,8}(?:\w{0,60}(?:[Cc]heck|[Aa]ssert|[Ee]rror|[Ee]nforce)\w{0,20}[Ff]ail(?:ed|ure)?\w{0,20}"
    r"|(?P<type>\w{1,60}(?:[Ee]rror|[Ee]xception))::(?P=type)|__cxa_(?:re)?throw|__throw_\w{1,60}|throw_\w{1,60}"
    r"|_Unwind_\w{1,60}|terminate|__verbose_terminate_handler|__terminate|ggml_(?:print_backtrace|\w{2,10}_error)|\w{1,60}_abort)\b"
    r"|(?:__GI_|__)*(?:raise|abort|pthread_kill|gsignal|assert_fail(?:_base)?|pthread_kill_(?:implementation|internal)|wait4)$"
)
_ABORTS: Final = lazy_re(r"(?:\w{1,60}_)?abort$")
_ASSERTED: Final = lazy_re(
    r"\bassertion=(?:0x[0-9a-f]{1,16} )?\"(?P<said>[^\n]{1,500}?)\"(?=, (?:file|line|function)=)"
)
_RUNTIME: Final = lazy_re(r"(?:lib(?:c|m|pthread|stdc\+\+|c\+\+(?:abi)?|gcc_s|unwind)[.-]|ld-|linux-vdso)")
_LIBC: Final = ("../sysdeps/", "./nptl/", "./string/", "./stdlib/", "./malloc/", "./debug/", "./csu/")
"Sources of glibc, as distributions build it."
_OTHER_STACK: Final = lazy_re(r"\n(?:\n|Thread (?:\d|\([a-z+]{1,20}\))| {0,2}\*? ?thread #|\([\w-]{2,12}\) )")
_NO_NAME: Final = "??"
_UNNAMED: Final = "___lldb_unnamed_symbol"
_CHECKED: Final = lazy_re(
    r"\b__glibcxx_assert_fail\b[^\n]{0,600}\n(?:[^#\n][^\n]{0,300}\n){0,3}#\d{1,3} +(?:0x[0-9a-f]{1,16} in )?"
    r"(?P<function>[^\n]{1,600}?) \((?P<given>[^\n]{0,400})"
)
_ARGUMENTS: Final = lazy_re(r"<[^<>]{0,400}>")
_OWN_ARGUMENTS: Final = lazy_re(r"\((?!\))")
_LONG: Final = 100
"""Characters of a name that is said as it is."""
_NESTED: Final = 6  # arguments of templates in each other
_GIVEN: Final = lazy_re(r"\b__\w{1,10}=-?\d{1,20}\b")
_MESSAGE: Final = lazy_re(
    r"\b(?:\w{0,20}_?[Mm]sg|message|what|why|reason|description|__s|__arg|str)=(?:0x[0-9a-f]{1,16} )?"
    r"\"(?P<said>[^\"\n]{2,500})\""
)


class Block(NamedTuple):
    """A parsed block; `raised` is the line that names the exception, by default the one that the signature matched."""

    values: Mapping[str, str] = MappingProxyType({})
    stack: tuple[Frame, ...] = ()
    raised: int | None = None


def _stack(frames: tuple[Frame, ...]) -> Block:
    """Make a block with `frame`: the innermost function; `bare`: the same if its place is not known; `module`: its
    library.
    """
    first = frames[0] if frames else Frame(function="")
    bare = "" if first.file or not first.function.strip("?") else first.function
    return Block({"frame": first.function, "bare": bare, "module": first.module or ""}, frames)


def _listing(name: str, text: str, begin: int) -> Block:
    return _stack(listed(name, text, begin))


def _native(text: str, begin: int) -> Block:
    windows = listed("visual-studio", text, begin) if ".exe!" in text or ".dll!" in text else ()
    return _stack(windows or native_frames(text, begin))


def _fortran(text: str, begin: int) -> Block:
    """Read the stack that libgfortran lists; without a line, the source line named above the error."""
    frames = native_frames(text, begin)
    at = _AT_LINE.search(text)
    known = at is None or any((frame.file or "").endswith(at["file"]) for frame in frames)
    return _stack(frames if known or at is None else (_frame_at(at["file"], at["line"], "fortran"),))


def _julia(text: str, begin: int) -> Block:
    """Read the stack; without a function of the user's, the expression that is named above or below it."""
    frames = listed("julia", text, begin)
    at = _EXPRESSION.search(text, begin)
    return _stack(frames if at is None else (*frames, _frame_at(at["file"], at["line"], "julia")))


_PANICKED: Final = lazy_re(r"panicked at (?:'[^\n]{1,500}', )?(?P<file>(?:[A-Z]:)?[^\s:,]{1,300}):(?P<line>\d{1,9})")


def _rust(text: str, begin: int) -> Block:
    """Read the place of a panic, and the stack below it: a panic of a library has its caller there."""
    at = _PANICKED.search(text, begin)
    place = () if at is None else (Frame(function="main", file=at["file"], line=int(at["line"]), language="rust"),)
    return _stack((*place, *listed("rust", text, begin)))


def _go(text: str, begin: int) -> Block:
    """Read the first goroutine's stack: below the last `panic`, since what is above it only reports that."""
    first = text.find("\ngoroutine ", begin)
    end = text.find("\n\n", first) if first >= 0 else -1
    at = text.rfind("\npanic(", begin, end if end >= 0 else len(text))
    return _listing("go", text, max(begin, at))


def _frame_at(file: str, line: str, language: str) -> Frame:
    return Frame(function="<module>", file=file, line=int(line), language=language)


def _debugger(text: str, begin: int) -> Block:
    """Read where a debugger says that a program stopped: the function, and its caller (J2).

    `frame`, `bare`, `module`, `place`: the function where it stopped or threw, its name and library if its place is not
    known, `index.cpp:540`; `library`: its library where it has no name; `caller`: the first other one outside of the
    libraries of C and C++; `inner`, `of`: the function of the C library where it stopped, and the caller's library, if
    the caller's place is not known; `below`: the caller of that; `told`: the thrown message, as far as the stack shows
    it; `asserted`: the condition that was not true.
    """
    stack = begin if text.startswith("#0 ", begin) else text.find("\n#0 ", begin)
    again = text.find("\n#0 ", stack + 1) if stack >= 0 else -1
    if again >= 0 and "\n#1 " not in text[stack:again]:  # the frame alone that it shows as it stops
        stack, again = again, text.find("\n#0 ", again + 1)
    end = again if again >= 0 else len(text)
    first = stack if stack >= 0 else text.find("\n", begin)
    named = listed("lldb", text, begin) if "frame #" in text else listed("gdb", text, first, end) if first >= 0 else ()
    frames = named or native_frames(text, first if first >= 0 else len(text))
    if stack < 0 and "frame #" not in text:
        frames = frames[:1]
    own = tuple(dropwhile(_raises, _once(frames)))
    raised = len(own) < len(frames)
    told, asserted = (form.search(text, begin) if raised else None for form in (_MESSAGE, _ASSERTED))
    said = {"told": told["said"] if told else "", "asserted": asserted["said"] if asserted else ""}
    said["checked"] = _checked(text, begin)
    return Block({**_of_stop(own or frames[-1:]), **said}, own or tuple(frames))


def _printed(text: str, begin: int) -> Block:
    """Read a stack that somebody printed (J3); `awaits`: what its thread waits for."""
    end = _OTHER_STACK.search(text, begin)
    printed = text[begin : end.start() if end else len(text)]
    frames = _past_abort(printed_frames(printed))
    read = _stack(frames)
    return read._replace(values={**read.values, "awaits": awaited(printed, frames)})


def _past_abort(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Return the frames that called what aborts: it may have started the debugger that prints them."""
    ended = next((at for at, frame in enumerate(frames) if _ABORTS.match(frame.function)), None)
    return frames if ended is None or not all(map(_raises, frames[:ended])) else frames[ended + 1 :] or frames


def _checked(text: str, begin: int) -> str:
    """Return the function of the C++ library whose check failed, and the number that it was given, or ""."""
    found = _CHECKED.search(text, begin)
    if found is None:
        return ""
    given = _GIVEN.search(found["given"])
    return f"{_untyped(found['function'])}{f' ({given[0]})' if given else ''}"


def _untyped(function: str) -> str:
    """Return the name of a function of C++ without the arguments of its templates."""
    for _ in range(_NESTED):
        function = _ARGUMENTS.sub("", function)
    return function


def _short(function: str) -> str:
    """Return a long name of a function of C++ without the arguments of its templates, and its own."""
    if len(function) <= _LONG:
        return function
    return _OWN_ARGUMENTS.split(_untyped(function).replace("(anonymous namespace)::", ""), maxsplit=1)[0]


def _named(frame: Frame) -> bool:
    return frame.function != _NO_NAME and not frame.function.startswith(_UNNAMED)


def _raises(frame: Frame) -> bool:
    return frame.function == _NO_NAME or _RAISES.match(frame.function) is not None


def _once(frames: Sequence[Frame]) -> list[Frame]:
    rest = takewhile(lambda frame: frame.address is None or frame.address != frames[0].address, frames[1:])
    return [*frames[:1], *rest]


def _of_stop(frames: Sequence[Frame]) -> Mapping[str, str]:
    first = frames[0] if frames else Frame(function="")
    place = f"{(first.file or '').rpartition('/')[2]}:{first.line}" if first.file and first.line else ""
    known = (frame for frame in frames[1:] if frame.function != _NO_NAME and not _of_runtime(frame))
    caller = next(known, None) if _of_runtime(first) else None
    lent = bool(first.file) and _of_runtime(first)
    return {
        "frame": first.function,
        "bare": "" if first.file or not _named(first) else _short(first.function),
        "inner": first.function if lent and caller is not None and not caller.file else "",
        "module": "" if first.file else first.module or "",
        "library": "" if first.file or _named(first) else first.module or "",
        "place": place,
        "caller": _short(caller.function) if caller is not None else "",
        "of": caller.module or "" if lent and caller is not None and not caller.file else "",
        "below": frames[1].function if len(frames) > 1 and not _of_runtime(frames[1]) else "",
    }


def _of_runtime(frame: Frame) -> bool:
    return _RUNTIME.match(frame.module or "") is not None or (frame.file or "").startswith(_LIBC)


def _faulthandler(text: str, _begin: int) -> Block:
    lines = text.split("\n")
    read = _stack(faulthandler_frames(lines))
    return read._replace(values={**read.values, "main": main_place(lines)})


def _traceback(text: str, _begin: int) -> Block | None:
    raised = innermost_raised(text.split("\n")) or escaped_raised(text)
    if raised is None:
        return None
    values = {"type": raised.type, "message": raised.message, "related": raised.related}
    return Block(values, raised.stack, raised.index)


def _paused(text: str, begin: int) -> Block:
    return _stack(paused_frames(text[begin:].split("\n")))


def _java(text: str, _begin: int) -> Block | None:
    text = text[:_JAVA_READ]
    heads = list(_JAVA.finditer(text))
    if not heads or heads[0]["thread"] not in (None, "main"):
        return None
    first, root = heads[0], next((head for head in reversed(heads) if head["cause"]), heads[0])
    stop = text.find("\nCaused by: ", root.end())
    stack = listed("java", text, root.end(), stop if stop >= 0 else None)
    led = f"it led to {first['type']}: {(first['said'] or '').strip()}"[:300].rstrip(": .") if root is not first else ""
    kind = "traceback" if first["thread"] is None else "terminate"
    values = {"kind": kind, "type": root["type"], "message": (root["said"] or "").strip(), "related": led}
    return Block(values, stack, text.count("\n", 0, root.start("type")))


def _sanitizer(text: str, _begin: int) -> Block | None:
    report = sanitizer_report(text.split("\n"))
    if report is None:  # a leak's last line is enough
        return Block(dict.fromkeys(GIVES["sanitizer"], "")) if " byte(s) leaked in " in text else None
    values = {"kind": report.kind, "type": report.type, "message": report.message, "own": place_of(report.stack)}
    values["largest"] = str(report.leaks or "")
    return Block(values, report.stack)


BLOCKS: Final[Mapping[str, Callable[[str, int], Block | None]]] = MappingProxyType(
    {
        "native": _native,
        HERE: _native,
        "fortran": _fortran,
        "julia": _julia,
        "rust": _rust,
        "go": _go,
        "debugger": _debugger,
        "printed": _printed,
        "faulthandler": _faulthandler,
        "traceback": _traceback,
        "paused": _paused,
        "java": _java,
        "sanitizer": _sanitizer,
        **{name: partial(_listing, name) for name in ("report", "dotnet", "intel")},
    }
)
"""By name: takes the text of a record, and where the pattern matched; None where there is no such block."""

GIVES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {name: frozenset({"frame", "bare", "module"}) for name in BLOCKS}
    | {name: frozenset({"kind", "type", "message", "related"}) for name in ("traceback", "java")}
    | {"sanitizer": frozenset({"kind", "type", "message", "own", "largest"})}
    | {"faulthandler": frozenset({"frame", "bare", "module", "main"})}
    | {"printed": frozenset({"frame", "bare", "module", "awaits"})}
    | {
        "debugger": frozenset(
            {
                "frame",
                "bare",
                "module",
                "library",
                "place",
                "inner",
                "caller",
                "of",
                "below",
                "told",
                "asserted",
                "checked",
            }
        )
    }
)
"""The names of the values that each makes."""
