"""Skimming of a big log for its decoders: records without a trigger are skipped unread.

The blocks are searched for all triggers at once (Hyperscan, which takes a third of the time of Aho-Corasick; where it
has no wheel for this Python, the latter; a `bytes.find` for each takes ten times as long with 60 of them). Only around
a hit are lines cut, decoded and assembled. Line numbers stay right, because line ends are counted on the way.

Invariant:
    skim.K1. Every record of one line, and every record whose trigger is in one of its first LINES_BEFORE + 1 lines,
        comes out as it would of reading everything.
    skim.K2. Of the lines with a beat that are skipped, the last before each such record comes out, and the last of all.
    skim.K3. So does every record with an alarm there, up to ALARMS_READ alarms; `unread` counts the bytes after them.
    skim.K4. A word that its exact form does not confirm is none; it hides no other.
    skim.K5. So do the FOLLOWED lines after a record that opens something.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from threading import Lock
from typing import Protocol

from ahocorasick_rs import BytesAhoCorasick, Implementation

from livedbg.logs.decoder import FOLLOWED
from livedbg.logs.error_lines import ALARMS_READ
from livedbg.logs.lines import LINE_LIMIT, line_text, lines_back
from livedbg.logs.records import RecordAssembler
from livedbg.logs.wrapping.door import UNCALM
from livedbg.model import LogRecord

LINES_BEFORE = 3
"""Lines before a hit that can be the beginning of its record."""

_GRACE = 64  # lines read on after a hit while records of several ranks are mixed
_LONGEST = 4 << 20  # a line that is longer is taken in pieces
_ROW = 256  # lines that are read at once, at most
_DENSE = 100  # hits of a block from which on most of its lines are read


class Skimmer:
    """Takes the blocks of a log in order, returns the records that hold a trigger (and some others).

    Args:
        triggers: words to search for; anchors of the log's clock (`Shape.anchor`) are searched for anyway.
        beats: words of lines of which the last of consecutive ones is enough (`LogDecoder.beats`).
        alarms: further words, until found ALARMS_READ times; one that begins with a newline is at the beginning of a
            line.
        exact: patterns that must match where a trigger or alarm begins (`LogDecoder.exact`).
        opens: triggers after which all lines come out (`LogDecoder.opens`).

    Attributes:
        unread: bytes that were searched for triggers only.
    """

    def __init__(
        self,
        assembler: RecordAssembler,
        triggers: Iterable[bytes],
        offset: int,
        number: int | None,
        beats: Iterable[bytes] = (),
        *,
        alarms: Iterable[bytes] = (),
        exact: Mapping[bytes, re.Pattern[bytes]] | None = None,
        opens: Iterable[bytes] = (),
    ) -> None:
        self.unread = 0
        self._assembler = assembler
        self._triggers = sorted({*triggers, *assembler.anchors})
        self._alarms = sorted({*alarms}.difference(self._triggers))
        self._line_starts = tuple(alarm[1:] for alarm in self._alarms if alarm.startswith(b"\n"))
        words = [*self._triggers, *self._alarms]
        self._matcher = finder(tuple(words))
        self._exact = [*map((exact or {}).get, words)]
        opening = frozenset(opens)
        self._opens = [word in opening for word in words]
        self._opened = False  # by what begins at `_hit`
        self._following = 0  # lines that come out because of what opened before them
        self._alarms_left = ALARMS_READ
        self._spent = False
        self._beats = tuple(beats)
        self._rest = b""  # what the next block follows on: lines from before, and the line that has not ended
        self._offset = offset  # of `_rest`
        self._number = number  # of the first line in `_rest`
        self._searched = 0  # how much of `_rest` was searched
        self._reading = False  # in a record that is not at its end
        self._since_hit = 0
        self._simple = [self._is_simple(number) for number in range(len(words))]
        self._hits: Sequence[tuple[int, int, int]] = ()  # (trigger, begin, end) in the block that is searched
        self._at = 0  # the next of them
        self._row_end = 0  # of the lines that `_read_row` read
        self._hit = 0  # where the first of them begins that was not passed

    @property
    def offset(self) -> int:
        """Return the offset of the first line that has not ended."""
        return self._offset + self._searched

    @property
    def number(self) -> int | None:
        """Return the number of that line."""
        return None if self._number is None else self._number + self._rest.count(b"\n", 0, self._searched)

    def feed(self, data: bytes) -> list[LogRecord]:
        """Take a block."""
        cut = data.rfind(b"\n") + 1
        if not cut:
            self._rest += data
            if len(self._rest) - self._searched < _LONGEST:
                return []
            data, cut = b"", 0
        body = b"".join((self._rest, memoryview(data)[:cut]))  # one copy of what is long
        used, number = self._search(body)
        kept = len(body) if self._reading else max(used, lines_back(body, LINES_BEFORE))
        self._beat(body, used, kept, number)
        self._number = None if number is None else number + body.count(b"\n", used, kept)
        self._offset += kept
        self._rest, self._searched = body[kept:] + data[cut:], len(body) - kept
        return self._assembler.feed(())

    def flush(self) -> list[LogRecord]:
        """Return the records that are held back; the caller reads on at `offset`."""
        if not self._reading:
            self._beat(self._rest, 0, self._searched, self._number)
        self._reading = False
        return self._assembler.flush()

    def _search(self, body: bytes) -> tuple[int, int | None]:
        self._hits, self._at, self._hit = self._hits_in(body), 0, -1
        position, used, until = self._searched, 0, -1
        counted, number = 0, self._number  # the number of the line that begins at `counted`
        following = self._following
        self._next_hit(body, position)  # what was found before opens nothing again
        self._following = following
        size, offset, add = len(body), self._offset, self._assembler.add
        # of a block in which most lines are read, what can be known of all of them at once
        shown = body.decode("ascii") if len(self._hits) > _DENSE and body.isascii() else ""
        calm = bool(shown) and not any(word in shown for word in UNCALM)
        while position < size:
            hit = self._hit if self._hit >= position else self._next_hit(body, position)
            if not self._reading:
                if hit == size:
                    break
                position, until = self._begin(body, used, hit), hit
                self._reading = True
                if number is not None:
                    number += body.count(b"\n", counted, used)
                    counted = used
                self._beat(body, used, position, number)
            if number is not None and counted != position:
                number += body.count(b"\n", counted, position)
                counted = position
            if calm and not self._opened and hit < size and (lines := self._read_row(shown, position, number)):
                counted = position = used = self._row_end
                number = None if number is None else number + lines
                continue
            end = body.find(b"\n", position)
            end = size if end < 0 else end
            begins = add(line_text(body[position:end]), offset + position, number)
            self._since_hit = 0 if hit < end else self._since_hit + 1
            self._following -= 1
            if hit >= end and begins and position > until and self._may_stop():
                self._reading = False
                self._assembler.drop_newest()  # its own trigger may be in a later line
                self._assembler.close()
                used, position = position, min(end + 1, size)
            else:
                position = used = end + 1 if end < size else size
                if number is not None and end < size:
                    number += 1
                    counted = position
        self._next_hit(body, size)
        if number is not None:
            number += body.count(b"\n", counted, used)
        return used, number

    def _read_row(self, shown: str, position: int, number: int | None) -> int:
        """Read consecutive lines that each hold a trigger, in a block without UNCALM; return their number."""
        hits, simple, at, hit = self._hits, self._simple, self._at, self._hit
        texts, places, firsts = list[str](), list[int](), list[int]()
        while len(texts) < _ROW:
            end = shown.find("\n", position)
            text = shown[position:end]
            if not position <= hit < end or not text.isprintable() or end - position > LINE_LIMIT:
                break
            texts.append(text)
            places.append(position)
            firsts.append(at)
            position = end + 1
            while hit < position and at < len(hits) and simple[hits[at][0]]:
                hit = hits[at][1]
                at += 1
        offset = self._offset
        lines = self._assembler.add_row(texts, [offset + place for place in places], number) if texts else 0
        if lines:
            whole = lines == len(texts)
            self._row_end = position if whole else places[lines]
            self._at, self._hit = (at, hit) if whole else (firsts[lines] - 1, -1)
            self._since_hit = 0
            self._following -= lines
        return lines

    def _hits_in(self, body: bytes) -> Sequence[tuple[int, int, int]]:
        if self._alarms and self._alarms_left <= 0:
            self._matcher, self._alarms = finder(tuple(self._triggers)), []
            self._line_starts = ()
            self._spent = True
        if self._spent:
            self.unread += len(body) - self._searched
        found = self._matcher.find(body)
        if not self._searched and body.startswith(self._line_starts):
            found.insert(0, (len(self._triggers), 0, 0))  # the newline before it was in the block before
        return found

    def _is_simple(self, word: int) -> bool:
        """Return whether a word counts anywhere, and opens nothing."""
        return word < len(self._triggers) and self._exact[word] is None and not self._opens[word]

    def _beat(self, body: bytes, begin: int, end: int, number: int | None) -> None:
        """Take the last skipped line with a beat; `number` is that of the line at `begin`."""
        found = begin
        for beat in self._beats:
            found = max(found, body.rfind(beat, found, end) + 1)
        if found == begin:
            return
        start = max(begin, body.rfind(b"\n", begin, found) + 1)
        stop = body.find(b"\n", found, end)
        if number is not None:
            number += body.count(b"\n", begin, start)
        self._assembler.add(line_text(body[start : stop if stop >= 0 else end]), self._offset + start, number)
        self._assembler.close()

    def _may_stop(self) -> bool:
        if self._following >= 0:
            return False
        return not self._assembler.mixed or self._since_hit > _GRACE

    def _begin(self, body: bytes, lowest: int, hit: int) -> int:
        """Return where the record of a hit can begin: its line, or up to LINES_BEFORE lines before."""
        start = first = max(lowest, body.rfind(b"\n", 0, hit) + 1)
        for _ in range(LINES_BEFORE):
            if self._assembler.recognises(line_text(body[start : start + 1024].partition(b"\n")[0])):
                return start
            if start <= lowest:
                break
            start = max(lowest, body.rfind(b"\n", 0, start - 1) + 1)
        return start if first - start < _LONGEST else first

    def _next_hit(self, body: bytes, position: int) -> int:
        hits, simple = self._hits, self._simple
        while self._hit < position:
            if self._opened:
                self._following = FOLLOWED
                self._opened = False
            if self._at == len(hits):
                self._hit = len(body)
                break
            which, begin, _ = hits[self._at]
            self._at += 1
            if simple[which]:
                self._hit = begin
                continue
            exact = self._exact[which]
            if exact is not None and exact.match(body, begin) is None:
                continue
            self._hit, self._opened = begin, self._opens[which]
            if which >= len(self._triggers):
                self._hit += body.startswith(b"\n", begin)
                self._alarms_left -= self._hit >= position  # one a line
        return self._hit


class Finder(Protocol):
    """A search for a set of words."""

    def find(self, data: bytes) -> list[tuple[int, int, int]]:
        """Return index, begin and end of all words found, ordered by their ends."""
        ...


class _AhoCorasick:
    """A search that takes 5 MB and 7 ms to be made. A smaller automaton takes twice the time to search."""

    def __init__(self, words: Sequence[bytes]) -> None:
        self._automaton = BytesAhoCorasick(words, implementation=Implementation.DFA)

    def find(self, data: bytes) -> list[tuple[int, int, int]]:
        return self._automaton.find_matches_as_indexes(data, overlapping=True)


class _Hyperscan:
    """A search that takes 0.3 MB and 14 ms to be made.

    Raises:
        ImportError: Hyperscan is not installed.
    """

    def __init__(self, words: Sequence[bytes]) -> None:
        import hyperscan  # 3 ms

        self._lock = Lock()  # two searches can't share what Hyperscan works in
        self._sizes = [len(word) for word in words]
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=list(words), ids=list(range(len(words))), elements=len(words), flags=0, literal=True
        )

    def find(self, data: bytes) -> list[tuple[int, int, int]]:
        found: list[tuple[int, int, int]] = []
        sizes = self._sizes

        def hit(word: int, _begin: int, end: int, _flags: int, _context: object) -> None:
            found.append((word, end - sizes[word], end))

        with self._lock:
            self._database.scan(data, match_event_handler=hit)
        return found


@lru_cache(maxsize=4)
def finder(words: tuple[bytes, ...]) -> Finder:
    """Return a finder of some words, shared by all logs."""
    if words:
        try:
            return _Hyperscan(words)
        except ImportError:
            pass
    return _AhoCorasick(words)
