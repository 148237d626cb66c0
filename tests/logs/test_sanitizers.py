"""Reports of sanitizers, as gcc's and clang's wrote them for real programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedbg.analysis import VerdictState
from livedbg.logs.clock import SourceClock
from livedbg.logs.lines import LineCutter
from livedbg.logs.records import RecordAssembler
from livedbg.logs.sanitizers import ENDED, WARNED, SanitizerReport, own_frames, place_of, sanitizer_report
from livedbg.model import Frame, LogRecord
from livedbg.model.events import Stamper
from livedbg.session.filereaders import known_log_formats
from livedbg.session.rulebook import diagnostician
from livedbg.signatures.crashes import CrashDecoder
from livedbg.state.store import Store

FIXTURES = Path(__file__).parent.parent / "fixtures" / "sanitizers"


def records(data: bytes) -> list[LogRecord]:
    assembler, cutter = RecordAssembler("log:box/x", SourceClock(), known_log_formats()), LineCutter()
    return [*assembler.feed(cutter.feed(data)), *assembler.feed(cutter.flush()), *assembler.flush()]


def reports(data: bytes) -> list[SanitizerReport]:
    """The reports of a log, each from a record that the decoder asks for."""
    found = []
    for record in records(data):
        report = sanitizer_report(record.text.split("\n"))
        if report is not None:
            assert any(word in record.text.encode() for word in CrashDecoder().triggers)
            found.append(report)
    return found


def places(report: SanitizerReport) -> list[str]:
    return [f"{frame.function} {frame.line}" for frame in own_frames(report.stack)]


@pytest.mark.parametrize(
    ("name", "kind", "what", "message", "where"),
    [
        (
            "gcc_use_after_free",
            ENDED,
            "AddressSanitizer: heap-use-after-free",
            "READ of size 4; 4 bytes inside of 16-byte region; freed in uaf at a.cpp:12; allocated in made at a.cpp:11",
            ["Step::use() 10", "uaf 12", "main 24"],
        ),
        (
            "gcc_memcpy",
            ENDED,
            "AddressSanitizer: heap-buffer-overflow",
            "READ of size 12; 0 bytes to the right of 8-byte region; allocated in memc at a.cpp:14",
            ["memc 14", "main 24"],
        ),
        (
            "gcc_double_free",
            ENDED,
            "AddressSanitizer: double-free",
            "0 bytes inside of 12-byte region; freed in dfree at a.cpp:15; allocated in made at a.cpp:11",
            ["dfree 15", "main 24"],
        ),
        (
            "clang_segv",
            ENDED,
            "AddressSanitizer: SEGV",
            "WRITE of an address near 0",
            ["null() 16", "main 25"],
        ),
        ("gcc_leak", WARNED, "LeakSanitizer: memory leaks", "308 bytes", ["made 11"]),
        (
            "gcc_race",
            WARNED,
            "ThreadSanitizer: data race",
            "a read of 4 bytes by thread T2 races with a write of 4 bytes in operator() at a.cpp:19 by thread T1; "
            "global 'race_' of size 4",
            ["operator() 19"],
        ),
        (
            "clang_race",
            WARNED,
            "ThreadSanitizer: data race",
            "a write of 4 bytes by thread T1 races with a write of 4 bytes in race()::$_1::operator()() const at "
            "a.cpp:19 by thread T2; global 'race_' of size 4",
            ["race()::$_0::operator()() const 19"],
        ),
    ],
)
@pytest.mark.invariant("sanitizers.S1", "sanitizers.S2")
def test_what_was_wrong_and_where(name: str, kind: str, what: str, message: str, where: list[str]) -> None:
    (report,) = reports((FIXTURES / f"{name}.txt").read_bytes())
    assert (report.kind, report.type, report.message) == (kind, what, message)
    assert places(report) == where


_RACE = """WARNING: ThreadSanitizer: data race (pid=412)
  Write of size 8 at 0x7b1800000020 by thread T3 (mutexes: write M4):
    #0 free ../../../../src/libsanitizer/tsan/tsan_interceptors_posix.cpp:706 (libtsan.so.2+0x4a3fe)
    #1 pump_free lib/heap.c:130 (libpump.so.0+0x3f5b99)
    #2 drain lib/tank.c:378 (libpump.so.0+0x348eff)

  Previous atomic read of size 1 at 0x7b1800000020 by main thread:
    #0 lid_is_open <null> (libpump.so.0+0x29caf1)
    #1 watch lib/watch.c:49 (libpump.so.0+0x347435)
