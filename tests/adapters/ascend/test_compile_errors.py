"""Compile errors of pypto and ptoas: what real compilations wrote, and what is left of them when they are cut.

The recordings were made with pypto at e2d0f78a, built on a machine without an NPU, and with ptoas 0.1.1 of January
2026, which is older than that pypto and refuses what it writes (paths were changed).
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from livedbg.adapters.ascend import passes
from livedbg.adapters.ascend.compile_reader import MOST, CompileReader, op_of, shapes_of
from livedbg.adapters.ascend.passes import Place, change_of, find_dumps, next_pass, pipeline, quoted
from tests.adapters.ascend.sessions import report
from tests.cli.zygote import Livedbg, run_livedbg

COMPILED = Path(__file__).parents[2] / "fixtures" / "pypto"


def refused(folder: Path) -> tuple[int, str, dict[str, Any]]:
    """The exit code of `livedbg report --logs`, what a user reads on one line, and the compile error's finding."""
    code, said = report(folder)
    found = [finding for finding in said["findings"] if finding["rule"] == "ascend-compile-error"]
    assert said["findings"][0] in found, said["findings"]
    return code, said["verdict"]["state"], {**found[0], "all": found}


def taken(text: str) -> CompileReader:
    reader = CompileReader()
    for number, line in enumerate(text.split("\n")):
        reader.take(line, ("err.txt", number + 1), None)
    return reader


@pytest.mark.parametrize(
    ("case", "words", "steps"),
    [
        (
            "parser",
            [
                "parser refuses the program at /home/dev/job/model.py:17:14",
                "tile.matmul",
                "lhs K=64 and rhs K=128",
                "The line is “tc = pl.matmul(la, rb)”",
            ],
            ["change /home/dev/job/model.py:17:14"],
        ),
        (
            "pass",
            [
                "at /home/dev/job/model.py:14:50: scatter_update: fp16 dst has m*d = 32768",
                "The last pass that ended is OutlineClusterScopes, so ConvertTensorToTileOps is the one that failed",
            ],
            ["passes_dump/10_after_OutlineClusterScopes.py", "PTO_BACKTRACE=1"],
        ),
        (
            "shapes",
            [
                "at /home/dev/job/model.py:13:48",
                "tile.div",
                "[1, 64] and src1 shape [32, 64]",
                "ConvertTensorToTileOps",
            ],
            ["passes_dump/10_after"],
        ),
        (
            "memory",
            ["Vec buffer usage (192512 bytes) exceeds", "so AllocateMemoryAddr is the one that failed"],
            ["passes_dump/34_after_MemoryReuse.py"],
        ),
        (
            "ptoas_op",
            [
                "ptoas refuses function copy at build_output/model/ptoas/copy.pto:7:81 (a file that pypto generated)",
                "custom op 'pto.make_tensor_view' expected 'strides'",
                "made from /home/dev/job/model.py:10:9",
                "shape = [%c64_index, %c64_index]",
            ],
            ["check /home/dev/job/model.py:10:9", "codegen_errors.txt", "dump_ptoas_passes=True"],
        ),
        ("ptoas_dialect", ["copy.pto:2:98", "unknown attribute `kernel_kind` in dialect `pto`"], ["skip_ptoas=True"]),
    ],
)
def test_what_a_user_reads(case: str, words: list[str], steps: list[str]) -> None:
    code, state, finding = refused(COMPILED / case)
    assert (code, state) == (11, "crashed")
    assert len(finding["all"]) == 1
    missing = [word for word in words if word not in finding["sentence"]]
    assert not missing, (missing, finding["sentence"])
    assert all(any(step in said for said in finding["next"]) for step in steps), finding["next"]
    assert finding["evidence"][0]["source"].startswith("err.txt:")


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("bug", {"internal": True, "check": "convert_to_ssa_pass.cpp:1129", "place": "model.py:7:5"}),
        ("verifier", {"before": "NormalizeStmtStructure", "more": 1, "rule": "NoRedundantBlocks"}),
        ("ssa", {"rule": "SSAVerify", "message": "Variable 'x' is assigned more than once", "more": 0}),
        ("shapes", {"op": "tile.div", "shapes": "[1, 64], [32, 64]", "place": "/home/dev/job/model.py:13:48"}),
        ("parser", {"code": "tc = pl.matmul(la, rb)", "op": "tile.matmul", "internal": False}),
        ("ptoas_op", {"function": "copy", "op": "pto.make_tensor_view", "report": "codegen_errors.txt"}),
    ],
)
def test_what_the_reader_takes_from_a_log(case: str, expected: dict[str, object]) -> None:
    (error,) = taken((COMPILED / case / "err.txt").read_text()).errors.values()
    for name, value in expected.items():
        found = getattr(error, name)
        assert (str(value) in str(found)) if isinstance(value, str) else found == value, (name, found)


