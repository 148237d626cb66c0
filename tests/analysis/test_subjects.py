"""Messages of Python without a subject, told with the line of source that raised them."""

from __future__ import annotations

import pytest

from livedbg.analysis.postmortem.exceptions import in_source
from livedbg.analysis.user_code import Framework, UserCode
from livedbg.model import ExceptionHit, Frame

PACKAGE = "/venv/lib/python3.12/site-packages/tank/t.py"
UNPACK = ("ValueError", "not enough values to unpack (expected 3, got 2)")


def frame(function: str, file: str, source: str) -> Frame:
    return Frame(function, file, 7, language="python", source=(source,), source_from=7)


def told(what: tuple[str, str], *stack: Frame) -> str:
    hit = ExceptionHit(id="e", catchpoint="log: traceback", type=what[0], message=what[1], stack=stack)
    code = UserCode([Framework(files=("/fw/",))])
    return in_source(hit, code.frame_of(stack), code).removeprefix(", in ").strip("`")


@pytest.mark.parametrize(
    "what",
    [
        UNPACK,
        ("KeyError", "'pump.0.weight'"),
        ("KeyError", "('pump', 4)"),
        ("KeyError", ""),
        ("IndexError", "list index out of range"),
        ("IndexError", "index 12 is out of bounds for axis 0 with size 12"),
        ("TypeError", "'NoneType' object is not subscriptable"),
        ("AttributeError", "'NoneType' object has no attribute 'flow'"),
        ("TypeError", "unsupported operand type(s) for +: 'int' and 'str'"),
        ("ZeroDivisionError", "float division by zero"),
    ],
)
@pytest.mark.parametrize("file", ["/w/plant.py", PACKAGE, "/fw/plan.py"])
def test_what_has_no_subject_is_told_by_the_line_that_raised_it(what: tuple[str, str], file: str) -> None:
    main = frame("<module>", "/w/train.py", "fill(x)")
    assert told(what, frame("fill", file, "a, b, c = x.shape"), main) == "a, b, c = x.shape"


@pytest.mark.invariant("subjects.S1")
@pytest.mark.parametrize(
    ("function", "source", "line"),
    [
        ("get", "raise KeyError(key) from err", "flow = table['flow']"),
        ("__getitem__", "return self._parts[key]", "flow = table['flow']"),
        ("get", "return self._parts[", ""),  # it goes on in the next line
        ("get", "return self.load()", ""),
        ("get", "return self._parts[key]", "return self._parts[key]"),
    ],
)
def test_a_line_that_only_hands_on_is_not_what_it_is_about(function: str, source: str, line: str) -> None:
    main = frame("<module>", "/w/train.py", "flow = table['flow']")
    assert told(("KeyError", "'flow'"), frame(function, PACKAGE, source), main) == line


@pytest.mark.invariant("subjects.S2")
@pytest.mark.parametrize(
    "what",
    [
        ("ValueError", "pump.weight has no device"),
        ("KeyError", "'no pump of that name: use one of a, b'"),
        ("AttributeError", "'Pump' object has no attribute 'flow'"),
        ("RuntimeError", "the pump is off"),
    ],
)
def test_a_message_with_a_subject_is_told_without_source(what: tuple[str, str]) -> None:
    assert told(what, frame("fill", "/w/plant.py", "a, b, c = x.shape")) == ""
