"""`livedbg repro` through the real command line, on what the real wheel printed; the wheel itself: test_wheel.py."""

from __future__ import annotations

import ast
import random
import stat
import sys
from pathlib import Path

import pytest

from livedbg.adapters.nvfuser.dumps.reproduction_sources import gather
from livedbg.adapters.nvfuser.dumps.script_run import alike, check, inputs_of
from livedbg.adapters.nvfuser.dumps.segment_script import build_segment
from tests.cli.conftest import livedbg

_HERE = Path(__file__).parents[2] / "fixtures/nvfuser"


def segment(log: str, number: int) -> str:
    material = gather(_HERE / log)
    built = build_segment(material.cuts[-1], number)
    assert not built.uncovered and not check(built.text)
    return built.text


def body(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.startswith("    ") and " = fd." in line]


def test_the_script_in_the_log_is_saved_as_it_is(tmp_path: Path) -> None:
    out = tmp_path / "repro.py"
    said = livedbg("repro", _HERE / "compile_error.log", "-o", out)
    assert said.code == 0 and "--segment 1 reduces the script" in said.err
    log = (_HERE / "compile_error.log").read_text()
    assert out.read_text() == log[: log.index("fd.execute(inputs)\n") + len("fd.execute(inputs)\n")]
    ast.parse(out.read_text())


def test_the_script_of_the_older_bindings(tmp_path: Path) -> None:
    said = livedbg("repro", _HERE / "legacy_CONSTRUCTED.log")
    assert said.code == 0 and "(nvfuser)" in said.err
    assert "from nvfuser import FusionDefinition" in said.out and "# nvfuser version: 0.2.27" in said.out
    assert "```" not in said.out and "Traceback" not in said.out
    ast.parse(said.out)


def test_the_group_is_known_from_its_kernels_name_too() -> None:
    assert gather(_HERE / "one_by_one.log").failed_groups() == [1]


def test_a_segment_from_its_expressions() -> None:
    text = segment("compile_error.log", 1)
    assert body(text) == [
        "T9 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16, is_cpu=False)",
        "T10 = fd.ops.relu(T9)",
        "T11 = fd.ops.sum(T10, dims=[0], keepdim=False, dtype=DataType.BFloat16)",
    ]
    (one,) = inputs_of(text)
    assert one.size == (64, 64) and "torch.bfloat16" in one.source
    assert "# torch version: 2.10.0+cu128" in text and "compile_error.log:692" in text


def test_a_segment_from_the_definition_that_nvfuser_printed() -> None:
    text = segment("legacy_CONSTRUCTED.log", 1)
    assert "def nvfuser_incomplete_fusion(fd : FusionDefinition) -> None :" in text
    assert inputs_of(text)[0].size == (64, 64)
    assert "from nvfuser import" in text


@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13])
def test_kinds_of_expressions(number: int) -> None:
    material = gather(_HERE / "many_operations.log")
    group = material.cuts[-1].fusion.groups[number]
    text = segment("many_operations.log", number)
    defined = {name.strip() for line in body(text) for name in line.partition(" = ")[0].split(",")}
    assert {f"T{tensor}" for tensor in group.defines} <= defined
    assert len(inputs_of(text)) == len(group.inputs) + len(group.scalars)


def test_what_is_not_covered_is_named_not_guessed() -> None:
    said = livedbg("repro", _HERE / "many_operations.log", "--segment", 9)
    assert said.code == 3 and not said.out
    assert "expression 142" in said.err and "rng_uniform" in said.err and "is not supported" in said.err


