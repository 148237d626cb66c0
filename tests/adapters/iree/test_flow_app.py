"""`livedbg iree` in the terminal app, on a real pty and a real program: sheets, the key for the next step, the end."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.adapters.iree.conftest import Compile
from tests.app.terminal import Terminal

pytestmark = pytest.mark.iree

PROGRAM: Final = "import sys; from livedbg.cli import main; sys.exit(main())"
NEXT: Final = b"\x0e"
_CODES: Final = re.compile(rb"\x1b\[[0-9;?<>=]*[A-Za-z]")


def _words(output: bytes) -> str:
    """What was written, without the codes of the terminal and the frames of boxes."""
    text = _CODES.sub(b" ", output).decode(errors="replace")
    return " ".join(re.sub("[│╭╮╰╯─]", " ", text).split())


def test_the_sheet_of_a_step_names_the_cause_and_a_key_goes_on(compiled: Compile, tmp_path: Path) -> None:
    run = [str(Path(sys.executable).with_name("iree-run-module")), f"--module={compiled('stage')}", "--function=main"]
    words = ["iree", "--", *run, "--device=local-task", "--input=31x32xf32=1", "--input=32x32xf32=1"]
    with Terminal(*words, program=PROGRAM, size=(110, 40), env={"XDG_STATE_HOME": str(tmp_path)}) as terminal:
        terminal.until(b"The cause is found")
        terminal.rest()
        said = _words(terminal.output)
        assert "Step 1 of 4: sanity: versions, inputs, run as given and on local-sync" in said
        assert "Input 0 (counted from 0) is 31x32xf32, and main takes 32x32xf32: dimension 0 is 31, not 32." in said
        assert "^n goes on to step 2, isolate" in said
        before = len(terminal.output)
        terminal.type(NEXT)
        terminal.until(b"Step 2 of 4")
        terminal.until(b"The module's source")
        terminal.rest()
        second = _words(terminal.output[before:])
        assert "give it --source FILE.mlir" in second
        assert "step 1 Input 0 (counted from 0) is 31x32xf32" in second
        assert "The next steps need --source FILE.mlir: Esc closes this sheet, then q quits" in second
        terminal.press(b"q", b"q")  # the sheet, and the app
        code = terminal.wait()
        assert terminal.is_clean()
        assert "step 2: isolate" in _words(terminal.output[before:])
        assert code == 0, terminal.output[-1000:]
