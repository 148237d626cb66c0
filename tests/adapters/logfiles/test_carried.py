"""What a runtime's error was raised as is evidence of it; and messages of several rooms."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from livedbg.session.rulebook import diagnose
from tests.logs.reading import read, verdict

INDUCTOR = (
    'Traceback (most recent call last):\n  File "/w/run.py", line 20, in <module>\n    m(x)\n'
    "torch._inductor.exc.InductorError: LoweringException: AssertionError: expected 4\n  target: aten.foo.default\n"
    "  args[0]: TensorBox(StorageBox(InputBuffer(name='arg0_1')))\n\nFound from :\n"
    '   File "/w/model.py", line 9, in forward\n    return torch.ops.aten.foo(x)\n'
)
SAID = [
    (INDUCTOR, "inductor could not lower aten.foo.default: AssertionError: expected 4, from forward (model.py:9)"),
    (
        "E10007: [PID: 441] 2026-03-04-10:00:00.123.456 [--framework] is required. The value must be 0 or 1.\n",
        "Process 441: CANN reports E10007: [--framework] is required",
    ),
    (
        "RESOURCE_EXHAUSTED; while invoking native function m.matmul; \n[ 0]   native m.matmul:0 -\n",
        "IREE failed with RESOURCE_EXHAUSTED, calling m.matmul",
    ),
    (
        "[rank3]:[F304 10:00:00.1 ProcessGroupNCCL.cpp:1557] [PG ID 0 PG GUID 0(default_pg) Rank 3] Terminating the "
        "process after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang.\n",
        "Rank 3",
    ),
]


@pytest.mark.parametrize(("text", "said"), SAID)
def test_each_form(text: str, said: str) -> None:
    found = verdict(text)
    assert found.state is VerdictState.CRASHED, found.sentence
    assert found.sentence.startswith(said)


def test_the_exception_that_carried_an_error_is_evidence_of_it() -> None:
    findings = diagnose(read(INDUCTOR).snapshot()).findings.values()
    chief = next(finding for finding in findings if finding.state is VerdictState.CRASHED)
    texts = [proof.text for proof in chief.evidence]
    assert any("args[0]: TensorBox" in text for text in texts)
    assert "run.py:20" in texts


def test_a_warning_of_nccl_s_plugin_about_a_transfer() -> None:
    line = (
        "n1:2201:2301 [0] nccl_net_ofi_rdma.c:412 NCCL WARN NET/OFI Request 0x7f2a completed with error. RC: 103. "
        "Error: 4125 (Unresponsive receiver). Completed length: 0\n"
    )
    assert "a transfer of libfabric failed: Unresponsive receiver (4125)" in verdict(line).sentence
