"""`livedbg signatures`: the known failure texts, which of them match a text, and checks of a file of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from livedbg.cli.target_options import PATH, known_signatures, redact_option, signatures_option
from livedbg.logs.clock import SourceClock
from livedbg.logs.lines import LineCutter
from livedbg.logs.records import RecordAssembler
from livedbg.model import Diagnostic, LogSource
from livedbg.model.errors import SourceError
from livedbg.model.events import DiagnosticSeen, Stamp
from livedbg.session.filereaders import known_log_formats
from livedbg.session.signatures import USERS, book, own_folder
from livedbg.signatures.book import Book, Entry, parse
from livedbg.signatures.check import problems
from livedbg.signatures.crashes import crash_book, run_book
from livedbg.signatures.decoder import SignatureDecoder
from livedbg.text.sanitize import clean_line
from livedbg.text.secrets import mask_text

_WRONG: Final = 12
_LONGEST: Final = 16 << 20  # bytes of a text that are read


@click.command("signatures")
@click.argument("names", nargs=-1, metavar="[ID]...")
@click.option("--match", "text", metavar="FILE", help="Show which match the lines of FILE (- for standard input).")
@click.option("--check", "file", type=PATH, metavar="FILE", help="Check a file of signatures.")
@signatures_option
@redact_option
def command(
    names: tuple[str, ...], text: str | None, file: Path | None, signatures: tuple[str, ...], redact: bool
) -> int:
    """List the failure texts that livedbg knows, or describe some of them.

    Add your own as TOML files in livedbg/signatures of the configuration folder, or with --signatures DIR.
    docs/signatures.md has a complete example.
    """
    if file is not None:
        return _check(file)
    known_signatures(signatures)
    rooms = (*book(signatures)[0].rooms, *crash_book().rooms, *run_book().rooms)
    known = Book(rooms)
    if text is not None:
        _match(known, _read(text), redact=redact)
        return 0
    for line in _described(known, names) if names else _listed(known):
        click.echo(clean_line(line))
    if not names:
        click.echo(f"\nlivedbg signatures ID describes one; add your own in {own_folder()}", err=True)
    return 0


def _check(file: Path) -> int:
    """Print the problems of a file.

    Raises:
        UsageError: it is no file of signatures.
        SourceError: it can't be read.
    """
    room = parse(USERS, str(file), _read(str(file)))
    found = list(problems(room))
    for problem in found:
        click.echo(clean_line(problem))
    if not found:
        examples = sum(len(one.examples) for one in room.file.signatures)
        click.echo(
            f"{clean_line(str(file))}: {len(room.file.signatures)} signatures and {examples} examples are right."
        )
    return _WRONG if found else 0


def _match(known: Book, data: bytes, *, redact: bool) -> None:
    decoder, stamp = SignatureDecoder(lambda: known), Stamp(wall_ns=0, mono_ns=0, host="")
    decoder.opened(LogSource(id="text", name="line"))
    assembler, cutter = RecordAssembler("text", SourceClock(), known_log_formats()), LineCutter()
    records = [*assembler.feed([*cutter.feed(data), *cutter.flush()]), *assembler.flush()]
    events = [event for record in records for event in decoder.feed(record, stamp)[0]] + [*decoder.flush(stamp)]
    found = {event.diagnostic.id: event.diagnostic for event in events if isinstance(event, DiagnosticSeen)}
    for said in found.values():
        for line in _why(known, said, redact=redact):
            click.echo(line)
    if not found:
        click.echo("No signature matches.")


def _why(known: Book, said: Diagnostic, *, redact: bool) -> Iterator[str]:
    name, proof = f"{said.system}/{said.message.signature}", said.evidence[0]
    entry = next(entry for entry in known.entries if entry.name == name)
    text = proof.text or ""
    yield clean_line(f"{f'line {proof.line}' if proof.line else proof.place}: {name}: {said.sentence}.")
    yield f"    class {said.cause or '-'}, ends {said.message.ends}, kind {said.code}"
    yield f"    word {next((word for word in entry.words if word in text), '')!r}, in"
    yield from (f"        {clean_line(mask_text(line) if redact else line)}" for line in text.split("\n"))


def _listed(known: Book) -> Iterator[str]:
    width = max((len(entry.name) for entry in known.entries), default=0)
    for entry in known.entries:
        usual = entry.usual
        yield f"{entry.name:{width}}  {usual.cause or '-':8}  {usual.ends or '-':8}  {usual.sentence or ''}"


def _described(known: Book, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        entries = [entry for entry in known.entries if name in (entry.name, entry.signature.id)]
        if not entries:
            raise SourceError(f"There is no signature {clean_line(name)!r}.", "livedbg signatures")
        for entry in entries:
            yield from _facts(entry)


def _facts(entry: Entry) -> Iterator[str]:
    usual, signature = entry.usual, entry.signature
    yield f"{entry.name}: {usual.sentence or ''}"
    yield f"  class     {usual.cause or '-'}, ends {usual.ends or '-'}"
    yield f"  source    {signature.source or entry.room.file.source}"
    yield from (f"  pattern   {pattern}" for pattern in signature.patterns)
    yield from (f"  word      {word}" for word in entry.words)
    for example in signature.examples:
        first = example.text.strip().partition("\n")[0]
        yield f"  example   {first[:100]}  ->  {example.says or 'nothing'}"


def _read(name: str) -> bytes:
    try:
        if name == "-":
            return sys.stdin.buffer.read(_LONGEST)
        with Path(name).open("rb") as opened:
            return opened.read(_LONGEST)
    except OSError as error:
        raise SourceError(f"{clean_line(name)} can't be read: {error.strerror}.", "name a file") from None
