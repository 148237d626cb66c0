"""Wrappings that a single line proves, in one table.

Sources of the formats: Kubernetes' CRI log format, `kubectl logs --prefix`, GitLab's runner with time stamps, GitHub's
Actions, elastic launchers (`[default3]:`), Open MPI's `--tag-output` (and `--timestamp-output`: ctime before it;
SageMaker's has rank and host), Ray's log deduplicator (and SkyPilot's logs), vLLM's decorate_logs, syslog (RFC 3164 and
5424 with `<PRI>`), Determined (`det trial logs`), Vertex AI (`gcloud ai custom-jobs stream-logs`), TeamCity's build
log, SGLang's workers (`[TIME DP0 TP2]`), Buildkite's agent (an APC sequence with the time in ms), `dmesg -T` (ctime in
brackets).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from msgspec import Struct

from livedbg.logs.clock import SourceClock
from livedbg.logs.wrapping.entries import (
    LIKELY_ENTRY,
    LIKELY_LOGGED,
    collected_json,
    docker_json,
    journal_json,
    logged_json,
    stamp_ns,
)
from livedbg.logs.wrapping.prefixes import MONTH, Layer, by, program_tag
from livedbg.logs.writers import Opened, Tag
from livedbg.text.patterns import lazy_re

_TAB: Final = 8  # columns


class Certain(Struct, frozen=True):
    """A wrapping that a single line proves.

    Attributes:
        first: the characters that its lines begin with.
        likely: an expression that all of its lines match, and few others.
        open: takes it off a line; returns None for a line without it.
    """

    name: str
    first: str
    likely: str
    open: Layer
    escaped: bool = False


def _to_tab(text: str, end: int) -> int:
    """Return the end of a column that was padded with blanks to the next tab stop."""
    stop = (end // _TAB + 1) * _TAB
    return end + 1 if text[end : end + 1] == "\t" else stop if text[end:stop].isspace() else end + 1


_WORKER: Final = lazy_re(
    r"\((?:(?P<name>[A-Za-z_][\w.:-]{0,60})(?P<more>(?:,? [\w.:=-]{1,40}){0,4}?),? )?pid=(?P<pid>\d{1,10})"
    r"(?P<rest>(?:,? ?[\w.]{1,30}=[\w.:@/-]{0,64}){0,4})\) ?"
)
_REPEATED: Final = lazy_re(
    r"(?:\x1b\[\d{0,3}m)? \[repeated \d{1,9}x across cluster\]"
    r"(?: \(Ray deduplicates [^\n]{0,300}\))?(?:\x1b\[\d{0,3}m)?$"
)
"""What Ray's deduplicator puts behind each line that other workers wrote as well."""
_RANK: Final = lazy_re(r"\brank=(\d{1,6})\b")
_PLACE: Final = lazy_re(r"(?:^|[ _])((?:[A-Z]{2}\d{1,4}[ _]?){1,8})$")
_ADDRESS: Final = lazy_re(r"\bip=([\w.:-]{1,64})")


def _worker(line: str, clock: SourceClock) -> Opened | None:
    if "pid=" not in line[:200]:
        return None
    match = _WORKER.match(line)
    if match is None:
        return None
    said = line[match.end() :]
    if "x across cluster]" in said:
        said = _REPEATED.sub("", said)
    return Opened(said, _of_worker(match[0]))


@lru_cache(maxsize=4096)
def _of_worker(prefix: str) -> Tag:
    match = _WORKER.match(prefix)
    assert match is not None, "it matched before"
    rank, place = _RANK.search(prefix), _PLACE.search(f"{match['name'] or ''}{match['more'] or ''}")
    number = None if rank is None else int(rank[1])
    role = "engine core" if (match["name"] or "").startswith("EngineCore") else "worker"
    writer = f"{role} {place[1].strip()}" if place is not None else f"pid {match['pid']}"
    address = _ADDRESS.search(match["rest"])
    return Tag(
        writer if number is None else f"rank {number}",
        rank=number,
        pid=int(match["pid"]),
        host=address[1] if address is not None else "",
    )


