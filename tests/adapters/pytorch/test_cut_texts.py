"""Errors of torch.compile, of torch.export and of AOTInductor's loader, of which a part of the text is missing."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.logs.reading import verdict

STEPS = "trying it anew\n" + "".join(f"step {n} loss {3 - n / 9:.2f}\n" for n in range(2, 9))
BREAK = (
    "[11:04:15.150] [ERROR] Pump 2 failed: Data-dependent branching\n"
    "  Explanation: Detected data-dependent branching. Dynamo does not support it.\n  Hint: Use cond.\n\n"
    "  Developer debug context: attempted to jump\n\nfrom user code:\n"
    '   File "/w/net.py", line 52, in <resume in forward>\n    y = self.tank(x)\n'
)
CONSTRAINTS = (
    "  - Not all values of rows = L['x'].size()[0] in the specified range are valid because rows was inferred to be a "
    "constant (2).\n\nSuggested fixes:\n  rows = 2\n"
)
CUT = (
    "\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n"
    '  File "/w/out.py", line 9, in <module>\n    pump = torch.export.export(\n'
)
PACKAGE = (
    "RuntimeError: Failed to find a generated cpp file or so file for model 'tank' in the zip archive.\n\n"
    "Available models in the archive:\nvalve\n\n\nTo load a specific model, please provide its name.\n\n"
    "The following files were loaded from the archive:\nt.wrapper/data/aotinductor/valve/x.wrapper.cpp\n"
    "t.wrapper/data/aotinductor/valve/x.wrapper.so\n"
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            BREAK,
            "torch.compile can't trace this: Data-dependent branching, from <resume in forward> (net.py:52).",
        ),
        (
            PACKAGE,
            "The package of AOTInductor could not be loaded: no code of the model 'tank' is in it; it has only valve.",
        ),
        (CONSTRAINTS + CUT, "torch.export can't take this: rows was inferred to be a constant (2)."),
    ],
)
def test_the_reason_is_said_and_it_is_no_crash_where_the_program_goes_on(text: str, says: str) -> None:
    said = verdict(text)
    assert said.state is VerdictState.CRASHED
    assert said.sentence.startswith(says)
    assert verdict(f"step 1 loss 3.0\n{text}\n{STEPS}").state is not VerdictState.CRASHED


def test_constraints_alone_may_have_been_heeded() -> None:
    assert verdict(CONSTRAINTS).state is VerdictState.UNKNOWN
    assert verdict(f"{CONSTRAINTS}{STEPS}Training completed\n").state is VerdictState.EXITED


def test_breaks_of_the_graph_that_a_program_logs_are_none() -> None:
    asked = BREAK.replace("[ERROR] Pump 2 failed: ", "[__graph_breaks] Graph break in user code at /w/net.py:52: ")
    assert "can't trace" not in verdict(f"step 1 loss 3.0\n{asked}").sentence
