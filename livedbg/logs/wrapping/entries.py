"""Entries of JSON: a program's line as one field of many, as containers, the journal and collectors of logs write it.

Sources of the formats: docker's json-file driver (moby daemon/logger/jsonfilelog), systemd's Journal Export in JSON,
Loki (`logcli --output=jsonl`, Grafana's download), Cloud Logging (LogEntry with `textPayload`), CloudWatch Logs
(`get-log-events`), Fluent Bit's `json_lines`, Elastic's Filebeat and Logstash, Vector, Kaggle's log of a kernel,
Colab's of a runtime.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from livedbg.logs.clock import SourceClock
from livedbg.logs.wrapping.prefixes import program_tag
from livedbg.logs.writers import Opened, Tag
from livedbg.text.patterns import lazy_re

LIKELY_ENTRY: Final = r'.*?"(?:textPayload|line|message|log|stream_name|jupyter)"'

_NS: Final = {10: 10**9, 13: 10**6, 16: 10**3, 19: 1}  # by digits of a number of seconds, ms, us, ns
_FIELDS: Final = (  # the text, and what stands beside it where a collector wrote it
    ("textPayload", ()),
    ("message", ("insertId",)),  # of its jsonPayload
    ("data", ("stream_name", "time")),
    ("msg", ("pid", "type", "level", "v")),
    ("line", ("labels", "timestamp")),
    ("line", ("fields", "timestamp")),
    ("message", ("ingestionTime",)),
    ("message", ("@timestamp", "@version")),
    ("message", ("@timestamp", "agent")),
    ("message", ("@timestamp", "log")),
    ("message", ("source_type", "timestamp")),
    ("log", ("date",)),
    ("log", ("kubernetes",)),
    ("message", ("kubernetes", "@timestamp")),
)
_TIMES: Final = ("timestamp", "@timestamp", "date", "time")
_decoder = msgspec.json.Decoder(dict[str, Any])


def collected_json(line: str, clock: SourceClock) -> Opened | None:
    """The text in a collector's line; None for a program's own JSON."""
    try:
        entry = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    payload = entry.get("jsonPayload")
    if isinstance(payload, dict) and "message" not in entry:
        entry["message"] = payload.get("message")
    for name, beside in _FIELDS:
        text = entry.get(name)
        if isinstance(text, str) and all(one in entry for one in beside):
            when = next((entry[one] for one in _TIMES if one in entry), None)
            part = name == "data" and not text.endswith("\n")  # pieces of a stream, as they came
            return Opened(text.removesuffix("\n"), _tag(entry), _wall_ns(when, clock), part)
    return None


def _wall_ns(when: object, clock: SourceClock) -> int | None:
    if isinstance(when, float):
        return int(when * 1e9) if when > 1e9 else None  # smaller ones count from a start
    text = str(when)
    if text.isdecimal():
        return int(text) * _NS[len(text)] if len(text) in _NS else None
    if len(text) < 19:
        return None
    second, fraction, zone = text[:19], "", text[19:]
    if zone.startswith("."):
        digits = len(zone[1:]) - len(zone[1:].lstrip("0123456789"))
        fraction, zone = zone[1 : 1 + digits], zone[1 + digits :]
    return clock.date_time(second, fraction or None, zone or "Z")


def _tag(entry: dict[str, Any]) -> Tag:
    stream = entry.get("stream", entry.get("stream_name"))
    resource = entry.get("resource")
    places = (entry.get("kubernetes"), resource.get("labels") if isinstance(resource, dict) else None)
    named = next((one for one in (*places, entry.get("labels"), entry.get("fields")) if isinstance(one, dict)), {})
    pod = named.get("pod_name") or named.get("pod")
    container = named.get("container_name") or named.get("container")
    return _of(
        stream if stream in ("stdout", "stderr") else "",
        str(pod or ""),
        str(container or ""),
        str(named.get("task_name") or ""),
    )


@lru_cache(maxsize=4096)
def _of(stream: str, pod: str, container: str, task: str) -> Tag:
    writer = f"pod {pod}/{container}" if container else f"pod {pod}"
    return Tag(writer if pod else task, host=pod or task, stream=stream, container=container)


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
_STAMP: Final = lazy_re(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)$")


def stamp_ns(text: str, clock: SourceClock) -> int | None:
    match = _STAMP.match(text)
    return None if match is None else clock.date_time(match[1], match[2], match[3])


@lru_cache(maxsize=64)
def _of_stream(stream: str) -> Tag:
    return Tag(stream=stream)


def docker_json(line: str, clock: SourceClock) -> Opened | None:
    if '"log":' not in line or ('"stream":' not in line and '"time":' not in line):
        return None
    try:
        entry = _docker.decode(line)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    ended = entry.log.endswith("\n")
    return Opened(
        entry.log[:-1] if ended else entry.log, _of_stream(entry.stream), stamp_ns(entry.time, clock), part=not ended
    )


def journal_json(line: str, clock: SourceClock) -> Opened | None:
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
    tag = program_tag(entry.program, pid, entry.host, entry.container)
    return Opened(text, tag, int(entry.time) * 1000 if entry.time.isdecimal() else None)


def entry_json(line: str, clock: SourceClock) -> Opened | None:
    """The text in any entry of JSON that is known."""
    return docker_json(line, clock) or journal_json(line, clock) or collected_json(line, clock)
