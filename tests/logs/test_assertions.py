"""What a failed internal assertion says where its text goes on with code, or with the other side of an equation."""

from __future__ import annotations

import pytest

from livedbg.adapters.nvfuser.dumps.failures import Failure
from livedbg.logs.assertions import without_plea

_PLEA = 'INTERNAL ASSERT FAILED at "/w/Fuser/csrc/fill.cpp":{}, please report a bug at https://x.org/issues. '
_SOURCE = """
// Pump utilities

namespace pumps {
__device__ void drain() {}
} // namespace pumps
__global__ void nvfuser_none_f3_c0_r0_g2(Tensor<float, 1, 1> T0) {"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (_SOURCE, "the kernel nvfuser_none_f3_c0_r0_g2 did not compile"),
        (_SOURCE.rpartition("\n")[0], "the code that it prints did not compile"),
        (
            f"{_SOURCE}\n}}\nCUDA NVRTC compile error: __tmp_x.cu(7): error: no pump\n",
            "CUDA NVRTC compile error: __tmp",
        ),
        ("//host/tank is not there", "//host/tank is not there"),
    ],
)
def test_source_that_is_printed_is_no_reason(text: str, said: str) -> None:
    assert said in without_plea(_PLEA.format(9) + text)
    assert "utilities" not in without_plea(_PLEA.format(9) + text)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            [
                "Pumps cannot be inline: T7_l_float[ iblockIdx.x5{( ceilDiv(5, 4) )}, iV5{4} ] ca_pos( 3 )",
                "   = pad( T6_g_float[ iS5{( ceilDiv(5, 4) )}, iS4{1} ], {0, 0, i6} )",
            ],
            "Pumps cannot be inline: T7 = pad(T6)",
        ),
        (
            [
                "No order for T7_l_float[ iS5{4} ] produce_pos( 1 )",
                "   = T6_g_float[ iS5{4} ]",
                "   + T5_g_float[ iS5{4} ];",
            ],
            "No order for T7 = T6 + T5;",
        ),
        (["No order for T7_l_float[ iS5{4} ] ca_pos( 2 )", "step 3 = done"], "No order for T7_l_float[ iS5{4} ]"),
    ],
)
def test_an_operation_is_said_in_short(lines: list[str], said: str) -> None:
    assert Failure(lines=[_PLEA.format(9) + lines[0], *lines[1:]]).summary == said
