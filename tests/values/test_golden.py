"""Golden inputs and outputs of a program (`data/in`, `data/out`), matched with what tasks dumped."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from livedbg.adapters.ascend.dumps.values import golden_files
from livedbg.model.errors import SourceError
from livedbg.session.filereaders import dump_readers, tensor_formats
from livedbg.values import tensor_files
from livedbg.values.buffers import Buffer, wiring_of
from livedbg.values.compare import Tolerance
from livedbg.values.program import GoldenMatch, compare_program
from livedbg.values.tensor import Held
from tests.cli.conftest import ASCEND, Said, livedbg
from tests.values.conftest import Arg, tensor, write_deps, write_dump

Inside = Callable[..., Said]

GOOD, LOST = ASCEND / "09_dep_good" / "dfx", ASCEND / "09_dep_lost" / "dfx"


def golden(folder: Path, **tensors: Any) -> Path:
    """Golden data: `in_a=[...]`, `out_f=[...]`, as .npy."""
    for name, values in tensors.items():
        side, _, stem = name.partition("_")
        (folder / side).mkdir(parents=True, exist_ok=True)
        np.save(folder / side / f"{stem}.npy", np.asarray(values, getattr(values, "dtype", np.float32)))
    return folder


def load(path: Path) -> Held:
    return tensor_files.load(path, tensor_formats())


def matched(run: Path, data: Path) -> dict[str, GoldenMatch]:
    with dump_readers().open(run / "args_dump" / "args_dump.json") as dump:
        found = compare_program(dump, wiring_of(dump), golden_files(data), Tolerance(), dump_readers().formats)
    return {match.file.label: match for match in found.matches}


def test_the_real_captures_against_what_they_should_compute(tmp_path: Path, inside: Inside) -> None:
    data = golden(
        tmp_path / "data", in_a=np.full(256, 2, "f4"), in_b=np.full(256, 3, "f4"), out_f=np.full(256, 15, "f4")
    )
    good = inside("values", GOOD, "--against", tmp_path)
    assert good.code == 0 and "3 of 3 golden tensors matched" in good.out and "No golden tensor differs" in good.out
    lost = inside("values", LOST, "--against", data)
    assert lost.code == 12
    assert "by type and size: 256 of 256 outside, first at [0]: 10, expected 15" in lost.out
    assert "out/f: candidates are r0t1 (INC), which wrote what differs. deps.json beside the dump lacks" in lost.out
    assert "r0t1 (INC) overwrites 1,024 bytes" in lost.out and "which r0t0 (SLOW_ADD) wrote, and no path" in lost.out
    document = json.loads(inside("values", LOST, "--against", data, "--json").out)["golden"]
    outputs = [match for match in document["matches"] if match["side"] == "out"]
    assert outputs[0]["candidates"] == ["r0t1"] and outputs[0]["matched_by"] == "type and size"
    assert [(one["from"], one["to"]) for one in outputs[0]["missing"]] == [("r0t0", "r0t1")]
    assert not outputs[0]["certain"]


def test_one_kernel_with_golden_inputs_is_the_culprit_for_certain(tmp_path: Path, inside: Inside) -> None:
    run = tmp_path / "run"
    args = [
        tensor(0, 0, "input", [1, 2, 3, 4]),
        tensor(0, 1, "inout", [0, 0, 0, 0]),
        tensor(0, 1, "inout", [1, 2, 3, 9], after=True),
    ]
    write_dump(run, args)
    write_deps(run, [(0, [("INPUT", 10), ("INOUT", 11)])], [])
    data = golden(tmp_path / "g", in_a=[1, 2, 3, 4], in_f=[0, 0, 0, 0], out_f=[1, 2, 3, 4])
    match = matched(run, data)["out/f"]
    assert (match.by, match.writers, match.certain, match.difference.first) == ("name", [0], True, (3,))
    assert "FIRST DIVERGENCE: r0t0 (func 0) computes a different result" in inside("values", run, "--against", data).out
    other = matched(run, golden(tmp_path / "h", in_a=[1, 2, 3, 5], in_f=[0, 0, 0, 0], out_f=[1, 2, 3, 4]))
    assert not other["out/f"].certain and other["in/a"].by == "type and size" and other["in/a"].differs
    said = inside("values", run, "--against", tmp_path / "h")
    assert said.code == 12 and "given other data than in/a" in said.out


def test_tiles_of_one_buffer_are_put_together_and_the_writer_of_the_wrong_one_is_named(tmp_path: Path) -> None:
    run = tmp_path / "run"
    whole = np.arange(12, dtype=np.float32).reshape(3, 4)
    left, right = whole[:, :2].copy(), whole[:, 2:].copy()
    right[2, 1] = -1
    view = {"strides": [4, 1], "is_contiguous": False}
    write_dump(
        run,
        [
            tensor(0, 0, "output", left, start_offset=0, **view),
            tensor(1, 0, "output", right, start_offset=2, kernel=1, **view),
        ],
    )
    write_deps(run, [(0, [("OUTPUT_EXISTING", 10)]), (1, [("OUTPUT_EXISTING", 10)])], [], count=12)
    match = matched(run, golden(tmp_path / "g", out_c=whole))["out/c"]
    assert match.writers == [1] and match.difference.outside == 1 and match.difference.first == (2, 3)
    assert (match.difference.actual, match.difference.expected) == (-1, 11)


def test_of_several_tensors_alike_the_values_choose(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_dump(run, [tensor(task, 0, "output", [task] * 4) for task in range(3)])
    write_deps(run, [(task, [("OUTPUT_EXISTING", 10 + task)]) for task in range(3)], [])
    found = matched(run, golden(tmp_path / "g", out_x=[1] * 4, out_y=[7] * 4, out_z=[1, 2, 3], in_q=[5] * 4))
    assert found["out/x"].by == "values" and not found["out/x"].differs
    assert found["out/y"].by == "" and found["out/y"].differs and found["out/y"].writers == [0, 2]
    assert not found["out/z"].differs and "no further tensor" in found["out/z"].note
    assert "no further tensor" in found["in/q"].note
    (run / "deps.json").unlink()
    alone = matched(run, golden(tmp_path / "g"))
    assert alone["out/x"].by == "values" and alone["out/y"].writers == [0, 2]


def test_pt_files_of_every_kind(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    for name, kind in (
        ("bfloat16", ml_dtypes.bfloat16),
        ("float8_e4m3fn", ml_dtypes.float8_e4m3fn),
        ("float16", np.float16),
        ("int64", np.int64),
        ("bool", np.uint8),
    ):
        source = torch.tensor([[0, 1], [1, 0]]).to(getattr(torch, name))
        torch.save(source.t(), tmp_path / f"{name}.pt")  # not contiguous
        found = load(tmp_path / f"{name}.pt")
        assert found.shape == (2, 2) and found.block(0, 4).dtype == np.dtype(kind)
        assert found.block(0, 4).astype(float).tolist() == [0, 1, 1, 0]
    packed = torch.tensor([[0x10, 0x32]], dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    torch.save(packed, tmp_path / "four.pt")
    four = load(tmp_path / "four.pt")
    assert four.shape == (1, 4) and four.block(0, 4).astype(float).tolist() == [0, 0.5, 1, 1.5]
    for wrong in ({"a": 1}, [1], torch.zeros(2, dtype=torch.complex64)):
        torch.save(wrong, tmp_path / "wrong.pt")
        with pytest.raises(SourceError, match="no tensor that can be compared"):
            load(tmp_path / "wrong.pt")
    whole = (tmp_path / "int64.pt").read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 30):
        (tmp_path / "cut.pt").write_bytes(whole[:size])
        with pytest.raises(SourceError):
            load(tmp_path / "cut.pt")


class Evil:
    """Runs code when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


