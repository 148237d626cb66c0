"""Python tracebacks in the text of one record: the relevant one of chained exceptions, and where it was raised.

Sources of the texts: CPython Lib/traceback.py (also exception groups), Lib/multiprocessing/pool.py and
concurrent/futures/process.py (remote tracebacks); libraries that print one inside of a message (`Original Traceback`);
rich/traceback.py (boxes, in Unicode and in ASCII), IPython/core/ultratb.py (verbose and context mode), Ray
python/ray/exceptions.py (RayTaskError): `plain_form` converts these to Python's own form.

Frameworks that store an exception print it first, and its frames below `Stack Trace:`.

Invariants:
    tracebacks.T1. Of exceptions of which each was the direct cause of the next, the first one counts; a traceback
        inside of a message comes before the exception with that message; of a group its first exception.
    tracebacks.T2. Of an exception that came while another one was handled, the earlier one counts only if the handler
        itself raised the later one, or that quotes it: else the handler tried something else, which failed. An
        exception that came while Ctrl-C was handled never counts.
    tracebacks.T3. Frames without a head above them are a traceback only if the line below them names an exception.
    tracebacks.T4. A line between two frames of a traceback is another program's, unless it names an exception.
    tracebacks.T5. Of exceptions with their frames below them, the one that caused the others stands last.
    tracebacks.T6. An exception without a message counts less than the one of the same type that says it anew with one.
    tracebacks.T7. An exception whose message says no more than its type (`timed out`, a bare code) counts less than the
        one that it led to, if that says more; then the last one that says that whole counts.
    tracebacks.T8. The stack has the callers of a consequence only if some of them may be the user's own code; where
        its own frames are all of libraries, also those of one that came while it was handled. One of a chain whose
        traceback was left out is passed over.
    tracebacks.T9. An exception's line right above the words that link it to the next traceback is what is left of its
        own: the frames of the next one are its callers.
    tracebacks.T10. If a faulthandler dump names no current thread, the fault was in a native thread: the position of
        the main thread is reported as such, not as the place of the fault.
    tracebacks.T11. An assertion whose message says only that something is false is told by the line that asserts it;
        but not where that line is not whole, or only calls what asserts. Where the message is a dump of values alone,
        what was asserted stands before it.
    tracebacks.F1. In plain form each line stays one line at its place, so that a line's number stays known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from itertools import dropwhile, takewhile
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from livedbg.logs.stack_listings import native_frames
from livedbg.model import CUT_OFF, Frame
from livedbg.text.patterns import lazy_re
from livedbg.text.tangled import untangled

HEADER: Final = "Traceback (most recent call last):"
UNNAMED: Final = "unknown"
"""The type of an exception that is not named below its frames."""

_FILE: Final = lazy_re(r'^\s*(?:[|+] *)*File "([^"]+)", line (\d{1,18})(?:, in(?: |$)| in )?(.*)$')
_RAISED: Final = lazy_re(r"^(?:[|+ ]*)((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:\([A-Za-z_]\w*\))?)(?:: ?(.*))?$", re.DOTALL)
_TRACEBACK: Final = lazy_re(r"Traceback(?P<of> of [^()\n]{1,60}?)? \(most recent call last\):")
QUOTED: Final = lazy_re(
    r"\s{0,100}Traceback(?: of [^()\n]{1,60} \(most recent call last\):"
    r"| \(most recent call last\): ?\(\w[^)\n]{0,40}\)$)"
)
"""The header of a traceback that a message quotes, which says of what it is: Python itself writes no such one."""
HEADLESS: Final = lazy_re(
    r'(?: {1,12}File "[^"\n]{1,500}", line \d{1,9}(?:, in \S[^\n]{0,300})?'
    r'|File "[^"\n]{1,500}", line \d{1,9}, in \S[^\n]{0,300})$'
)
"""A frame without a traceback above it: of one whose head is cut off, or of an error of syntax."""
CUT_FRAME: Final = lazy_re(r'(?! *File ")[^"\n]{0,300}\.py", line \d{1,9}, in [\w<>.]{1,200}$')
"""The rest of the first frame, of which the beginning was not copied."""
NAMES_EXCEPTION: Final = lazy_re(
    r"(?:[A-Za-z_]\w{0,100}\.){0,20}(?:[A-Z]\w{0,100})?(?:Error|Exception|Interrupt|Exit)(?:\([A-Za-z_]\w{0,100}\))?(?::|$)"
)
NAMED_ALONE: Final = lazy_re(
    r"(?:[A-Za-z_]\w{0,100}\.){0,20}[A-Z]\w{0,100}(?:Error|Exception|Interrupt|Exit|Traceback)(?:: \S|$)"
)
"""What is left of an exception of a chain whose own traceback was left out."""
_ESCAPED: Final = r"Traceback (most recent call last):\n"
INVERTED: Final = "Stack Trace:"
"""The line between an exception and its frames."""
_OF_USER: Final = ": in user code:"
"""A message of code that was converted: the frames of what it was converted from follow, some with an asterisk."""
_CAUSED_BY: Final = "The above exception was caused by the following exception:"
_DURING: Final = "During handling of the above exception, another"
_CAUSE: Final = "The above exception was the direct cause of"
_GROUPS: Final = ("ExceptionGroup", "BaseExceptionGroup")
_REPORTERS: Final = frozenset(
    {"CalledProcessError", "RemoteTraceback", "_RemoteTraceback", "SimplifiedTraceback", "UnfilteredStackTrace"}
)
"""Exceptions that only say that something else failed."""
_FRAME_LIMIT: Final = 200
_SOURCE_LIMIT: Final = 200
_NO_SOURCE: Final = lazy_re(r"[~^ ]+$|\[Previous line repeated |\.\.\.<|(?:-{3,}|={3,})")
"""Below a frame: marks of columns, how often it is repeated, how many lines are left out, what parts groups."""
_BRIEF: Final = 200
_ABOVE_FRAME: Final = 6
"""So many lines, at most, stand above the first frame of a traceback whose head is cut off."""
_WORDLESS: Final = lazy_re(
    r"(?i:[\s.()]{0,9}|(?:the )?(?:(?:read|connect|request|operation|socket|connection|call)(?: operation)? )?"
    r"timed? ?out"
    r"|(?:\[Errno -?\d{1,5}\] |\(?-?\d{1,5}, '?)?(?:connection (?:refused|reset(?: by peer)?|aborted|closed|lost)"
    r"|(?:operation|connection) timed out|broken pipe|no route to host|input/output error|unknown error)(?:'\))?"
    r"|(?:error|code|status|errno|ret|rc)?[ :=]{0,3}-?(?:0x[0-9a-f]{1,16}|\d{1,12})"
    r"|none|null|error|failed|failure|unknown|aborted|cancelled)[.!]{0,3}"
)
"""Messages that say no more than the type of an exception does: not where, of whom, nor of what."""
_KEYED: Final = frozenset({"KeyError", "IndexError", "StopIteration"})
"""Exceptions whose number is what was looked for."""
SAYS_FALSE: Final = lazy_re(
    r"(?:False|None|0|0\.0|\[\]|\(\)|\{\}|''|set\(\)) is not true|(?:True|1) is not false"
    r"|unexpectedly (?:None|identical: None)"
    r"|(?P<bare>assert (?:False|None|0|0\.0|\[\]|\(\)|\{\}|''|set\(\)|not True))"
)
"""What unittest and pytest (`bare`) say of a value alone: not of what it was."""
_ASSERTS: Final = lazy_re(r"_{0,2}(?:assert|fail(?:Unless|If)?(?:[A-Z]\w{0,40})?$)")
"""Functions that assert something for their callers."""
_DUMPED: Final = lazy_re(
    r"[\[({][^\n]{0,20000}[\])}]|[A-Za-z_]\w{0,40}\([^\n]{0,20000}\)|[-+]?\d[\d.e+-]{0,40}|(?:True|False|None)"
)
"""A message that is the text of a value: a dict, a list, a tensor, a number; none of these says what was wrong."""
_BRIEF_DUMP: Final = 60
_FEW_WORDS: Final = 3
_LIBRARIES: Final = lazy_re(r"/(?:site|dist)-packages/|/lib(?:64)?/python\d|^<|^/.{0,300}/bin/[^/.]{1,100}$")
_TELLING: Final = 16  # characters of a message that are no chance


class _Link(StrEnum):
    """Relation of a traceback in a record to the one before it."""

    NONE = ""
    CAUSED = "caused"
    DURING = "during"
    INSIDE = "inside"
    BELOW = "below"  # it caused the one above


_LINKS: Final = ((_DURING, _Link.DURING), (_CAUSE, _Link.CAUSED), (_CAUSED_BY, _Link.BELOW))


class _Block(Struct):
    """A traceback.

    Attributes:
        quoted: its header says whose it is.
        strict: its source lines may not be indented: only a line that names an exception ends its frames.
        cut: its head is missing.
    """

    link: _Link
    quoted: bool = False
    strict: bool = False
    cut: bool = False
    frames: list[Frame] = field(default_factory=list)  # outermost first
    raised: int | None = None  # index of the line that names the exception
    body: list[str] = field(default_factory=list)

    @property
    def type(self) -> str:
        match = _RAISED.match(self.body[0]) if self.body else None
        return match[1] if match is not None else UNNAMED

    @property
    def message(self) -> str:
        if not self.body:
            return CUT_OFF
        match = _RAISED.match(self.body[0])
        first = (match[2] or "") if match is not None else self.body[0]
        kept = [line for line in self.body[1:] if not native_frames(line)]
        return "\n".join([first, *kept]).strip().rstrip('"').rstrip()

    @property
    def strayed(self) -> bool:
        """Whether the only line below the frames names no exception: another program wrote it between them (T4)."""
        return len(self.body) == 1 and NAMES_EXCEPTION.match(self.body[0]) is None

    @property
    def is_group(self) -> bool:
        return self.type.rpartition(".")[2] in _GROUPS

    @property
    def reports(self) -> bool:
        return self.type.rpartition(".")[2] in _REPORTERS


class Raised(Struct, frozen=True):
    """The relevant exception of a record.

    Attributes:
        stack: innermost first; native frames after it.
        index: of the line of the record that names it.
        related: its consequence, or the exception being handled: `It led to RuntimeError: outer`.
    """

    type: str
    message: str
    stack: tuple[Frame, ...]
    index: int
    related: str = ""


def _python_frame(file: str, line: str, function: str) -> Frame:
    """Make a frame of a traceback; a Windows path gets slashes, as others have them."""
    path = file.replace("\\", "/") if file[1:3] == ":\\" else file
    return Frame(function=function or "<module>", file=path, line=int(line), language="python")


def innermost_raised(lines: Sequence[str]) -> Raised | None:
    """Return the relevant exception (T1, T2) in the lines of one record without a launcher's prefixes, or None."""
    blocks = _blocks(plain_form(lines), any("Exception Group Traceback" in line for line in lines))
    if not blocks or (len(blocks) == 1 and not blocks[0].frames and _RAISED.match("".join(blocks[0].body[:1])) is None):
        return None  # a program in another language may print the words above its own stack
    chosen = _chosen(blocks)
    block = blocks[chosen]
    native = native_frames("\n".join(block.body[1:]))
    held = block.quoted or not block.frames  # by the traceback whose message quotes it
    above = next((one.frames for one in reversed(blocks[:chosen]) if one.frames and not one.quoted), []) if held else []
    frames = [*_callers(blocks, chosen), *above, *block.frames]
    index = block.raised if block.raised is not None else len(lines) - 1
    headers = sum(line.rstrip().endswith(HEADER) for line in lines)
    if (one := untangled(block.type, block.message, headers > len(blocks))) is not None:
        frames = list(dict.fromkeys(replace(frame, source=(), source_from=0) for frame in frames))
        said = f"{one.times} processes printed it at once"
        return Raised(one.type, one.message, tuple(reversed(frames[-_FRAME_LIMIT:])), index, said)
    stack = (*reversed(frames[-_FRAME_LIMIT:]), *native)[:_FRAME_LIMIT]
    return Raised(block.type, _with_condition(block), stack, index, _related(blocks, chosen))


