"""What passes the gate of events is clean, whoever made it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import given

from livedbg.model import LogRecord, LogSource, Process, Thread
from livedbg.model import events as ev
from livedbg.model.gate import gated, gated_line
from livedbg.recording.file import RecordingReader
from livedbg.recording.recorder import Recorder
from livedbg.report.build import build
from livedbg.report.text import to_text
from livedbg.session.replay import last_update
from livedbg.text.json_text import json_bytes
from livedbg.text.sanitize import is_clean
from tests.app.hostile_strings import HOSTILE
from tests.state.strategies import streams

STAMP: ev.Stamp = {"host": "box", "mono_ns": 1, "wall_ns": 2}
NAME = b"/logs/a\xff\x1b]0;title\x07.log".decode("utf-8", "surrogateescape")


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in _strings(part)]
    if isinstance(value, (list, tuple)):
        return [text for part in value for text in _strings(part)]
    return []


def _hostile_events() -> list[ev.Event]:
    return [
        event
        for number, text in enumerate(HOSTILE)
        for event in (
            ev.ProcessSeen(
                process=Process(id=f"process:box/{number}", host="box", pid=1 << 70, command=(text,)), **STAMP
            ),
            ev.ThreadsSeen(
                threads=(Thread(id=f"thread:box/{number}/1{text}", process="process:box/1", tid=1, name=text),), **STAMP
            ),
            ev.LogSourceSeen(source=LogSource(id=f"log:{text}", name=text, path=f"/{text}"), **STAMP),
            ev.LogsSeen(records=(LogRecord(source=f"log:{text}", text=text),), **STAMP),
        )
    ]


@pytest.mark.invariant("gate.G1")
def test_G1_each_string_of_an_event_is_clean_but_the_path_by_which_a_log_is_opened() -> None:
    for before, event in zip(_hostile_events(), gated(_hostile_events()), strict=True):
        assert type(event) is type(before)
        plain = msgspec.to_builtins(event)
        if isinstance(event, ev.LogSourceSeen) and isinstance(before, ev.LogSourceSeen):
            assert event.source.path == before.source.path
            del plain["source"]["path"]
        assert all(is_clean(text) for text in _strings(plain))
        msgspec.json.encode(plain)


@given(stream=streams)
@pytest.mark.invariant("gate.G2")
def test_G2_clean_events_pass_as_they_are(stream: list[ev.Event]) -> None:
    once = gated(stream)
    assert all(after is before for before, after in zip(once, gated(once), strict=True))
    assert [gated_line(ev.encode(event)) for event in once] == once


def test_two_names_that_are_not_utf8_stay_two() -> None:
    first, second = (
        ev.LogSourceSeen(source=LogSource(id=f"log:a{end}", name=f"a{end}"), **STAMP) for end in "\udcfe\udcff"
    )
    one, other = gated([first, second])
    assert isinstance(one, ev.LogSourceSeen) and isinstance(other, ev.LogSourceSeen)
    assert one.source.id == "log:a\\xfe" and other.source.name == "a\\xff"


def test_a_session_with_names_that_are_not_utf8_is_recorded_and_replayed(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r", "box", NAME)
    recorder([ev.LogSourceSeen(source=LogSource(id=f"log:{NAME}", name=NAME, path=NAME), **STAMP)])
    recorder.close()
    assert not recorder.failed
    reader = RecordingReader(tmp_path / "r")
    (event,) = reader.events()
    reader.close()
    assert isinstance(event, ev.LogSourceSeen)
    assert event.source.path == "/logs/a\\xff.log" and reader.header.title == event.source.path


@pytest.mark.invariant("gate.G1")
def test_G1_a_recording_made_by_hand_sends_nothing_to_the_terminal(tmp_path: Path) -> None:
    header = {
        "format": "livedbg.recording",
        "schema": 1,
        "livedbg": "1",
        "host": "b",
        "title": "\x1b]0;x\x07t",
        "started_wall_ns": 1,
    }
    bad = [
        b'{"ev":"tick","host":"\xff","mono_ns":1,"wall_ns":1}',
        b"[" * 50_000,
        b'{"ev":"tick","host":"h","mono_ns":' + b"9" * 5000 + b"}",
    ]
    lines = [msgspec.json.encode(header), *bad]
    for event in _hostile_events():
        try:
            lines.append(msgspec.json.encode(event))
        except (UnicodeEncodeError, OverflowError):
            lines.append(ev.encode(event))
    (tmp_path / "r").write_bytes(zstandard.compress(b"\n".join(lines) + b"\n"))
    update, said = last_update(tmp_path / "r")
    assert "3 events are of a kind" in said
    report = build(update)
    assert is_clean(to_text(report)) and is_clean(json_bytes(report).decode())
    reader = RecordingReader(tmp_path / "r")
    assert reader.header.title == "t"
    assert all(is_clean(text) for event in reader.events() for text in _strings(msgspec.to_builtins(event)))
    reader.close()
