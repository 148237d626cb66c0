"""Wrappings that single lines do not prove, since text can look like them: lines in a row do.

A guess is asked for each line of a row that it fits, and proves itself by what all of them say: the same few labels
again and again, or behind it the beginnings of what is surely a line (a traceback, a log header, another wrapping).

Invariant:
    guesses.U1. A guess is proved by no fewer than two lines, if there are more, and never by numbers that only count
        the lines.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import Final

from livedbg.logs.clock import SourceClock, month_of
from livedbg.logs.wrapping.heads import Head
from livedbg.logs.wrapping.rows import Guess, Layer, Row, longer, may_be_host
from livedbg.logs.writers import NO_TAG, Opened, Tag

__all__ = ["GUESSES", "Journal", "Stamp"]

_LEVEL: Final = re.compile(
    r"[\s\[(<|:-]{0,3}(?:[\w.-]{1,60} ?[-:|] ?|[\w.]{1,60}(?:\[\d+\])? )?[\[(<|]?"
    r"(?:DEBUG|TRACE|VERBOSE|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|level=\w+)\b",
    re.IGNORECASE,
)


_PROGRAM: Final = re.compile(r"([\w.-]+) (?=[\w./-]*[A-Za-z])[\w./-]++(?:\[\d+\])?: ")


class Stamp:
    """A date and a time before every line: `kubectl logs --timestamps`, `docker logs -t`, GitHub's Actions, ts."""

    once = True
    first = "[(0123456789JFMASOND"
    likely = r"[\[(]?(?:\d{4}[-/]\d\d[-/]\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:|\d\d:\d\d:\d\d)"
    _pattern: Final = re.compile(
        r"[\[(]?(?:(\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(?: ?(Z|[+-]\d\d:?\d\d))?"
        r"|(?P<month>[A-Z][a-z]{2}) (?P<day>[ \d]\d) (?P<clock>\d\d:\d\d:\d\d)(?:\.(?P<part>\d{1,9}))?"
        r"|(?P<only>\d\d:\d\d:\d\d)(?:\.(?P<rest>\d{1,9}))?)[\])]?(?: |$)"
    )

    def open(self, text: str, clock: SourceClock) -> Opened | None:
        match = self._pattern.match(text)
        if match is None:
            return None
        if match[1]:
            return Opened(text[match.end() :], wall_ns=clock.date_time(match[1], match[2], match[3]))
        if match["only"]:
            return Opened(text[match.end() :])
        month = month_of(match["month"])
        if month is None:
            return None
        wall_ns = clock.month_day(month, int(match["day"]), match["clock"], match["part"])
        return Opened(text[match.end() :], wall_ns=wall_ns)

    def proved(self, row: Row) -> Layer | None:
        if len(row.texts) < 2:
            return None
        said = [one.text for one in row.inner]
        stamps = [match for match in map(self._pattern.match, row.texts) if match is not None]
        whole = all(match["only"] is None for match in stamps)
        if any(match["month"] is not None for match in stamps) and _of_one_host(said):
            return None  # of syslog
        if not whole and not longer(said, row.long or row.whole):
            return None
        levels = sum(_LEVEL.match(one.text) is not None for one in row.inner)
        if row.sure and levels * 2 <= len(row.texts):
            return self.open
        enough = row.long or (row.first and row.whole)
        return self.open if enough and levels * 3 <= len(row.texts) else None


def _of_one_host(texts: Sequence[str]) -> bool:
    """Whether most lines begin with the name of a host and a program."""
    hosts = Counter(match[1] for match in map(_PROGRAM.match, texts) if match is not None)
    return max(hosts.values(), default=0) * 2 > len(texts)


_PROGRAMS: Final = re.compile(
    r"kernel|systemd.*|sshd.*|sudo|cron|CRON|dbus.*|NetworkManager|rsyslogd?|dockerd|containerd|kubelet|chronyd?|su"
    r"|\w+-persistenced|slurm.*|auditd?|audit|polkitd|snapd|udevd|dhclient|ntpd|smartd|irqbalance|gdm.*|nv-.*"
)