def _with_condition(block: _Block) -> str:
    """Return the message, with what was asserted where that says no more than that it is false (T11)."""
    first, newline, rest = block.message.partition("\n")
    bare = first.rstrip(": ") or block.type
    if block.type.endswith("AssertionError") and _DUMPED.fullmatch(first) is not None:
        condition = _condition(_asserted(block.frames, False))
        parted = ": " if len(first) <= _BRIEF_DUMP else "\n"
        return f"{condition}{parted}{block.message}" if condition else block.message
    if bare.endswith("AssertionError"):
        condition = _asserted(block.frames, False)
        return f"{f'{bare}: ' if first else ''}{condition}{newline}{rest}" if condition else block.message
    condition = _asserted(block.frames, True) if SAYS_FALSE.fullmatch(first) else ""
    return f"{first}: {condition}{newline}{rest}" if condition else block.message


def _condition(source: str) -> str:
    """Return an `assert` without its message: what is before the last comma outside of brackets and quotes."""
    depth, quote, end = 0, "", len(source)
    for at, letter in enumerate(source):
        if quote or letter in "\"'":
            quote = "" if letter == quote else quote or letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and depth == 0:
            end = at
    return source[:end].rstrip() if source.startswith("assert ") else ""


def _asserted(frames: Sequence[Frame], called: bool) -> str:
    """Return what was asserted, as the source says: an `assert`, or the call of a function that asserts; or "".

    Args:
        called: whether a function asserts, though its frames are not shown.
    """
    callers = list(dropwhile(lambda frame: _ASSERTS.match(frame.function) is not None, reversed(frames)))
    source = "".join(callers[0].source[:1]) if callers else ""
    called |= len(callers) < len(frames)
    return source if "assert" in source and (called or source.startswith("assert ")) and is_whole(source) else ""


