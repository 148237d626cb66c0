"""Recordings on disk: the invariants of livedbg.recording.file, on whole, cut, damaged and foreign files."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from livedbg.model import LogRecord
from livedbg.model import events as ev
from livedbg.model.errors import RecordingError
from livedbg.model.gate import gated
from livedbg.model.launches import TRACED
from livedbg.recording.file import MAGIC, Header, RecordingReader, is_recording
from livedbg.recording.recorder import Recorder
from livedbg.state.store import Store
from tests.state.strategies import streams
from tests.state.test_store import plain

passed = streams.map(gated)
"""Streams as a session gives them to its recorder (livedbg.model.gate)."""


def written(path: Path, events: list[ev.Event], chunk: int = 3, *, close: bool = True) -> Recorder:
    recorder = Recorder(path, "box", "a title", replace=True)
    for begin in range(0, len(events), chunk):
        recorder(events[begin : begin + chunk])
    if close:
        recorder.close()
    return recorder


def read(path: Path) -> tuple[list[ev.Event], str]:
    reader = RecordingReader(path)
    try:
        return list(reader.events()), reader.incomplete
    finally:
        reader.close()


def ticks(count: int) -> list[ev.Event]:
    return [
        ev.LogsSeen(
            records=(LogRecord(source="log:box/x", text=f"line {n} " + "x" * 50, line=n),),
            host="box",
            mono_ns=n * 10**8,
            wall_ns=10**18 + n * 10**8,
        )
        for n in range(count)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recordings")


@given(stream=passed, chunk=st.integers(1, 9))
def test_a_recording_gives_the_state_that_the_session_had(folder: Path, stream: list[ev.Event], chunk: int) -> None:
    path = folder / "whole"
    written(path, stream, chunk)
    events, wrong = read(path)
    assert events == stream and wrong == ""
    live, replayed = Store(), Store()
    live.apply_all(stream)
    replayed.apply_all(events)
    assert plain(replayed.snapshot()) == plain(live.snapshot())


@pytest.mark.invariant("recorder.C1")
def test_C1_what_was_flushed_can_be_read_while_the_writer_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livedbg.recording.recorder._FLUSH_S", 0.0)
    monkeypatch.setattr("livedbg.recording.recorder._FRAME_S", 1e9)
    path, events = tmp_path / "growing", ticks(300)
    recorder = written(path, events[:100], close=False)
    reader = RecordingReader(path)
    assert list(reader.events()) == events[:100] and "no end" in reader.incomplete
    assert list(reader.events()) == []
    recorder(events[100:])
    assert list(reader.events()) == events[100:]
    recorder.close()
    assert list(reader.events()) == [] and reader.incomplete == ""
    reader.close()


@given(stream=passed, share=st.floats(0, 1))
@pytest.mark.invariant("recording.R2")
def test_R2_a_cut_recording_gives_a_beginning_and_says_so(folder: Path, stream: list[ev.Event], share: float) -> None:
    path = folder / "cut"
    written(path, stream)
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    try:
        events, _ = read(path)
    except RecordingError as error:
        assert error.code == "not-a-recording" and error.remedy
    else:
        assert events == stream[: len(events)]


@pytest.mark.invariant("recording.R2")
def test_R2_a_cut_between_two_flushes_says_that_it_ends_in_an_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livedbg.recording.recorder._FLUSH_S", 0.0)
    monkeypatch.setattr("livedbg.recording.recorder._FRAME_S", 1e9)
    path, events = tmp_path / "cut", ticks(50)
    written(path, events, 1, close=False)
    sizes = {}
    data = path.read_bytes()
    for cut in range(len(data) - 400, len(data)):
        path.write_bytes(data[:cut])
        got, wrong = read(path)
        assert got == events[: len(got)]
        sizes[len(got)] = wrong
    assert len(sizes) > 3 and max(sizes) <= 50
    zipped = zstandard.ZstdCompressor().compress(
        b"\n".join([msgspec.json.encode(header()), *map(ev.encode, events)])[:-5]
    )
    path.write_bytes(zipped)
    got, wrong = read(path)
    assert got == events[:-1] and "ends in the middle of an event" in wrong


@pytest.mark.parametrize("at", [0.3, 0.6, 0.9])
@pytest.mark.invariant("recording.R2")
def test_R2_damage_ends_it_and_is_said(tmp_path: Path, at: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("livedbg.recording.recorder._FLUSH_S", 0.0)
    monkeypatch.setattr("livedbg.recording.recorder._FRAME_S", 0.0)
    path, events = tmp_path / "damaged", ticks(2000)
    written(path, events, 50)
    data = bytearray(path.read_bytes())
    place = int(len(data) * at)
    data[place : place + 40] = b"\xff" * 40
    path.write_bytes(data)
    got, wrong = read(path)
    assert 2000 * (at - 0.2) < len(got) < 2000 and got == events[: len(got)]
    assert "damaged" in wrong


def header(schema: int = ev.SCHEMA_VERSION, magic: str = MAGIC) -> Header:
    return Header(magic, schema, "0.0.1", "box", "t", 0)


@pytest.mark.invariant("recording.R3")
def test_R3_unknown_events_are_skipped_and_counted(tmp_path: Path) -> None:
    path, events = tmp_path / "newer", ticks(3)
    lines = [msgspec.json.encode(header()), ev.encode(events[0]), b'{"type":"of-the-future","x":1}', b"[1]"]
    lines += [ev.encode(events[1]), b"not json", ev.encode(events[2]), b""]
    path.write_bytes(zstandard.ZstdCompressor().compress(b"\n".join(lines)))
    got, wrong = read(path)
    assert got == events and wrong == "3 events are of a kind that this version does not know, and skipped."


@pytest.mark.invariant("recording.R3")
def test_R3_another_schema_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(zstandard.ZstdCompressor().compress(msgspec.json.encode(header(schema=99)) + b"\n"))
    with pytest.raises(RecordingError, match="event schema 99") as caught:
        RecordingReader(path)
    assert "pip install livedbg==0.0.1" in caught.value.remedy


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x28\xb5",
        b"plain text\n",
        b"\x00" * 5000,
        zstandard.ZstdCompressor().compress(b""),
        zstandard.ZstdCompressor().compress(b"hello\n"),
        zstandard.ZstdCompressor().compress(b'{"format":"x"}\n'),
        zstandard.ZstdCompressor().compress(b'{"format":"livedbg.recording"}\n'),
        zstandard.ZstdCompressor().compress(b"[1]\n"),
    ],
)
def test_what_is_no_recording_is_refused_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match="not a livedbg recording") as caught:
        RecordingReader(path)
    assert "livedbg record" in caught.value.remedy
    assert is_recording(path) == content.startswith(b"\x28\xb5\x2f\xfd")


@pytest.mark.parametrize("make", [lambda p: p / "gone", lambda p: p], ids=["missing", "a folder"])
def test_what_cannot_be_read_says_why(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    with pytest.raises(RecordingError, match="can't be read"):
        RecordingReader(make(tmp_path))
    assert not is_recording(make(tmp_path))


@pytest.mark.invariant("recording.R4")
def test_R4_a_line_without_an_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("livedbg.recording.file._LONGEST_LINE", 1 << 20)
    path = tmp_path / "bomb"
    start = msgspec.json.encode(header()) + b"\n" + ev.encode(ticks(1)[0]) + b"\n"
    path.write_bytes(zstandard.ZstdCompressor().compress(start + b"a" * (64 << 20)))
    got, wrong = read(path)
    assert got == ticks(1) and "a line without an end" in wrong


def test_a_recording_is_not_overwritten_unless_asked(tmp_path: Path) -> None:
    path = tmp_path / "there"
    path.write_text("mine")
    with pytest.raises(RecordingError, match="already exists") as caught:
        Recorder(path, "box", "t")
    assert "--force" in caught.value.remedy and path.read_text() == "mine"
    with pytest.raises(RecordingError, match="can't be written"):
        Recorder(tmp_path / "no" / "such", "box", "t")


def test_a_full_disk_ends_the_recording_and_not_the_session() -> None:
    recorder = Recorder(Path("/dev/full"), "box", "t", replace=True)
    assert recorder.failed == f"the recording ended: {__import__('os').strerror(errno.ENOSPC)}"
    recorder(ticks(10))
    recorder.close()
    recorder(ticks(1))  # after the end: nothing happens


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[ev.Event]]:
    """A short recording of several frames, and its events."""
    path, events = tmp_path_factory.mktemp("small") / "whole", ticks(12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("livedbg.recording.recorder._FLUSH_S", 0.0)
        patch.setattr("livedbg.recording.recorder._FRAME_S", 0.0)
        written(path, events, 3)
    return path.read_bytes(), events


@pytest.mark.invariant("recording.R2")
def test_R2_a_cut_at_every_byte(tmp_path: Path, small: tuple[bytes, list[ev.Event]]) -> None:
    data, events = small
    path, most, whole = tmp_path / "cut", 0, 0
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        try:
            got, wrong = read(path)
        except RecordingError as error:
            assert error.code == "not-a-recording" and error.remedy and most == whole == 0
            continue
        assert got == events[: len(got)] and len(got) >= most
        most = len(got)
        whole += not wrong  # at the end of a frame nothing is missing that could be known
    assert most == len(events) and whole <= 1 + len(events) // 3


@pytest.mark.invariant("recording.R2")
def test_R2_a_flipped_bit_at_every_byte(tmp_path: Path, small: tuple[bytes, list[ev.Event]]) -> None:
    data, events = small
    path = tmp_path / "flipped"
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        try:
            got, wrong = read(path)
        except RecordingError as error:
            assert error.code in {"not-a-recording", "schema"} and error.remedy
            continue
        assert got == events[: len(got)]
        assert wrong or got == events


@pytest.mark.invariant("recording.R3")
def test_R3_a_recording_of_another_version_of_livedbg_and_the_same_schema_is_read(tmp_path: Path) -> None:
    path = tmp_path / "other-version"
    start = {**msgspec.to_builtins(header()), "livedbg": "99.0", "of-the-future": [1]}
    lines = [msgspec.json.encode(start), *map(ev.encode, ticks(2)), b""]
    path.write_bytes(zstandard.ZstdCompressor().compress(b"\n".join(lines)))
    assert read(path) == (ticks(2), "")


@given(stream=passed, sizes=st.lists(st.integers(1, 200), min_size=1, max_size=8))
@pytest.mark.invariant("recorder.C1")
def test_C1_a_reader_behind_a_writer_sees_each_event_once(
    folder: Path, stream: list[ev.Event], sizes: list[int]
) -> None:
    whole, growing = folder / "source", folder / "growing"
    written(whole, stream)
    data = whole.read_bytes()
    head = data.index(b"\x28\xb5\x2f\xfd", 4)  # the header's frame stands: without it there is nothing to open
    growing.write_bytes(data[:head])
    reader = RecordingReader(growing)
    seen: list[ev.Event] = []
    with growing.open("ab", buffering=0) as end:
        turn = 0
        while head < len(data):
            size = sizes[turn % len(sizes)]
            end.write(data[head : head + size])
            head, turn = head + size, turn + 1
            seen += reader.events()
    assert seen == stream and reader.incomplete == ""
    reader.close()


OLD_NAMES = (
    b'{"ev":"stacks","host":"box","mono_ns":1,"wall_ns":1,"stacks":[{"thread":"thread:box/1/1","frames":[],'
    b'"taken_mono_ns":1,"source":"zero"},{"thread":"thread:box/1/2","frames":[],"taken_mono_ns":1,"source":"py-spy"}]}\n'
    b'{"ev":"counter","host":"box","mono_ns":1,"wall_ns":1,"entity":"process:box/1",'
    b'"name":"launches heard","value":1}\n'
    b'{"ev":"catchpoint","host":"box","mono_ns":1,"wall_ns":1,"catchpoint":{"id":"C1","process":"process:box/1",'
    b'"pattern":"any","engine":"listen","standing":"thread:box/1/2"}}\n'
    b'{"ev":"diagnostic","host":"box","mono_ns":1,"wall_ns":1,"diagnostic":{"id":"d","system":"toy","code":"bad",'
    b'"severity":"error","sentence":"Bad.","attributes":{"resolved":"yes","state":"x"},"evidence":[{"kind":"log","source":"a:b.log:214","text":"E"},'
    b'{"kind":"log","source":"b.log","text":"E"},{"kind":"memory","source":"futex 0x7f:12","text":"E"},'
    b'{"kind":"log","source":"c.log:11111111111111111111","text":"E"}]}}\n'
)


@pytest.mark.invariant("recording.O1")
def test_O1_names_of_old_recordings_are_read_as_todays(tmp_path: Path) -> None:
    written(tmp_path / "a", [])
    with (tmp_path / "a").open("ab") as file:
        file.write(zstandard.compress(OLD_NAMES))
    (stacks, counter, catchpoint, said), wrong = read(tmp_path / "a")
    assert isinstance(stacks, ev.StacksSeen) and [s.source for s in stacks.stacks] == ["no stop", "py-spy"]
    assert isinstance(counter, ev.CounterSeen) and counter.name == TRACED
    assert isinstance(catchpoint, ev.CatchpointSeen) and catchpoint.catchpoint.engine == "probes"
    assert catchpoint.catchpoint.stopped_thread == "thread:box/1/2"
    assert b'"standing":"thread:box/1/2"' in ev.encode(catchpoint)  # older versions read it too
    assert isinstance(said, ev.DiagnosticSeen)
    assert (said.diagnostic.resolved, said.diagnostic.late, said.diagnostic.attributes) == (True, False, {"state": "x"})
    assert [(proof.file, proof.line, proof.place) for proof in said.diagnostic.evidence] == [
        ("a:b.log", 214, "a:b.log:214"),
        ("", None, "b.log"),
        ("", None, "futex 0x7f:12"),
        ("", None, "c.log:11111111111111111111"),  # no number of a line
    ]
    assert wrong == ""


def test_a_recording_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Recorder(tmp_path / "r", "box", "t").close()
    finally:
        os.umask(before)
    assert (tmp_path / "r").stat().st_mode & 0o777 == 0o600
