"""The steps of IREE's guide: titles, options, programs, and their findings.

After IREE's GPU debugging playbook: sanity, isolate, compare, reduce. A step's program writes its findings so far into
a file, which livedbg reads meanwhile.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field, structs

from livedbg.adapters.iree.facts import dispatch_facts
from livedbg.model import TaskState
from livedbg.session.guide import GuideOption, GuideStep, StepAsk, StepFound, StepRun
from livedbg.text.sanitize import clean_line
from livedbg.text.typed import ready

_NAME: Final = "found.json"


class Note(Struct):
    """Findings so far; as `livedbg.session.guide.StepFound`.

    Attributes:
        doing: current activity; "" at the end.
        trace: folder of the running traced run; "" if there is none.
        places: the source of each dispatch, by its name.
    """

    lines: list[tuple[str, str]] = field(default_factory=list)
    hands: dict[str, str] = field(default_factory=dict)
    cause: bool = False
    wrong_value: bool = False
    hung: bool = False
    failed: bool = False
    undone: bool = False
    lacks: dict[str, str] = field(default_factory=dict)
    doing: str = ""
    trace: str = ""
    places: dict[str, str] = field(default_factory=dict)


class Notebook:
    """Collects findings, and writes them at once into the step's folder."""

    def __init__(self, folder: Path) -> None:
        self.note = Note()
        self._path = folder / _NAME
        self.write()

    def doing(self, what: str) -> None:
        """Set the current activity."""
        self.note.doing = what
        self.write()
        if what:
            print(clean_line(what), flush=True)

    def say(self, label: str, sentence: str) -> None:
        """Add a finding."""
        self.note.lines.append((label, sentence))
        self.write()

    def lacks(self, what: str, remedy: str) -> None:
        """Note that the step can't be done."""
        self.note.undone = True
        self.say("missing", what)
        self.say("give it", remedy)

    def write(self) -> None:
        """Write the file atomically."""
        fresh = self._path.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(self.note))
        fresh.rename(self._path)


def read_note(folder: Path) -> Note | None:
    """Return the findings of a step; None if it has not begun, or was killed while beginning."""
    try:
        return msgspec.json.Decoder(ready(Note)).decode((folder / _NAME).read_bytes())
    except (OSError, msgspec.DecodeError):
        return None


STEPS: Final = (
    GuideStep(title="sanity: versions, inputs, run as given and on local-sync"),
    GuideStep(title="isolate: the dispatch that hangs, fails or makes NaN"),
    GuideStep(title="compare: another device or other flags, dispatch by dispatch"),
    GuideStep(title="reduce: that dispatch as a module of its own"),
)

OPTIONS: Final = (
    GuideOption(name="source", metavar="FILE", help="The module's source (.mlir), if CMD runs a .vmfb."),
    GuideOption(name="flags", metavar="FLAGS", help="Compiler flags of the source, quoted."),
    GuideOption(name="device", metavar="DEVICE", help="Of the steps; default: that of CMD, else local-task."),
    GuideOption(name="function", metavar="NAME", help="Function to run; default: that of CMD, or the only one."),
    GuideOption(name="input", metavar="SPEC", help="As for iree-run-module; default: those of CMD.", joined=";"),
    GuideOption(name="against", metavar="DEVICE", help="Step 3: the device to compare with."),
    GuideOption(name="against-flags", metavar="FLAGS", help="Step 3: the compiler flags to compare with, quoted."),
    GuideOption(name="rtol", metavar="X", help="Step 3: relative tolerance; default: by type."),
    GuideOption(name="atol", metavar="X", help="Step 3: absolute tolerance; default: by type."),
    GuideOption(name="dispatch", metavar="NAME", help="Step 4: the dispatch; default: the one that was found."),
)

_ASK: Final = "step.json"
_SHOWN: Final = 4  # running dispatches
_LAST: Final = 3


def plan(ask: StepAsk) -> Sequence[str]:
    """Return the command of a step."""
    path = ask.folder / _ASK
    resolved = structs.replace(ask, folder=ask.folder.resolve(), handed=dict(ask.handed))
    path.write_bytes(msgspec.json.encode(resolved, enc_hook=str))
    return (sys.executable, "-m", "livedbg.adapters.iree.flow", str(path))


def read_ask(path: Path) -> StepAsk:
    """Return the request of a step's program."""
    return msgspec.json.decode(path.read_bytes(), type=ready(StepAsk), dec_hook=lambda kind, text: kind(text))


def read(run: StepRun) -> StepFound:
    """Return the findings of a step, so far or at the end."""
    note = read_note(run.output[0].parent)
    if note is None:
        return StepFound(lines=(("found", f"The step's program ended with {_last(run.output)}."),), failed=True)
    lines, hands = list(note.lines), note.hands
    if run.code is None and note.trace:
        hands = hands | _open(note, lines)
    if run.code is None and note.doing:
        running = _running(run)
        lines.append(("found" if running else "now", f"It has not ended, and is {note.doing}.{running}"))
    elif run.code:
        lines.append(("found", f"The step's program failed: {_last(run.output)}."))
    found = {name: getattr(note, name) for name in ("cause", "wrong_value", "hung", "failed", "undone", "lacks")}
    return StepFound(lines=tuple(lines), hands=hands, **found)


def _open(note: Note, lines: list[tuple[str, str]]) -> dict[str, str]:
    """Report the open dispatch of a running traced run; return the values for the next step."""
    from livedbg.adapters.iree.differences.trace import read_trace  # numpy

    trace = read_trace(Path(note.trace), "")
    call = trace.open
    if call is None:
        lines.append(("dispatches", f"{len(trace.calls)} have begun and returned so far."))
        return {}
    ordinal = sum(one.name == call.name for one in trace.calls) - 1
    lines.append(("found", f"{note.places.get(call.name, call.name)} began and has not returned yet."))
    return {"dispatch": f"{call.name}#{ordinal}", "fault": "hang"}


def _running(run: StepRun) -> str:
    now_ns = run.snapshot.now().mono_ns
    found = [
        f"{task.name} (for {(now_ns - task.since_mono_ns) / 1e9:.0f} s)" if task.since_mono_ns else task.name
        for task in run.snapshot.tasks.values()
        if task.system == "iree" and task.kernel and task.state is TaskState.RUNNING and not dispatch_facts(task).traced
    ]
    return f" Dispatches that run: {', '.join(found[:_SHOWN])}." if found else ""


def _last(output: Sequence[Path]) -> str:
    """Return the last line of its standard error."""
    try:
        lines = [line for line in output[-1].read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    return lines[-1] if lines else "no word"
