"""`livedbg iree`, IREE's playbook as a guide, on real modules: the programs of its steps, and the whole command."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from livedbg.adapters.iree.flow.compare import compare, reduce
from livedbg.adapters.iree.flow.ground import Ground
from livedbg.adapters.iree.flow.isolate import isolate
from livedbg.adapters.iree.flow.sanity import sanity
from livedbg.adapters.iree.flow.steps import Note, Notebook
from livedbg.session.guide import StepAsk
from tests.adapters.iree.conftest import LAVAPIPE, SOURCES, Compile, needs_lavapipe, tool
from tests.app.terminal import Terminal
from tests.cli.conftest import livedbg

pytestmark = pytest.mark.iree

THREE: Final = Path(__file__).parents[2] / "fixtures" / "iree" / "three_dispatches.mlir"
GATED: Final = SOURCES / "gated.mlir"
LOOPS: Final = ("--input=16x16xf32=1", "--input=16x16xf32=0.75", "--input=16x32xf32=0.1")
ONE_THREAD: Final = "--task_topology_group_count=1"
STILL_S: Final = 3.0
"""A loop that never ends gives no sign for so long."""

Step = Callable[..., Note]


@pytest.fixture
def step(tmp_path: Path) -> Step:
    """Do one step in this process; gives what it wrote down."""

    def do(number: int, argv: tuple[str, ...], handed: Mapping[str, str], limit_s: float = 300.0) -> Note:
        folder = tmp_path / f"step-{number}-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        for name in ("stdout.log", "stderr.log"):
            (folder / name).touch()
        book = Notebook(folder)
        ask = StepAsk(number=number, argv=argv, handed=handed, folder=folder, limit_s=limit_s)
        (sanity, isolate, compare, reduce)[number - 1](Ground(ask, book))
        return book.note

    return do


def run_module(module: Path, *inputs: str) -> tuple[str, ...]:
    """CMD."""
    program = Path(sys.executable).with_name("iree-run-module")
    return (str(program), f"--module={module}", "--device=local-task", "--function=main", *inputs)


def said(note: Note) -> str:
    """All lines."""
    return "\n".join(f"{label}: {sentence}" for label, sentence in note.lines)


def test_a_wrong_shape_is_found_at_sanity_and_ends_the_guide(compiled: Compile, tmp_path: Path) -> None:
    argv = run_module(compiled("stage"), "--input=31x32xf32=1", "--input=32x32xf32=1")
    found = livedbg("iree", "--headless", "--", *argv, env={"XDG_STATE_HOME": str(tmp_path)})
    assert found.code == 11, found.everything
    assert "Input 0 (counted from 0) is 31x32xf32, and main takes 32x32xf32: dimension 0 is 31, not 32." in found.out
    assert "INVALID_ARGUMENT: input0 shape dimension 0 mismatch; expected 32 but have 31" in found.out
    assert "IREE: compiler 3.13.0, runtime 3.13.0" in found.out
    assert "The cause is found" in found.out and "Step 2 of 4" not in found.out


@pytest.mark.invariant("iree_isolate.O1", "iree_reduce.R1")
@needs_lavapipe
def test_the_dispatch_that_makes_nan_on_vulkan_is_found_cut_and_run_alone(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool("iree-run-module")
    monkeypatch.setenv("VK_ICD_FILENAMES", str(LAVAPIPE))
    handed = {"source": str(THREE), "input": "64xf32=1;64x32xf32=-0.5", "fault": "nan", "device": "vulkan"}
    argv = ("iree-compile", str(THREE))
    found = step(2, argv, handed)
    text = said(found)
    assert "tracing: It acts at compile time: the module has flow.tensor.trace" in text
    assert "main_dispatch_2 (linalg.generic at three_dispatches.mlir:17) is the first dispatch with NaN" in text
    assert "(32 elements of output 0); its inputs have none: it made it." in text
    assert "cut: The same without traces: cut behind it (--iree-flow-break-dispatch), its results have NaN." in text
    assert found.wrong_value and found.hands["dispatch"].startswith("main_dispatch_2::")
    alone = step(4, argv, {**handed, **found.hands})
    assert "It fails alone too: main_dispatch_2" in said(alone) and alone.wrong_value
    assert "iree-run-module --module=alone.vmfb --device=vulkan --function=main --input=@input0.npy" in said(alone)
    assert "--iree-vulkan-target=llvmpipe" in said(alone)
    assert "input 0: float32[32]: minimum -64, maximum -64, mean -64" in said(alone)


@pytest.mark.heavy
def test_a_dispatch_that_needs_what_came_before_is_found_though_traces_hide_it(step: Step) -> None:
    """It reads beyond its input what another one wrote there: with traces, and alone, tensors lie apart."""
    tool("iree-run-module")
    source = SOURCES / "neighbour.mlir"
    handed = {"source": str(source), "input": "64xf32=3;64xi32=64", "fault": "nan"}
    argv = ("iree-compile", str(source))
    found = step(2, argv, handed)
    assert "found: Nothing: every dispatch returned, and none has NaN or infinity in its outputs." in said(found)
    assert "traces: With traces it does not happen." in said(found)
    assert (
        "main_dispatch_2 (linalg.generic at neighbour.mlir:19) is the first dispatch behind which, when cut, its "
        "results have NaN."
    ) in said(found)
    alone = step(4, argv, {**handed, **found.hands})
    assert "Not alone: it needs what came before, or the timing. main_dispatch_2" in said(alone)
    assert "it returns, and its outputs have no NaN" in said(alone) and not alone.wrong_value
    assert "try: It may read outside of its tensors what others wrote there (recipes iree-sanitize" in said(alone)


def test_a_source_that_does_not_compile_ends_the_guide(step: Step, tmp_path: Path) -> None:
    tool("iree-run-module")
    bad = tmp_path / "bad.mlir"
    bad.write_text(THREE.read_text().replace("linalg.vecmat", "linalg.vecmut"))
    compiler = str(Path(sys.executable).with_name("iree-compile"))
    found = step(1, (compiler, str(bad), "-o", str(tmp_path / "bad.vmfb")), {})
    assert found.cause and found.failed
    assert "bad.mlir:15:10: error: custom op 'linalg.vecmut' is unknown" in said(found)


def test_the_dispatch_that_loops_is_found_without_and_with_what_came_before(compiled: Compile, step: Step) -> None:
    argv, handed = run_module(compiled("gated"), *LOOPS, ONE_THREAD), {"source": str(GATED)}
    found = step(2, argv, handed, STILL_S)
    assert found.hung and found.hands["fault"] == "hang"
    assert "main_dispatch_1 (linalg.generic at gated.mlir:14, :20) began and did not return: no end after 3 s" in said(
        found
    )
    assert "cut: The same without traces" in said(found) and "it does not end" in said(found)
    alone = step(4, argv, {**handed, **found.hands}, STILL_S)
    assert alone.hung and "It fails alone too: main_dispatch_1" in said(alone)


@pytest.mark.heavy
def test_two_ways_that_differ_in_one_dispatch_alone_too(step: Step) -> None:
    tool("iree-run-module")
    argv = ("iree-compile", str(THREE), "--iree-llvmcpu-target-cpu=haswell")
    handed = {"rtol": "0", "atol": "0", "against-flags": "--iree-llvmcpu-target-cpu=generic"}
    found = step(3, argv, handed)
    assert found.wrong_value and found.hands["fault"] == "differs"
    assert f"main_dispatch_1 (linalg.vecmat at {THREE}:15) is the first that differs. Its inputs are equal." in said(
        found
    )
    assert "3 compared, 1 equal within the tolerance." in said(found)
    alone = step(4, argv, {**handed, **found.hands})
    assert "It differs alone too: main_dispatch_1 (linalg.vecmat at three_dispatches.mlir:15)" in said(alone)


def test_a_healthy_program_through_all_steps(compiled: Compile, tmp_path: Path) -> None:
    module = compiled("stage")
    source = SOURCES / "stage.mlir"
    found = livedbg(
        *("iree", "--headless", "--timeout", "300", "--source", source, "--"),
        *run_module(module, "--input=32x32xf32=1", "--input=32x32xf32=0.1"),
        env={"XDG_STATE_HOME": str(tmp_path)},
    )
    assert found.code == 0, found.everything
    for sentence in (
        "They fit: main takes 32x32xf32, 32x32xf32.",
        "Nothing wrong in what was checked here.",
        "Nothing: every dispatch returned, and none has NaN or infinity in its outputs.",
        "Nothing: no dispatch and no result differs.",
        "Nothing: no step that was done found a fault, so that there is no dispatch to extract.",
        "Not excluded: other inputs;",
    ):
        assert sentence in found.out, found.out


def test_without_the_source_the_steps_say_what_they_lack(compiled: Compile, step: Step) -> None:
    argv = run_module(compiled("stage"), "--input=32x32xf32=1", "--input=32x32xf32=0.1")
    for number in (2, 3, 4):
        found = step(number, argv, {})
        assert found.undone and "--source FILE.mlir" in said(found), number
        assert found.lacks == ({} if number == 4 else {"source": "FILE.mlir"}), "behind the last step there is none"


def test_a_module_with_traces_needs_no_source(compiled: Compile, step: Step) -> None:
    module = compiled("stage", "--iree-flow-trace-dispatch-tensors")
    argv = run_module(module, "--input=32x32xf32=1", "--input=32x32xf32=0.1")
    assert "dispatches: 1 dispatch began, 1 returned." in said(step(2, argv, {}))


def test_what_a_python_program_compiled_is_the_source(step: Step, tmp_path: Path) -> None:
    tool("iree-run-module")
    program = tmp_path / "model.py"
    program.write_text(
        "import iree.compiler.tools as tools, sys\n"
        "flags = ['--iree-llvmcpu-target-cpu=generic']\n"
        f"tools.compile_str(open({str(SOURCES / 'stage.mlir')!r}).read(), target_backends=['llvm-cpu'], "
        "extra_args=flags)\n"
        "raise SystemExit('no batch')\n"
    )
    found = step(1, (sys.executable, str(program)), {})
    assert "It failed with exit code 1" in said(found) and found.failed
    assert "--iree-llvmcpu-target-cpu=generic" in found.hands["flags"]
    assert "linalg.matmul" in Path(found.hands["source"]).read_text()
    assert "local-sync: It ends with 1 result, for random inputs." in said(found)


@pytest.mark.invariant("iree_sanity.Y1")
def test_an_input_that_the_program_took_is_not_the_cause(compiled: Compile, step: Step, tmp_path: Path) -> None:
    program = tmp_path / "iree-run-module"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    argv = run_module(compiled("stage"), "--input=31x32xf32=1", "--input=32x32xf32=1")
    found = step(1, (str(program), *argv[1:]), {})
    assert not found.cause and "dimension 0 is 31, not 32. The runtime did not refuse it." in said(found)


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
