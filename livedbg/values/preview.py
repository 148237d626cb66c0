"""Quick previews of single tensors of a dump, of any size, for a screen.

Invariants:
    preview.L1. Nothing is open between two previews; of the dump that was previewed last the manifest is kept.
    preview.L2. A first preview reads at most a sample of 2^21 elements; all of them are read afterwards, up to `WHOLE`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from livedbg.linux import target_files
from livedbg.model.dumps import ValuePreview
from livedbg.model.errors import SourceError
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.values.dump import Dump, Entry, row, title
from livedbg.values.readers import Readers
from livedbg.values.statistics import (
    PLAIN_SHADES,
    heat_map,
    histogram,
    number_lines,
    number_text,
    statistic_pairs,
    statistics,
)
from livedbg.values.tensor import Sample, Stored, Tensor, insisting

WHOLE: Final = 1 << 27
"""Elements of the largest tensor that a screen reads all of."""

_SAMPLED: Final = 1 << 21
_LINES: Final = 60
_WIDE: Final = 400
_SHADE: Final = lazy_re(r"'.' ")
_LEVELS: Final = str.maketrans(PLAIN_SHADES, "0123456789")

_Signature = tuple[Path, tuple[int, int, int] | None, tuple[int, int, int] | None]


class Previewer:
    """Previews tensors, one after the other. Not thread-safe."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._dump: Dump | None = None
        self._signature: _Signature | None = None

    def forget(self) -> None:
        """Drop the kept manifest."""
        self._dump = self._signature = None

    def previews(self, path: Path, name: str, number: int) -> Iterator[ValuePreview]:
        """Yield previews of an entry, for a large one a sample's first; `problem` says why there is none."""
        try:
            dump = self._opened(path)
            with dump:
                yield from _previews(dump, name, number)
        except SourceError as error:
            yield ValuePreview(path=name, number=number, problem=error.message)
        except MemoryError:
            yield ValuePreview(path=name, number=number, problem="Not enough memory to read it.")

    def _opened(self, path: Path) -> Dump:
        """Return the dump, with its payload open; read anew if one of its files has changed.

        A manifest is read to its end even where nobody wants this preview any more: the next one needs it as well.
        """
        if self._dump is not None and self._signature == _signature(path, self._dump):
            if self._dump.payload is not None:
                self._dump.payload.open()
            return self._dump
        self.forget()
        with insisting():
            dump = self._readers.open(path)
        self._dump, self._signature = dump, _signature(path, dump)
        return dump


def _signature(path: Path, dump: Dump) -> _Signature:
    return path, _of_file(path), _of_file(dump.payload_path or path)


def _of_file(path: Path) -> tuple[int, int, int] | None:
    try:
        status = target_files.status(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _previews(dump: Dump, name: str, number: int) -> Iterator[ValuePreview]:
    at = bisect_left(dump.entries, number, key=lambda entry: entry.number)
    entry = dump.entries[at] if at < len(dump.entries) and dump.entries[at].number == number else None
    if entry is None:
        yield ValuePreview(path=name, number=number, problem="The dump has no such entry any more.")
        return
    state, tensor = dump.values(entry)
    head = clean_line(title(dump, entry), 400)
    if entry.scalar:
        yield ValuePreview(path=name, number=number, title=head, numbers=(clean_line(row(dump, entry)[-1], 200),))
        return
    if tensor is None:
        why = clean_line(row(dump, entry)[-1], 200) or "no values"
        if state == "no payload" and dump.payload is None and dump.payload_path is not None:
            why = f"no payload: {clean_line(dump.payload_path.name, 100)} can't be read"
        yield ValuePreview(path=name, number=number, title=head, problem=why)
        return
    head = f"{head}, {state}" if state else head
    if tensor.count > _SAMPLED:
        yield _preview(entry, tensor, name, head)
        if tensor.count > WHOLE:
            return
    yield _preview(entry, tensor, name, head, whole=True)


def _preview(entry: Entry, stored: Stored, name: str, head: str, *, whole: bool = False) -> ValuePreview:
    tensor: Tensor = stored if whole else Sample(stored)
    known = statistics(tensor)
    bins = histogram(tensor, known)
    heat = heat_map(tensor, 40, 12, ascii_only=True)
    lines = list(number_lines(stored, 76))
    legend = _SHADE.sub("", heat.legend)
    sample = "" if whole else f"{known.count:,} of {stored.count:,} elements, in pieces that are spread evenly"
    goes_on = not whole and stored.count <= WHOLE
    if sample:
        legend = legend.replace("?: not there", "?: not read")
        sample += ": the others are being read." if goes_on else ". `livedbg values DUMP --stats` reads all."
    return ValuePreview(
        path=name,
        number=entry.number,
        title=head,
        sample=sample,
        goes_on=goes_on,
        statistics=tuple(statistic_pairs(known, stored.element)),
        edges=tuple(number_text(edge, 4) for edge in bins.edges) if bins is not None else (),
        counts=bins.counts if bins is not None else (),
        heat=tuple(line.translate(_LEVELS) for line in heat.lines),
        legend=legend,
        numbers=(*(line[:_WIDE] for line in lines[:_LINES]), *(["…"] if len(lines) > _LINES else [])),
    )
