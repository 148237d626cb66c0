"""Which call of a model made a NaN: unwritten memory is no value, and infinity has its own maker."""

from __future__ import annotations

import msgspec
import pytest

from livedbg.adapters.pytorch.aoti.generated import Generated, generated
from livedbg.adapters.pytorch.aoti.printed import Value
from livedbg.adapters.pytorch.aoti.provenance import lines_by_kernel, rows_of
from livedbg.adapters.pytorch.aoti.sources import Model
from livedbg.adapters.pytorch.aoti.tracing import Trail, first_bad


def code_of(body: str) -> Generated:
    return generated(
        "/opt/m.wrapper.cpp", f"void AOTInductorModel::run_impl(\n{body}\n}} // AOTInductorModel::run_impl\n"
    )


def allocated(name: str) -> str:
    return f"    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(2, int_array_0, int_array_1, &{name}_handle));\n"


def kernel(name: str, reads: tuple[str, ...], writes: tuple[str, ...]) -> str:
    given = [f"(const float*)({one}.data_ptr())" for one in reads] + [f"(float*)({one}.data_ptr())" for one in writes]
    return f"    {name}({', '.join(given)});\n"


def launched(name: str, before: dict[str, float], after: dict[str, float]) -> list[Value]:
    return [
        Value(when=when, kernel=name, argument=one, mean=number, least=0.0, most=number)
        for when, numbers in (("before", before), ("after", after))
        for one, number in numbers.items()
    ]


def found(body: str, *values: list[Value]) -> Trail:
    model = Model(code=code_of(body), kernels={}, lines={})
    trail = first_bad([one for some in values for one in some], [model])
    assert trail is not None
    return trail


NAN, INF = float("nan"), float("inf")
PARTS = (
    "    auto arg0_1 = std::move(inputs[0]);\n"
    + allocated("buf2")
    + "    auto buf0 = wrap_with_raii_handle_if_needed(reinterpret_tensor_wrapper(buf2, 2, s0, s1, 0L));  // alias\n"
    + kernel("cpp_fused_tanh_0", ("arg0_1",), ("buf0",))
    + "    auto buf1 = wrap_with_raii_handle_if_needed(reinterpret_tensor_wrapper(buf2, 2, s0, s1, 1L));  // alias\n"
    + allocated("buf3")
    + kernel("cpp_fused_div_stack_1", ("buf2", "arg0_1"), ("buf1", "buf3"))
)


def test_a_buffer_that_was_written_in_parts_is_no_input_that_brings_a_nan() -> None:
    trail = found(
        PARTS,
        launched("cpp_fused_tanh_0", {"arg0_1": 1.0, "buf0": NAN}, {"arg0_1": 1.0, "buf0": 0.7}),
        launched(
            "cpp_fused_div_stack_1",
            {"buf2": NAN, "arg0_1": 1.0, "buf1": NAN, "buf3": NAN},
            {"buf2": 0.5, "arg0_1": 1.0, "buf1": 0.3, "buf3": NAN},
        ),
    )
    assert trail.sentence == "cpp_fused_div_stack_1 (call 2) produced the first NaN; its inputs have none."
    assert trail.made and trail.value.argument == "buf3" and [one.argument for one in trail.reads] == ["arg0_1"]


def test_a_buffer_that_an_earlier_call_wrote_still_brings_its_nan() -> None:
    body = (
        allocated("buf0")
        + kernel("cpp_a_0", (), ("buf0",))
        + allocated("buf1")
        + kernel("cpp_b_1", ("buf0",), ("buf1",))
    )
    trail = found(body, launched("cpp_b_1", {"buf0": NAN}, {"buf0": NAN, "buf1": NAN}))
    assert trail.sentence == "cpp_b_1 (call 2) gets NaN in buf0, which cpp_a_0 (call 1) made." and not trail.made


THREE = (
    "    auto arg0_1 = std::move(inputs[0]);\n"
    + allocated("buf0")
    + kernel("cpp_fused_exp_0", ("arg0_1",), ("buf0",))
    + allocated("buf1")
    + kernel("cpp_fused_cumsum_1", ("buf0",), ("buf1",))
    + allocated("buf2")
    + kernel("cpp_fused_sqrt_sub_2", ("buf1",), ("buf2",))
)


