"""A hundred shapes of secrets, in every place where the text of a target comes in, and in every output."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from click.testing import CliRunner

from livedbg.cli.doctor import command as doctor
from livedbg.cli.report import render
from livedbg.model import (
    Diagnostic,
    Edge,
    EdgeKind,
    Evidence,
    ExceptionHit,
    Frame,
    LogRecord,
    LogSource,
    Process,
    Resource,
    Severity,
    SourceHealth,
    SourceStatus,
    Stack,
    Task,
    TaskState,
    Thread,
)
from livedbg.model.events import (
    DiagnosticSeen,
    EdgesReplaced,
    Event,
    ExceptionSeen,
    LogSourceSeen,
    LogsSeen,
    ProcessSeen,
    ResourcesSeen,
    StacksSeen,
    StatusSeen,
    TasksSeen,
    ThreadsSeen,
    encode,
)
from livedbg.recording.file import RecordingReader
from livedbg.recording.recorder import Recorder
from livedbg.session.adapter import Adapter, Context, Request
from livedbg.session.live import LiveView
from livedbg.session.redaction import Redaction
from livedbg.session.replay import last_update
from livedbg.text.secrets import mask_texts
from tests.text.secret_shapes import ALL, Shape, leaks, made

AT: Final[dict[str, Any]] = {"host": "box", "mono_ns": 1, "wall_ns": 2}
PROCESS: Final = "process:box/1"
THREAD: Final = "thread:box/1/1"
LEAST_MASKED: Final = 98
"""Of a hundred shapes."""


def _events(number: int, text: str) -> dict[str, list[Event]]:
    """A text in each place where it may come in."""
    log = f"log:box/x{number}"
    frame = Frame("f", local_variables=(f"held={text!r}",))
    source = Frame("f", source=(f"    held = {text!r}",))
    hit = ExceptionHit(id=f"e{number}", type="ValueError", message=text, thread=THREAD)
    lines = tuple(LogRecord(source=log, text=line, line=at) for at, line in enumerate(text.split("\n"), 1))
    return {
        "argument": [ProcessSeen(process=Process(id=PROCESS, host="box", pid=1, command=("train", text)), **AT)],
        "script": [ProcessSeen(process=Process(id=PROCESS, host="box", pid=1, command=("sh", "-c", text)), **AT)],
        "environment": [
            ProcessSeen(process=Process(id=PROCESS, host="box", pid=1, environment={"EXTRA": text}), **AT)
        ],
        "record": [LogsSeen(records=(LogRecord(source=log, text=text, severity=Severity.ERROR),), **AT)],
        "records, a line each": [LogsSeen(records=(line,), **AT) for line in lines],
        "first error": [LogSourceSeen(source=LogSource(id=log, name="x", first_error=text, last_error=text), **AT)],
        "message": [ExceptionSeen(hit=hit, **AT)],
        "local": [StacksSeen(stacks=(Stack(thread=THREAD, frames=(frame,), taken_mono_ns=1, source="x"),), **AT)],
        "source": [StacksSeen(stacks=(Stack(thread=THREAD, frames=(source,), taken_mono_ns=1, source="x"),), **AT)],
        "thread": [ThreadsSeen(threads=(Thread(id=THREAD, process=PROCESS, tid=1, name="t", given=text),), **AT)],
        "diagnostic": [
            DiagnosticSeen(
                diagnostic=Diagnostic(
                    id=f"d{number}", system="s", code="c", severity=Severity.ERROR, sentence=text,
                    evidence=(Evidence(kind="log", file="x", line=1, text=text),), attributes={"line": text},
                ),
                **AT,
            )
        ],
        "task": [
            TasksSeen(
                tasks=(Task(id=f"task:s/{number}", system="s", name="a", kernel=text, state=TaskState.RUNNING),), **AT
            )
        ],
        "resource": [
            ResourcesSeen(resources=(Resource(id=f"pipe:box/{number}", kind="pipe", name=text, state=text),), **AT)
        ],
        "edge": [
            EdgesReplaced(
                scope=f"x{number}",
                edges=(Edge(kind=EdgeKind.WAITS_FOR, source=THREAD, target=f"pipe:box/{number}", evidence=text),),
                **AT,
            )
        ],
        "status": [
            StatusSeen(
                status=SourceStatus(source=f"x{number}", target="", health=SourceHealth.FAILED, sentence=text), **AT
            )
        ],
    }  # fmt: skip


def _shown_in(events: list[Event]) -> str:
    """All strings of events, as they are in the state."""
    texts: list[str] = []
    for event in events:
        texts += _strings(msgspec.to_builtins(event))
    return "\n".join(texts)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in (*value, *value.values()):
            yield from _strings(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _strings(each)


@pytest.mark.invariant("redaction.D1", "redaction.D3")
@pytest.mark.parametrize("place", _events(0, ""))
def test_of_a_hundred_shapes_at_most_two_pass_the_gate(place: str) -> None:
    leaked = []
    for number, shape in enumerate(ALL):
        text, secrets = made(shape)
        if leaks(_shown_in(Redaction().of(_events(number, text)[place])), secrets):
            leaked.append(shape[0])
    assert len(ALL) - len(leaked) >= LEAST_MASKED, leaked


def test_the_shapes_are_no_secrets_that_nobody_would_see() -> None:
    """Each text shows its secrets where nothing is masked."""
    assert len({shape[0] for shape in ALL}) == len(ALL) == 100
    for shape in ALL:
        text, secrets = made(shape)
        assert leaks(text, secrets) and all(secret in text for secret in secrets)


class Emitting(Adapter):
    """Emits every shape in every place, and settles."""

    name = "emitting"
    sees = "events"
    cost = "none"

    async def run(self, context: Context) -> None:
        for number, shape in enumerate(ALL):
            text = made(shape)[0]
            for events in _events(number, text).values():
                context.emit(*events)
        context.settled()


def _leaking(text: str) -> list[str]:
    return [shape[0] for shape in ALL if leaks(text, made(shape)[1])]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of all shapes in all places."""
    path = tmp_path_factory.mktemp("shapes") / "r"
    recorder = Recorder(path, "box", "t")
    view = LiveView(Request(host="box"), adapters=[Emitting()], sink=recorder)
    view.start()
    assert view.wait_ended(60)
    view.stop()
    recorder.close()
    return path