def test_details_of_operations() -> None:
    resize = body(segment("many_operations.log", 4))
    assert "T28 = fd.ops.pad(T0, pad_widths=[1, 2, 3, 4])" in resize
    joined = body(segment("many_operations.log", 8))
    assert "T31 = fd.ops.cat([T29, T30], dim=1, manual_padding=True)" in joined
    turned = segment("many_operations.log", 11)
    assert "T4 = fd.ops.permute(T0, dims=[1, 0])" in body(turned) and "    0.5,\n" in turned
    text = segment("many_operations.log", 13)
    assert "T8 = fd.ops.expand(T1, shape=[8, 16])" in body(text) and "stride_order=[0, 1]" in text
    strides = [one.source.rpartition("), ")[2] for one in inputs_of(text)]
    assert strides[2:] == ["(0, 1))", "(1, 8))"]


def test_a_folder_and_a_script_in_another_file(tmp_path: Path) -> None:
    log = (_HERE / "run_error.log").read_text()
    cut = log.index("Traceback (most recent call last)")
    (tmp_path / "job.out").write_text(log[:cut])
    (tmp_path / "job.err").write_text(log[cut:])
    said = livedbg("repro", tmp_path, "--segment", 0)
    assert said.code == 0 and "T9 = fd.ops.matmul(T8, T2)" in said.out


