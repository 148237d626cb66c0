"""Wrappings that only consecutive lines prove, since text can look like them, in one table.

A guess is tried on each line of a row, and proves itself by all of them: the same few labels recur, or the text after
them surely begins a line (a traceback, a log header, another wrapping). Sources of the forms: `srun --label` and
`mpiexec -prepend-rank`; pdsh, dsh and clush; docker compose; stern; `kubectl logs --timestamps`, `docker logs -t`,
GitHub's Actions and ts; BuildKit's `--progress=plain`; journalctl (`-o short…`, with-unit) and syslog's files.

Invariant:
    guesses.U1. A guess is proved by no fewer than two lines, if there are more, and never by numbers that only count
        the lines.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise, takewhile
from string import ascii_letters, ascii_lowercase, digits
from typing import Final

from livedbg.logs.clock import SourceClock
from livedbg.logs.wrapping.heads import HEAD
from livedbg.logs.wrapping.prefixes import MONTH, Layer, any_of, by
from livedbg.logs.wrapping.rows import Guess, Row, longer, may_be_host
from livedbg.logs.writers import NO_TAG, Opened
from livedbg.text.patterns import lazy_re

# stamps alone

_LEVEL: Final = lazy_re(
    r"[\s\[(<|:-]{0,3}(?:[\w.-]{1,60} ?[-:|] ?|[\w.]{1,60}(?:\[\d+\])? )?[\[(<|]?"
    r"(?:DEBUG|TRACE|VERBOSE|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|level=\w+)\b",
    re.IGNORECASE,
)
_PROGRAM: Final = lazy_re(r"([\w.-]+) (?=[\w./-]*[A-Za-z])[\w./-]++(?:\[\d+\])?: ")
_MONTH_FIRST: Final = lazy_re(r"[\[(]?[A-Z]")
_ONLY_CLOCK: Final = lazy_re(r"[\[(]?\d\d:")
_stamp = any_of(
    by(
        r"([\[(])?(?P<time>\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?"
        r"(?: ?(?P<zone>Z|[+-]\d\d:?\d\d))?(?(1)[\])])(?: |$)"
    ),
    by(rf"([\[(])?{MONTH} (?P<day>[ \d]\d) (?P<clock>\d\d:\d\d:\d\d)(?:\.(?P<part>\d{{1,9}}))?(?(1)[\])])(?: |$)"),
    by(r"([\[(])?\d\d:\d\d:\d\d(?:\.\d{1,9})?(?(1)[\])])(?: |$)"),
)


def leveled(text: str) -> bool:
    """Return whether a logger's level stands at the beginning of a text, or a logger's name and that."""
    return _LEVEL.match(text) is not None


def _stamps(row: Row, layer: Layer) -> Layer | None:
    if len(row.texts) < 2:
        return None
    said = [one.text for one in row.inner]
    if any(map(_MONTH_FIRST.match, row.texts)) and _of_one_host(said):
        return None  # of syslog
    if any(map(_ONLY_CLOCK.match, row.texts)) and not longer(said, row.long or row.whole):
        return None
    levels = sum(map(leveled, said))
    if row.sure and levels * 2 <= len(row.texts):
        return layer
    return layer if (row.long or (row.first and row.whole)) and levels * 3 <= len(row.texts) else None


def _of_one_host(texts: Sequence[str]) -> bool:
    """Return whether most lines begin with the name of one host and a program."""
    hosts = Counter(match[1] for match in map(_PROGRAM.match, texts) if match is not None)
    return max(hosts.values(), default=0) * 2 > len(texts)


# programs of a host

_SYSTEM_S: Final = (
    r"(?:kernel|systemd[^\s:\[\]]*|sshd[^\s:\[\]]*|sudo|cron|CRON|dbus[^\s:\[\]]*|NetworkManager|rsyslogd?|dockerd"
    r"|containerd|kubelet|chronyd?|su|\w+-persistenced|slurm[^\s:\[\]]*|auditd?|audit|polkitd|snapd|udevd|dhclient|ntpd"
    r"|smartd|irqbalance|gdm[^\s:\[\]]*|nv-[^\s:\[\]]*)(?:\[\d{1,10}\])?:"
)
_HOST: Final = r" (?P<host>[\w.:-]{0,254}[\w.-])"
_BY: Final = rf" (?!{_SYSTEM_S})(?P<program>(?=[^\s:\[\]]{{0,100}}[A-Za-z])[^\s:\[\]]{{1,100}})"
_PID: Final = r"\[(?P<pid>\d{1,10})\]"
_OF: Final = rf"{_HOST}{_BY}(?:{_PID})?:(?: |$)"
_STAMP: Final = r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?(?P<zone>Z|[+-]\d\d:?\d\d)?"
_journal = any_of(
    by(rf"{MONTH} +(?P<day>\d{{1,2}}) (?P<clock>\d\d:\d\d:\d\d)(?:\.(?P<part>\d{{3,9}}))?" + _OF),
    by(_STAMP + _OF),
    by(_STAMP + _BY + _PID + ":(?: |$)"),  # --no-hostname
    by(r"[A-Z][a-z]{2} (?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:(?P<zone>UTC)|[A-Z]{2,5})" + _OF),
    by(r"(?P<unix>\d{9,10})\.(?P<micro>\d{6})" + _OF),
    # since the machine started: without a pid it may be what the kernel says, `[1.000000] EDAC MC1: …`
    by(rf"\[ {{0,8}}\d{{1,9}}\.\d{{6}}(?: <[ +\d.]{{1,40}}>)?\]{_HOST}{_BY}{_PID}:(?: |$)"),
)


def _journals(row: Row, layer: Layer) -> Layer | None:
    writers = {one.tag.writer for one in row.inner}
    if len(row.texts) < 2 or len(writers) * 2 > len(row.texts):
        return layer if row.alone else None
    if not (row.sure or row.long or len(row.texts) > 2):
        return None
    width, newest = 0, NO_TAG

    def opened(text: str, clock: SourceClock) -> Opened | None:
        nonlocal width, newest
        inner = layer(text, clock)
        if inner is not None:
            width, newest = len(text) - len(inner.text), inner.tag
        elif width and text.startswith(" " * width):  # journalctl indents the further lines of a message so far
            return Opened(text[width:], newest)
        return inner

    return opened


# ranks, hosts, containers, pods

_OF_TEST: Final = ("Test command: ", "Test timeout computed to be: ")
_OF_RUN: Final = ("[ RUN      ] ", "[==========] Running ")
_NUMBERED: Final = lazy_re(r"[-_]\d{1,4}$")
_MADE: Final = lazy_re(r"-[a-z0-9]{5,10}-[a-z0-9]{5}$")
_hosts_prefix = by(r"(?P<host>[A-Za-z][\w.-]{0,62}):(?: |$)")


def _repeat(names: Sequence[object]) -> bool:
    return len(set(names)) * 2 <= len(names)


def _labels(row: Row, layer: Layer) -> Layer | None:
    labels = [int(one.tag.writer.rpartition(" ")[2]) for one in row.inner]
    if any(one.text.startswith(_OF_TEST) for one in row.inner):
        return lambda text, clock: _bare(layer(text, clock))  # CTest's numbers of tests
    if set(labels).isdisjoint({0}) and len(set(labels)) == 1 and any(one.text.startswith(_OF_RUN) for one in row.inner):
        return _numbered(layer)  # so are they of what a test prints, whose beginning was not copied
    if len(labels) < 2:
        judged = row.alone
    elif all(before < after for before, after in pairwise(labels)):
        judged = row.sure == len(labels) and len({one.text for one in row.inner}) == 1
    else:
        judged = row.sure > 0 or (row.long and _repeat(labels))
    if not judged:  # they number the lines
        return None
    ranks = min(labels) == 0 or len(set(labels)) > 1 or row.texts[0][0] not in "123456789"  # srun pads them
    return layer if ranks else _numbered(layer)


def _numbered(layer: Layer) -> Layer:
    """Return a layer that takes numbers off, which are ranks once there is a rank 0: tests of CTest count from 1."""
    ranks = False

    def opened(text: str, clock: SourceClock) -> Opened | None:
        nonlocal ranks
        inner = layer(text, clock)
        ranks = ranks or (inner is not None and inner.tag.rank == 0)
        return inner if ranks else _bare(inner)

    return opened


def _bare(opened: Opened | None) -> Opened | None:
    return None if opened is None else Opened(opened.text)


def _host(text: str, clock: SourceClock) -> Opened | None:
    opened = _hosts_prefix(text, clock)
    return opened if opened is not None and may_be_host(opened.tag.host) else None


def _hosts(row: Row, layer: Layer) -> Layer | None:
    hosts = [one.tag.host for one in row.inner]
    stems = {re.sub(r"\d+", "", host.partition(".")[0]) for host in hosts}
    if len(hosts) < 2 or len(stems) > 1:
        return layer if row.alone else None
    return layer if row.sure or (row.long and _repeat(hosts)) else None


def _services(row: Row, layer: Layer) -> Layer | None:
    names = [one.tag.container for one in row.inner]
    if len(names) < 2 or len({text.index("|") for text in row.texts}) > 1:
        return layer if row.alone else None
    numbered = all(map(_NUMBERED.search, names))
    if row.sure and (_repeat(names) or (numbered and row.sure == len(names))):
        return layer
    cells = sum(" | " in one.text for one in row.inner)
    repeated = (numbered and len(set(names)) == 1) or (_repeat(names) and cells * 2 <= len(names))
    return layer if repeated and row.long and (numbered or len(set(names)) <= 3) else None


def _pods(row: Row, layer: Layer) -> Layer | None:
    if len(row.inner) < 2 or not _repeat([one.tag.writer for one in row.inner]):
        return None
    made = all(_MADE.search(one.tag.host) is not None for one in row.inner)  # by Kubernetes, of a deployment
    return layer if row.sure or (made and row.long) else None


# steps of a build

_since = by(r"#(?P<step>\d{1,4}) \d{1,6}\.\d{1,3}(?: |$)")


def _builds(row: Row, layer: Layer) -> Layer | None:
    """BuildKit's seconds since a step began rise from line to line of it."""
    times = [(step, float(seconds)) for step, seconds in (text.split(" ")[:2] for text in row.texts)]
    rise = all(a[0] != b[0] or a[1] <= b[1] for a, b in pairwise(times))
    same = _repeat([step for step, _ in times])
    return layer if rise and same and (row.sure or row.long or len(times) > 2) else None


