"""Secrets of a target are masked in the state, in recordings and in a log that is read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from livedbg.logs.files import FileLogReader
from livedbg.model import (
    Diagnostic,
    Edge,
    EdgeKind,
    Evidence,
    ExceptionHit,
    Frame,
    Intrusion,
    LogRecord,
    LogSource,
    Process,
    Resource,
    Severity,
    SourceHealth,
    SourceStatus,
    Stack,
    Task,
    Thread,
)
from livedbg.model.events import (
    DiagnosticSeen,
    EdgesAdded,
    EdgesReplaced,
    Event,
    ExceptionSeen,
    LogsSeen,
    ProcessSeen,
    ResourcesSeen,
    StacksSeen,
    StatusSeen,
    TasksSeen,
    ThreadsSeen,
    Tick,
    Touched,
    encode,
)
from livedbg.model.facts import Facts
from livedbg.recording.file import RecordingReader
from livedbg.recording.recorder import Recorder
from livedbg.session.adapter import Adapter, Context, Request
from livedbg.session.live import LiveView
from livedbg.session.redaction import Redaction
from livedbg.session.replay import last_update
from livedbg.text.secrets import mask_texts

AT: dict[str, Any] = {"host": "box", "mono_ns": 1, "wall_ns": 2}
SECRET = "hunter2hunter2"
LINE = f"connect password={SECRET}"
FRAMES = (Frame("f", local_variables=(f"password='{SECRET}'",), source=(f"    password = '{SECRET}'",)),)
STATUS = SourceStatus(source="x", target="", health=SourceHealth.OK, sentence=LINE, remedy=f"run --api-key {SECRET}")
PROCESS = Process(
    id="process:box/1", host="box", pid=1, command=("python", "--api-key", SECRET), environment={"HF_TOKEN": SECRET}
)


class StepFacts(Facts, frozen=True, kw_only=True, tag="steps"):
    """Facts of a system that quote a target in a row of texts."""

    steps: tuple[str, ...] = ()


EDGE = Edge(kind=EdgeKind.WAITS_FOR, source="task:s/a", target="pipe:box/1", evidence=LINE)
PIPE = Resource(id="pipe:box/1", kind="pipe", name=LINE, state=LINE, attributes={"HF_TOKEN": SECRET})
EVENTS: list[Event] = [
    TasksSeen(tasks=(Task(id="task:s/a", system="s", name="a", attributes={"api_key": SECRET}),), **AT),
    TasksSeen(tasks=(Task(id="task:s/a", system="s", name="a", kernel=LINE),), **AT),
    TasksSeen(tasks=(Task(id="task:s/a", system="s", name="a", facts=StepFacts(steps=("fine", LINE))),), **AT),
    TasksSeen(tasks=(Task(id="task:s/a", system="s", name="a", facts={"of": "new", "in": [{"deep": LINE}]}),), **AT),
    TasksSeen(tasks=(Task(id="task:s/a", system="s", name="a", facts={"of": "new", "by rank": {0: LINE}}),), **AT),
    ThreadsSeen(threads=(Thread(id="thread:box/1/1", process="process:box/1", tid=1, waits_in=LINE),), **AT),
    ThreadsSeen(threads=(Thread(id="thread:box/1/1", process="process:box/1", tid=1, outside=LINE),), **AT),
    ResourcesSeen(resources=(Resource(id="pipe:box/1", kind="pipe", lost=LINE),), **AT),
    DiagnosticSeen(
        diagnostic=Diagnostic(id="d", system="s", code="c", severity=Severity.ERROR, sentence="", does=LINE), **AT
    ),
    ResourcesSeen(resources=(PIPE,), **AT),
    EdgesReplaced(scope="x", edges=(EDGE,), **AT),
    EdgesAdded(scope="x", edges=(EDGE,), **AT),
    ProcessSeen(process=PROCESS, **AT),
    LogsSeen(records=(LogRecord(source="log:box/x", text=LINE), LogRecord(source="log:box/x", text="fine")), **AT),
    StacksSeen(stacks=(Stack(thread="thread:box/1/1", frames=FRAMES, taken_mono_ns=1, source="x"),), **AT),
    ExceptionSeen(hit=ExceptionHit(id="e", type="E", message=LINE, stack=FRAMES), **AT),
    DiagnosticSeen(
        diagnostic=Diagnostic(
            id="d", system="s", code="c", severity=Severity.ERROR, sentence=LINE, attributes={"api_key": SECRET},
            evidence=(Evidence(kind="log", file="x", line=1, text=LINE),),
        ),
        **AT,
    ),
    StatusSeen(status=STATUS, **AT),
    Touched(intrusion=Intrusion(target="x", what="attach", why=LINE), **AT),
]  # fmt: skip


class Emitting(Adapter):
    """Emits all of the events, and settles."""

    name = "emitting"
    sees = "events"
    cost = "none"

    async def run(self, context: Context) -> None:
        context.emit(*EVENTS)
        context.settled()


@pytest.mark.invariant("redaction.D1")
@pytest.mark.parametrize("redact", [True, False])
def test_a_session_masks_what_it_records_and_shows(tmp_path: Path, redact: bool) -> None:
    path = tmp_path / "r"
    recorder = Recorder(path, "box", "t")
    view = LiveView(Request(host="box", redact=redact), adapters=[Emitting()], sink=recorder)
    view.start()
    assert view.wait_ended(60)
    view.stop()
    recorder.close()
    recorded = b"".join(encode(event) for event in RecordingReader(path).events())
    assert (SECRET.encode() in recorded) is not redact
    assert view.latest().snapshot.processes["process:box/1"].command[2] == ("hun***" if redact else SECRET)
    for shown in (True, False):  # a recording that was made with --no-redact is masked when it is shown
        update, _ = last_update(path, redact=shown)
        expected = "hun***" if redact or shown else SECRET
        assert update.snapshot.processes["process:box/1"].environment == {"HF_TOKEN": expected}


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_event_that_quotes_a_target_is_masked(event: Event) -> None:
    (masked,) = Redaction().of([event])
    assert SECRET.encode() in encode(event)
    assert SECRET.encode() not in encode(masked)
    assert Redaction().of([masked])[0] == masked


@pytest.mark.invariant("redaction.D2")
def test_an_event_without_a_secret_is_the_same_object() -> None:
    plain: list[Event] = [
        Tick(**AT),
        ProcessSeen(process=Process(id="process:box/2", host="box", pid=2, command=("a", "--max-tokens", "3")), **AT),
        LogsSeen(records=(LogRecord(source="log:box/x", text="fine"),), **AT),
        ExceptionSeen(hit=ExceptionHit(id="e", type="E", message="m"), **AT),
        TasksSeen(tasks=(Task(id="task:s/a", system="s", name="a", kernel="k", attributes={"blocks": "3"}),), **AT),
        ResourcesSeen(resources=(Resource(id="pipe:box/1", kind="pipe", name="pipe 3"),), **AT),
        EdgesReplaced(scope="x", edges=(structs.replace(EDGE, evidence="futex 0x7f"),), **AT),
    ]
    assert all(after is before for after, before in zip(Redaction().of(plain), plain, strict=True))


def test_lines_of_a_log_that_are_read_again_are_masked(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(LINE + "\nfine\n", encoding="utf-8")
    reader = FileLogReader(lambda _: LogSource(id="log:box/x", name="x", path=str(path)), shown=mask_texts)
    assert [record.text for record in reader.read("log:box/x", -2, 2)] == ["connect password=hun***", "fine"]
    assert next(iter(reader.read("log:box/x", 0, 1))).text == "connect password=hun***"
    reader.close()
