"""JSON entries: a program's line as a field, as containers, the journal and collectors of logs write it.

Sources of the formats: docker's json-file driver (moby daemon/logger/jsonfilelog), systemd's Journal Export in JSON,
Loki (`logcli --output=jsonl`, Grafana's download), Cloud Logging (LogEntry with `textPayload`), CloudWatch Logs
(`get-log-events`), Fluent Bit's `json_lines`, Elastic's Filebeat and Logstash, Vector, Kaggle's log of a kernel,
Colab's of a runtime.

Records of a program's own logger become lines of logfmt, with level, message and error. Sources of their fields: zap,
zerolog, logrus, slog and Caddy of Go; pino, bunyan and winston; logback's encoder, Log4j's and Quarkus' layouts,
Elastic's ECS loggers; python-json-logger, structlog and dbt; Rust's tracing; Serilog's CLEF; MongoDB.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from livedbg.logs.clock import SourceClock
from livedbg.logs.shapes import severity_of_word
from livedbg.logs.wrapping.prefixes import program_tag
from livedbg.logs.writers import Opened, Tag
from livedbg.model import Severity
from livedbg.text.patterns import lazy_re

LIKELY_LOGGED: Final = r'.*?"(?:level|lvl|severity|levelname|log\.level|@l|s)" ?: ?(?:"|\d0\b)'
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
TIMES: Final = ("timestamp", "@timestamp", "date", "time")
_decoder = msgspec.json.Decoder(dict[str, Any])


def decode_entry(line: str) -> dict[str, Any] | None:
    """Return the fields of a line that is one JSON object, or None."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def collected_json(line: str, clock: SourceClock) -> Opened | None:
    """Return the text in a collector's line; None for a program's own JSON."""
    entry = decode_entry(line)
    if entry is None:
        return None
    payload = entry.get("jsonPayload")
    if isinstance(payload, dict) and "message" not in entry:
        entry["message"] = payload.get("message")
    for name, beside in _FIELDS:
        text = entry.get(name)
        if isinstance(text, str) and all(one in entry for one in beside):
            when = next((entry[one] for one in TIMES if one in entry), None)
            part = name == "data" and not text.endswith("\n")  # pieces of a stream, as they came
            return Opened(text.removesuffix("\n"), _tag(entry), wall_ns_of(when, clock), part)
    return None


def wall_ns_of(when: object, clock: SourceClock) -> int | None:
    """Parse a time field, a number since 1970 or a date, or return None."""
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
    """Return the text in any known entry of JSON, or None."""
    return docker_json(line, clock) or journal_json(line, clock) or collected_json(line, clock)


# what a program's own logger writes

_LEVELS: Final = ("level", "lvl", "severity", "levelname", "log.level", "@l", "s")
_TEXTS: Final = ("msg", "message", "@m", "@mt", "event")
_ERRORS: Final = (
    *("error", "err", "exception", "exc_info", "thrown", "cause", "@x", "error.message", "message", "msg"),
    *("reason", "error_str"),
    *("stack_trace", "stackTrace", "stacktrace", "stack", "error.stack_trace", "extendedStackTrace"),
)
_KINDS: Final = ("type", "name", "exceptionType", "kind")
_INNER: Final = ("info", "fields", "attr", "log", "data")
"""Objects in which some put what belongs to the record itself."""
_OF_COLLECTORS: Final = (
    *({one} for one in ("agent", "kubernetes", "insertId", "labels", "source_type", "ingestionTime")),
    {"pid", "type", "v"},
)
"""Fields that a collector adds to a line of any program."""
_NUMBERS: Final = {10: "trace", 20: "debug", 30: "info", 40: "warn", 50: "error", 60: "fatal"}
"""Of pino and bunyan."""
_WORDS: Final = {
    Severity.DEBUG: "debug",
    Severity.INFO: "info",
    Severity.WARNING: "warn",
    Severity.ERROR: "error",
    Severity.CRITICAL: "fatal",
}
_CLOCKS: Final = ("@t", "ts", "t")
_STACK: Final = lazy_re(r"\n {0,6}\t?at |\n  File \"")
"""Of an exception: its lines are kept as they are."""
_LONGEST: Final = 200  # characters of another field


def logged_json(line: str, clock: SourceClock) -> Opened | None:
    """Return a logger's record as `level=error MESSAGE: ERROR key=value …`; None for any other JSON."""
    entry = decode_entry(line)
    if entry is None or any(one <= entry.keys() for one in _OF_COLLECTORS):
        return None
    inner = {name: value for one in _INNER for name, value in _object(entry.get(one)).items()}
    fields = inner | entry
    level = _level(fields)
    text = next((fields[one] for one in _TEXTS if isinstance(fields.get(one), str)), "").strip()
    errors = [error for one in _ERRORS if _is_error(one, fields) and (error := _error(fields[one]))]
    if not level or not (text or errors):
        return None
    said, stack = text if _STACK.search(text) else " ".join(text.split()), ""
    for error in errors:
        first, _, below = error.partition("\n")
        if first not in said and (first.partition(": ")[2] or first) not in said:
            said = f"{said.rstrip(' .:')}: {first}" if said else first
        stack = stack or below
    known = {*_LEVELS, *_TEXTS, *_ERRORS, *TIMES, *_INNER, *_CLOCKS}
    more = " ".join(f"{name}={_shown(value)}" for name, value in fields.items() if name not in known and value)
    when = next((fields[one] for one in (*TIMES, *_CLOCKS) if one in fields), None)
    wall_ns = wall_ns_of(_object(when).get("$date", when), clock)
    joined = " " if "\n" not in said and not stack else "\n\t"
    parts = [f"level={level} {said}", *([stack] if stack else [])]
    return Opened("\n".join(parts) + (f"{joined}{more}" if more else ""), wall_ns=wall_ns)


def _is_error(name: str, fields: dict[str, Any]) -> bool:
    """Return whether a field is an error: an object under a name of texts is one, too."""
    return name in fields and (name not in _TEXTS or isinstance(fields[name], dict))


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _level(fields: dict[str, Any]) -> str:
    found = next((fields[one] for one in _LEVELS if one in fields), None)
    if isinstance(found, int):
        return _NUMBERS.get(found, "")
    if not isinstance(found, str) or not found.isascii() or not found[:1].isalpha():
        return ""
    return _WORDS[severity_of_word(found.rstrip("12345"))]


def _error(value: object) -> str:
    """Return the text of an error field: a string, or an object with the kind, the message and the stack.

    A stack that names no error is left out.
    """
    if isinstance(value, str):
        text = value.strip()
        return text if _STACK.search(text) is not None else "" if "\n\t" in text else " ".join(text.split())
    fields = _object(value)
    parts = [part for one in _ERRORS if isinstance(fields.get(one), str) and (part := _error(fields[one]))]
    text = next((part for part in parts if "\n" in part), next(iter(parts), ""))
    kind = next((fields[one] for one in _KINDS if isinstance(fields.get(one), str)), "")
    return f"{kind}: {text}" if text and kind and kind not in text else text


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return " ".join(text.split())[:_LONGEST]