def test_a_pickle_that_would_run_code_is_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    evil = Evil(tmp_path / "evil")
    folder = tmp_path / "g" / "out"
    folder.mkdir(parents=True)
    torch.save(evil, folder / "a.pt")
    (folder / "b.pt").write_bytes(pickle.dumps(evil))
    np.save(folder / "c.npy", np.array([evil], dtype=object), allow_pickle=True)
    said = livedbg("values", GOOD, "--against", tmp_path / "g")
    assert said.code == 3 and said.out.count("refused") == 2 and "torch.save(" in said.out and "out/c" in said.out
    one = livedbg("values", GOOD, "--task", "r0t1", "--stage", "after", "--against", folder / "c.npy")
    assert one.code == 3 and "no tensor" in one.err
    assert not evil.marker.exists()
    pickle.loads(pickle.dumps(evil))  # it would have
    assert evil.marker.exists()


def test_one_tensor_against_one_file(tmp_path: Path, inside: Inside) -> None:
    np.save(tmp_path / "f.npy", np.full(256, 15, np.float32))
    for run, code in ((GOOD, 0), (LOST, 12)):
        said = inside("values", run, "--task", "r0t1", "--stage", "after", "--against", tmp_path / "f.npy")
        assert said.code == code and "r0t1 (INC)" in said.out
    many = inside("values", GOOD, "--against", tmp_path / "f.npy")
    assert many.code == 2 and "5 with values are selected" in many.err