def test_the_report_file_alone_says_the_same(tmp_path: Path) -> None:
    source = COMPILED / "ptoas_op" / "build_output"
    shutil.copytree(source, tmp_path / "build_output")
    code, _, finding = refused(tmp_path)
    assert code == 11
    assert "function copy at build_output/model/ptoas/copy.pto:7:81" in finding["sentence"]
    assert "made from /home/dev/job/model.py:10:9" in finding["sentence"]


def test_a_program_that_goes_on_to_run_was_compiled(tmp_path: Path) -> None:
    run = (COMPILED.parent / "ascend" / "01_healthy_trb" / "err.txt").read_text()
    (tmp_path / "err.txt").write_text((COMPILED / "pass" / "err.txt").read_text() + run)
    assert "ascend-compile-error" not in {finding["rule"] for finding in report(tmp_path)[1]["findings"]}


def test_of_the_pass_the_message_knows_more_than_the_dumps(tmp_path: Path) -> None:
    (tmp_path / "err.txt").write_text((COMPILED / "verifier" / "err.txt").read_text())
    shutil.copytree(COMPILED / "pass" / "build_output", tmp_path / "build_output")
    sentence = refused(tmp_path)[2]["sentence"]
    assert "The input of the pass NormalizeStmtStructure is wrong" in sentence
    assert "ConvertTensorToTileOps" not in sentence


def test_missing_dumps_are_said(tmp_path: Path) -> None:
    shutil.copytree(COMPILED / "pass", tmp_path / "job")
    for number in ("03", "04"):
        next((tmp_path / "job/build_output/model/passes_dump").glob(f"{number}_after_*")).unlink()
    assert "2 of the dumps before it are missing." in refused(tmp_path / "job")[2]["sentence"]


def test_how_far_ptoas_got(tmp_path: Path) -> None:
    """MLIR's --mlir-print-ir-tree-dir: one folder an operation, `N_pass.mlir` in it."""
    shutil.copytree(COMPILED / "ptoas_op", tmp_path / "job")
    folder = tmp_path / "job/build_output/model/ptoas_passes/copy/builtin_module_no-symbol-name"
    folder.mkdir(parents=True)
    for number, name in enumerate(("pto-infer-layout", "pto-insert-sync")):
        (folder / f"{number}_{name}.mlir").write_text("module {}\n")
    assert "The last pass of ptoas that ended is pto-insert-sync." in refused(tmp_path / "job")[2]["sentence"]


def test_several_functions_are_told_apart() -> None:
    """Lines by the formats of pto_backend.py: one function and one group by ptoas, one by the code generator."""
    text = """\
Failed to compile function 'a': ptoas compilation failed: module attributes {pto.target_arch = "a5"} {
}
loc("build_output/a.pto":23:50): error: 'pto.reserve_buffer' op expects 'base' to be resolved
Error: Pass execution failed.
Failed to compile group 'g' [b, c]: ptoas compilation timed out after 60s
Failed to compile function 'd': No codegen registered for operation: tensor.assemble
RuntimeError: 4 function(s) failed to compile:

  Function  | Error
  ----------+-----------
  a         | ptoas compilation failed: loc("build_output/a.pto":23:50): error:
            | 'pto.reserve_buffer' op expects 'base' to be resolved
  ----------+-----------
  g         | ptoas compilation timed out after 60s
  ----------+-----------
  e         | unsupported memory
            | space for tile.load
  ----------+-----------

  Full details: out/report/codegen_errors.txt
"""
    errors = {error.function: error for error in taken(text).errors.values()}
    assert list(errors) == ["a", "g", "d", "e"]
    assert str(errors["a"].place) == "build_output/a.pto:23:50"
    assert errors["a"].op == "pto.reserve_buffer"
    assert "timed out" in errors["g"].message
    assert errors["d"].op == "tensor.assemble"
    assert errors["e"].message == "unsupported memory space for tile.load"
    assert {error.report for error in errors.values()} == {"out/report/codegen_errors.txt"}


def test_other_compilers_are_left_alone() -> None:
    text = """\
error[E0308]: mismatched types
  --> src/main.rs:2:20
Error: no such file
Check failed: x == y at foo.cc:3
  --> somewhere:3
/usr/include/c++/12/vector:3:4: error: no member named 'x'
ValueError: shapes (2,3) and (4,5) not aligned
[1] ERROR - x
"""
    assert not taken(text).errors