def test_at_most_two_shapes_are_in_a_recording(recording: Path) -> None:
    events = list(RecordingReader(recording).events())
    assert len(events) > len(ALL)
    assert len(_leaking(_shown_in(events))) <= len(ALL) - LEAST_MASKED
    assert len(_leaking(b"".join(map(encode, events)).decode())) <= len(ALL) - LEAST_MASKED


@pytest.mark.parametrize("form", ["json", "text", "markdown"])
def test_at_most_two_shapes_are_in_a_report(recording: Path, form: str) -> None:
    update, damage = last_update(recording)
    assert not damage
    shown = render(update, form)
    assert "***" in shown
    texts = [shown, *(_strings(json.loads(shown)) if form == "json" else ())]
    assert len(_leaking("\n".join(texts))) <= len(ALL) - LEAST_MASKED


@contextlib.contextmanager
def _target(argv: list[str], environment: dict[str, str]) -> Iterator[int]:
    script = "import sys\nprint('there', flush=True)\nsys.stdin.read()"
    target = subprocess.Popen(
        [sys.executable, "-c", script, *argv],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert target.stdout is not None and target.stdin is not None
    try:
        target.stdout.readline()
        yield target.pid
    finally:
        target.stdin.close()
        target.wait()
        target.stdout.close()


def test_at_most_two_shapes_are_in_what_doctor_says_of_a_process() -> None:
    texts = [made(shape)[0] for shape in ALL]
    environment = {f"RANK_NOTE_{number}": text for number, text in enumerate(texts)}
    with _target(texts, environment) as pid:
        shown = CliRunner().invoke(doctor, [str(pid)]).output
    assert f"ok  {pid} " in shown and "***" in shown
    assert len(_leaking(shown)) <= len(ALL) - LEAST_MASKED


@pytest.mark.parametrize("shape", ALL, ids=lambda shape: shape[0])
def test_lines_of_a_log_that_are_read_from_anywhere_are_masked(shape: Shape) -> None:
    """A viewer begins in the middle; what a line alone does not say, its neighbours do."""
    text, secrets = made(shape)
    lines = [f"2026-01-02 03:04:05 INFO started {n}" for n in range(3)] + text.split("\n") + ["2026 done", "2026 over"]
    pem = "PRIVATE KEY" in text and "\n" in text
    for begin in range(len(lines)):
        for end in range(begin + 1, len(lines) + 1):
            window = lines[begin:end]
            if pem and not any("PRIVATE KEY" in line for line in window) and len(window) < 3:
                continue  # two lines of a key, and nothing that says so
            if not pem and "\n" in text and lines[3] not in window:
                continue  # the end of a wrapped token, without its prefix
            assert not leaks("\n".join(mask_texts(window)), secrets), window