def is_whole(source: str) -> bool:
    """Return whether a line of source that asserts something has the end of what it asserts."""
    return source[-1] not in "([{,\\"


def faulthandler_frames(lines: Sequence[str], thread: str = "Current thread 0x") -> tuple[Frame, ...]:
    """Return the frames (innermost first) of a faulthandler dump's current thread; none if that ran no Python code.

    Of threads with another heading, the frames of the last one, which is the main thread.
    """
    current = max((n for n, line in enumerate(lines) if line.startswith(thread)), default=len(lines))
    frames: list[Frame] = []
    for line in lines[current + 1 :]:
        match = _FILE.match(line)
        if match is None:
            break
        frames.append(_python_frame(match[1], match[2], match[3]))
    return tuple(frames[:_FRAME_LIMIT])


def paused_frames(lines: Sequence[str]) -> tuple[Frame, ...]:
    """Return the frames, innermost first as they stand there, of an exception at which a debugger of Python paused."""
    block = _Block(_Link.NONE)
    for line in lines:
        if not _add_frame(block, line):
            _add_source(block.frames, line)
    return tuple(block.frames[:_FRAME_LIMIT])


def main_place(lines: Sequence[str]) -> str:
    """Return where the main thread was as a thread without Python code failed: `fill (plant.py:31)`, or "" (T10).

    The dump then lists all threads of Python, and none as the current one; the main thread is the last one, which runs
    a module. Without it, the list may be cut off.
    """
    frames = faulthandler_frames(lines, "Thread 0x")
    if any(line.startswith("Current thread") for line in lines) or not frames or frames[-1].function != "<module>":
        return ""
    own = (frame for frame in frames if _LIBRARIES.search(frame.file or "") is None)
    return next((f"{one.function} ({(one.file or '').rpartition('/')[2]}:{one.line})" for one in own), "")