def test_a_recording(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_bytes((_HERE / "run_error.log").read_bytes())
    recording = tmp_path / "run.livedbg"
    assert livedbg("record", "--logs", log, "-o", recording, "--for", "1").code == 0
    said = livedbg("repro", recording, "--segment", 1)
    assert said.code == 0 and "dims=[0], keepdim=False, dtype=DataType.Float)" in said.out, said.err


def test_no_script_and_no_dump_says_what_makes_one(tmp_path: Path) -> None:
    said = livedbg("repro", _HERE / "bad_option.log")
    assert said.code == 3 and "repro_script_for(inputs)" in said.err
    said = livedbg("repro", _HERE / "run_error.log", "--segment", 7)
    assert said.code == 3 and "only of 0, 1, 2" in said.err
    assert livedbg("repro", tmp_path / "none.log").code == 3


def test_a_script_that_was_cut_is_not_taken_for_whole(tmp_path: Path) -> None:
    log = tmp_path / "cut.log"
    whole = (_HERE / "compile_error.log").read_text()
    log.write_text(whole[: whole.index("tv7 = fd.ops.div(")] + "    tv7 = fd.ops.div(tv4,\nother output\n")
    said = livedbg("repro", log)
    assert said.code == 3 and "is not valid Python" in said.err


@pytest.fixture
def player(tmp_path: Path) -> Path:
    """A stand-in for a Python with nvFuser: it prints a log instead of running the script."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\ncat {tmp_path}/play.log\nexit 1\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_run_says_that_it_fails_the_same_way(player: Path, tmp_path: Path) -> None:
    again = (_HERE / "compile_error.log").read_text().replace("_f0_c1_r0_g1", "_f3_c1_r0_g0").replace("0x7f", "0x5a")
    (tmp_path / "play.log").write_text(again.replace("Error from segmentation group 1: ", "RuntimeError: "))
    said = livedbg("repro", _HERE / "compile_error.log", "--segment", 1, "--run", "--python", player)
    assert said.code == 11 and "It fails the same way" in said.out


def test_run_tells_another_failure_from_the_same(player: Path, tmp_path: Path) -> None:
    (tmp_path / "play.log").write_text((_HERE / "two_errors.log").read_text())
    said = livedbg("repro", _HERE / "compile_error.log", "--segment", 1, "--run", "--python", player)
    assert said.code == 11 and "but differently" in said.out and "CUDA_ERROR_NO_BINARY_FOR_GPU" in said.out
    (tmp_path / "play.log").write_text("ModuleNotFoundError: No module named 'nvfuser_direct'\n")
    said = livedbg("repro", _HERE / "compile_error.log", "--run", "--python", player)
    assert said.code == 11 and "No module named" in said.out


def test_run_says_when_it_does_not_fail_or_does_not_end(tmp_path: Path) -> None:
    well = tmp_path / "well"
    well.write_text("#!/bin/sh\nexit 0\n")
    well.chmod(0o755)
    said = livedbg("repro", _HERE / "compile_error.log", "--run", "--python", well)
    assert said.code == 0 and "does not fail" in said.out
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 100\n")
    slow.chmod(0o755)
    said = livedbg("repro", _HERE / "compile_error.log", "--run", "--python", slow, "--timeout", "1")
    assert said.code == 4 and "had not ended" in said.out
    said = livedbg("repro", _HERE / "compile_error.log", "--run", "--python", tmp_path / "none")
    assert said.code == 3 and "can't be started" in said.err


def test_nothing_of_a_script_runs_in_livedbg(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    log = tmp_path / "train.log"
    text = f"import torch\nfrom nvfuser_direct import FusionDefinition, DataType\nfd.x(open({str(mark)!r}, 'w'))\n"
    log.write_text(text + "inputs = [\n]\nfd.execute(inputs)\n")
    assert livedbg("repro", log, "-o", tmp_path / "r.py").code == 0
    assert not mark.exists()
    said = livedbg("repro", log, "--run", "--python", sys.executable)  # only when it is asked for
    assert said.code == 11


def test_alike_is_up_to_addresses_and_numbers() -> None:
    first, second = (
        gather(_HERE / name).errors[0].failure.parts[0] for name in ("two_errors.log", "compile_error.log")
    )
    assert alike(first, gather(_HERE / "two_errors.log").errors[0].failure.parts[1])
    assert not alike(first, second)


@pytest.mark.parametrize("seed", range(6))
def test_damaged_logs_give_scripts_that_parse_or_a_reason(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    lines = (_HERE / ("many_operations.log", "compile_error.log")[seed % 2]).read_text().split("\n")
    for _ in range(80):
        at = chance.randrange(len(lines))
        match chance.randrange(4):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, chance.choice(lines))
            case 2:
                lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)]
            case _:
                lines[at] += chance.choice(lines)
    log = tmp_path / "damaged.log"
    log.write_text("\n".join(lines))
    for cut in gather(log).cuts:
        for number in cut.fusion.groups:
            built = build_segment(cut, number)
            assert built.uncovered or not check(built.text)


ALONE = (
    "def nvfuser_fusion_id0(fd : FusionDefinition) -> None :\n    T0 = fd.define_tensor(shape=[-1], contiguity=[True], "
    "dtype=DataType.Float, is_cpu=False)\n    T1 = fd.ops.exp(T0)\n    fd.add_output(T1)\n"
)
REST = (
    "\nwith FusionDefinition() as fd:\n    nvfuser_fusion_id0(fd)\n\ninputs = [\n    torch.randn(8, "
    "device='cuda:0'),\n]\n"
    "fd.execute(inputs)\n"
)


def test_a_script_without_its_imports_gets_them(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(f"step 3\n{ALONE}{REST}step 4\n")
    ((script, where),) = gather(tmp_path / "run.log").scripts
    assert where == "run.log:2" and script.complete and script.generation == "nvfuser"
    assert script.text == f"import torch\nfrom nvfuser import FusionDefinition, DataType\n\n{ALONE}{REST}"


@pytest.mark.parametrize("above", ["", "step 3\n", "# torch version: 2.6.0\n"])
def test_a_script_whose_import_of_torch_is_not_found_gets_it(tmp_path: Path, above: str) -> None:
    """Line by line nothing shows that `import torch` begins one."""
    imports = "import torch\nfrom nvfuser import FusionDefinition, DataType\n\n"
    (tmp_path / "run.log").write_text(f"{above}{imports}{ALONE}{REST}")
    ((script, _),) = gather(tmp_path / "run.log").scripts
    assert script.text.count("import torch\n") == 1 and script.text.endswith(f"{ALONE}{REST}")


def test_a_definition_alone_is_no_script(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(f"{ALONE}\nstep 4\n{ALONE}")
    assert gather(tmp_path / "run.log").scripts == []