def test_infinity_whose_input_was_infinite_already_is_not_its_makers() -> None:
    first = launched("cpp_fused_exp_0", {"arg0_1": 9.0}, {"buf0": INF})
    second = launched("cpp_fused_cumsum_1", {"buf0": INF}, {"buf1": INF})
    trail = found(THREE, first, second, launched("cpp_fused_sqrt_sub_2", {"buf1": INF}, {"buf2": NAN}))
    assert trail.sentence == (
        "cpp_fused_sqrt_sub_2 (call 3) made NaN of infinity in buf1, which cpp_fused_cumsum_1 (call 2) passed on; "
        "cpp_fused_exp_0 (call 1) made it first, in buf0."
    )
    assert trail.infinite and trail.source is not None and trail.source[0].name == "cpp_fused_exp_0"


def test_where_the_infinity_came_from_is_not_said_if_it_was_not_printed() -> None:
    trail = found(THREE, launched("cpp_fused_sqrt_sub_2", {"buf1": INF}, {"buf2": NAN}))
    assert trail.sentence == (
        "cpp_fused_sqrt_sub_2 (call 3) made NaN of infinity in buf1, which cpp_fused_cumsum_1 (call 2) made."
    )
    assert trail.source is None


def information(*sources: str, nodes: list[str]) -> bytes:
    traces = [f'File "/opt/job/m.py", line {n}, in forward\n    {text}' for n, text in enumerate(sources, 1)]
    known = {"stack_traces": traces, "post_grad_nodes": nodes, "pre_grad_nodes": []}
    return msgspec.json.encode({"k:1": known})


@pytest.mark.parametrize(
    ("about", "first"),
    [
        ("NaN", "return torch.sqrt(d.abs() + 1.0) (sqrt can make NaN of finite numbers)"),
        ("NaN of infinity", "d = s[:, 1:] - s[:, :-1] (sub can make NaN of infinity)"),
    ],
)
def test_the_line_that_may_have_made_it_depends_on_what_it_got(about: str, first: str) -> None:
    lines = lines_by_kernel(
        information("return torch.sqrt(d.abs() + 1.0)", "d = s[:, 1:] - s[:, :-1]", nodes=["sqrt", "sub", "abs_1"])
    )
    assert next(row for _, row in rows_of(lines["k:1"], about)).endswith(first)


@pytest.mark.parametrize("source", ["y = torch.cat([a, b], dim=-1)", "x = a[-1]", "y = f(x, eps=1e-3)", "s = a[1:-1]"])
def test_a_sign_of_a_number_is_no_subtraction(source: str) -> None:
    [line] = lines_by_kernel(information(source, nodes=["sub"]))["k:1"]
    assert line.of_infinity == ""


def test_of_an_index_that_is_out_of_range_the_line_that_looks_up_comes_first() -> None:
    lines = lines_by_kernel(
        information("return (rows * weights).sum(1)", "rows = table[ids]", nodes=["mul", "sum_1", "index"])
    )
    assert [row.rpartition(": ")[2] for _, row in rows_of(lines["k:1"], "index")] == [
        "rows = table[ids]",
        "return (rows * weights).sum(1)",
    ]


def test_the_line_of_a_check_in_a_kernel_is_given_and_not_its_head() -> None:
    check = 'AOTI_TORCH_CHECK(ok, "index out of bounds: 0 <= t < 5L");'
    text = f'extern "C"  void cpp_fused_0(const float* p)\n{{\n    {check}\n}}\n'
    model = Model(code=code_of(kernel("cpp_fused_0", ("arg0_1",), ("buf0",))), kernels={"k.cpp": text}, lines={})
    [call] = model.code.calls
    assert model.source_of(call, "index out of bounds: 0 <= t < 5L") == "k.cpp:3 (C++)"
    assert model.source_of(call, "another") == model.source_of(call) == "k.cpp:1 (C++)"
