"""Frames of tracebacks that pass on what another one did: none is the place of a failure while another frame is there.

Such a frame raises an exception again that it was given, is a dispatcher of operators, a wrapper, a decorator, or a
comparison of a library for tests.

Invariants:
    passed_on.P1. A frame that raises an exception of its own while it handles another one is a place: only one that
        was given one, or makes one of the type of another, passes it on: a local name may be of one that it made.
    passed_on.P2. A frame that raises what a name holds (`raise e`), or what it handles (`raise`), passes on what an
        earlier traceback of the same error shows to have come through the same function: the deeper frames are of both.
    passed_on.P3. A function that is named for raising (`raise_or_warn`, `fail`) and raises an exception whose message
        is what a name holds was told what to say: its caller is the place. One that writes the message is a place.
    passed_on.P4. A frame that calls with all the arguments that it was given, and no others
        (`return fn(*args, **kwargs)`), wraps or dispatches what failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from livedbg.model import Frame
from livedbg.text.patterns import lazy_re

_PLACES: Final = lazy_re(
    r"/_ops\.py:__call__$|/_utils\.py:reraise$|/utils/_(?:contextlib|device)\.py:|/_dynamo/eval_frame\.py:"
    r"|/testing/(?:_internal/|_comparison\.py:)|/numpy/testing/|/pandas/(?:_testing/|util/testing\.py:)|/absl/testing/"
    r"|/unittest/(?:case|async_case|mock)\.py:|/jax/_src/(?:(?:public_)?test_util|traceback_util|api_boundary)\.py:"
    r"|/tensorflow/python/(?:framework/test_util|util/traceback_utils)\.py:"
    r"|:(?:[A-Z]{2,12}_CHECK|_?(?:check|raise)_(?:[a-z]{2,12}_)?(?:err|error|errors|status|result|return_?code))$"
)
"""File and function; of any file, functions that raise what a call returned."""
_AGAIN: Final = lazy_re(
    r"raise (?:type\(\w{1,40}\)\(|exc_info\[1\]|\w{1,40}\.with_traceback\("
    r"|(?:self|cls)\.(?:\w{0,20}_)?(?:exc|err|error|exception)(?: from \w{1,60})?$)"
    r"|(?:six\.)?reraise\("
)

_TOLD_BY: Final = lazy_re(
    r"_{0,2}(?:raise|throw|fail|die|abort|panic|bail)(?:_(?!over\b|back\b|fast\b)\w{1,60}|(?:[A-Z]|ed$|ure$)\w{0,60})?$"
)
_AS_TOLD: Final = lazy_re(
    r"raise (?:\w{1,40}\.){0,4}[A-Za-z_]\w{0,60}\((?:msg=|message=)?[a-z_]\w{0,40}\)"
    r"(?: from \w{1,40})?(?:\s{0,4}#.{0,200})?$"
)
_CHECKS: Final = lazy_re(r"_{0,2}(?:assert|ensure|require|expect|enforce)(?:_\w{1,60}|[A-Z]\w{0,60}|d|s)?$")
_AS_HANDED: Final = lazy_re(r"assert (?:bool\()?[a-z_]\w{0,40}\)?, ?(?:str\()?[a-z_]\w{0,40}\)?(?:\s{0,4}#.{0,200})?$")
_AS_CALLED: Final = lazy_re(
    r"(?:return |yield from |\w{1,40} = ){0,2}(?:await )?[\w.]{1,80}\(\*args, ?\*\*(?:kwargs|kwds|kw)\)"
    r"(?:\s{0,4}#.{0,200})?$"
)

_NAMED: Final = lazy_re(r"raise(?: [a-z_]\w{0,40})?(?: from None)?(?:\s{0,4}#.{0,200})?$")


def passes_on(frame: Frame) -> bool:
    """Return whether a frame only passes on what failed in another one (P1, P4), or what another one says (P3)."""
    if _PLACES.search(f"/{frame.file or ''}:{frame.function}") is not None:
        return True
    shown = source_of(frame)
    name = frame.function.rpartition(".")[2]
    told = _TOLD_BY.match(name) is not None and _AS_TOLD.match(shown) is not None
    handed = _CHECKS.match(name) is not None and _AS_HANDED.match(shown) is not None
    return told or handed or any(one.match(shown) is not None for one in (_AGAIN, _AS_CALLED))


def with_deeper(stack: Sequence[Frame], earlier: Sequence[Frame]) -> tuple[Frame, ...]:
    """Return the stack of an error with the frames, innermost first, that an earlier traceback of it adds (P2)."""
    if not stack or _NAMED.match(source_of(stack[0])) is None:
        return tuple(stack)
    last = stack[0]
    same = (n for n, one in enumerate(earlier) if n and (one.function, one.file) == (last.function, last.file))
    number = next(same, 0)
    return (*earlier[: number + 1], *stack[1:]) if number else tuple(stack)


def source_of(frame: Frame) -> str:
    """Return the line of source that a frame stands at, or ""."""
    return frame.source[0].strip() if frame.source and frame.source_from == (frame.line or 0) else ""