def escaped_raised(text: str) -> Raised | None:
    """Return the exception of a traceback that is a JSON or Python string in one line of a record, or None."""
    begin = text.find(_ESCAPED)
    if begin < 0:
        return None
    row = text.count("\n", 0, begin)
    quote = text[begin - 1] if begin else '"'
    end = _closing(text, begin, quote if quote in "\"'" else "\n")
    plain = text[begin:end].replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"').replace("\\'", "'")
    raised = innermost_raised(plain.rstrip().split("\n"))
    if raised is None or raised.message == CUT_OFF:
        return None  # who called, and no exception
    return Raised(raised.type, raised.message, raised.stack, row, raised.related)


def _closing(text: str, begin: int, quote: str) -> int:
    at = begin
    while (at := text.find(quote, at)) >= 0:
        if text[at - 1] != "\\" or quote == "\n":
            return at
        at += 1
    return len(text)


def _blocks(lines: Sequence[str], grouped: bool) -> list[_Block]:
    blocks: list[_Block] = []
    link, repeated = _Link.NONE, ""
    inside = False  # among the frames of the newest block
    cut, head = _cut_off(lines)
    if _begins_with_end(lines):
        blocks.append(_Block(link, cut=True, raised=0, body=[lines[0].strip()]))
    for number, whole in enumerate(lines[len(blocks) :], len(blocks)):
        line = whole.removeprefix(repeated) if repeated else whole
        header = _TRACEBACK.search(line) if "(most recent call last)" in line else None
        if header is not None and line.startswith("\\n", header.end()):
            header = None  # it stands in a string, escaped
        if header is not None:
            cut = header.start()  # some glog-like lines have the header on every line
            if not blocks and not line[:cut].rstrip().endswith("Group"):
                repeated = _repeated(line[:cut], lines[number + 1] if number + 1 < len(lines) else "")
            quoted = bool(blocks) and bool(blocks[-1].body) and (not grouped or blocks[-1].is_group)
            link = link or (_Link.INSIDE if quoted else _Link.NONE)
            of = header["of"] is not None
            blocks.append(_Block(link, quoted=of, strict=of))
            link, inside = _Link.NONE, True
        elif line.strip() == INVERTED:
            blocks.append(_inverted(link, lines[:number]))
            link, inside = _Link.NONE, True
        elif not blocks:
            if number == cut:
                blocks.append(_Block(link, strict=True, cut=True))
                repeated, inside = head, _add_frame(blocks[0], line.removeprefix(head))
        elif (linked := next((one for words, one in _LINKS if line.startswith(words)), None)) is not None:
            link, inside = linked, inside and linked is not _Link.BELOW
        elif not inside:
            inside, link = _below(blocks, line, link, number)
        elif _add_frame(blocks[-1], line):
            blocks[-1].strict |= line.startswith('File "')  # then so are the lines of source
        elif line[:1] in " \t|+" or (blocks[-1].strict and NAMES_EXCEPTION.match(line) is None):
            _add_source(blocks[-1].frames, line)
        elif line:
            if blocks[-1].raised is None:
                blocks[-1].body.append(line)
                blocks[-1].raised = number
            inside = False
    return [block for block in blocks if block.body or (block.frames and not block.cut)]