class Journal:
    """`Nov 21 03:11:22 host program[7]: ` of journalctl (`-o short…`, with-unit) and of syslog's files."""

    once = True
    first = " JFMASONDTW[0123456789"
    likely = r"[A-Z][a-z]{2} +\d|\d{4}-\d\d-\d\dT|\[ {0,8}\d{1,9}\.\d{6}|\d{9,10}\.\d{6} "
    _pattern: Final = re.compile(
        r"(?:(?P<month>[A-Z][a-z]{2}) +(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d)(?:\.(?P<part>\d{3,9}))?"
        r"|(?P<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d{1,9}))?(?P<zone>Z|[+-]\d\d:?\d\d)?"
        r"|[A-Z][a-z]{2} (?P<full>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?P<utc>[A-Z]{2,5})"
        r"|(?P<unix>\d{9,10})\.(?P<micro>\d{6})|\[ {0,8}\d{1,9}\.\d{6}(?: <[ +\d.]{1,40}>)?\])"
        r" (?P<host>[\w.:-]{0,254}[\w.-]) (?P<program>(?=[^\s:\[\]]*[A-Za-z])[^\s:\[\]]{1,100})"
        r"(?:\[(?P<pid>\d{1,10})\])?:(?: |$)"
    )

    def open(self, text: str, clock: SourceClock) -> Opened | None:
        match = self._pattern.match(text)
        if match is None or _PROGRAMS.fullmatch(match["program"]):
            return None
        if match["full"]:
            wall_ns = clock.date_time(match["full"], None, "Z" if match["utc"] == "UTC" else None)
        elif match["unix"]:
            wall_ns = int(match["unix"] + match["micro"]) * 1000
        elif not match["second"] and not match["month"]:
            wall_ns = None  # since the machine started
        elif match["second"]:
            wall_ns = clock.date_time(match["second"], match["fraction"], match["zone"])
        else:
            month = month_of(match["month"])
            if month is None:
                return None
            wall_ns = clock.month_day(month, int(match["day"]), match["clock"], match["part"])
        pid = int(match["pid"]) if match["pid"] else None
        writer = match["program"] if pid is None else f"{match['program']}[{pid}]"
        return Opened(text[match.end() :], Tag(writer, pid=pid, host=match["host"]), wall_ns)

    def proved(self, row: Row) -> Layer | None:
        writers = {one.tag.writer for one in row.inner}
        if len(row.texts) < 2 or len(writers) * 2 > len(row.texts):
            return self.open if row.alone else None
        if not (row.sure or row.long or len(row.texts) > 2):
            return None
        width, newest = 0, NO_TAG

        def opened(text: str, clock: SourceClock) -> Opened | None:
            nonlocal width, newest
            inner = self.open(text, clock)
            if inner is not None:
                width, newest = len(text) - len(inner.text), inner.tag
            elif width and text.startswith(" " * width):  # journalctl indents the further lines of a message so far
                return Opened(text[width:], newest)
            return inner

        return opened


_MOST_RANKS: Final = 16_384
_OF_TEST: Final = ("Test command: ", "Test timeout computed to be: ")


class _Label:
    """`3: ` of `srun --label`, and `[3] ` of `mpiexec -prepend-rank`."""

    once = True

    def __init__(self, first: str, pattern: str) -> None:
        self.first, self.likely = first, pattern.replace("(\\d", "(?:\\d")
        self._pattern = re.compile(pattern)

    def open(self, text: str, clock: SourceClock) -> Opened | None:
        match = self._pattern.match(text)
        if match is None:
            return None
        number = int(match[1])
        if number > _MOST_RANKS:  # of a process, or a port
            return Opened(text[match.end() :], Tag(f"process or port {number}"))
        return Opened(text[match.end() :], Tag(f"rank {number}", rank=number))

    def _bare(self, text: str, clock: SourceClock) -> Opened | None:
        opened = self.open(text, clock)
        return None if opened is None else Opened(opened.text)

    def proved(self, row: Row) -> Layer | None:
        labels = [int(one.tag.writer.rpartition(" ")[2]) for one in row.inner]
        if len(set(labels)) == 1 and any(one.text.startswith(_OF_TEST) for one in row.inner):
            return self._bare  # CTest's number of a test
        if len(labels) < 2:
            return self.open if row.alone else None
        if all(before < after for before, after in pairwise(labels)):
            same = row.sure == len(labels) and len({one.text for one in row.inner}) == 1
            return self.open if same else None  # otherwise they number the lines
        return self.open if row.sure or (row.long and len(set(labels)) * 2 <= len(labels)) else None


class _Host:
    """`node12: ` of pdsh, dsh and clush."""

    once = True
    first = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    likely = r"[A-Za-z][\w.-]{0,61}?\d[\w.-]{0,61}:"
    _pattern: Final = re.compile(r"([A-Za-z][\w.-]{0,62}):(?: |$)")

    def open(self, text: str, clock: SourceClock) -> Opened | None:
        match = self._pattern.match(text)
        if match is None or not may_be_host(match[1]):
            return None
        return Opened(text[match.end() :], Tag(match[1], host=match[1]))

    def proved(self, row: Row) -> Layer | None:
        hosts = [one.tag.host for one in row.inner]
        stems = {re.sub(r"\d+", "", host.partition(".")[0]) for host in hosts}
        if len(hosts) < 2 or len(stems) > 1:
            return self.open if row.alone else None
        return self.open if row.sure or (row.long and len(set(hosts)) * 2 <= len(hosts)) else None


