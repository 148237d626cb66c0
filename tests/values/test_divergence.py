"""The first task that goes wrong, on small graphs whose culprit is known, and on real captures."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from livedbg.session.filereaders import dump_readers
from livedbg.values.buffers import wiring_of
from livedbg.values.compare import Tolerance, compare
from livedbg.values.divergence import CANDIDATES, Divergence, TaskVerdict, diverge
from livedbg.values.sentences import headline
from livedbg.values.tensor import Held
from tests.cli.conftest import ASCEND, Said, livedbg
from tests.values.conftest import Arg, scalar, tensor, write_deps, write_dump

Inside = Callable[..., Said]

HEALTHY = ASCEND / "01_healthy_trb" / "dfx"
GOOD, LOST = ASCEND / "09_dep_good" / "dfx", ASCEND / "09_dep_lost" / "dfx"
JUNE = ASCEND / "12_june2026_v0_era" / "healthy_debug" / "dfx"

# a chain and a bystander: t0 (10 -> 11) -> t1 (11 -> 12) -> t2 (12 -> 13), t3 (10 -> 14)
CHAIN = [
    (task, [("INPUT", source), ("OUTPUT_EXISTING", target)])
    for task, source, target in ((0, 10, 11), (1, 11, 12), (2, 12, 13), (3, 10, 14))
]
EDGES = [(0, 1, 0), (1, 2, 0)]
VALUES = {10: 1.0, 11: 2.0, 12: 3.0, 13: 4.0, 14: 5.0}


def run(folder: Path, found: dict[int, Any] | None = None, left: dict[int, Any] | None = None, **more: Any) -> Path:
    """Write a run of the chain: what tasks `found` and `left` otherwise than in VALUES, by task."""
    args: list[Arg] = []
    for task, ((_, source), (_, target)) in CHAIN:
        args.append(tensor(task, 0, "input", np.full(4, (found or {}).get(task, VALUES[source])), kernel=task))
        args.append(tensor(task, 1, "output", np.full(4, (left or {}).get(task, VALUES[target])), kernel=task))
    write_dump(folder, args, **more)
    write_deps(folder, CHAIN, EDGES)
    return folder


def walk(here: Path, golden: Path, tolerance: Tolerance | None = None) -> Divergence:
    paths = [next(folder.glob("*_dump/*_dump.json")) for folder in (here, golden)]
    with dump_readers().open(paths[0]) as dump, dump_readers().open(paths[1]) as other:
        return diverge(dump, other, wiring_of(dump), wiring_of(other), tolerance)


def verdicts(found: Divergence) -> dict[int, str]:
    return {one.task: one.verdict for one in found.verdicts}


def test_the_kernel_that_computes_otherwise_is_named_not_those_behind_it(tmp_path: Path) -> None:
    found = walk(run(tmp_path / "here", {2: 7}, {1: 7, 2: 8}), run(tmp_path / "golden"))
    assert verdicts(found) == {0: "equal", 1: "culprit", 2: "inherited", 3: "equal"}
    assert found.first is not None and found.first.task == 1 and found.first.certain and found.ordered
    assert found.verdicts[2].producers == [1]


def test_a_lost_edge_shows_in_the_run_s_own_graph_where_the_golden_run_has_none(tmp_path: Path) -> None:
    shutil.copytree(GOOD, tmp_path / "good")
    (tmp_path / "good" / "deps.json").unlink()
    said = livedbg("values", LOST, "--against", tmp_path / "good")
    assert said.code == 12
    assert "deps.json beside the dump lacks a dependency: r0t1 (INC) overwrites 1,024 bytes" in said.out
    found = walk(LOST, tmp_path / "good")
    assert found.first is not None and [order.first for order in found.first.missing] == [0]


def test_a_whole_graph_is_not_blamed(tmp_path: Path) -> None:
    found = walk(run(tmp_path / "here", {2: 7}, {1: 7, 2: 8}), run(tmp_path / "golden"))
    assert found.first is not None and found.first.missing == []


@pytest.mark.invariant("divergence.D2")
def test_two_culprits_are_both_told_and_the_first_is_first(tmp_path: Path) -> None:
    found = walk(run(tmp_path / "here", {1: 7}, {0: 7, 1: 3, 3: 9}), run(tmp_path / "golden"))
    assert verdicts(found) == {0: "culprit", 1: "inherited", 2: "equal", 3: "culprit"}
    assert found.first is not None and found.first.task == 0


def test_other_data_given_is_no_kernels_fault(tmp_path: Path) -> None:
    found = walk(run(tmp_path / "here", {0: 9, 3: 9, 1: 9}, {0: 9, 3: 9}), run(tmp_path / "golden"))
    assert verdicts(found) == {0: "given", 1: "inherited", 2: "equal", 3: "given"}


def test_a_reader_that_came_too_early(tmp_path: Path) -> None:
    found = walk(run(tmp_path / "here", {1: 0}, {1: 1}), run(tmp_path / "golden"))
    assert verdicts(found)[1] == "order" and found.first is not None
    assert found.first.producers == [0] and found.first.lost == []


def test_without_deps_the_order_is_that_of_the_payload_and_said(tmp_path: Path, inside: Inside) -> None:
    here, golden = run(tmp_path / "here", {2: 7}, {1: 7, 2: 8}), run(tmp_path / "golden")
    for folder in (here, golden):
        (folder / "deps.json").unlink()
    found = walk(here, golden)
    assert not found.ordered and found.first is not None and found.first.task == 1
    assert verdicts(found) == {0: "equal", 1: "culprit", 2: "inherited", 3: "equal"}
    said = inside("values", here, "--against", golden)
    assert said.code == 12 and "There is no deps.json" in said.out and "in which their values were written" in said.out
    (golden / "deps.json").write_bytes(b'{"tasks": [')
    assert inside("values", golden, "--against", golden).code == 0


def test_arguments_that_are_lost_are_named_and_make_it_uncertain(tmp_path: Path, inside: Inside) -> None:
    here, golden = tmp_path / "here", tmp_path / "golden"
    args = [
        tensor(0, 0, "input", [1]),
        tensor(0, 1, "input", [1]),
        tensor(0, 2, "output", [2]),
        tensor(1, 0, "output", [1]),
    ]
    write_dump(golden, args)
    args[1] = tensor(0, 1, "input", [], shape=[1], overwritten=True)
    args[2] = tensor(0, 2, "output", [3])
    args[3] = tensor(1, 0, "output", [], shape=[1], bin_size=0)
    write_dump(here, [*args, tensor(5, 0, "output", [1])])
    found = walk(here, golden)
    assert verdicts(found) == {0: "culprit", 1: "uncompared"} and found.only_here == [5]
    assert found.first is not None and not found.first.certain
    said = inside("values", here, "--against", golden)
    assert said.code == 12
    for piece in ("as far as its arguments were compared", "no payload here): r0t1", "overwritten here", "r0t5"):
        assert piece in said.out, said.out
    other_way = inside("values", golden, "--against", here)
    assert "in the golden dump only: r0t5" in other_way.out and "overwritten in the golden dump" in other_way.out


def test_inputs_that_were_not_dumped_are_judged_by_who_wrote_them(tmp_path: Path) -> None:
    """A partial dump: outputs only."""
    for name, left in (("golden", {}), ("here", {1: 7, 2: 8, 3: 9})):
        outputs = [
            tensor(task, 1, "output", np.full(4, left.get(task, VALUES[target]))) for task, (_, (_, target)) in CHAIN
        ]
        write_dump(tmp_path / name, outputs, dump_args_level=1)
        write_deps(tmp_path / name, CHAIN, EDGES)
    found = walk(tmp_path / "here", tmp_path / "golden")
    assert verdicts(found) == {0: "equal", 1: "culprit", 2: "inherited", 3: "culprit"}
    assert found.first is not None and not found.first.certain
    with dump_readers().open(tmp_path / "here" / "args_dump" / "args_dump.json") as dump:
        assert "Its inputs were not dumped" in headline(dump, found.first)


def test_a_task_is_judged_by_the_tensor_that_was_read(tmp_path: Path) -> None:
    """t0 leaves one tensor wrong; t1 reads its other one, too early."""
    tasks = [(0, [("OUTPUT_EXISTING", 10), ("OUTPUT_EXISTING", 11)]), (1, [("INPUT", 11), ("OUTPUT_EXISTING", 12)])]
    for name, values in (("golden", (1, 2, 2, 3)), ("here", (9, 2, 0, 1))):
        args = [tensor(0, 0, "output", [values[0]]), tensor(0, 1, "output", [values[1]])]
        args += [tensor(1, 0, "input", [values[2]]), tensor(1, 1, "output", [values[3]])]
        write_dump(tmp_path / name, args)
        write_deps(tmp_path / name, tasks, [(0, 1, 0)] if name == "golden" else [], count=1)
    found = walk(tmp_path / "here", tmp_path / "golden")
    assert verdicts(found) == {0: "culprit", 1: "order"} and found.verdicts[1].lost == [0]


def test_shapes_types_and_kernels_that_differ_are_said(tmp_path: Path, inside: Inside) -> None:
    here, golden = tmp_path / "here", tmp_path / "golden"
    half = Arg(1, 0, "output", "after_completion", np.ones(4, np.float16).tobytes(), "FLOAT16", (4,), 8)
    write_dump(golden, [tensor(0, 0, "output", np.ones((2, 2))), tensor(1, 0, "output", np.ones(4), kernel=7)])
    write_dump(here, [tensor(0, 0, "output", np.ones(4)), half])
    said = inside("values", here, "--against", golden, "--json")
    assert said.code == 12
    (one,) = json.loads(said.out)["comparisons"]
    assert one["first"]["verdict"] == "shape" and "[4], expected [2, 2]" in said.out
    assert one["equal"] == ["r0t1"]  # the looser type's tolerance
    found = walk(here, golden)
    assert "func 8 here and func 7 in the golden run" in found.verdicts[1].note


def test_scalars_that_differ_are_inputs_that_differ(tmp_path: Path) -> None:
    write_dump(
        tmp_path / "golden", [scalar(0, 1, 1.5), scalar(0, 2, None), scalar(0, 3, "$Inf"), tensor(0, 0, "output", [1])]
    )
    write_dump(
        tmp_path / "here", [scalar(0, 1, 2.5), scalar(0, 2, None), scalar(0, 3, "$Inf"), tensor(0, 0, "output", [2])]
    )
    found = walk(tmp_path / "here", tmp_path / "golden")
    assert verdicts(found) == {0: "given"} and found.first is not None
    assert [(one.entry.arg, one.difference.actual) for one in found.first.wrong] == [(1, 2.5), (0, 2.0)]


def test_nothing_in_common_is_an_error(tmp_path: Path, inside: Inside) -> None:
    write_dump(tmp_path / "here", [tensor(0, 0, "output", [1])])
    write_dump(tmp_path / "golden", [tensor(1, 0, "output", [1])])
    said = inside("values", tmp_path / "here", "--against", tmp_path / "golden")
    assert said.code == 3 and "No task of" in said.err and "level 2" in said.err


def test_ranks_are_compared_with_their_like(tmp_path: Path, inside: Inside) -> None:
    for rank in range(2):
        write_dump(tmp_path / "here" / f"rank{rank}" / "d0", [tensor(0, 0, "output", [rank])])
        write_dump(tmp_path / "golden" / f"rank{rank}" / "d0", [tensor(0, 0, "output", [1])])
    said = inside("values", tmp_path / "here", "--against", tmp_path / "golden", "--json")
    assert said.code == 12
    ranks = {Path(one["path"]).parts[-4]: one["first"] for one in json.loads(said.out)["comparisons"]}
    assert ranks["rank1"] is None and ranks["rank0"]["verdict"] == "culprit"


def test_the_lost_dependency_of_the_real_capture() -> None:
    said = livedbg("values", LOST, "--against", GOOD)
    assert said.code == 12
    first = said.out[said.out.index("FIRST DIVERGENCE") :]
    assert "r0t1 (INC) read other values, though r0t0 (SLOW_ADD), which writes them, wrote the same" in first
    assert "In the golden run it waits for r0t0 (SLOW_ADD): that dependency is lost" in first
    assert "Arg 0 is declared OUTPUT_EXISTING here and INOUT in the golden run" in first
    assert "256 of 256 outside, first at [0]: 0, expected 5" in first and "10, expected 15" in first
    assert livedbg("values", GOOD, "--against", GOOD).code == 0


def test_the_same_program_in_both_layouts_is_the_same(inside: Inside) -> None:
    for here, golden in ((JUNE, HEALTHY), (HEALTHY, JUNE)):
        said = inside("values", here, "--against", golden)
        assert said.code == 0 and "5 tasks compared in the order of deps.json: 5 equal" in said.out


def test_a_wrong_kernel_in_a_real_capture(tmp_path: Path) -> None:
    """MUL (r1t2) is made to leave 43 in one element, and what its reader r1t3 finds and leaves follows."""
    here = tmp_path / "dfx"
    shutil.copytree(HEALTHY, here)
    with dump_readers().open(here / "args_dump" / "args_dump.json") as dump:
        places = {(entry.task, entry.arg, entry.before): entry.bin_offset for entry in dump.entries}
    payload = bytearray((here / "args_dump" / "args.bin").read_bytes())
    for key, value in (((4294967298, 2, False), 43), ((4294967299, 0, True), 43), ((4294967299, 2, False), 48)):
        offset = places[key] + 4 * 9
        payload[offset : offset + 4] = np.float32(value).tobytes()
    (here / "args_dump" / "args.bin").write_bytes(payload)
    said = livedbg("values", here, "--against", HEALTHY)
    assert said.code == 12
    assert "FIRST DIVERGENCE: r1t2 (MUL) computes a different result" in said.out
    assert "1 of 256 outside, first at [9]: 43, expected 42; largest difference 1" in said.out
    assert "r1t3 (ADD): inputs already differ (from r1t2 (MUL))" in said.out
    assert livedbg("values", here, "--against", HEALTHY, "--atol", "2").code == 0
    document = json.loads(livedbg("values", here, "--against", HEALTHY, "--json").out)["comparisons"][0]
    assert (document["first"]["task"], document["first"]["verdict"]) == ("r1t2", "culprit")
    assert document["first"]["kernel"] == "MUL" and document["equal"] == ["r0t0", "r1t0", "r1t1"]


@given(
    npst.arrays(np.float32, 6, elements=st.floats(width=32)),
    npst.arrays(np.float32, 6, elements=st.floats(width=32)),
    st.sampled_from([0.0, 1e-6, 0.1, 3.0]),
    st.sampled_from([0.0, 1e-5, 1.0]),
)
def test_inside_is_what_numpy_calls_close(one: Any, other: Any, rtol: float, atol: float) -> None:
    found = compare(Held(one), Held(other), Tolerance(rtol, atol))
    with np.errstate(all="ignore"):
        close = np.isclose(one.astype(float), other.astype(float), rtol, atol, equal_nan=True)
    assert found.outside == int((~close).sum()) and found.compared == 6
    assert found.first == (None if close.all() else (int((~close).argmax()),))


def test_whole_numbers_are_compared_exactly() -> None:
    found = compare(Held(np.array([2**62, 5])), Held(np.array([2**62 + 1, 5])), Tolerance())
    assert (found.outside, found.first, found.actual, found.expected) == (1, (0,), 2**62, 2**62 + 1)


@pytest.mark.parametrize("verdict", ["culprit", "order", "given", "shape", "inherited"])
def test_every_verdict_has_a_sentence(tmp_path: Path, verdict: str) -> None:
    found = walk(run(tmp_path / "here", {2: 7}, {1: 7, 2: 8}), run(tmp_path / "golden"))
    with dump_readers().open(tmp_path / "here" / "args_dump" / "args_dump.json") as dump:
        one = found.verdicts[2]
        one.verdict = verdict
        assert headline(dump, one).startswith("r0t2 (func 2) ") and headline(dump, one).endswith(".")


def test_where_nobody_knows_who_wrote_what_a_few_are_named(tmp_path: Path) -> None:
    """Not all that stand before: their number grows with the square."""
    one, other = (
        write_dump(
            tmp_path / run,
            [tensor(t, a, role, [t + more]) for t in range(60) for a, role in enumerate(("input", "output"))],
        )
        for run, more in (("a", 0), ("b", 1))
    )
    with dump_readers().open(one) as dump, dump_readers().open(other) as golden:
        found = diverge(dump, golden, wiring_of(dump), wiring_of(golden))
    assert [verdict.verdict for verdict in found.verdicts] == ["given", *["inherited"] * 59]
    assert max(len(verdict.producers) for verdict in found.verdicts) == CANDIDATES


@given(
    st.dictionaries(st.integers(0, 3), st.sampled_from([0.0, 7.0])),
    st.dictionaries(st.integers(0, 3), st.sampled_from([0.0, 8.0])),
)
@pytest.mark.invariant("divergence.D1", "divergence.D2")
def test_D1_D2_a_culprit_found_the_same_and_the_first_cause_comes_first(
    found: dict[int, float], left: dict[int, float]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        walked = walk(run(Path(folder) / "here", found, left), run(Path(folder) / "golden"))
    for one in walked.verdicts:
        assert (one.verdict == "culprit") == (one.task not in found and one.task in left)
        assert (one.verdict == "equal") == (one.task not in found and one.task not in left)
    order = [one for one in walked.verdicts if one.verdict not in {"equal", "inherited", "uncompared"}]
    order += [one for one in walked.verdicts if one.verdict == "inherited"]
    assert walked.first is (order[0] if order else None)


@pytest.mark.invariant("divergence.D2")
def test_D2_without_a_cause_the_first_that_inherited_is_the_first() -> None:
    told = ["equal", "uncompared", "inherited", "inherited"]
    walked = Divergence([TaskVerdict(number, verdict) for number, verdict in enumerate(told)])
    assert walked.first is not None and walked.first.task == 2
    walked.verdicts.append(TaskVerdict(4, "given"))
    assert walked.first.task == 4
