"""Records that loggers of programs write as JSON."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from livedbg.analysis.diagnosis import VerdictState
from livedbg.logs.clock import SourceClock
from livedbg.logs.wrapping.entries import logged_json
from tests.logs.reading import verdict

_JAVA: Final = "app.PoolException: no host answers\n\tat app.Pool.open(Pool.java:31)\nCaused by: app.Refused: 10.0.0.3"
_NODE: Final = "TypeError: x is not a function\n    at run (/srv/app.js:8:3)"

FORMS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "zap": (
        {
            "level": "fatal",
            "ts": 1772600002.5,
            "caller": "a.go:3",
            "msg": "no table",
            "error": "pq: lost",
            "stacktrace": "main.f\n\t/a.go:3",
        },
        "level=fatal no table: pq: lost caller=a.go:3",
    ),
    "pino": (
        {
            "level": 60,
            "time": 1772600002500,
            "pid": 7,
            "err": {"type": "TypeError", "message": "x is not a function", "stack": _NODE},
            "msg": "ends",
        },
        "level=fatal ends: TypeError: x is not a function\n    at run (/srv/app.js:8:3)\n\tpid=7",
    ),
    "logback": (
        {
            "@timestamp": "2026-03-04T04:53:22.500Z",
            "@version": "1",
            "message": "run failed",
            "level": "ERROR",
            "stack_trace": _JAVA,
        },
        f"level=error run failed: {_JAVA}\n\t@version=1",
    ),
    "mongod": (
        {
            "t": {"$date": "2026-03-04T04:53:22.500+00:00"},
            "s": "E",
            "c": "IO",
            "msg": "ends",
            "attr": {"error": "InUse: the file\nis locked"},
        },
        "level=error ends: InUse: the file is locked c=IO",
    ),
    "an error of which parts are an object": (
        {
            "t": {"$date": "2026-03-04T04:53:22.500+00:00"},
            "s": "F",
            "msg": "store error",
            "attr": {"error": 5, "message": {"msg": "a.wt: read failed", "error_str": "I/O error"}},
        },
        "level=fatal store error: a.wt: read failed",
    ),
    "an error alone": (
        {"level": "error", "ts": 1772600002.5, "error": {"message": "no drive"}},
        "level=error no drive",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_record_of_json_comes_as_a_line_of_logfmt(form: str) -> None:
    entry, text = FORMS[form]
    opened = logged_json(json.dumps(entry), SourceClock(0, 0))
    assert opened is not None
    assert (opened.text, opened.wall_ns) == (text, 1_772_600_002_500_000_000)


@pytest.mark.parametrize(
    "entry",
    [
        {"level": "error"},
        {"message": "2026-03-04 ERROR x", "level": "error", "agent": {"name": "filebeat"}},
        {"pid": 7, "type": "jupyter", "level": 40, "msg": "ERROR x", "v": 0},
    ],
)
def test_other_json_is_no_record_of_a_logger(entry: dict[str, Any]) -> None:
    assert logged_json(json.dumps(entry), SourceClock(0, 0)) is None


def _line(second: int, level: str, message: str, **more: object) -> str:
    return json.dumps({"time": f"2026-03-04T10:00:{second:02}Z", "level": level, "msg": message, **more}) + "\n"


def test_a_service_that_ends_says_why_and_one_that_goes_on_has_not_crashed() -> None:
    begun = _line(0, "info", "listening", port=80)
    ended = verdict(begun + _line(1, "fatal", "no table", error="pq: relation is missing"))
    assert ended.state is VerdictState.CRASHED
    assert ended.sentence.endswith("no table: pq: relation is missing.")
    failed = _line(1, "error", "poll failed to start", error=_JAVA)
    served = "".join(_line(n, "info", f"row {n} stored", thread="feed-1", pid=7) for n in range(2, 9))
    assert verdict(begun + failed + served).state is not VerdictState.CRASHED
    assert verdict(begun + failed).state is VerdictState.CRASHED


def test_what_a_relay_stores_is_no_error_of_its_own() -> None:
    stored = _line(1, "info", "stored", line="panic: runtime error: index out of range [3]")
    assert verdict(_line(0, "info", "listening") + stored).state is VerdictState.UNKNOWN


def test_a_line_of_logfmt_has_its_level_and_its_time() -> None:
    begun = 'time=2026-03-04T10:00:00Z level=info msg="listening" addr=:80\n'
    ended = 'time=2026-03-04T10:00:01Z level=error source=run.go:7 msg="failed to start" err="port is taken"\n'
    judged = verdict(begun + ended)
    assert judged.state is VerdictState.CRASHED
    assert judged.sentence.endswith('"failed to start" err="port is taken", at run.go:7.')