def _below(blocks: list[_Block], line: str, link: _Link, number: int) -> tuple[bool, _Link]:
    """Take a line below the exception's name; return whether it is a frame of the traceback after all (T4).

    After words that link it to another one, that may be named without a traceback of its own; then the link is taken.
    """
    if link in (_Link.DURING, _Link.CAUSED) and NAMED_ALONE.match(line) is not None:
        blocks.append(_Block(link, raised=number, body=[line]))
        return False, _Link.NONE
    block = blocks[-1]
    if line[:1] == " " and HEADLESS.match(line) is not None and block.strayed:
        block.body.clear()
        block.raised = None
        return _add_frame(block, line), link
    block.body.append(line)
    if block.body[0].endswith(_OF_USER) and line.startswith("    "):
        _add_frame(block, line.rstrip(" *"))
    return False, link


def _cut_off(lines: Sequence[str]) -> tuple[int, str]:
    """Return the index of the first frame of a traceback whose head is cut off, and what a logger wrote before it.

    Only the source of another frame, or marks below it, may stand above, behind the same head; -1 without such a frame.
    """
    number = next((number for number, line in enumerate(lines[:_ABOVE_FRAME]) if '  File "' in line), None)
    if lines and lines[0].lstrip(" ").startswith('File "') and HEADLESS.match(lines[0]) is not None:
        return 0, ""
    if number is None:
        return -1, ""
    head, mark, frame = lines[number].partition('  File "')
    above = [line.removeprefix(head) for line in lines[:number] if line.startswith(head)]
    if (number and not head) or head[:1].isspace() or HEADLESS.match(mark + frame) is None:
        return -1, ""
    return (number, head) if len(above) == number and all(line[:1] in (" ", "") for line in above) else (-1, "")