_SYSLOG: Final = lazy_re(
    r"<\d{1,3}>(?:1 (?P<time>\S{1,40}) (?P<host>\S{1,255}) (?P<app>\S{1,48}) (?P<proc>\S{1,128}) \S{1,32} "
    r"(?:-|(?:\[(?:[^\]\\]|\\.){0,2000}\]){1,20})(?: |$)(?:\ufeff|\ufffd)?"
    r"|(?=[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d ))"
)


def _syslog(line: str, clock: SourceClock) -> Opened | None:
    match = _SYSLOG.match(line)
    if match is None:
        return None
    if match["time"] is None:
        return Opened(line[match.end() :])
    pid = int(match["proc"]) if match["proc"].isdecimal() and len(match["proc"]) <= 10 else None
    text = line[match.end() :]
    if match["app"] == "kernel":
        text = f"kernel: {text}"
    host = "" if match["host"] == "-" else match["host"]
    tag = program_tag("" if match["app"] == "-" else match["app"], pid, host, "")
    return Opened(text, tag, stamp_ns(match["time"], clock))


_BUILDKITE: Final = lazy_re(r"\u241b_bk;t=\d{1,16}\u2407")
_buildkite = by("\u241b_bk;t=(?P<ms>\\d{1,16})\u2407")


def _buildkite_time(text: str, clock: SourceClock) -> Opened | None:
    """Take off the time, also inside the line, where more was written to it later."""
    opened = _buildkite(text, clock)
    return None if opened is None else opened._replace(text=_BUILDKITE.sub("", opened.text))


_PLACED: Final = lazy_re(
    r"\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(?P<part>\d{3}))?(?P<place>(?: [A-Z_]{2,12}\d{1,5}){1,6})\](?: |$)"
)
_TP_ALONE: Final = lazy_re(r" TP(\d{1,5})(?: EP\d{1,5})?")


def _placed(line: str, clock: SourceClock) -> Opened | None:
    """Take off the place; a rank of tensor parallelism alone is the rank."""
    match = _PLACED.match(line)
    if match is None:
        return None
    return Opened(line[match.end() :], _at_place(match["place"]), clock.date_time(match["time"], match["part"]))


@lru_cache(maxsize=4096)
def _at_place(place: str) -> Tag:
    alone = _TP_ALONE.fullmatch(place)
    return Tag(f"worker{place}") if alone is None else Tag(f"rank {int(alone[1])}", rank=int(alone[1]))


_DAY: Final = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_DATED: Final = r"\d{4}-\d\d-\d\dT"
_TIME: Final = r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?P<part>\d{1,9}))?"
_MPI: Final = r"(?:[\w.-]{1,100}@)?\d{1,9}"

