"""`livedbg graph`: draws the task graph of a run and reports missing dependencies."""

from __future__ import annotations

import re
from pathlib import Path

import click

from livedbg.cli.target_options import FILE, PATH, TargetOptions
from livedbg.commands.output import warn
from livedbg.commands.signals import running
from livedbg.graphs.ashtml import to_html
from livedbg.graphs.declared import GraphReader, LostOrders, TaskGraph, graph_files, reader_of
from livedbg.graphs.drawing import MISSING, Drawing, around, to_dot, to_json, to_text
from livedbg.graphs.fromdeclared import compared, drawing_of, drawing_of_state
from livedbg.graphs.lost import lost_orders
from livedbg.model.errors import SourceError, UsageError
from livedbg.model.snapshot import Snapshot
from livedbg.recording.file import is_recording
from livedbg.session.filereaders import graph_readers
from livedbg.session.replay import last_update
from livedbg.text.private_files import write_private
from livedbg.text.sanitize import clean_line
from livedbg.text.shell import shell_word

_LOST = 12
_NEAR = 5_000  # tasks around --task
_SETTLE_S = 120.0
_DRAWN = {"dot": to_dot, "html": to_html, "json": to_json}
_FORMS = {".dot": "dot", ".gv": "dot", ".html": "html", ".htm": "html", ".json": "json", ".txt": "text"}


@click.command("graph")
@click.argument("source", type=PATH)
@click.option(
    "--against", type=PATH, metavar="OTHER", help="Compare with another run: edges that only one of them has."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "dot", "html", "json"]),
    help="Output format.  [default: by the suffix of FILE, else text]",
)
@click.option("-o", "--output", type=FILE, metavar="FILE", help="Write to FILE.")
@click.option(
    "--task",
    "tasks",
    multiple=True,
    metavar="ID",
    help="Only the neighbourhood of this task (r1t2, or its id); repeatable.",
)
@click.option(
    "--hops",
    type=click.IntRange(0),
    default=2,
    show_default=True,
    metavar="N",
    help="With --task: radius of the neighbourhood.",
)
@click.option(
    "--limit", type=click.IntRange(1), default=200, show_default=True, metavar="N", help="Show at most N tasks as text."
)
@click.option("--war", is_flag=True, help="Also list write-after-read pairs, which the runtime does not track.")
def command(
    source: Path,
    against: Path | None,
    form: str | None,
    output: Path | None,
    tasks: tuple[str, ...],
    hops: int,
    limit: int,
    war: bool,
) -> int:
    """Draw the task graph of a run and report missing dependencies.

    SOURCE is a deps.json, the folder of a run, a recording, or a folder of logs (tasks named in the logs).
    """
    drawing = _drawing(source, against, war)
    for note in drawing.notes:
        if form not in {None, "text"} or output is not None:
            warn(note)
    if tasks:
        centres = [_found(word, drawing) for word in tasks]
        drawing = around(drawing, centres, hops, _NEAR)
    form = form or (_FORMS.get(output.suffix.lower(), "text") if output is not None else "text")
    text = to_text(drawing, limit) if form == "text" else _DRAWN[form](drawing)
    _write(text, output)
    return _LOST if _lacks(drawing) else 0


def _drawing(source: Path, against: Path | None, war: bool) -> Drawing:
    graph_file = _graph_file(source)
    if graph_file is None:
        return _state(source, against)
    path, reader = graph_file
    try:
        return _declared(path, reader, against, war)
    except SourceError as error:
        if error.code != "no-graph" or path != source or path.name in reader.names:
            raise
    return _state(source, against)  # a trace may be an object too


def _lacks(drawing: Drawing) -> bool:
    missing = bool(drawing.remarks_of(MISSING))
    return missing or any(remark.facts.get("unordered") == "yes" for remark in drawing.remarks)


def _graph_file(source: Path) -> tuple[Path, GraphReader] | None:
    """Return the graph file and its reader; None if the state of logs or a recording is to be drawn.

    Raises:
        SourceError: there is no such file, or nothing that can be drawn.
        UsageError: there are several.
    """
    readers = graph_readers()
    if source.is_dir():
        found = list(graph_files(source, readers))
        if len(found) > 1:
            listed = ", ".join(str(path) for path, _ in found[:5])
            names = " and ".join(dict.fromkeys(path.name for path, _ in found))
            raise UsageError(
                clean_line(f"{source} has {len(found)} {names}: {listed}."), f"livedbg graph {shell_word(found[0][0])}"
            )
        return found[0] if found else None
    if not source.exists():
        raise SourceError(f"{source} does not exist.", "give a deps.json, the folder of a run or a recording")
    if (reader := reader_of(source, readers)) is not None:
        return source, reader
    if readers and not is_recording(source) and _is_object(source):
        return source, readers[0]
    return None


def _is_object(source: Path) -> bool:
    try:
        with source.open("rb") as file:
            return file.read(256).lstrip().startswith(b"{")
    except OSError:
        return False


def _declared(path: Path, reader: GraphReader, against: Path | None, war: bool) -> Drawing:
    graph = reader.read(path)
    lost = LostOrders((), ()) if graph.cut else lost_orders(graph)
    terms = reader.terms(path)
    drawing = drawing_of(graph, lost, clean_line(str(path)), terms, war=war and not graph.cut)
    if against is None:
        return drawing
    return compared(drawing, graph, _other(against), terms, clean_line(str(against)))


def _other(against: Path) -> TaskGraph:
    graph_file = _graph_file(against)
    if graph_file is None:
        raise UsageError(f"{against} has no deps.json to compare with.", "give a deps.json or the folder of a run")
    path, reader = graph_file
    return reader.read(path)


def _state(source: Path, against: Path | None) -> Drawing:
    if against is not None:
        raise UsageError(f"{source} has no deps.json to compare.", "give a deps.json or the folder of a run")
    snapshot = _snapshot(source)
    if not snapshot.tasks:
        raise SourceError(f"{source} contains no tasks.", "give a deps.json, the folder of a run or a recording")
    return drawing_of_state(snapshot, clean_line(str(source)))


def _snapshot(source: Path) -> Snapshot:
    if source.is_file() and is_recording(source):
        update, damage = last_update(source)
        if damage:
            warn(damage)
        return update.snapshot
    with running(TargetOptions(logs=(str(source),)).resolved().request(once=True)) as view:
        view.wait_settled(_SETTLE_S)
        return view.latest().snapshot


def _found(word: str, drawing: Drawing) -> str:
    """Return the node of a word: `r1t2`, 4294967298, `task:SYSTEM/r1t2`.

    Raises:
        UsageError: there is none.
    """
    is_number = re.fullmatch(r"\d{1,20}", word) is not None
    by_number = (reader.task_name(int(word)) for reader in graph_readers() if is_number)
    for name in (word, *by_number, word.partition("/")[2], word.rpartition("/")[2]):
        if name in drawing.nodes:
            return name
    some = ", ".join(list(drawing.nodes)[:5])
    raise UsageError(clean_line(f"There is no task {word}."), f"one of {some}, …")


def _write(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        write_private(output, text)
    except OSError as error:
        raise SourceError(f"{output} can't be written: {error.strerror}.", "choose another path with -o") from None