def _begins_with_end(lines: Sequence[str]) -> bool:
    """Return whether the first line is all that is there of a traceback which led to the next one."""
    below = next((line for line in lines[1:3] if line.strip()), "")
    return bool(lines) and NAMES_EXCEPTION.match(lines[0]) is not None and below.startswith((_CAUSE, _DURING))


def _inverted(link: _Link, above: Sequence[str]) -> _Block:
    """Return the block of the exception that the last line above its frames names."""
    at = next((at for at in range(len(above) - 1, -1, -1) if above[at].strip()), None)
    return _Block(link) if at is None else _Block(link, raised=at, body=[above[at].strip()])


def _add_frame(block: _Block, line: str) -> bool:
    match = _FILE.match(line)
    if match is not None:
        block.frames.append(_python_frame(match[1], match[2], match[3].partition('  File "')[0]))
    return match is not None


def _add_source(frames: list[Frame], line: str) -> None:
    text = line.strip(" \t|+")
    if frames and not frames[-1].source and text and not _NO_SOURCE.match(text):
        frames[-1] = replace(frames[-1], source=(text[:_SOURCE_LIMIT],), source_from=frames[-1].line or 0)


def _repeated(before: str, following: str) -> str:
    """Return the header that a logger repeats on each line: all text before `Traceback`, or only its beginning.

    The rest of that text may be the logger's message: `[core.py:387] Engine failed: Traceback …`.
    """
    if not before or before.isspace():
        return ""
    if following.startswith(before):
        return before
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, following, strict=False)))
    return before[:common] if following[common:].lstrip().startswith('File "') else ""


def _chosen(blocks: Sequence[_Block]) -> int:
    at = 0
    while at + 1 < len(blocks):
        here, after = blocks[at], blocks[at + 1]
        if here.type == "KeyboardInterrupt":
            return at
        alone = after.link is _Link.NONE and bool(here.body)
        inside = after.link is _Link.BELOW or after.link is _Link.INSIDE or here.reports or not here.body
        handled = _raised_by_handler(here, after) or _quotes(after, here) or not after.body  # it was not printed
        elsewhere = after.link is _Link.DURING and not handled
        told_by = after.link in (_Link.CAUSED, _Link.DURING) and _tells_more(after, here)
        if alone or not (inside or elsewhere or told_by or _said_anew(here, after)):
            return at
        at += 1
        if told_by:
            return _last_quoting(blocks, at)
    return at


def _tells_more(after: _Block, here: _Block) -> bool:
    """Return whether an exception says nothing by its message, and the one that it led to does (T7)."""
    said = here.message.partition("\n")[0]
    if here.type.rpartition(".")[2] in _KEYED or not _WORDLESS.fullmatch(said) or not after.body:
        return False
    return len(after.message) > len(said) and len(after.message.split()) > _FEW_WORDS


def _last_quoting(blocks: Sequence[_Block], at: int) -> int:
    """Return the last of the exceptions from one on that each say the one before as a whole."""
    while at + 1 < len(blocks) and blocks[at + 1].link in (_Link.CAUSED, _Link.DURING):
        if not blocks[at].message or blocks[at].message not in blocks[at + 1].message:
            break
        at += 1
    return at


def _said_anew(here: _Block, after: _Block) -> bool:
    """Return whether the handler of an exception without a message raises one of its type that has one (T6)."""
    return here.type == after.type and not here.message and after.message not in ("", CUT_OFF)


