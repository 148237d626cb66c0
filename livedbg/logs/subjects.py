"""Messages of Python that have no subject: `list index out of range` does not say which list.

The line of source that raised it does.

Invariants:
    subjects.S1. A line that raises an exception by hand, or of an accessor (`__getitem__`), does not tell what the
        message is about: the line of the place that is named does. None does that goes on in the next line, or calls
        something without arguments.
    subjects.S2. A message that says what it is about is told without source.
"""

from __future__ import annotations

from typing import Final

from livedbg.logs.passed_on import source_of
from livedbg.logs.tracebacks import is_whole
from livedbg.model import Frame
from livedbg.text.patterns import lazy_re
from livedbg.text.shortening import shortened

_LONGEST: Final = 90
_BUILTIN: Final = "(?:NoneType|str|list|tuple|dict|set|int|float|bool|bytes|function|method|generator|module|type)"
_BARE: Final = lazy_re(
    r"(?:KeyError: (?:[^\s:]{1,200}(?: [^\s:]{1,40}){0,2}|\([^\n]{1,80}\)|<[^\n]{1,80}>)"
    r"|ValueError: (?:too many|not enough) values to unpack\b.{0,60}"
    r"|ValueError: (?:(?:max|min)\(\) (?:arg is an|iterable argument is) empty(?: sequence)?"
    r"|list\.remove\(x\): x not in list|substring not found|math domain error|tuple\.index\(x\): x not in tuple)"
    r"|IndexError: (?:[a-z ]{1,30} index out of range|pop from [a-z ]{1,20}"
    r"|index -?\d{1,12} is out of bounds for .{1,60})"
    rf"|(?:TypeError|AttributeError): (?:'{_BUILTIN}' object .{{1,80}}|object of type '{_BUILTIN}' has no .{{1,20}}"
    rf"|argument of type '{_BUILTIN}' is not .{{1,30}}|cannot unpack non-iterable \w{{1,40}} object"
    r"|unsupported operand type\(s\) for .{1,80}|'\S{1,4}' not supported between .{1,80}|unhashable type: .{1,40}"
    r"|(?:list|tuple|string) indices must be .{1,40})"
    r"|ZeroDivisionError: .{1,40}|(?:StopIteration|NotImplementedError|KeyError|IndexError))$"
)
_ACCESSOR: Final = lazy_re(r"__(?:get(?:item|attr|attribute)|delitem|missing|next|len|iter|contains)__$")
_TELLS_NOTHING: Final = lazy_re(r"raise\b|(?:return )?[\w.]{1,80}\(\)$")


def is_bare(exception: str) -> bool:
    """Return whether an exception, `KeyError: 'flow'`, does not say what it is about (S2)."""
    return _BARE.match(exception) is not None


def asked_for(raised: Frame, place: Frame) -> str:
    """Return the line of source that such an exception is about (S1), or "".

    Args:
        raised: the frame that raised it.
        place: the frame that is named as the place.
    """
    tells = not source_of(raised).startswith("raise") and _ACCESSOR.match(raised.function) is None
    line = source_of(raised if tells else place)
    whole = line and is_whole(line) and _TELLS_NOTHING.match(line) is None
    return shortened(line, _LONGEST) if whole else ""
