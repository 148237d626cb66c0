# ruff: noqa: E501 (lines of real logs)
"""Logs that are entries over many lines, recordings of terminals, output of hosts by host; and look-alikes."""

from __future__ import annotations

import gzip
import io
import json
import random
from pathlib import Path

import pytest

from livedbg.logs.bytesource import HEAD, PackedBytes, Unpacked, is_packed, open_bytes
from livedbg.logs.paths import scan
from livedbg.logs.transcripts import document_depth, document_lines, transcript_of
from livedbg.model import LogRecord
from tests.logs.test_wrapping import TEXT, TRACEBACK, read
from tests.wild.wrappings import wrapped

WHOLE = ("gcloud", "events", "kaggle", "journal-pretty", "export", "cast", "dshbak")
BARE = [record.text for record in read(TEXT)]


def _read(data: bytes) -> list[LogRecord]:
    return read(b"".join(Unpacked(io.BytesIO(data))))


@pytest.mark.invariant("transcripts.J1")
@pytest.mark.parametrize("form", WHOLE)
def test_J1_a_text_is_read_alike_in_every_form(form: str) -> None:
    records = _read(wrapped(form, TEXT).encode())
    said = [record.text for record in records if record.text.strip("-") not in ("", "step 1", "node07", "node08")]
    if form == "dshbak":
        said = [line for text in said for line in [text.removesuffix("\n" + "-" * 16)]]
    assert said == BARE


def test_what_the_forms_say_becomes_fields() -> None:
    def first(form: str) -> LogRecord:
        return next(one for one in _read(wrapped(form, TEXT).encode()) if one.text.startswith("Traceback"))

    assert (first("export").host, first("export").pid) == ("node07", 4242)
    assert first("export").wall_ns == first("journal-pretty").wall_ns == 1_772_618_400_060_000_000
    assert first("dshbak").host == first("dshbak").writer == "node07"
    assert (first("kaggle").stream, first("kaggle").wall_ns) == ("stderr", None)
    assert first("gcloud").wall_ns == 1_772_618_400_060_000_000


def test_a_message_of_the_journal_may_hold_newlines_and_is_then_given_with_its_length() -> None:
    message = TRACEBACK.encode()
    entry = b"__CURSOR=s=1\n__REALTIME_TIMESTAMP=1772618400000000\n_PID=7\nMESSAGE\n"
    data = entry + len(message).to_bytes(8, "little") + message + b"\n_HOSTNAME=node07\n\n"
    (record,) = _read(data)
    assert (record.text, record.host, record.pid) == (TRACEBACK, "node07", 7)


def test_pieces_of_a_stream_are_put_together() -> None:
    pieces = [("stdout", "Epoch"), ("stderr", "Runtime"), ("stdout", " 1\nEpoch 2\n"), ("stderr", "Error: bad\n")]
    entries = [{"stream_name": name, "time": 1.5, "data": data} for name, data in pieces]
    assert sorted(one.text for one in _read(json.dumps(entries).encode())) == [
        "Epoch 1",
        "Epoch 2",
        "RuntimeError: bad",
    ]


def test_the_newest_entry_may_come_first() -> None:
    entries = [
        {"insertId": f"{n}", "timestamp": f"2026-03-04T10:00:{n:02}Z", "textPayload": f"line {n}"} for n in range(60)
    ]
    for order in (entries, entries[::-1]):
        assert [one.text for one in _read(json.dumps(order, indent=1).encode())] == [f"line {n}" for n in range(60)]


@pytest.mark.invariant("transcripts.J1")
def test_J1_entries_come_out_whole_wherever_a_piece_ends() -> None:
    chosen = random.Random(5)
    texts = ["".join(chosen.choices('ab"\\{}[]\n,:é', k=chosen.randrange(40))) for _ in range(3000)]
    entries = [{"line": text, "labels": {"pod": "p"}, "timestamp": "2026-03-04T10:00:00Z"} for text in texts]
    for data in (json.dumps(entries, indent=2), json.dumps(entries), json.dumps(entries, ensure_ascii=False)):
        lines = b"".join(document_lines(io.BytesIO(data.encode()), 1)).splitlines()
        assert [json.loads(line)["line"] for line in lines] == texts