def _raised_by_handler(handled: _Block, raised: _Block) -> bool:
    """Return whether the function that handled an exception is the one that raised the next."""
    if not handled.frames or not raised.frames:
        return True
    handler, place = handled.frames[0], raised.frames[-1]
    return (handler.file, handler.function) == (place.file, place.function)


def _quotes(raised: _Block, handled: _Block) -> bool:
    """Return whether the message of an exception has the first sentence of another one's in it."""
    said = handled.message.partition("\n")[0].partition(". ")[0].rstrip(". ")
    return len(said) >= _TELLING and said in raised.message


def _callers(blocks: Sequence[_Block], chosen: int) -> list[Frame]:
    """Return the callers of the function that caught the relevant exception; its consequence was raised below them.

    The traceback of an exception begins at the function that caught it. Where a library has taken that one out, or its
    head is cut off, or all its frames are of libraries, all frames of the consequence are taken for callers.
    """
    found: list[Frame] = []
    first, cut = blocks[chosen].frames[:1], blocks[chosen].cut
    foreign = all(_LIBRARIES.search(frame.file or "") is not None for frame in blocks[chosen].frames)
    for after in blocks[chosen + 1 :]:
        if after.link not in (_Link.CAUSED, _Link.DURING) or not (first or cut):
            break
        if not after.frames:
            continue
        place = (first[0].file, first[0].function) if first else ("", "")
        whole = after.link is _Link.CAUSED or foreign or (after is blocks[chosen + 1] and cut)
        caused = len(after.frames) if whole else 0
        at = max((n for n, one in enumerate(after.frames) if (one.file, one.function) == place), default=caused)
        if not at:
            break
        found = [*after.frames[:at], *found]
        first = after.frames[:1]
    return found if any(_LIBRARIES.search(frame.file or "") is None for frame in found) else []  # T8


def _related(blocks: Sequence[_Block], chosen: int) -> str:
    block, last = blocks[chosen], blocks[-1]
    if last is not block and last.body and last.message != block.message and block.message not in last.message:
        return f"it led to {_brief(last)}"
    before = blocks[chosen - 1] if chosen and block.link in (_Link.DURING, _Link.BELOW) else None
    if before is None or not before.body or before.reports or _tells_more(block, before):
        return ""
    if block.link is _Link.DURING and before.message and before.message in block.message:
        return ""
    return f"it led to {_brief(before)}" if block.link is _Link.BELOW else f"it came while {_brief(before)} was handled"


def _brief(block: _Block) -> str:
    message = block.message.partition("\n")[0].rstrip(".:") if block.message != CUT_OFF else ""
    return (f"{block.type}: {message}" if message else block.type)[:_BRIEF]


BOX_BEGIN: Final = lazy_re(r"\s*[╭┌+][─\-━ ]+Traceback \(most recent call last\)[─\-━ ]++[╮┐+]?\s*$")
BOX_LINE: Final = lazy_re(r"\s*[│┃|╭╰┌└+❱]")
BOX_END: Final = lazy_re(r"\s*[╰└+][─\-━]{10,}[╯┘+]\s*$")
NOTEBOOK_BEGIN: Final = lazy_re(r"([A-Za-z_][\w.]*) {2,}Traceback \(most recent call last\)\s*$")
RAY_BEGIN: Final = lazy_re(r"(?:.{0,200}: )?ray::[\w.<>:\[\]]+\(\) \(pid=\d{1,10}\b")

_FILLER: Final = "    "
_SIDES: Final = "│┃|"
_CORNERS: Final = ("╭", "╰", "┌", "└", "+")
_BOX_FRAME: Final = (
    lazy_re(
        r"(?P<file>(?:/|[A-Za-z]:|<|\.)[^:│|]{0,500}|[\w.-]{1,200}\.py)"
        r":(?P<line>\d{1,9}) in (?P<function>[^│|]{1,200}?)\s*$"
    ),
    lazy_re(r"in (?P<function>[\w.<>]{1,200}):(?P<line>\d{1,9})\s*$"),
)
_NOTEBOOK_FRAME: Final = (
    lazy_re(r"(?P<file>(?:Cell )?In ?\[\d{1,6}\]), line (?P<line>\d{1,9})(?:, in (?P<function>[\w.<>]+))?"),
    lazy_re(r"File (?P<file>\S.{0,500}?):(?P<line>\d{1,9})(?:,? in (?P<function>[\w.<>]+)|$)"),
    lazy_re(r"(?P<file>(?:~|/|<ipython-input)\S{0,500}) in (?P<function>[\w.<>]+)"),
)
_ARROW: Final = lazy_re(r"-+> (\d{1,9}) ")
_GROUP: Final = lazy_re(r"^ *[|+] ?(-?\+?-{3,} \d{1,9} -{3,}$|-{10,}$)?")