"""


@pytest.mark.invariant("sanitizers.S3", "sanitizers.S4")
def test_of_a_race_both_accesses_are_told_and_what_frees_for_others_is_no_place() -> None:
    (report,) = reports(_RACE.encode())
    assert place_of(report.stack) == "drain at tank.c:378"
    assert report.message == "a free by thread T3 races with an atomic read of 1 byte in lid_is_open by the main thread"
    alone = _RACE.replace("lib/tank.c:378", "lib/heap.c:378")  # the same file: it may be the program's own
    assert place_of(reports(alone.encode())[0].stack) == "pump_free at heap.c:130"
    made = _RACE.replace("pump_free", "tank_delete")
    assert place_of(reports(made.encode())[0].stack) == "tank_delete at heap.c:130"
    unknown = _RACE.replace("    #0 lid_is_open", "    [failed to restore the stack]\n\n    #0 lid_is_open")
    assert reports(unknown.encode())[0].message.endswith("an atomic read of 1 byte by the main thread")


def test_undefined_behaviour_has_its_line_and_with_a_stack_its_function() -> None:
    overflow, shift = reports((FIXTURES / "clang_undefined.txt").read_bytes())
    assert overflow == SanitizerReport(
        WARNED,
        "UndefinedBehaviorSanitizer: signed integer overflow",
        "2147483647 + 2 cannot be represented in type 'int'",
        (Frame("a.cpp:20"),),
    )
    assert shift.type == "UndefinedBehaviorSanitizer: shift exponent 42 is too large for 32-bit type 'int'"
    stacked = reports((FIXTURES / "gcc_undefined_stack.txt").read_bytes())
    assert [places(report) for report in stacked] == [["ub 20", "main 25"]] * 2


def test_a_report_that_is_cut_gives_what_it_holds() -> None:
    whole = (FIXTURES / "gcc_use_after_free.txt").read_bytes()
    for size in range(whole.index(b" at pc"), len(whole), 37):
        (report,) = reports(whole[:size])
        assert report.type == "AddressSanitizer: heap-use-after-free"
        assert (report.kind == WARNED) is (b"\nSUMMARY: " in whole[:size])  # with halt_on_error=0 it goes on then


def test_what_stands_around_a_report_is_no_part_of_it() -> None:
    whole = (FIXTURES / "gcc_use_after_free.txt").read_bytes()
    after = b'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: x\n'
    texts = [record.text for record in records(whole + after + whole.replace(b"Running", b"Next"))]
    assert [text.split("\n")[0][:15] for text in texts if "Sanitizer: " in text or "Traceback" in text][
        1
    ] == after.decode()[:15]
    assert len(reports(whole + after + whole)) == 2


def test_what_only_looks_like_one_is_none() -> None:
    harmless = (
        b"we build with AddressSanitizer: it costs twice the time\n"
        b"panic: runtime error: index out of range [5] with length 3\n"
        b"ASAN_OPTIONS=x AddressSanitizer: on\n"
    )
    assert reports(harmless) == []


def test_long_and_odd_lines_take_linear_time() -> None:
    for line in (
        b"==1==ERROR: AddressSanitizer: " + b" /" * 2_000_000,
        b"==1==ERROR: AddressSanitizer: x on 0x1\n    #0 0x1 in " + b" /a:" * 1_000_000,
        b"a" * 3_000_000 + b": runtime error: " + b"9" * 3_000_000,
    ):
        assert len(reports(line)) <= 1


@pytest.mark.parametrize(
    ("name", "state", "sentence"),
    [
        (
            "gcc_use_after_free",
            VerdictState.CRASHED,
            "Crashed: AddressSanitizer: heap-use-after-free, in Step::use() at a.cpp:10: READ of size 4; 4 bytes",
        ),
        (
            "gcc_race",
            None,
            "ThreadSanitizer: data race, in operator() at a.cpp:19: a read of 4 bytes by thread T2 races with ",
        ),
    ],
)
def test_a_finding_says_what_and_where(name: str, state: VerdictState | None, sentence: str) -> None:
    decoder, store, stamp = CrashDecoder(), Store(), Stamper("box")
    for record in records((FIXTURES / f"{name}.txt").read_bytes()):
        store.apply_all(decoder.feed(record, stamp())[0])
    (finding,) = [
        found for found in diagnostician().diagnose(store.snapshot()).findings.values() if found.rule == "crash"
    ]
    assert (finding.state, finding.sentence[: len(sentence)]) == (state, sentence)


INTERRUPTED = (
    b"==41==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x508000004268 at pc 0x561d bp 0x7fd9 sp 0x7fd8\n"
    b"READ of size 4 at 0x508000004268 thread T7\n"
    b"2026-03-04 10:00:00,250 INFO plant: level 3\n2026-03-04 10:00:00,310 INFO plant: level 4\n%s"
    b"    #0 0x561d4294d2b1 in Pump::drain() /w/pump.cpp:10:13\n    #1 0x561d429448c4 in main /w/main.cpp:9:3\n"
)


@pytest.mark.invariant("records.R1")
def test_lines_of_other_threads_within_a_report() -> None:
    report, *others = sorted(records(INTERRUPTED % b""), key=lambda one: one.offset or 0)
    assert [one.text.count("\n") for one in (report, *others)] == [3, 0, 0]
    assert report.lines == (1, 2, 5, 6)
    assert [one.line for one in (report, *others)] == [1, 3, 4]
    assert places(*reports(INTERRUPTED % b"")) == ["Pump::drain() 10", "main 9"]


def test_a_report_waits_for_its_frames_only_so_long() -> None:
    head, _, frames = INTERRUPTED.partition(b"%s")
    logged = b"".join(b"2026-03-04 10:00:%02d,000 INFO plant: level 5\n" % second for second in range(1, 50))
    assembler, cutter = RecordAssembler("log:box/x", SourceClock(), known_log_formats()), LineCutter()
    texts = [one.text for one in assembler.feed(cutter.feed(head + logged))]
    assert any(text.startswith("==41==ERROR") for text in texts)
    assert places(*reports(head + logged + frames)) == []


def test_a_report_that_has_ended_waits_for_nothing() -> None:
    ended = INTERRUPTED.partition(b"2026")[0] + b"SUMMARY: AddressSanitizer: heap-buffer-overflow /w/pump.cpp:10:13\n"
    assembler, cutter = RecordAssembler("log:box/x", SourceClock(), known_log_formats()), LineCutter()
    logged = b"".join(b"2026-03-04 10:00:%02d,000 INFO plant: level 5\n" % second for second in range(1, 20))
    texts = [one.text for one in assembler.feed(cutter.feed(ended + logged))]
    assert any(text.startswith("==41==ERROR") for text in texts)