_elapsed = by(r"\d{1,6}\.\d{1,3}(?: |$)")
_NUMBER: Final = lazy_re(r"\s{0,40}[-+]?\d[\d.,]{0,40}(?:e[-+]?\d{1,4})?(?:[\s,;|]|$)")


def _errors_of_builds(row: Row, layer: Layer) -> Layer | None:
    """BuildKit's seconds alone, as it prints the step that failed once more: many lines come at the same time.

    A table of marks looks alike, but for what surely begins a line.
    """
    times = [text.partition(" ")[0] for text in row.texts]
    rise = all(float(a) <= float(b) for a, b in pairwise(times))
    words = not any(_NUMBER.match(one.text) for one in row.inner)
    same = len(times) > 2 and len(set(times)) * 3 <= len(times) * 2
    return layer if rise and words and same and row.sure else None


# quoted and pasted text

_BAR: Final = lazy_re(r" {0,2}\d{1,3}%\|")


def _quotes(row: Row, layer: Layer) -> Layer | None:
    enough = len(row.texts) > 2 and (row.sure or (row.first and row.long))
    return layer if enough or row.alone else None


def _indentation(text: str) -> str:
    """Return the blanks before a line, without those that pad a progress bar to three columns."""
    bare = text.lstrip(" \t")
    blanks = len(text) - len(bare)
    own = max(0, 3 - bare.find("%")) if _BAR.match(bare) is not None else 0
    return text[: max(0, blanks - own)]