CERTAIN: Final = (
    Certain("docker-json", "{", r'.*?"log":', docker_json, escaped=True),
    Certain("journal-json", "{", r'.*?"MESSAGE":', journal_json, escaped=True),
    Certain("logged-json", "{", LIKELY_LOGGED, logged_json, escaped=True),
    Certain("collected-json", "{", LIKELY_ENTRY, collected_json, escaped=True),
    Certain(  # before lines that are printed in colour, or folded
        "github-mark", "#", r"##\[", by(r"##\[(?:error|warning|notice|debug|group|endgroup|command|section)\]")
    ),
    Certain(  # Kubernetes, and GitLab's runner: stream number, stream, `+` for a line that was cut
        "cri",
        "0123456789",
        _DATED,
        by(
            _TIME + r"(?P<zone>Z|[+-]\d\d:\d\d) (?:(?P<stream>stdout|stderr) (?:F|(?P<cut>P))(?: |$)"
            r"|[0-9a-f]{2}(?P<stream_2>[OE])(?:[ +]|$))"
        ),
    ),
    Certain(
        "launcher",
        "[",
        r"\[(?:[a-z]+(?:: )?\d{1,6}(?:\|\d{1,6})?\]|\d{1,6}\]<std|[A-Za-z_]\w{0,29}/\d|pod/"
        r"|[^\],]{1,110},(?:mpirank:)?\d{1,6}[\],])",
        by(
            r"\[(?:(?:rank(?:: )?|default|trainer|worker|[A-Za-z_]\w{0,29}/)(?P<rank>\d{1,6})(?:\|\d{1,6})?\]:?"
            r"|pod/(?P<pod>[\w.-]{1,253})/(?P<container>[\w.-]{1,253})\]"
            rf"|(?:{_MPI},)?(?P<rank_2>\d{{1,6}})\](?:\[[\w.,:-]{{1,100}}\])?<(?P<stream>stdout|stderr|stddiag)>:?"
            r"|\d{1,9},mpirank:(?P<rank_3>\d{1,6}),(?P<host>[\w.-]{1,100})\](?:<(?P<stream_2>stdout|stderr)>)?:)"
            r"(?: (?=(?:  )*(?:[^ ]|$)))?"  # a blank behind it, which some write; Python indents by even numbers
        ),
    ),
    Certain("launcher without a host", ":", r": \[rank\d", by(r": (?=\[rank\d{1,6}\]:)")),  # whose name was taken out
    Certain(  # the last two: who pastes a log glued it to the text of its first line
        "fence",
        "`",
        r"```|` ",
        by(
            r"`{3,8}[ \t]{0,4}[A-Za-z][\w+-]{0,20}[ \t]*$|`{3,8}[ \t]*$"
            r"|`{3}(?=[^\s`][^`\n]{19,2000}$)|` (?=[^`\n]{20,2000}$)"
        ),
    ),
    Certain(  # what a command of a test wrote, with the box around it, and how it ended
        "lit",
        "# ",
        r" {0,8}# [|.`en]",
        by(r" {0,8}# (?:\|(?: |$)|[.`]-{3}[\w -]{3,60}$|(?=(?:error|note): command ))"),
    ),
    Certain("worker", "(", r".{0,200}?pid=", _worker),
    Certain("placed", "[", r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})? (?:DP|PP|TP|ATTN_)", _placed),
    Certain("syslog", "<", r"<\d", _syslog),
    Certain(
        "determined",
        "[",
        r"\[(?:\d{4}-\d\d-\d\dT[\d:.]{8,18}Z\] [^|]{0,40}|rank=\d{1,6}\] )\|\|",
        by(rf"(?:\[{_TIME}(?P<zone>Z)\] (?:[0-9a-f]{{8}} )?)?(?:\[rank=(?P<rank>\d{{1,6}})\] )?\|\|(?: |$)"),
    ),
    Certain(
        "vertex",
        "DINWCEA",
        r"[A-Z]{4,9}(?:\t| +)\d{4}-\d\d-\d\d ",
        by(
            r"(?:DEFAULT|DEBUG|INFO|NOTICE|WARNING|ERROR|CRITICAL|ALERT|EMERGENCY)(?:\t| {1,8})"
            r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?P<zone>[+-]\d{4})(?:\t| {1,8})"
            r"(?P<host>workerpool\d{1,2}-\d{1,6}|service)(?=\t| |$)",
            _to_tab,
        ),
    ),
    Certain(
        "teamcity",
        "[",
        r"\[\d\d:\d\d:\d\d\][ A-Za-z]:\t",
        by(r"\[\d\d:\d\d:\d\d\][ A-Za-z]:\t ?(?:\[[^\]]{1,200}\](?: |$))?"),
    ),
    Certain("buildkite", "\u241b", "\u241b_bk;t=", _buildkite_time),
    Certain(
        "ctime",
        "[",
        rf"\[{_DAY} ",
        by(
            rf"\[{_DAY} {MONTH} (?P<day>[ \d]\d) (?P<clock>\d\d:\d\d:\d\d)"
            r" (?P<year>\d{4})\](?: |$)"
        ),
    ),
    Certain(
        "mpi-time",
        "MTWFS",
        r"[A-Z][a-z]{2} [A-Z][a-z]{2} ",
        by(
            rf"{_DAY} {MONTH} (?P<day>[ \d]\d) (?P<clock>\d\d:\d\d:\d\d) (?P<year>\d{{4}}):? ?"
            rf"(?=(?:\[(?:{_MPI},)?\d{{1,6}}\](?:\[[\w.,:-]{{1,100}}\])?)?<std(?:out|err|diag)>:)(?:<(?P<stream>stdout|stderr)>:)?"
        ),
    ),
)
"""All of them."""
