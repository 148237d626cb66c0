"""Guesses about what stands before lines with a time: stamps alone, and those of journalctl and syslog's files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from livedbg.logs.clock import SourceClock
from livedbg.logs.wrapping.platforms import month_of
from livedbg.logs.wrapping.rows import Layer, Row, longer
from livedbg.logs.wrapping.tags import NO_TAG, Opened, Tag

__all__ = ["Journal", "Stamp"]

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
