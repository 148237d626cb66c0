"""A guide's command, on a program that says which settings it got."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msgspec import structs

from livedbg.cli.guide import _headless, next_line
from livedbg.cli.guide_steps import Course
from livedbg.model.errors import UsageError
from livedbg.session.guide import GuideOption, GuideStep, StepAsk, StepFound
from livedbg.session.systems import Guide, Lazy
from tests.cli.conftest import livedbg

MODEL = """
import os
level = os.environ.get("AOT_INDUCTOR_DEBUG_INTERMEDIATE_VALUE_PRINTER")
if level == "3":
    print("[ before_launch: cpp_fused_0 ]\\n[ after_launch: cpp_fused_0 ]\\n[ before_launch: cpp_fused_1 ]")
    raise SystemExit(9)
if level == "2":
    print(f"[  after_launch - {os.environ['AOT_INDUCTOR_FILTERED_KERNELS_TO_PRINT']} - buf1  ]:")
    print("Dtype: float32\\nMean value: nan\\nSize: [4]")
"""


class GuideOfWords(Lazy[tuple[GuideStep, ...]]):
    """Steps that are there already."""

    def __init__(self, *steps: GuideStep) -> None:
        super().__init__("nowhere:STEPS")
        self.__dict__["value"] = steps


def course(*steps: GuideStep, handed: dict[str, str] | None = None, found: StepFound | None = None) -> Course:
    """A course of a guide whose steps find nothing, or all the same."""
    nothing: Lazy[object] = Lazy("nowhere:read")
    nothing.__dict__["value"] = lambda run: found or StepFound()
    guide = Guide(name="toy", summary="", about="", steps=GuideOfWords(*steps), read=nothing, example=())  # type: ignore[arg-type]
    return Course(guide, ("true",), handed or {})


@pytest.mark.invariant("guide_steps.G1")
def test_a_step_takes_what_earlier_ones_found_or_its_other_recipes_or_is_refused() -> None:
    with_other = GuideStep(title="", recipes=("one={kernel}",), without=("all",))
    without = GuideStep(title="", recipes=("one={kernel}",))
    assert course(with_other, handed={"kernel": "k"}).order(1).recipes == ("one=k",)
    assert course(with_other).order(1).recipes == ("all",)
    with pytest.raises(UsageError, match="Step 1 needs kernel"):
        course(without).order(1)


def test_a_plan_gives_the_command_of_a_step_and_the_next_line_has_the_guides_own_options(tmp_path: Path) -> None:
    def plan(ask: StepAsk) -> list[str]:
        return ["step", str(ask.number), *ask.argv, *ask.handed.values(), str(ask.limit_s)]

    made: Lazy[object] = Lazy("nowhere:plan")
    made.__dict__["value"] = plan
    own: Lazy[object] = Lazy("nowhere:OPTIONS")
    own.__dict__["value"] = (GuideOption(name="input", metavar="X", help="", joined=";"),)
    one = course(GuideStep(title="a"), GuideStep(title="b"), handed={"input": "x y;z", "kernel": "k"})
    one.guide = structs.replace(one.guide, plan=made, options=own)
    one.limit_s = 3.0
    assert one.command(1, tmp_path) == ("step", "1", "true", "x y;z", "k", "3.0")
    assert next_line(one, 2, {"source": "FILE"}) == (
        "livedbg toy --step 2 --input 'x y' --input z --set kernel=k --source FILE -- true"
    )


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output of launches goes to a folder of the test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("found", "code", "words"),
    [
        (
            StepFound(lacks={"source": "FILE.mlir"}), 5,
            "The other steps need what is not known: livedbg toy --source FILE.mlir -- true",
        ),
        (StepFound(cause=True, failed=True), 11, "The cause is found; the other steps would add nothing."),
    ],
)  # fmt: skip
def test_without_a_screen_it_stops_where_no_step_would_add_anything(
    found: StepFound, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _headless(course(GuideStep(title="a"), GuideStep(title="b"), found=found), None) == code
    said = capsys.readouterr().out
    assert words in said and "Step 2 of 2" not in said


def test_the_steps_follow_each_other_and_hand_on_what_they_found(tmp_path: Path) -> None:
    program = tmp_path / "model.py"
    program.write_text(MODEL)
    said = livedbg("aoti", "--timeout", "200", "--", sys.executable, program, env={"XDG_STATE_HOME": str(tmp_path)})
    assert said.code == 12, said
    assert "Launched last and not returned: cpp_fused_1." in said.out
    assert "recipes    aoti-values=cpp_fused_1" in said.out
    assert "After cpp_fused_1 there is NaN in buf1. Its call was not found in generated code" in said.out


def test_one_step_and_what_the_next_one_needs(tmp_path: Path) -> None:
    program = tmp_path / "model.py"
    program.write_text(MODEL)
    said = livedbg("aoti", "--step", "2", "--", sys.executable, program, env={"XDG_STATE_HOME": str(tmp_path)})
    assert said.code == 11
    assert "Step 2 of 3" in said.out and "Step 3 of 3" not in said.out
    assert f"Next: livedbg aoti --step 3 --set kernel=cpp_fused_1 -- {sys.executable} {program}\n" in said.out


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("cause", "next_step"), [(True, False), (False, True)])
def test_a_step_that_found_the_cause_offers_no_other(
    cause: bool, next_step: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    _headless(course(GuideStep(title="a"), GuideStep(title="b"), found=StepFound(cause=cause)), 1)
    assert ("Next: livedbg toy --step 2 -- true" in capsys.readouterr().out) is next_step


def test_a_recipe_of_a_step_that_had_nothing_to_act_on_is_no_warning(tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path)}
    said = livedbg("aoti", "--step", "1", "--", sys.executable, "-c", "print(1)", env=env)
    assert said.code == 0 and "no visible effect" not in said.err
    assert "Neither PyTorch nor a model of AOTInductor was seen in it" in said.out


def test_a_run_that_does_not_end_is_looked_at_and_killed(tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path)}
    said = livedbg("aoti", "--step", "1", "--timeout", "0.5", "--", "sleep", "1000", env=env)
    assert said.code == 10
    assert "It has not ended, and no thread was seen in a call of a model." in said.out


@pytest.mark.parametrize("words", [("--set", "x", "--", "true"), ("--step", "4", "--", "true"), ("--",)])
def test_wrong_usage(words: tuple[str, ...]) -> None:
    assert livedbg("aoti", *words).code == 2


CROSSED = """
import threading
one, other, both = threading.Lock(), threading.Lock(), threading.Barrier(2)
def take(first, second):
    with first:
        both.wait()
        with second:  # for ever
            pass
threading.Thread(target=take, args=(other, one)).start()
take(one, other)
"""


def test_a_run_that_hangs_is_ended_before_its_time_limit_and_said(tmp_path: Path) -> None:
    program = tmp_path / "feeds.py"
    program.write_text(CROSSED)
    said = livedbg("aoti", "--timeout", "3000", "--", sys.executable, program, env={"XDG_STATE_HOME": str(tmp_path)})
    assert said.code == 10, said
    assert "It hangs, in no call of a model. Deadlock of 2 threads" in said.out and "take feeds.py:7" in said.out
    assert "Step 2 of 3" not in said.out
