"""Wrappings that one line proves: what else begins like that is not known.

Sources of the formats: docker's json-file driver (moby daemon/logger/jsonfilelog), Kubernetes' CRI log format, `kubectl
logs --prefix`, elastic launchers (`[default3]:`), Open MPI's `--tag-output` (and `--timestamp-output`: ctime before
it; SageMaker's has rank and host), Ray's log deduplicator (and SkyPilot's logs), vLLM's decorate_logs, systemd's
Journal Export in JSON, syslog (RFC 3164 and 5424 with `<PRI>`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct

from livedbg.logs.clock import SourceClock
from livedbg.logs.wrapping.collected import LIKELY, collected_json
from livedbg.logs.wrapping.platforms import PLATFORMS, month_of
from livedbg.logs.wrapping.tags import Opened, Tag

__all__ = ["CERTAIN", "Certain", "entry_json"]

_Open = Callable[[str, SourceClock], Opened | None]


class Certain(Struct, frozen=True):
    """A wrapping that one line proves.

    Attributes:
        first: the characters that its lines begin with.
        likely: an expression that all of its lines match, and few others.
        open: takes it off a line; None for a line that has it not.
        escaped: the text in it is a JSON string.
    """

    name: str
    first: str
    likely: str
    open: _Open
    escaped: bool = False


class _Docker(Struct):
    log: str
    stream: str = ""
    time: str = ""


class _Journal(Struct):
    message: str | list[int] | None = msgspec.field(name="MESSAGE", default=None)
    time: str = msgspec.field(name="__REALTIME_TIMESTAMP", default="")
    pid: str = msgspec.field(name="_PID", default="")
    host: str = msgspec.field(name="_HOSTNAME", default="")
    program: str = msgspec.field(name="SYSLOG_IDENTIFIER", default="")
    transport: str = msgspec.field(name="_TRANSPORT", default="")
    container: str = msgspec.field(name="CONTAINER_NAME", default="")


_docker = msgspec.json.Decoder(_Docker)
_journal = msgspec.json.Decoder(_Journal)
_STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)$")


def _time(text: str, clock: SourceClock) -> int | None:
    match = _STAMP.match(text)
    return None if match is None else clock.date_time(match[1], match[2], match[3])


@lru_cache(maxsize=64)
def _of_stream(stream: str) -> Tag:
    return Tag(stream=stream)


def _docker_json(line: str, clock: SourceClock) -> Opened | None:
    if '"log":' not in line or ('"stream":' not in line and '"time":' not in line):
        return None
    try:
        entry = _docker.decode(line)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    ended = entry.log.endswith("\n")
    return Opened(
        entry.log[:-1] if ended else entry.log, _of_stream(entry.stream), _time(entry.time, clock), part=not ended
    )


def _journal_json(line: str, clock: SourceClock) -> Opened | None:
    if '"MESSAGE":' not in line or '"__REALTIME_TIMESTAMP":' not in line:
        return None
    try:
        entry = _journal.decode(line)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    if isinstance(entry.message, list):
        text = bytes(byte & 255 for byte in entry.message).decode("utf-8", "replace")
    else:
        text = entry.message or ""
    if entry.transport == "kernel" or entry.program == "kernel":
        text = f"kernel: {text}"
    pid = int(entry.pid) if entry.pid.isdecimal() else None
    tag = _of_program(entry.program, pid, entry.host, entry.container)
    return Opened(text, tag, int(entry.time) * 1000 if entry.time.isdecimal() else None)


@lru_cache(maxsize=4096)
def _of_program(program: str, pid: int | None, host: str, container: str) -> Tag:
    writer = f"{program}[{pid}]" if pid is not None else program or host
    return Tag(writer, pid=pid, host=host, container=container)


def entry_json(line: str, clock: SourceClock) -> Opened | None:
    """The text in any entry of JSON that is known."""
    return _docker_json(line, clock) or _journal_json(line, clock) or collected_json(line, clock)


_GITLAB: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{6})(Z) [0-9a-f]{2}([OE])(?:[ +]|$)")


def _gitlab(line: str, clock: SourceClock) -> Opened | None:
    """GitLab's runner with time stamps: stream number, stream, `+` for a line that was cut."""
    match = _GITLAB.match(line) if line[26:28] == "Z " else None
    if match is None:
        return None
    stream = "stderr" if match[4] == "E" else "stdout"
    return Opened(line[match.end() :], _of_stream(stream), clock.date_time(match[1], match[2], match[3]))


_MARK: Final = re.compile(r"##\[(?:error|warning|notice|debug|group|endgroup|command|section)\]")


def _github_mark(line: str, clock: SourceClock) -> Opened | None:
    """What the runner of GitHub's Actions puts before lines that it prints in colour, or folds."""
    match = _MARK.match(line)
    return None if match is None else Opened(line[match.end() :])


_CRI: Final = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) (stdout|stderr) ([FP])(?:| (.*))$", re.DOTALL
)


def _cri(line: str, clock: SourceClock) -> Opened | None:
    if line[10:11] != "T":
        return None
    match = _CRI.match(line)
    if match is None:
        return None
    wall_ns = clock.date_time(match[1], match[2], match[3])
    return Opened(match[6] or "", _of_stream(match[4]), wall_ns, part=match[5] == "P")