def test_cut_anywhere_and_mixed_it_never_fails() -> None:
    dice = random.Random(3)
    for case in ("parser", "pass", "shapes", "bug", "verifier", "ssa", "ptoas_op"):
        text = (COMPILED / case / "err.txt").read_text()
        for end in range(0, len(text), 97):
            assert len(taken(text[:end]).errors) <= 1
        lines = text.split("\n")
        dice.shuffle(lines)
        taken("\n".join(lines))
        garbage = "".join(chr(dice.randrange(1, 0x2FF)) for _ in range(500))
        taken("\n".join(part for line in lines for part in (line, garbage)))


def test_many_errors_are_bounded_and_counted() -> None:
    text = "\n".join(f"ValueError: number {number} is wrong [m.py:{number + 1}:1]" for number in range(10 * MOST))
    reader = taken(text)
    assert (len(reader.errors), reader.beyond) == (MOST, 9 * MOST)


def test_numbers_of_thousands_of_digits_are_text() -> None:
    text = f"ValueError: x [m.py:{'9' * 5000}:1]\nError: y\n  --> m.py:{'9' * 5000}:1\n"
    assert not taken(text).errors


def test_operations_and_shapes() -> None:
    assert op_of("error: 'pto.tmatmul' op expects") == "pto.tmatmul"
    assert op_of("The operator tile.matmul requires") == "tile.matmul"
    assert op_of("in model.py and tile.cpp") == ""
    assert shapes_of("got [1, 64] and (32, 64) and 64x?xf32, 16x16xf32 [m.py:1:2]") == [
        "[1, 64]",
        "(32, 64)",
        "16x16xf32",
    ]


def test_the_pass_behind_another() -> None:
    assert next_pass("") == pipeline()[0]
    assert next_pass("OutlineClusterScopes") == "ConvertTensorToTileOps"
    assert next_pass("Simplify") == ""  # twice in the pipeline: which of them is not known
    assert next_pass(pipeline()[-1]) == ""
    assert next_pass("SomethingNew") == ""


def test_no_dumps_and_strange_ones(tmp_path: Path) -> None:
    assert find_dumps([tmp_path, tmp_path / "nowhere"]) == []
    folder = tmp_path / "a" / "passes_dump"
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("x")
    assert find_dumps([tmp_path]) == []
    (folder / "00_frontend.py").write_text("")
    (dump,) = find_dumps([tmp_path])
    assert (dump.last, dump.number, dump.missing) == ("", 0, 0)
    (folder / f"07_after_{'x' * 90}.py").write_text("")
    (dump,) = find_dumps([folder])
    assert (dump.number, dump.missing) == (7, 6)


def test_a_launched_compiler_that_fails(tmp_path: Path) -> None:
    """The log and the dumps of a real compilation, written by a program that is launched in another folder.

    It ends as soon as it has written them, which it does once livedbg has seen it run.
    """
    case, go = COMPILED / "shapes", tmp_path / "go"
    program = (
        "import pathlib, shutil, sys, time\n"
        f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.05)\n"
        f"shutil.copytree({str(case / 'build_output')!r}, 'build_output')\n"
        f"sys.exit(pathlib.Path({str(case / 'err.txt')!r}).read_text())\n"
    )
    command = ["launch", "--headless", "--", sys.executable, "-c", program]
    home = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    with Livedbg(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path, env=home) as job:
        assert job.stdout is not None
        said = next(line for line in job.stdout if re.match(r"[0-9:]{8} [A-Z]+ ", line))
        assert "CRASHED" not in said
        go.touch()
        said += job.stdout.read()
    assert job.returncode == 1
    assert re.search("(CRASHED |critical) pypto's .*so ConvertTensorToTileOps is the one that failed", said), said


def test_a_launched_compiler_that_fails_before_anybody_has_looked(tmp_path: Path) -> None:
    case = COMPILED / "shapes"
    program = 'cp -r "$0/build_output" . && cat "$0/err.txt" >&2; exit 1'
    command = ["launch", "--headless", "--", "sh", "-c", program, case]
    home = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    job = run_livedbg(command, 100, text=True, cwd=tmp_path, env=home)
    assert job.returncode == 1
    assert re.search("(CRASHED |critical) pypto's .*so ConvertTensorToTileOps is the one that failed", job.stderr), (
        job.stderr
    )


def test_only_lines_of_programs_are_quoted(tmp_path: Path) -> None:
    (tmp_path / "k.pto").write_text('first\nadd %1, %2 loc("model.py":14:5)\n')
    (tmp_path / "shadow").write_text("root:secret\n")
    assert quoted(Place("k.pto", 2, 1), [tmp_path]) == ("add %1, %2", Place("model.py", 14, 5))
    assert quoted(Place(str(tmp_path / "k.pto"), 1, 1), [Path("/")]) == ("first", None)
    assert quoted(Place(str(tmp_path / "shadow"), 1, 1), [tmp_path]) == ("", None)
    assert quoted(Place("/etc/passwd", 1, 1), [tmp_path]) == ("", None)
    with (tmp_path / "huge.pto").open("wb") as file:
        file.truncate(passes._SOURCE_LIMIT + 1)
    assert quoted(Place("huge.pto", 1, 1), [tmp_path]) == ("", None)


