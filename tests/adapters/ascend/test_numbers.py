"""Numbers that no field of the runtime can hold, as damaged lines have them: a line is left out, nothing breaks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from livedbg.adapters.ascend.logs import LineSplitter
from livedbg.adapters.ascend.messages import classify
from livedbg.adapters.ascend.watchdogs import limit_of
from livedbg.session.rulebook import diagnostician
from tests.adapters.ascend.replay import Replay

FIXTURES = Path(__file__).parents[2] / "fixtures"
_NUMBER = re.compile(r"(?<![\w.])\d+")


def lines_of_each_kind() -> dict[str, str]:
    """One real line of each kind of message that captures hold."""
    found: dict[str, str] = {}
    for path in sorted((FIXTURES / "ascend").rglob("*")):
        if path.suffix in (".txt", ".log") and path.is_file():
            for text in path.read_text(errors="replace").splitlines():
                for line in LineSplitter().split(text):
                    message = classify(line.message, line.tagged)
                    if message is not None:
                        found.setdefault(f"{message.kind} {sorted(message.fields)}", text)
    return found


def damaged(line: str, digits: str) -> Iterator[str]:
    for match in _NUMBER.finditer(line):
        yield line[: match.start()] + digits + line[match.end() :]


@pytest.mark.parametrize("length", [25, 400, 5000])
def test_a_number_that_is_too_long_breaks_nothing(length: int) -> None:
    kinds = lines_of_each_kind()
    assert len(kinds) > 25
    for line in kinds.values():
        replay = Replay()
        source = replay.open(Path("/run/err.txt"))
        for bad in damaged(line, "9" * length):
            replay.feed(source, bad.encode() + b"\n")
        diagnostician().diagnose(replay.flush())


@pytest.mark.parametrize("text", ["rc=--5", "rc=²", "rc=", "rc=9999999999", "rc=1-"])
def test_what_only_begins_like_an_exit_status_is_none(text: str) -> None:
    replay = Replay()
    replay.feed(replay.open(Path("/run/exit.txt")), text.encode() + b"\n")
    assert not replay.flush().diagnostics


def test_a_launchers_line_that_waits_for_its_log_may_be_damaged() -> None:
    replay = Replay()
    beside, log = replay.open(Path("/run/out.txt")), replay.open(Path("/run/err.txt"))
    replay.feed(beside, b'names={"' + b"9" * 5000 + b'": "MUL"}\n')
    replay.feed(log, b"[INFO] run: AicpuExecutor: Initializing\n")
    assert replay.flush() is not None


def test_a_limit_that_is_no_number_of_the_runtimes_is_not_taken() -> None:
    assert limit_of("scheduler", {"SIMPLER_SCHEDULER_TIMEOUT_MS": "9" * 5000}).seconds == 10.0
