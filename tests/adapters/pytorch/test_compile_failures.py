"""Errors of torch.compile, as it throws them."""

from __future__ import annotations

from livedbg.analysis.diagnosis import VerdictState
from tests.logs.reading import verdict

TRACE = 'Traceback (most recent call last):\n  File "/w/train.py", line 9, in <module>\n    main()\n'


def test_a_warning_of_dynamo_is_no_crash() -> None:
    text = (
        "W0108 19:01:00.635000 4190 torch/_dynamo/convert_frame.py:1125] WON'T CONVERT forward net.py line 3\n"
        "W0108 19:01:00.635000 4190 torch/_dynamo/convert_frame.py:1125] torch._dynamo.exc.Unsupported: x\n"
    )
    assert verdict(text).state is not VerdictState.CRASHED


SHIM = (
    "[E520 19:20:12.156885067 shim_common.cpp:311] Exception in aoti_torch: the pointer is on host memory.\n"
    "terminate called after throwing an instance of 'std::runtime_error'\n  what():  run_func_( a ) API call failed at "
    "runner.cpp, line 75\n"
)


def test_what_a_model_of_aotinductor_threw_comes_before_the_call_that_failed() -> None:
    judged = verdict(SHIM)
    assert judged.state is VerdictState.CRASHED
    assert judged.sentence.startswith("A model of AOTInductor failed: the pointer is on host memory.")


def test_the_place_of_a_helion_kernel_is_the_program_s() -> None:
    inner = '  File "/d/helion/helion/_compiler/lowering.py", line 141, in lower\n    raise LoweringError()\n'
    judged = verdict(TRACE + inner + "helion.exc.LoweringError: size mismatch\n")
    assert judged.sentence == "Crashed in train.py:9: helion.exc.LoweringError: size mismatch."


def test_the_place_in_a_path_of_windows() -> None:
    inner = '  File "C:\\Program Files\\Python311\\Lib\\ast.py", line 418, in visit\n    return visitor(node)\n'
    own = '  File "A:\\ui\\nodes.py", line 7, in step\n    run()\n'
    judged = verdict("Traceback (most recent call last):\n" + own + inner + "ValueError: bad node\n")
    assert judged.sentence == "Crashed in step (nodes.py:7): ValueError: bad node."
