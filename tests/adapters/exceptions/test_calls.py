"""What is believed of what was read at a call, and what is kept of it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence

import pytest

from livedbg.adapters.exceptions.breakpoint_tracer import BreakpointTracer, _Part
from livedbg.adapters.exceptions.calls import ARGUMENTS, Call, CallReader, TracedCall
from livedbg.adapters.exceptions.stacks import _PLACES, _PROCESSES, CallStacks
from livedbg.model import Frame
from livedbg.model.catchpoints import Moment
from livedbg.probes.perf_records import Sample
from livedbg.probes.places import Found, Place
from livedbg.probes.tracefs import Field

TEXT = ctypes.create_string_buffer(b"disk full on shelf 7 of the second store")
ADDRESS = ctypes.addressof(TEXT)


def sample(tid: int = 7, pid: int = 7, number: int = 0, type_info: int = 0x1000) -> Sample:
    registers = [0] * 21
    registers[13] = type_info
    return Sample(0, pid, tid, number, b"", tuple(registers), b"")


def message(names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, **read: int | bytes) -> Call:
    """The call of an exception of these types, of which that was read."""
    reader = CallReader(Moment.THROW)
    monkeypatch.setattr(reader, "names", lambda _pid, _type_info: names)
    monkeypatch.setattr("livedbg.adapters.exceptions.calls.values", lambda _fields, _raw: read)
    return reader.call(sample(pid=os.getpid()), dict[str, Field](), "__cxa_throw")


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("std::runtime_error", "std::exception"), "full\N{SYMBOL FOR START OF HEADING}"),
        (("app::Full", "std::runtime_error", "std::exception"), "full\N{SYMBOL FOR START OF HEADING}"),
        (("app::Own", "std::exception"), ""),
        (("std::bad_alloc", "std::exception"), ""),
        (("app::NoException",), ""),
        (("int",), "-3"),
    ],
)
@pytest.mark.invariant("exceptions_calls.L1")
def test_L1_messages_are_of_known_layouts(names: tuple[str, ...], shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = {"type_info": 1, "message": b"full\x01\0", "value": 0xFFFF_FFFD}
    assert message(names, monkeypatch, **read).message == shown


@pytest.mark.invariant("exceptions_calls.L1")
def test_L1_of_other_types_what_is_there_must_be_text(monkeypatch: pytest.MonkeyPatch) -> None:
    own = ("app::Own", "std::exception")
    assert message(own, monkeypatch, type_info=1, message=b"out of tiles\0").message == "out of tiles"
    for data in (b"\x7f\x45\x4c\x46\0", b"ab\0", b"\x01\x02 text\0", b"\0"):
        assert message(own, monkeypatch, type_info=1, message=data).message == ""


@pytest.mark.invariant("exceptions_calls.L2")
def test_L2_what_is_longer_is_read_after_the_call_where_it_still_begins_so(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = ("std::runtime_error",)
    begun = TEXT.value[:16]
    whole = message(kind, monkeypatch, type_info=1, message=begun, message_at=ADDRESS)
    assert whole.message == TEXT.value.decode()
    again = message(kind, monkeypatch, type_info=1, message=b"another message.", message_at=ADDRESS)
    assert again.message == "another message."  # there is another text by now
    gone = message(kind, monkeypatch, type_info=1, message=begun, message_at=8)
    assert gone.message == begun.decode()
    for arguments in ARGUMENTS.values():
        assert all("message_p" not in one or one.endswith(":x64[32]") for one in arguments)


@pytest.mark.invariant("tracefs.F2")
def test_F2_without_a_type_its_name_is_an_earlier_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    read = {"type": b"St13runtime_error\0"}
    assert message((), monkeypatch, type_info=1, **read).names == ("std::runtime_error",)
    assert message((), monkeypatch, type_info=0, **read).names == ("__cxa_throw",)


class Events:
    """Samples that come one reading after the other."""

    def __init__(self, *readings: Sequence[Sample]) -> None:
        self.readings = list(readings)

    def read(self) -> list[Sample]:
        return list(self.readings.pop(0)) if self.readings else []

    def take_lost(self) -> int:
        return 0


def tracing(events: Events, monkeypatch: pytest.MonkeyPatch, text: str = "full", wanted: bool = True) -> list[Call]:
    """What a tracer by debug registers makes of them."""
    tracer = BreakpointTracer(
        os.getpid(),
        Moment.THROW,
        ("__cxa_throw",),
        wanted=lambda _: wanted,
        report=lambda _: None,
        follow=False,
    )
    tracer._calls = CallReader(Moment.THROW)
    monkeypatch.setattr(tracer._calls, "names", lambda _pid, type_info: NAMES.append(type_info) or ("app::Full",))
    monkeypatch.setattr(tracer, "_call", lambda one, _place: READ.append(one) or Call(("app::Full",), text))
    part = _Part(events, [Found("__cxa_throw", "/bin/x", 1, Place("/bin/x", 1))])  # type: ignore[arg-type]
    found: list[TracedCall] = []
    for _ in range(4):
        found += tracer._of(part)
    return [traced.call for traced in found]


NAMES: list[int] = []
READ: list[Sample] = []


@pytest.fixture(autouse=True)
def nothing_read() -> None:
    NAMES.clear()
    READ.clear()


@pytest.mark.invariant("breakpoint_tracer.R2")
def test_R2_a_message_that_may_be_of_a_later_exception_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    events = Events([sample(1, number=1), sample(1, number=2), sample(2, number=3)])
    assert [call.message for call in tracing(events, monkeypatch)] == ["", "full", "full"]
    later = Events([sample(1, number=1), sample(2, number=2)], [sample(1, number=3)])
    assert [call.message for call in tracing(later, monkeypatch)] == ["", "full", "full"]


@pytest.mark.parametrize("text", ["\u2401\u2402full", "fu\ufffdll", "full\u2421"])
@pytest.mark.invariant("breakpoint_tracer.R2")
def test_R2_what_is_left_of_a_freed_message_is_not_shown(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [call.message for call in tracing(Events([sample()]), monkeypatch, text)] == [""]


@pytest.mark.invariant("breakpoint_tracer.R3")
def test_R3_of_what_nobody_wants_the_type_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    events = Events([sample(number=1), sample(number=2), sample(number=3, type_info=0x2000)], [sample(number=4)])
    assert tracing(events, monkeypatch, wanted=False) == []
    assert (NAMES, READ) == ([0x1000, 0x2000], [])


@pytest.mark.invariant("exceptions_stacks.B1")
async def test_B1_what_is_kept_of_processes_and_places_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    stacks = CallStacks(os.getpid(), None, follow=True)

    async def unwound(_traced: TracedCall) -> tuple[tuple[Frame, ...], bool]:
        return (Frame(function="main"),), True

    monkeypatch.setattr(stacks, "_unwound", unwound)
    call = Call(("app::Full",), "")
    for number in range(_PLACES + 50):
        traced = TracedCall(sample(pid=1_000_000 + number), call)
        place = (number, stacks.kind_of(traced).words)
        assert await stacks.unwind(place, traced) is not None and stacks.known(place)
    assert (len(stacks._code), len(stacks._stacks)) == (_PROCESSES, _PLACES)
    assert not stacks.known((0, ())) and stacks.known((_PLACES + 49, ()))
    assert len(stacks._layouts._known) <= 256
