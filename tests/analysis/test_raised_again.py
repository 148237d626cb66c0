"""The place of an error that a handler raised again: where an earlier traceback of it shows that it was raised."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.test_causes import look
from tests.logs.reading import verdict

WHY = "RuntimeError: no plan for a valve of kind 77"
LOGGED = f"""\
ERROR 01-28 08:02:45 [plant.py:46] the plant did not start
ERROR 01-28 08:02:45 [plant.py:46] Traceback (most recent call last):
ERROR 01-28 08:02:45 [plant.py:46]   File "/w/plant.py", line 37, in run_plant
ERROR 01-28 08:02:45 [plant.py:46]     plant = Plant(valves)
ERROR 01-28 08:02:45 [plant.py:46]   File "/w/valves.py", line 12, in plan_valve
ERROR 01-28 08:02:45 [plant.py:46]     raise RuntimeError(
ERROR 01-28 08:02:45 [plant.py:46] {WHY}
"""
AGAIN = f"""\
Traceback (most recent call last):
  File "/w/main.py", line 4, in <module>
    run_plant(valves)
  File "/w/plant.py", line 50, in {{function}}
    {{source}}
{WHY}
"""


@pytest.mark.invariant("passed_on.P2")
@pytest.mark.parametrize("source", ["raise e", "raise", "raise error from None", "raise  # the caller's matter"])
def test_P2_the_deeper_frame_is_the_place(source: str) -> None:
    told = verdict(LOGGED + AGAIN.format(function="run_plant", source=source))
    assert told.state == "crashed"
    assert told.sentence == f"Crashed in plan_valve (valves.py:12): {WHY}."


@pytest.mark.invariant("passed_on.P2")
@pytest.mark.parametrize(
    ("function", "source"),
    [("run_plant", 'raise RuntimeError(f"no plan for a valve of kind {n}")'), ("stop_plant", "raise e")],
)
def test_P2_not_of_another_function_or_an_error_that_it_makes(function: str, source: str) -> None:
    told = verdict(LOGGED + AGAIN.format(function=function, source=source))
    assert f"{function} (plant.py:50)" in told.sentence


@pytest.mark.invariant("passed_on.P2")
def test_P2_not_of_another_error(tmp_path: Path) -> None:
    other = LOGGED.replace("kind 77", "kind 78")
    found = look(tmp_path, {"run.log": other + AGAIN.format(function="run_plant", source="raise e")})
    assert any("run_plant (plant.py:50)" in one.sentence for one in found.findings.values())


@pytest.mark.parametrize("head", ["", "Traceback (most recent call last):\n"])
@pytest.mark.parametrize("rank", ["", "3: ", "[rank3]: "])
def test_an_assertion_without_a_message_is_told_by_its_line(rank: str, head: str) -> None:
    where = f'{head}  File "/w/pumps.py", line 31, in fill\n    assert isinstance(tank, Tank)\n'
    bare = "".join(f"{rank}{line}\n" for line in f"{where}AssertionError: ".split("\n"))
    assert verdict(bare).sentence.endswith("in fill (pumps.py:31): AssertionError: assert isinstance(tank, Tank).")
    more = "torch._dynamo.exc.BackendCompilerFailed: backend='fill' raised:\nAssertionError: \n\nSet TORCH_LOGS=all"
    told = verdict("".join(f"{rank}{line}\n" for line in f"{where}{more}".split("\n")))
    assert "backend fill failed: AssertionError: assert isinstance(tank, Tank)" in told.sentence


FRAMES = """\
  File "/w/plant.py", line 37, in fill
    raise ValveError(n)
plant.ValveError: valve 7 is shut
"""
TASK = "ray::Pump.fill() (pid=4711, ip=10.4.0.7, actor_id=4b2a, repr=<plant.Pump object at 0x7f>)\n"
OUTER = "ray.exceptions.RayTaskError(ValveError): ray::run() (pid=812, ip=10.4.0.7)\n" + FRAMES.rpartition("plant.V")[0]


@pytest.mark.parametrize(
    "text",
    [
        f"Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): {TASK}{FRAMES}",
        f"{OUTER}ray.exceptions.RayTaskError(ValveError): {TASK}{FRAMES}",
    ],
)
def test_who_raised_it_is_said_and_not_who_passed_it_on(text: str) -> None:
    said = "Ray's Pump.fill() (pid 4711 on 10.4.0.7) crashed in fill (plant.py:37): plant.ValveError: valve 7 is shut"
    assert verdict(text).sentence.startswith(said)
    relayed = "".join(f"(Driver pid=99) {line}\n" for line in text.splitlines())
    assert verdict(relayed).sentence.startswith(said)


def test_of_another_error_nobody_is_said_to_have_raised_it() -> None:
    other = "Traceback (most recent call last):\n" + FRAMES.replace("valve 7", "valve 8")
    went_on = "".join(f"epoch {n} of 90, loss 0.{n}\n" for n in range(10, 40))
    said = verdict(f"Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): {TASK}{FRAMES}{went_on}{other}")
    assert said.sentence.startswith("Crashed in fill (plant.py:37): plant.ValveError: valve 8 is shut")
    ranked = "".join(f"(Pump pid=99) [rank3]: {line}\n" for line in f"{TASK}{FRAMES}".splitlines())
    assert "Ray's" not in verdict(ranked).sentence