def test_a_table_without_an_end_is_not_kept_whole() -> None:
    reader = CompileReader()
    reader.take("RuntimeError: 4 function(s) failed to compile:", ("err.txt", 1), None)
    reader.take("  Function | Error", ("err.txt", 2), None)
    reader.take("  kernel   | it failed", ("err.txt", 3), None)
    for number in range(10_000):
        reader.take("           | and more of it", ("err.txt", number), None)
    reader.take("done", ("err.txt", 9), None)
    (error,) = reader.errors.values()
    assert error.function == "kernel" and error.message.startswith("it failed and more of it")
    assert len(error.message) < 2_000


def dumps(folder: Path, *texts: str) -> list[Path]:
    paths = []
    for number, text in enumerate(texts):
        path = folder / f"{number:02}_after_P{number}.py"
        path.write_text(text)
        paths.append(path)
    return paths


PROGRAM = "".join(f"line {number}\n" for number in range(40))


def test_a_report_shows_what_the_last_pass_changed() -> None:
    _, _, finding = refused(COMPILED / "memory")
    shown = next(proof for proof in finding["evidence"] if proof["kind"] == "file")
    assert shown["source"] == "31_after_MaterializeTensorStrides.py → 32_after_InitMemRef.py"
    assert "+        mem_vec_2: pl.Ptr = pl.tile.alloc(pl.Mem.Vec, 192512)" in shown["text"]
    assert "more lines that differ" in shown["text"]
    assert any(step.startswith("all that differs: diff -u ") for step in finding["next"])


def test_passes_that_changed_nothing_are_gone_back_over(tmp_path: Path) -> None:
    files = dumps(tmp_path, "a = 1\n", "a = 2\n", "a = 2\n", "a = 2\n")
    change = change_of(files, "a is wrong")
    assert change is not None and (change.before, change.after) == ("00_after_P0.py", "01_after_P1.py")
    assert change.lines == ("-a = 1", "+a = 2") and change.more == 0
    assert change_of(files[1:], "a is wrong") is None
    assert change_of(files[:1], "a is wrong") is None


def test_the_part_that_the_error_names_is_shown(tmp_path: Path) -> None:
    after = PROGRAM.replace("line 3\n", "first = 1\n").replace("line 30\n", "buffer_7 = alloc(4096)\n")
    change = change_of(dumps(tmp_path, PROGRAM, after), "buffer_7 exceeds the limit: 4096 bytes")
    assert change is not None and "+buffer_7 = alloc(4096)" in change.lines and change.more == 2


def test_a_pass_whose_result_is_wrong_is_compared_with_the_one_before_it(tmp_path: Path) -> None:
    folder = tmp_path / "passes_dump"
    folder.mkdir()
    dumps(folder, "a = 1\n", "a = 2\n", "a = 3\n")
    (dump,) = find_dumps([tmp_path])
    assert [path.name for path in dump.files("P1")] == ["00_after_P0.py", "01_after_P1.py"]
    assert len(dump.files()) == len(dump.files("nobody")) == 3


def test_a_dump_that_is_gone_or_no_text(tmp_path: Path) -> None:
    files = dumps(tmp_path, "a = 1\n", "a = 2\n")
    (tmp_path / "01_after_P1.py").write_bytes(b"\xff\xfe\x00a\x1b[31m\n")
    change = change_of(files, "")
    assert change is not None and not any("\x1b" in line for line in change.lines)
    files[0].unlink()
    assert change_of(files, "") is None


@pytest.mark.parametrize(
    ("above", "file", "by_pypto"),
    [
        ("$ ptoas --pto-arch=a5 fill.pto -o fill.o", "fill.pto", False),
        ("$ ptoas --pto-arch=a5 fill.pto -o fill.o", "build_output/_jit_fill/ptoas/fill.pto", True),
        ('  File "/w/site-packages/pypto/backend.py", line 3: Error: ', "fill.pto", True),
    ],
)
def test_only_what_pypto_wrote_is_called_so(tmp_path: Path, above: str, file: str, by_pypto: bool) -> None:
    (tmp_path / "err.txt").write_text(f"{above}\nloc(\"{file}\":4:7): error: 'pto.fill' op has no tank\n")
    finding = refused(tmp_path)[2]
    assert f"{file}:4:7" in finding["sentence"]
    assert ("pypto" in finding["sentence"]) is by_pypto
    assert any("skip_ptoas" in step or "PYPTO" in step for step in finding["next"]) is by_pypto