def test_an_entry_that_has_no_text_is_shown_as_it_is_in_one_line() -> None:
    entries = [
        {"insertId": "1", "textPayload": "a", "timestamp": "2026-03-04T10:00:00Z"},
        {"insertId": "2", "protoPayload": {"x": 1}, "timestamp": "2026-03-04T10:00:01Z"},
    ]
    assert [one.text for one in _read(json.dumps(entries, indent=2).encode())] == [
        "a",
        '{"insertId":"2","protoPayload":{"x":1},"timestamp":"2026-03-04T10:00:01Z"}',
    ]


@pytest.mark.invariant("transcripts.J1")
def test_J1_what_is_cut_off_or_stands_between_entries_is_not_lost() -> None:
    list_ = wrapped("events", TEXT)
    whole = wrapped("gcloud", "one\ntwo")
    assert [one.text for one in _read(f"{whole}\nTraceback: x\ny\n".encode())] == ["one", "two", "Traceback: x", "y"]
    (pretty,) = {wrapped("journal-pretty", "one")}
    assert [one.text for one in _read(f"{pretty}-- Boot 3 --\n{pretty}".encode())] == ["one", "-- Boot 3 --", "one"]
    *said, last = (one.text for one in _read(list_[: list_.index("illegal memory")].encode()))
    assert said == BARE[:2] and "RuntimeError: CUDA error: an " in last


LOOK_ALIKES = {
    "metrics": json.dumps([{"step": 1, "loss": 0.5, "time": 3}, {"step": 2, "loss": 0.4, "time": 4}], indent=2),
    "messages of a program": json.dumps(
        [{"message": "x", "level": "error"}, {"message": "y", "level": "info"}], indent=2
    ),
    "a configuration": json.dumps({"model": {"layers": 3}, "log": "run.log", "line": "x"}, indent=4),
    "a chat": json.dumps([{"role": "user", "content": "hi"}], indent=2),
    "a trace": json.dumps({"traceEvents": [{"name": "x", "ts": 1}]}),
    "lines of docker": '{"log":"a\\n","stream":"stderr","time":"2026-03-04T10:00:00Z"}\n' * 3,
    "a list of Python": "[{'message': 'x', 'ingestionTime': 3}]\n",
    "a list that is a line": "[1, 2, 3]\n[4, 5, 6]\n",
    "versions": '{"version": 2, "name": "x"}\n{"version": 3}\n',
    "a report's sections": "----------------\nPhase1\n----------------\nok\n----------------\nPhase2\n----------------\nok\n",
    "a report's title": "----------------\nnode07\n----------------\nall is well\n",
    "parts": "---------------\nResults 7\n---------------\nx\n\n---------------\nResults 8\n---------------\ny\n",
    "a cursor": "__CURSOR=3\nand more\n",
}


@pytest.mark.parametrize("kind", LOOK_ALIKES)
def test_what_only_looks_like_one_of_them_is_read_as_it_is(kind: str, tmp_path: Path) -> None:
    assert transcript_of(LOOK_ALIKES[kind].encode()) is None
    (tmp_path / "run.log").write_text(LOOK_ALIKES[kind])
    assert not is_packed(tmp_path / "run.log")


def test_the_log_screen_reads_the_same_lines(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(wrapped("gcloud", TEXT))
    data = open_bytes(tmp_path / "run.log")
    assert isinstance(data, PackedBytes)
    while data.fill():
        pass
    assert [one.text for one in read(data.read(0, data.size))] == BARE
    data.close()
    (tmp_path / "run.log.gz").write_bytes(gzip.compress(TEXT.encode()))
    assert is_packed(tmp_path / "run.log.gz")


def test_a_list_is_known_by_the_part_of_it_that_is_there() -> None:
    data = wrapped("gcloud", "\n".join(f"line {n} {'x' * 90}" for n in range(2000))).encode()
    assert len(data) > HEAD
    assert document_depth(data[:HEAD]) == 1
    assert len(_read(data)) == 2000
    assert len(_read(data[: len(data) // 2])) in range(990, 1010)  # one that was cut off, too


def test_in_a_folder_json_is_a_log_if_it_holds_entries_of_one(tmp_path: Path) -> None:
    logs = {"gcloud.json": "gcloud", "run.cast": "cast", "loki.jsonl": "loki", "run.log": "kaggle"}
    for name, form in logs.items():
        (tmp_path / name).write_text(wrapped(form, TEXT))
    others = ("metrics", "messages of a program", "a configuration", "a trace")
    for number, kind in enumerate(others):
        (tmp_path / f"{number}.json").write_text(LOOK_ALIKES[kind])
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 0.5}\n' * 3)
    assert sorted(found.name for found in scan(str(tmp_path)).files) == sorted(logs)