def test_a_runs_folder_is_its_dump_unless_it_is_the_dumps_own(tmp_path: Path, inside: Inside) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    write_dump(run / "dfx_outputs", [tensor(0, 0, "output", [1, 2])])
    write_dump(other, [tensor(0, 0, "output", [1, 2])])
    golden(run / "data", out_x=[1, 3])
    own = inside("values", run, "--against", run)
    assert own.code == 12 and "out/x" in own.out
    assert "1 task compared" in inside("values", other, "--against", run).out
    missing = inside("values", run, "--against", tmp_path / "nowhere")
    assert missing.code == 3 and "nowhere" in missing.err


def test_an_unknown_type_matches_nothing(tmp_path: Path) -> None:
    write_dump(tmp_path / "run", [Arg(0, 0, "output", "after_completion", bytes(4), "HF9", (4,))])
    found = matched(tmp_path / "run", golden(tmp_path / "g", out_x=np.zeros(4, np.uint8)))
    assert not found["out/x"].by


def test_npy_files_that_hold_no_tensor_or_promise_too_much(tmp_path: Path) -> None:
    with (tmp_path / "archive.npy").open("wb") as file:
        np.savez(file, a=np.zeros(3))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "archive.npy").read_bytes()[:40])
    np.save(tmp_path / "words.npy", np.array(["abc"]))
    np.save(tmp_path / "vast.npy", np.zeros(1, np.float32))
    whole = (tmp_path / "vast.npy").read_bytes()
    (tmp_path / "vast.npy").write_bytes(whole.replace(b"(1,), }" + b" " * 15, b"(1" + b"0" * 15 + b",), }"))
    for name in ("archive", "cut", "words"):
        with pytest.raises(SourceError, match="holds no tensor"):
            load(tmp_path / f"{name}.npy")
    with pytest.raises(SourceError, match="larger than memory"):
        load(tmp_path / "vast.npy")