def plain_form(lines: Sequence[str]) -> list[str]:
    """Convert each traceback to CPython's form, line by line; a line without an equivalent becomes a filler."""
    text = lines
    if text and CUT_FRAME.match(text[0]) is not None:
        text = [f'  File "{text[0].lstrip()}', *text[1:]]
    if any("Exception Group Traceback" in line for line in text):
        text = [_ungrouped(line) for line in text]
    if any(BOX_BEGIN.match(line) for line in text):
        text = _unboxed(text)
    if any(NOTEBOOK_BEGIN.match(line) for line in text):
        text = _of_notebook(text)
    if any("ray::" in line for line in text):
        text = [HEADER if RAY_BEGIN.match(line) else line for line in text]
    return list(text)


def _ungrouped(line: str) -> str:
    match = _GROUP.match(line)
    if match is None:
        return line
    return _FILLER if match[1] else line[match.end() :]


def _unboxed(lines: Sequence[str]) -> list[str]:
    found = []
    inside = local = False  # in the box; in that of the local variables inside of it
    file = wrapped = ""
    for line in lines:
        if not inside:
            inside, local, wrapped = BOX_BEGIN.match(line) is not None, False, ""
            found.append(HEADER if inside else line)
            continue
        found.append(_FILLER)
        body = line.strip()
        if body[:1] not in _SIDES:
            inside = BOX_END.match(line) is None
            continue
        inner = body[1:].rstrip(f"{_SIDES} ").strip()
        if inner[:1] in _CORNERS or local:
            local = " locals " in inner or (local and inner[:1] not in _CORNERS)
            continue
        whole = (wrapped + inner, f"{wrapped} {inner}") if wrapped and not inner.startswith("/") else ()
        match = next((match for text in (*whole, inner) if (match := _box_frame(text)) is not None), None)
        wrapped = inner if match is None and inner.startswith("/") else ""
        if match is not None:
            file = match.groupdict().get("file") or file or "<unknown>"
            found[-1] = f'  File "{file}", line {match["line"]}, in {match["function"]}'
    return found


def _box_frame(text: str) -> re.Match[str] | None:
    return next((match for form in _BOX_FRAME if (match := form.match(text))), None)


def _of_notebook(lines: Sequence[str]) -> list[str]:
    found: list[str] = []
    raised = ""
    frame: tuple[int, str, str] | None = None  # of the older form: the arrow has the line's number
    for line in lines:
        begins = NOTEBOOK_BEGIN.match(line)
        if begins is not None:
            raised, frame = begins[1], None
            found.append(HEADER)
            continue
        if not raised:
            found.append(line)
            continue
        if re.match(rf"(?:[\w.]*\.)?{re.escape(raised)}(?::|$)", line):
            raised = ""
            found.append(line)
            continue
        match = next((match for form in _NOTEBOOK_FRAME if (match := form.match(line))), None)
        found.append(_FILLER)
        if match is not None:
            about = match.groupdict()
            function = about.get("function") or "<module>"
            if about.get("line"):
                found[-1] = f'  File "{about["file"]}", line {about["line"]}, in {function}'
            else:
                frame = (len(found) - 1, str(about["file"]), function)
        elif frame is not None and (arrow := _ARROW.match(line)):
            found[frame[0]] = f'  File "{frame[1]}", line {arrow[1]}, in {frame[2]}'
            frame = None
    if raised and found[-1] == _FILLER:
        found[-1] = f"{raised}: {CUT_OFF}"  # its heading has its name
    return found
