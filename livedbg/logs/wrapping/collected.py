"""JSON lines of log collectors: a program's line as one field of many.

Sources of the formats: Loki (`logcli --output=jsonl`, Grafana's download), Cloud Logging (LogEntry with `textPayload`),
CloudWatch Logs (`get-log-events`), Fluent Bit's `json_lines`, Elastic's Filebeat and Logstash, Vector, Kaggle's log of
a kernel, Colab's of a runtime.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import msgspec

from livedbg.logs.clock import SourceClock
from livedbg.logs.wrapping.tags import Opened, Tag

__all__ = ["LIKELY", "collected_json"]

LIKELY: Final = r'.*?"(?:textPayload|line|message|log|stream_name|jupyter)"'

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
