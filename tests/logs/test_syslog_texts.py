"""Texts of several lines that a program wrote through syslog or the journal: the head of each line is no part of it."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.logs.reading import verdict

END = "Mar  4 10:00:01 h systemd[1]: pump.service: Main process exited, code=exited, status=1/FAILURE\n"
PANIC = ["thread 'main' panicked at src/pump.rs:41:9:", "no pump is ready", "note: run with `RUST_BACKTRACE=1`"]
CHAIN = [
    'Exception in thread "main" java.lang.IllegalStateException: no pump',
    "\tat org.x.Run.main(Run.java:7)",
    "Caused by: java.io.IOException: port 3 is closed",
    "\tat org.x.Port.open(Port.java:31)",
    "\t... 1 more",
]


def through_syslog(lines: list[str], pids: tuple[int, ...] = (71,)) -> str:
    return "".join(f"Mar  4 10:00:01 h pump[{pids[n % len(pids)]}]: {line}\n" for n, line in enumerate(lines))


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (PANIC, "crashed in main (pump.rs:41): Rust panicked: no pump is ready"),
        (CHAIN, "crashed in org.x.Port.open (Port.java:31): java.io.IOException: port 3 is closed"),
    ],
)
def test_it_is_read_as_what_the_program_wrote(lines: list[str], says: str) -> None:
    said = verdict(through_syslog(lines) + END)
    assert said.state is VerdictState.CRASHED
    assert says in said.sentence


def test_the_lines_of_two_processes_are_no_text() -> None:
    said = verdict(through_syslog(PANIC[:2], pids=(71, 72)))
    assert "no pump is ready" not in said.sentence