_LAUNCHER: Final = re.compile(
    r"\[(?:(?P<word>rank(?:: )?|default|trainer|worker)(?P<rank>\d{1,6})\]:?"
    r"|(?P<role>\w{1,30})/(?P<replica>\d{1,6})\]:?"
    r"|pod/(?P<pod>[\w.-]{1,253})/(?P<container>[\w.-]{1,253})\]"
    r"|(?:[\w.-]{1,100}@)?\d{1,9},(?P<mpi>\d{1,6})\](?:\[[\w.,:-]{1,100}\])?<(?P<stream>stdout|stderr|stddiag)>:?"
    r"|\d{1,9},mpirank:(?P<mpirank>\d{1,6}),(?P<host>[\w.-]{1,100})\](?:<(?P<out>stdout|stderr)>)?:)"
    r"(?: (?=(?:  )*(?:[^ ]|$)))?"  # a blank behind it, which some write; Python indents by even numbers
)


def _launcher(line: str, clock: SourceClock) -> Opened | None:
    match = _LAUNCHER.match(line)
    return None if match is None else Opened(line[match.end() :], _of_launcher(match[0]))


@lru_cache(maxsize=4096)
def _of_launcher(prefix: str) -> Tag:
    match = _LAUNCHER.match(prefix)
    assert match is not None, "it matched before"
    if match["pod"] is not None:
        return Tag(f"pod {match['pod']}/{match['container']}", host=match["pod"], container=match["container"])
    number = match["rank"] or match["replica"] or match["mpi"] or match["mpirank"]
    stream = match["stream"] or match["out"] or ""
    return Tag(f"rank {int(number)}", rank=int(number), host=match["host"] or "", stream=stream)


_WORKER: Final = re.compile(
    r"\((?:(?P<name>[A-Za-z_][\w.:-]{0,60})(?P<more>(?:,? [\w.:=-]{1,40}){0,4}?),? )?pid=(?P<pid>\d{1,10})"
    r"(?P<rest>(?:,? ?[\w.]{1,30}=[\w.:@/-]{0,64}){0,4})\) ?"
)
_REPEATED: Final = re.compile(
    r"(?:\x1b\[\d{0,3}m)? \[repeated \d{1,9}x across cluster\]"
    r"(?: \(Ray deduplicates [^\n]{0,300}\))?(?:\x1b\[\d{0,3}m)?$"
)
"""What Ray's deduplicator puts behind each line that other workers wrote as well."""
_RANK: Final = re.compile(r"\brank=(\d{1,6})\b")
_PLACE: Final = re.compile(r"(?:^|[ _])((?:[A-Z]{2}\d{1,4}[ _]?){1,8})$")
_ADDRESS: Final = re.compile(r"\bip=([\w.:-]{1,64})")


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
    writer = f"worker {place[1].strip()}" if place is not None else f"pid {match['pid']}"
    address = _ADDRESS.search(match["rest"])
    return Tag(
        writer if number is None else f"rank {number}",
        rank=number,
        pid=int(match["pid"]),
        host=address[1] if address is not None else "",
    )


_SYSLOG: Final = re.compile(
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
    tag = _of_program("" if match["app"] == "-" else match["app"], pid, host, "")
    return Opened(text, tag, _time(match["time"], clock))


_CTIME: Final = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([A-Z][a-z]{2}) ([ \d]\d) (\d\d:\d\d:\d\d) (\d{4}):? ?"
    r"(?=(?:\[(?:[\w.-]{1,100}@)?\d{1,9},\d{1,6}\](?:\[[\w.,:-]{1,100}\])?)?<std(?:out|err|diag)>:)"
    r"(?:<(stdout|stderr)>:)?"
)


def _mpi_time(line: str, clock: SourceClock) -> Opened | None:
    match = _CTIME.match(line)
    if match is None:
        return None
    stamp = f"{match[4]}-{month_of(match[1]) or 0:02}-{int(match[2]):02} {match[3]}"
    return Opened(line[match.end() :], _of_stream(match[5] or ""), clock.date_time(stamp, None))


CERTAIN: Final = (
    Certain("docker-json", "{", r'.*?"log":', _docker_json, escaped=True),
    Certain("journal-json", "{", r'.*?"MESSAGE":', _journal_json, escaped=True),
    Certain("collected-json", "{", LIKELY, collected_json, escaped=True),
    Certain("gitlab", "0123456789", r"\d{4}-\d\d-\d\dT", _gitlab),
    Certain("github-mark", "#", r"##\[", _github_mark),
    Certain("cri", "0123456789", r"\d{4}-\d\d-\d\dT", _cri),
    Certain(
        "launcher",
        "[",
        r"\[(?:[a-z]+(?:: )?\d{1,6}\]|\w{1,30}/\d|pod/|[^\],]{1,110},(?:mpirank:)?\d{1,6}[\],])",
        _launcher,
    ),
    Certain("worker", "(", r".{0,200}?pid=", _worker),
    Certain("syslog", "<", r"<\d", _syslog),
    *(Certain(one.name, one.first, one.likely, one.open) for one in PLATFORMS),
    Certain("mpi-time", "MTWFS", r"[A-Z][a-z]{2} [A-Z][a-z]{2} ", _mpi_time),
)
"""All of them."""