class _Service:
    """`name-1  | ` of docker compose."""

    once = True
    first = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    likely = r"[^ |:,=(]{1,81}+ +\|"
    _pattern: Final = re.compile(r"([A-Za-z0-9][\w.-]{0,80}) +\|(?: |$)")

    def open(self, text: str, clock: SourceClock) -> Opened | None:
        match = self._pattern.match(text)
        if match is None or not re.search(r"[A-Za-z]", match[1]):
            return None
        return Opened(text[match.end() :], Tag(f"container {match[1]}", container=match[1]))

    def proved(self, row: Row) -> Layer | None:
        names = [one.tag.container for one in row.inner]
        if len(names) < 2 or len({text.index("|") for text in row.texts}) > 1:
            return self.open if row.alone else None
        numbered = all(re.search(r"[-_]\d{1,4}$", name) for name in names)
        if row.sure and len(set(names)) * 2 <= len(names):
            return self.open
        cells = sum(" | " in one.text for one in row.inner)
        one = numbered and len(set(names)) == 1
        repeated = one or (len(set(names)) * 2 <= len(names) and cells * 2 <= len(names))
        return self.open if repeated and row.long and (numbered or len(set(names)) <= 3) else None


_MADE: Final = re.compile(r"-[a-z0-9]{5,10}-[a-z0-9]{5}$")


class _Pod:
    """`train-7f9c4 worker ` of stern: the pod and the container before each line."""

    once = True
    first = "abcdefghijklmnopqrstuvwxyz"
    likely = r"[a-z][a-z0-9.]{0,100}-[a-z0-9.-]{1,100} [a-z0-9]"
    _pattern: Final = re.compile(r"([a-z][a-z0-9.]{0,100}-[a-z0-9.-]{1,100}) ([a-z0-9][a-z0-9-]{0,62})(?: |$)")

    def open(self, text: str, clock: SourceClock) -> Opened | None:
        match = self._pattern.match(text)
        if match is None or not any(map(str.isdecimal, match[1])):
            return None
        tag = Tag(f"pod {match[1]}/{match[2]}", host=match[1], container=match[2])
        return Opened(text[match.end() :], tag)

    def proved(self, row: Row) -> Layer | None:
        pairs = {one.tag.writer for one in row.inner}
        if len(row.inner) < 2 or len(pairs) * 2 > len(row.inner):
            return None
        made = all(_MADE.search(one.tag.host) is not None for one in row.inner)  # by Kubernetes, of a deployment
        return self.open if row.sure or (made and row.long) else None


class _Quote:
    """`> ` of a text that was quoted."""

    once = True
    first = ">"
    likely = ">"
    _pattern: Final = re.compile(r"(?:>(?!>>) ?){1,5}")

    def open(self, text: str, clock: SourceClock) -> Opened | None:
        match = self._pattern.match(text)
        return None if match is None else Opened(text[match.end() :])

    def proved(self, row: Row) -> Layer | None:
        enough = len(row.texts) > 2 and (row.sure or (row.first and row.long))
        return self.open if enough or row.alone else None


_BAR: Final = re.compile(r" {0,2}\d{1,3}%\|")


def _indentation(text: str) -> str:
    """The blanks before a line, but for those with which a progress bar fills three columns."""
    bare = text.lstrip(" \t")
    blanks = len(text) - len(bare)
    own = max(0, 3 - bare.find("%")) if _BAR.match(bare) is not None else 0
    return text[: max(0, blanks - own)]


class _Indent:
    """Blanks before every line, as of a text that was pasted as code."""

    once = True
    first = " \t"
    likely = ""

    def open(self, text: str, clock: SourceClock) -> Opened | None:
        return Opened(text.lstrip(" \t")) if _indentation(text) else None

    def proved(self, row: Row) -> Layer | None:
        if not row.first or not (row.long or (row.whole and len(row.texts) > 1)):
            return None
        blanks = [_indentation(text) for text in row.texts]
        common = "".join(one[0] for one in takewhile(lambda one: len(set(one)) == 1, zip(*blanks, strict=False)))
        if not common:
            return None

        over = False

        def dedent(text: str, clock: SourceClock) -> Opened | None:
            nonlocal over
            over = over or not (text.startswith(common) or text.isspace())
            return None if over else Opened(text[len(common) :])

        return dedent


GUESSES: Final[tuple[Guess, ...]] = (
    Head(),
    Stamp(),
    Journal(),
    _Label(" 0123456789", r" {0,5}(\d{1,5}):(?: |$)"),
    _Label("[", r"\[(\d{1,6})\](?: |$)"),
    _Service(),
    _Pod(),
    _Host(),
    _Quote(),
    _Indent(),
)
"""All of them; where two are proved by the same lines, the first one is taken."""
