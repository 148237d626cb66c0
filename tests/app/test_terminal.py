"""The app on a real pty: a clean terminal however it ends, and no byte of a target's that a terminal obeys."""

from __future__ import annotations

import os
import re
import signal

import pytest

from tests.app.terminal import PROGRAM, Terminal

FAILING = """
import sys
from tests.app.scenarios import scenario
from livedbg.app import run
from livedbg.panels.waits import WaitsPanel
def broken(self, index, line):
    raise RuntimeError("broken on purpose")
WaitsPanel.draw = broken
sys.exit(run(scenario("deadlock")))
"""

ESCAPE = b"\x1b[27u"
"""As the keyboard protocol sends it: a byte 27 alone becomes one key with the next byte, where both are read late."""

PATIENT = PROGRAM.replace("view =", "import livedbg.app.runner\nlivedbg.app.runner.LAST_WORD_S = 100.0\nview =")
"""It does not end itself when it is slow."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
@pytest.mark.invariant("runner.R1")
def test_R1_a_signal_leaves_a_clean_terminal(number: signal.Signals) -> None:
    with Terminal("deadlock", program=PATIENT) as terminal:
        terminal.until(b"DEADLOCK")
        terminal.signal(number)
        assert terminal.wait() == 128 + number
        assert terminal.is_clean()


@pytest.mark.parametrize("key", [b"q", b"\x03"])
@pytest.mark.invariant("runner.R1")
def test_R1_quit_leaves_a_clean_terminal(key: bytes) -> None:
    with Terminal("deadlock") as terminal:
        terminal.until(b"DEADLOCK")
        terminal.type(key)
        assert terminal.wait() == 0
        assert terminal.is_clean()


@pytest.mark.invariant("runner.R1")
def test_R1_an_exception_in_a_panel_leaves_a_clean_terminal() -> None:
    with Terminal(program=FAILING) as terminal:
        assert terminal.wait() == 1
        assert terminal.is_clean()
        assert b"broken on purpose" in terminal.output


@pytest.mark.invariant("runner.R2")
def test_R2_a_terminal_that_is_gone_leaves_no_process() -> None:
    with Terminal("deadlock") as terminal:
        terminal.until(b"DEADLOCK")
        for fd in (terminal.master, terminal.slave):
            os.close(fd)
        terminal.master = terminal.slave = -1
        terminal.process.wait(100)


_ALLOWED = re.compile(
    rb"\x1b\[[0-9;:]*m"  # colours
    rb"|\x1b\[[0-9;]*[HJK]"  # place, erase
    rb"|\x1b\[\?[0-9;]+[hl]|\x1b\[\?[0-9;]+\$p"  # modes, and asking for them
    rb"|\x1b\[[<>=]?[0-9;]*u"  # keyboard protocol
    rb"|\x1b\[\?u|\x1b\[c|\x1b\[6n|\x1b\[16t|\x1b\[14t|\x1b\[18t"
    rb"|\x1b\]22;[a-z-]+\x07"  # shape of the mouse pointer (Textual)
    rb"|\x1b\[[0-9]* q|\x1b[78=>]"
)


@pytest.mark.parametrize("env", [{}, {"NO_COLOR": "1"}, {"LC_ALL": "C", "LANG": "C"}, {"TERM": "linux"}])
def test_no_byte_of_a_target_is_obeyed_by_the_terminal(env: dict[str, str]) -> None:
    with Terminal("hostile", size=(150, 50), env=env) as terminal:
        terminal.until(b"STALLED")
        terminal.press(*b"2|3|w|4|m|6|]|9|1|e|G".split(b"|"), ESCAPE, b"\r", ESCAPE, b"?", ESCAPE)
        terminal.type(b"q")
        assert terminal.wait() == 0
        output = terminal.output
    rest = _ALLOWED.sub(b"", output)
    assert b"\x1b" not in rest, re.findall(rb".{20}\x1b.{40}", rest, re.DOTALL)[:5]
    assert b"\x07" not in rest
    text = rest.decode("utf-8")
    assert not re.search("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\ufeff]", text)
    assert "[@click=app.exit]press me[/]" in text
    assert "[rank0]: Traceback" in text
    if env.get("LC_ALL") == "C":
        assert rest.isascii()
    if "NO_COLOR" in env:
        ranks = {code for found in re.findall(rb"\x1b\[([0-9;]*)m", output) for code in found.split(b";")}
        assert ranks <= {b"", b"0", b"1", b"4", b"7"}  # bold, underlined, reversed: no colour


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_dumb_terminal_is_refused_with_what_to_run_instead(term: str) -> None:
    with Terminal("idle", env={"TERM": term}) as terminal:
        assert terminal.wait() != 0
        assert b"livedbg report" in terminal.output
        assert b"\x1b[?1049h" not in terminal.output


def test_first_paint_needs_no_torch_and_no_panel_outside_the_package() -> None:
    program = PROGRAM.replace("sys.exit(run(", "code = (run(") + (
        "\nbad = {'torch', 'panels', 'adapters', 'themes', 'livedbg.report'} & set(sys.modules)"
        "\nprint('LOADED', sorted(bad))\n"
    )
    with Terminal("idle", program=program, fresh=True) as terminal:
        terminal.until(b"RUNNING")
        terminal.type(b"q")
        terminal.wait()
        assert b"LOADED []" in terminal.output
