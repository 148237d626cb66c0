"""What systems add to things that are not theirs: help, targets, recipes, repeated runs, logs, files of tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from livedbg.cli import group
from livedbg.model.errors import SourceError, ToolMissing, UsageError
from livedbg.recipes import model as recipes_model
from livedbg.repeats import compare, marking
from livedbg.repeats.outcome import RunEnd
from livedbg.session import filereaders, systems, targets
from livedbg.session.systems import Lazy, MarkerPair, System, TensorFiles, problems
from livedbg.values import tensor_files
from livedbg.values.tensor import Held, Tensor

TOY = System(
    name="toy",
    title="Toy",
    examples={"report": (("livedbg report toys", "of toys"),), "nonsense": ()},
    launchers=("toyrun",),
    shared_recipes={"asan-gcc": "Toys need no shadow.", "nonsense": ""},
    sanitizers=("toysan=all",),
    markers=(MarkerPair("toys", "^wind (?P<what>.*)$", "^unwound (?P<what>.*)$"),),
    no_logs=(".toy",),
    tensor_files=(
        TensorFiles("toy", Lazy(f"{__name__}:load_toy"), Lazy(f"{__name__}:write_toy"), "write toys"),
        TensorFiles("gone", Lazy("no.such.module:load"), Lazy("no.such.module:write"), ""),
    ),
)


def load_toy(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Numbers in text."""
    return np.array([float(word) for word in path.read_text().split()], np.float32)


def write_toy(tensor: Tensor, path: Path) -> None:
    """The same."""
    path.write_text(" ".join(str(number) for number in tensor_files.whole(tensor).tolist()))


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> System:
    """The only system."""
    for module in (group, recipes_model, compare, marking, filereaders, filereaders, targets):
        monkeypatch.setattr(module, "systems", lambda: (TOY,))
    monkeypatch.setattr(systems, "_problems", {})
    return TOY


def _problems() -> list[str]:
    return [problem.sentence for problem in problems()]


def test_an_example_is_in_the_help_of_the_command_that_it_is_of(toy: System) -> None:
    commands = group.commands.__wrapped__()
    assert commands["report"].example[0][0] == "livedbg report 4711"
    assert commands["report"].example[-1] == ("livedbg report toys", "of toys")
    assert any("examples for nonsense, which is no command" in sentence for sentence in _problems())


def test_a_launcher_is_a_form_of_target(toy: System) -> None:
    assert targets.target_forms("a FILE") == (
        "a PID, a process NAME that is unique on this host, toyrun:PID, or a FILE"
    )
    with pytest.raises(UsageError, match="toyrun: needs the pid"):
        targets.resolve(["toyrun:x"])


def test_a_recipe_is_for_the_systems_that_share_it(toy: System) -> None:
    known, wrong = recipes_model.recipes()
    assert known["asan-gcc"].systems == ("toy", "c++") and known["asan-clang"].systems == ("c++",)
    assert known["asan-gcc"].note.startswith("Toys need no shadow. Leaks are not looked for")
    assert wrong == [] and any("shares recipe nonsense, which is none" in sentence for sentence in _problems())


def test_markers_and_sanitizers_of_a_system_are_used(toy: System) -> None:
    found = marking.last_open(["wind a", "unwound a", "wind b"], marking.known_pairs.__wrapped__())
    assert found is not None and (found.text, found.pair) == ("wind b", "toys")
    ends = [RunEnd(run=run, how="signal", code=139, signal="SIGSEGV", stack=(f"f{run}",)) for run in (1, 2)]
    assert "--recipe asan-gcc or asan-clang (host), --recipe toysan=all (Toy)" in compare.compare(ends).next


def test_markers_name_what_begins() -> None:
    with pytest.raises(ValueError, match="has no group `what`"):
        systems._checked(
            System(name="bad", title="Bad", markers=(MarkerPair("x", "^a", "^(?P<what>b)"),)), foreign=True
        )


def test_files_that_are_no_logs(toy: System) -> None:
    assert filereaders.no_log_suffixes() == {".toy"}


def test_files_of_tensors(toy: System, tmp_path: Path) -> None:
    formats = filereaders.tensor_formats()
    assert filereaders.tensor_suffixes() == ("npy", "toy", "gone", "txt")
    path = tmp_path / "a.toy"
    tensor_files.export(Held(np.array([1.5, 2], np.float32)), path, {}, formats)
    assert tensor_files.load(path, formats).block(0, 2).tolist() == [1.5, 2]
    assert filereaders.dump_readers().holds_one_tensor(path)
    path.write_text("no number")
    with pytest.raises(SourceError, match="no tensor that can be compared") as wrong:
        tensor_files.load(path, formats)
    assert wrong.value.remedy == "write toys"
    with pytest.raises(ToolMissing, match="of Toy can't be imported"):
        tensor_files.load(tmp_path / "a.gone", formats)
    with pytest.raises(UsageError, match="has no suffix of a known format"):
        tensor_files.export(Held(np.zeros(1)), tmp_path / "a.pt", {}, formats)


def test_what_the_built_in_systems_contribute() -> None:
    lines = {name: [line for line, _what in command.example] for name, command in group.commands().items()}
    assert "livedbg attach --logs ./ascend-log" in lines["attach"]
    assert "livedbg report --logs ./ascend-log --json" in lines["report"]
    assert "livedbg recipes nvfuser-dump" in lines["recipes"]
    assert "livedbg demo ascend" in lines["demo"]
    assert targets.target_forms() == "a PID, a process NAME that is unique on this host, or torchrun:PID"
    known, _ = recipes_model.recipes()
    assert known["asan-gcc"].systems == known["asan-clang"].systems == ("nvfuser", "cuda", "c++")
    assert known["cpu-profile"].systems == known["heap-profile"].systems == ("nvfuser", "c++", "python")
    assert known["asan-gcc"].note.startswith("protect_shadow_gap=0: the CUDA driver maps memory in the gap. Leaks")
    assert {".pt", ".cubin", ".vmfb", ".nsys-rep"} <= filereaders.no_log_suffixes()
    assert filereaders.tensor_suffixes() == ("npy", "pt", "txt")
    for system in systems.systems():
        for name in system.sanitizers:
            recipes_model.chosen(name, known)