def _indented(text: str, clock: SourceClock) -> Opened | None:
    return Opened(text.lstrip(" \t")) if _indentation(text) else None


def _indents(row: Row, _layer: Layer) -> Layer | None:
    if not row.first or not (row.long or (row.whole and len(row.texts) > 1)):
        return None
    blanks = [_indentation(text) for text in row.texts]
    common = "".join(one[0] for one in takewhile(lambda one: len(set(one)) == 1, zip(*blanks, strict=False)))
    if row.texts[0].startswith(f'{common}File "'):  # of a traceback whose head is cut off: frames are indented by two
        common = common[:-2]
    if not common:
        return None
    over = False

    def dedent(text: str, clock: SourceClock) -> Opened | None:
        nonlocal over
        over = over or not (text.startswith(common) or text.isspace())
        return None if over else Opened(text[len(common) :])

    return dedent


GUESSES: Final[tuple[Guess, ...]] = (
    HEAD,
    Guess(
        "[(0123456789JFMASOND",
        r"[\[(]?(?:\d{4}[-/]\d\d[-/]\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:|\d\d:\d\d:\d\d)",
        _stamp,
        _stamps,
    ),
    Guess(
        " JFMASONDTW[0123456789",
        r"[A-Z][a-z]{2} +\d|\d{4}-\d\d-\d\dT|\[ {0,8}\d{1,9}\.\d{6}|\d{9,10}\.\d{6} ",
        _journal,
        _journals,
    ),
    Guess(" 0123456789", r" {0,5}\d{1,5}:(?: |$)", by(r" {0,5}(?P<label>\d{1,5}):(?: |$)"), _labels),
    Guess("[", r"\[\d{1,6}\](?: |$)", by(r"\[(?P<label>\d{1,6})\](?: |$)"), _labels),
    Guess("[", r"\[\d{1,6}\]:.", by(r"\[(?P<label>\d{1,6})\]:(?=.)(?: (?=(?:  )*(?:[^ ]|$)))?"), _labels),
    Guess(  # `name-1  | `
        ascii_letters + digits,
        r"[^ |:,=(]{1,81}+ +\|",
        by(r"(?=[\w.-]{0,80}[A-Za-z])(?P<service>[A-Za-z0-9][\w.-]{0,80}) +\|(?: |$)"),
        _services,
    ),
    Guess(  # `train-7f9c4 worker `
        ascii_lowercase,
        r"[a-z][a-z0-9.]{0,100}-[a-z0-9.-]{1,100} [a-z0-9]",
        by(
            r"(?=[a-z.-]{0,200}\d)(?P<pod>[a-z][a-z0-9.]{0,100}-[a-z0-9.-]{1,100}) "
            r"(?P<container>[a-z0-9][a-z0-9-]{0,62})(?: |$)"
        ),
        _pods,
    ),
    Guess("#", r"#\d{1,4} \d{1,6}\.\d", _since, _builds),
    Guess("0123456789", r"\d{1,6}\.\d{1,3}(?: |$)", _elapsed, _errors_of_builds),
    Guess(ascii_letters, r"[A-Za-z][\w.-]{0,61}?\d[\w.-]{0,61}:", _host, _hosts),
    Guess(">", ">", by(r"(?:>(?!>>) ?){1,5}"), _quotes),
    Guess(" \t", "", _indented, _indents),
)
"""All of them; where two are proved by the same lines, the first one is taken."""