@pytest.mark.invariant("values_buffers.P1")
def test_P1_initial_is_what_was_found_before_any_write_and_final_what_was_written_last(tmp_path: Path) -> None:
    """A buffer of six elements: two are read, four are written, one of these again; nobody touches the last two."""
    args = [
        tensor(0, 0, "input", [1, 2]),
        tensor(1, 0, "output", [10, 11, 12, 13]),
        tensor(2, 0, "input", [12, 13], start_offset=2),
        tensor(3, 0, "output", [21], start_offset=1),
    ]
    with dump_readers().open(write_dump(tmp_path, args)) as dump:
        element = dump.element(dump.entries[0])
        buffer = Buffer(element, 6, (6,), sorted(dump.entries, key=lambda entry: entry.task))

        def held(*values: float) -> Held:
            return Held(np.array(values, np.float32))

        initial = buffer.initial(dump, held(1, 2, 0, 0, 0, 0), Tolerance())
        assert (initial.compared, initial.total, initial.outside) == (2, 6, 0)
        wrong = buffer.initial(dump, held(1, 7, 12, 13, 0, 0), Tolerance())
        assert (wrong.compared, wrong.outside, wrong.first) == (2, 1, (1,))
        final, writers, _ = buffer.final(dump, held(10, 21, 12, 13, 0, 0), Tolerance())
        assert (final.compared, final.outside, writers) == (4, 0, [])
        final, writers, _ = buffer.final(dump, held(10, 11, 12, 0, 0, 0), Tolerance())
        assert (final.compared, final.outside, writers) == (4, 2, [1, 3])
        assert buffer.writers == [1, 3] and buffer.read


@pytest.mark.invariant("values_buffers.P2")
@pytest.mark.parametrize(
    ("golden", "writers", "later"),
    [
        ([1, 2, 3, 0], [], 0),
        ([1, 9, 3, 0], [2], 1),
        ([9, 2, 9, 0], [1, 3], 0),
        ([1, 2, 3, 9], [3], 0),  # nobody wrote it: whoever should have is not known, so it is the last one's
        ([1, 9, 3, 9], [2, 3], 0),
    ],
)
def test_P2_of_a_tensor_that_tasks_are_given_each_wrote_what_it_changed(
    tmp_path: Path, golden: list[float], writers: list[int], later: int
) -> None:
    """Three tasks fill a tensor one after the other; the last element is written by none."""
    states = ([0, 0, 0, 0], [1, 0, 0, 0], [1, 2, 0, 0], [1, 2, 3, 0])
    args = [
        tensor(task, 0, "inout", states[task - 1 + after], after=bool(after)) for task in (1, 2, 3) for after in (0, 1)
    ]
    with dump_readers().open(write_dump(tmp_path, args)) as dump:
        buffer = Buffer(dump.element(dump.entries[0]), 4, (4,), list(dump.entries))
        left = buffer.final(dump, Held(np.array(golden, np.float32)), Tolerance())
        assert (left.writers, left.later) == (writers, later)


def test_what_was_given_is_not_in_the_dump_so_that_all_of_it_counts_as_written(tmp_path: Path) -> None:
    args = [tensor(1, 0, "output", [1, 0]), tensor(2, 0, "inout", [1, 2], after=True)]
    with dump_readers().open(write_dump(tmp_path, args)) as dump:
        buffer = Buffer(dump.element(dump.entries[0]), 2, (2,), list(dump.entries))
        assert buffer.final(dump, Held(np.array([9, 2], np.float32)), Tolerance()).writers == [2]


def test_a_file_with_one_tensor_is_shown_and_compared_with_another(tmp_path: Path, inside: Inside) -> None:
    one, other = tmp_path / "one.npy", tmp_path / "other.npy"
    np.save(one, np.asarray([1, np.inf, np.nan, 4], "f4"))
    np.save(other, np.asarray([1, np.inf, np.nan, 5], "f4"))
    shown = inside("values", one, "--stats")
    assert shown.code == 0 and "FLOAT32 [4]" in shown.out and "NaN 1" in shown.out and "Inf 1" in shown.out
    same = inside("values", one, "--against", one)
    assert same.code == 0 and "equal" in same.out
    wrong = inside("values", one, "--against", other)
    assert wrong.code == 12 and "1 of 4 outside, first at [3]: 4, expected 5" in wrong.out
    assert inside("values", one, "--against", tmp_path).code == 2
    assert inside("values", one, "--arg", "1").code == 2
