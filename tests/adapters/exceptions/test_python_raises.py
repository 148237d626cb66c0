"""Python exceptions of real interpreters, reported as they are raised, without a stop."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.adapters.exceptions.calls import ARGUMENTS
from livedbg.adapters.exceptions.function_tracer import refused_raises
from livedbg.cpython.layout import layout_of
from livedbg.cpython.probe_arguments import caller_arguments, raise_arguments
from livedbg.model import ExceptionHit
from livedbg.model.catchpoints import CatchpointState, Moment, patterns_of
from livedbg.model.errors import UsageError
from livedbg.model.intents import Uncatch
from livedbg.probes.tracefs import NoTracefs
from tests.adapters.exceptions.catching import Tracing, functions, tell
from tests.adapters.exceptions.test_tracing import text_is_whole
from tests.conftest import TARGETS, Target, eventually
from tests.cpython.interpreters import VERSIONS, interpreters, label
from tests.probes.definitions import definitions
from tests.probes.refused import refused

pytestmark = pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")

PROGRAM = TARGETS / "py_raises.py"
every = pytest.mark.parametrize("python", interpreters("3.12", "3.13"), ids=label)
Spawn = Callable[..., Target]


@pytest.fixture
def raiser(spawn: Spawn) -> Target:
    return spawn([sys.executable, PROGRAM])


def one(tracing: Tracing, kind: str) -> ExceptionHit:
    """The only hit of a type, once there is one."""
    eventually(lambda: any(hit.type == kind for hit in tracing.hits))
    (hit,) = [hit for hit in tracing.hits if hit.type == kind]
    return hit


@every
def test_type_message_stack_and_thread(python: str, spawn: Spawn, trace: Callable[[int], Tracing]) -> None:
    target = spawn([python, PROGRAM])
    tracing = trace(target.pid)
    tracing.catch("python:ValueError")
    (point,) = tracing.points.values()
    assert (point.state, point.moment, point.engine) == (CatchpointState.ARMED, Moment.RAISE, "probes")
    tell(target, "plain so it goes")
    (hit,) = tracing.hits_after(1)
    assert (hit.type, hit.message, hit.count, hit.partial) == ("ValueError", "so it goes", 1, False)
    assert hit.thread == f"thread:box/{target.pid}/{target.words[1]}"
    assert functions(hit)[:3] == ["inner", "middle", "run"]
    assert functions(hit)[-1] == "<module>"
    source = PROGRAM.read_text().splitlines()
    assert all(frame.language == "python" and frame.file == str(PROGRAM) for frame in hit.stack)
    lines = [source[(frame.line or 1) - 1].strip() for frame in hit.stack]
    assert lines[:3] == ["raise error", "inner(error)", "middle(ValueError(argument))"]
    assert lines[-1] == "main()"


@every
def test_messages_that_c_code_makes(python: str, spawn: Spawn, trace: Callable[[int], Tracing]) -> None:
    target = spawn([python, PROGRAM])
    tracing = trace(target.pid)
    tracing.catch("python")
    said = {
        "key": ("KeyError", "'missing'"),
        "number": ("KeyError", "-70000000000"),
        "attribute": ("AttributeError", "'str' object has no attribute 'no_such_thing'"),
        "type": ("TypeError", "object of type 'int' has no len()"),
        "file": ("FileNotFoundError", "[Errno 2] No such file or directory: '/no/such/file'"),
        "value": ("ValueError", "invalid literal for int() with base 10: 'x'"),
        "index": ("IndexError", "list index out of range"),
        "zero": ("ZeroDivisionError", "division by zero"),
        "import": ("ModuleNotFoundError", "No module named 'no_such_module'"),
    }
    for word in said:
        tell(target, f"c {word}")
    eventually(lambda: any(hit.type == "ModuleNotFoundError" for hit in tracing.hits))
    reported = [(hit.type, hit.message) for hit in tracing.hits]
    assert not set(said.values()) - set(reported)
    assert [hit.count for hit in tracing.hits if hit.type == "ModuleNotFoundError"] == [1]  # relieved of its traceback


@every
def test_every_alphabet_and_length(python: str, spawn: Spawn, trace: Callable[[int], Tracing]) -> None:
    target = spawn([python, PROGRAM], env={**os.environ, "PYTHONUTF8": "1"})
    tracing = trace(target.pid)
    tracing.catch("python:ValueError")
    texts = ["plain", "na\u00efve", "\u4f60\u597d", "\U0001f600 wide", "x" * 200]
    for text in texts:
        tell(target, f"plain {text}")
    tell(target, f"plain {'y' * 9000}")
    tell(target, f"kept {'z' * 900}")
    reported = {hit.message for hit in tracing.hits_after(len(texts) + 2)}
    cut = {message for message in reported if message.endswith("y…")}
    assert reported - cut == {*texts, "z" * 900}
    assert len(cut) == 1


@every
def test_propagation_and_raising_again_are_the_same_exception(
    python: str, spawn: Spawn, trace: Callable[[int], Tracing]
) -> None:
    target = spawn([python, PROGRAM])
    tracing = trace(target.pid)
    tracing.catch("python:ValueError")
    for _ in range(3):
        tell(target, "again x")
    tell(target, "many 50")
    assert sum(hit.count for hit in tracing.hits_after(53)) == 53
    again = next(hit for hit in tracing.hits if hit.message == "x")
    assert again.count == 3
    tracing.view.send(Uncatch(catchpoint="C1"))
    eventually(lambda: tracing.points["C1"].state is CatchpointState.DONE)
    assert (tracing.points["C1"].hits, tracing.points["C1"].lost) == (53, 0)


@every
def test_the_preset_leaves_the_ends_of_loops_out(python: str, spawn: Spawn, trace: Callable[[int], Tracing]) -> None:
    target = spawn([python, PROGRAM])
    tracing = trace(target.pid)
    tracing.catch("python")
    tracing.catch("python:StopIteration")
    tell(target, "loops")
    tell(target, "plain last")
    wanted = {("C1", "ValueError"), ("C2", "StopIteration")}  # each is read by a thread of its own
    eventually(lambda: wanted <= {(hit.catchpoint, hit.type) for hit in tracing.hits})
    tracing.stop()  # all was reported
    assert {(hit.catchpoint, hit.type) for hit in tracing.hits} == wanted


@every
def test_stacks_deeper_than_the_kernel_reads(python: str, spawn: Spawn, trace: Callable[[int], Tracing]) -> None:
    target = spawn([python, PROGRAM])
    tracing = trace(target.pid)
    tracing.catch("python:ValueError")
    tell(target, "deep 25")
    (gone,) = tracing.hits_after(1)
    assert functions(gone)[:8] == ["inner", *["deep"] * 7]
    target.stdin.write(b"stay 25\n")
    stays = next(hit for hit in tracing.hits_after(2) if hit.id != gone.id)
    tell(target, "")
    assert stays.message == "stays"
    assert functions(stays) == ["inner", "stay", *["stay"] * 25, "run", "main.<locals>.guarded", "main", "<module>"]
    assert not stays.partial


def test_children_by_their_bases_and_names(raiser: Target, trace: Callable[[int], Tracing]) -> None:
    tracing = trace(raiser.pid)
    patterns = ["python:Exception", "python:*.Inner", "python:/^Sad$/", "python:LookupError", "python:__main__.Sad"]
    for pattern in patterns:
        tracing.catch(pattern)
    tell(raiser, "sad oh")
    tell(raiser, "inner")
    tell(raiser, "c index")
    eventually(lambda: len(tracing.hits) >= 7)
    reported = sorted((hit.catchpoint or "", hit.type) for hit in tracing.hits)
    assert reported == [
        ("C1", "IndexError"),
        ("C1", "Outer.Inner"),
        ("C1", "Sad"),
        ("C2", "Outer.Inner"),
        ("C3", "Sad"),
        ("C4", "IndexError"),
        ("C5", "Sad"),
    ]


def test_only_those_with_a_text_and_only_so_many(raiser: Target, trace: Callable[[int], Tracing]) -> None:
    tracing = trace(raiser.pid)
    tracing.catch("python:ValueError", message="number 7", count=2)
    tell(raiser, "many 100")
    eventually(lambda: tracing.points["C1"].state is CatchpointState.DONE)
    assert [hit.message for hit in tracing.hits] == ["number 7", "number 70"]


def test_threads_coroutines_and_children(raiser: Target, trace: Callable[[int], Tracing]) -> None:
    tracing = trace(raiser.pid)
    tracing.catch("python:/^(ValueError|RuntimeError)$/", follow=True)
    tell(raiser, "thread plain in a thread")
    tell(raiser, "async")
    tell(raiser, "fork in a child")
    eventually(lambda: {"in a thread", "from a coroutine", "in a child"} <= {hit.message for hit in tracing.hits})
    by_message = {hit.message: hit for hit in tracing.hits}
    assert by_message["in a thread"].thread != f"thread:box/{raiser.pid}/{raiser.pid}"
    assert functions(by_message["in a thread"])[-1] == "Thread._bootstrap"
    assert functions(by_message["from a coroutine"])[:3] == ["inner", "awaited", "program"]
    assert by_message["in a child"].process != tracing.process


def test_an_exception_that_ends_the_process(raiser: Target, trace: Callable[[int], Tracing]) -> None:
    tracing = trace(raiser.pid)
    tracing.catch("python:ValueError")
    raiser.stdin.write(b"end\n")
    hit = one(tracing, "ValueError")
    assert hit.message == "the end"
    raiser.process.wait(60)


def test_types_that_nobody_wants_are_sorted_out_by_the_kernel(raiser: Target, trace: Callable[[int], Tracing]) -> None:
    tracing = trace(raiser.pid)
    tracing.catch("python:Sad")
    for number in range(1, 6):
        tell(raiser, "many 150")  # no more than the rings hold, however late they are read
        tell(raiser, f"sad {number}")
        tracing.hits_after(number)
    tracing.view.send(Uncatch(catchpoint="C1"))
    eventually(lambda: tracing.points["C1"].state is CatchpointState.DONE)
    assert {(hit.message, hit.count) for hit in tracing.hits} == {(str(number), 1) for number in range(1, 6)}
    assert tracing.points["C1"].lost == 0 and tracing.points["C1"].seen >= 5 * 151


def test_nothing_is_left(raiser: Target, trace: Callable[[int], Tracing]) -> None:
    before = definitions()
    tracing = trace(raiser.pid)
    tracing.catch("python")
    assert not text_is_whole(raiser.pid, "PyTraceBack_Here") and definitions() - before
    tell(raiser, "plain reported")
    tracing.hits_after(1)
    tracing.view.send(Uncatch(catchpoint="C1"))
    eventually(lambda: tracing.points["C1"].state is CatchpointState.DONE)
    assert text_is_whole(raiser.pid, "PyTraceBack_Here")
    assert definitions() <= before
    assert tell(raiser, "plain not reported") == 2


@pytest.mark.skipif(not list(VERSIONS.glob("3.10.*")), reason="no Python 3.10 is here")
def test_a_version_that_is_not_known_is_refused(spawn: Spawn, trace: Callable[[int], Tracing]) -> None:
    python = next(VERSIONS.glob("3.10.*/bin/python"))
    target = spawn([python, PROGRAM])
    tracing = trace(target.pid)
    tracing.catch("python")
    (point,) = tracing.points.values()
    assert point.state is CatchpointState.FAILED
    assert "older than 3.11" in point.note and "3.11 to 3.14" in point.note


def test_a_program_without_python_is_refused(spawn: Spawn, trace: Callable[[int], Tracing]) -> None:
    target = spawn(["sleep", "600"], wait_for=None)
    eventually(lambda: Path(f"/proc/{target.pid}/comm").read_text() == "sleep\n")
    tracing = trace(target.pid)
    tracing.catch("python:KeyError")
    (point,) = tracing.points.values()
    assert point.state is CatchpointState.FAILED
    assert "runs no Python" in point.note and point.remedy


def test_what_a_pattern_means() -> None:
    moment, (pattern,) = patterns_of("python:abort")
    assert moment is Moment.RAISE and pattern.text == "abort"
    with pytest.raises(UsageError):
        patterns_of("python:")
    _, (every_one,) = patterns_of("python")
    assert every_one.matches(("KeyError", "LookupError", "Exception", "BaseException"))
    assert not every_one.matches(("GeneratorExit", "BaseException"))


def test_an_error_of_torch_thrown_by_c_code(spawn: Spawn, trace: Callable[[int], Tracing]) -> None:
    pytest.importorskip("torch")
    target = spawn([sys.executable, PROGRAM])
    tell(target, "torch")  # imports it
    tracing = trace(target.pid)
    tracing.catch("python:RuntimeError")
    tell(target, "torch")
    hit = one(tracing, "RuntimeError")
    assert "mat1 and mat2 shapes cannot be multiplied (2x3 and 5x7)" in hit.message
    assert functions(hit)[:2] == ["torch_product", "run"]


def test_where_probes_are_not_allowed_it_says_so() -> None:
    error = refused_raises(NoTracefs(errno.EPERM, "Operation not permitted"), 1)
    assert error is not None and "need probe events" in error.message and "sudo" in error.remedy


@pytest.mark.parametrize("version", [(3, 11), (3, 12)])
@pytest.mark.invariant("tracefs.F1")
def test_what_is_fetched_is_bounded(version: tuple[int, int]) -> None:
    layout = layout_of(version, b"")
    assert layout is not None
    highest = (1 << 47) - 1  # addresses of programs
    raises, beneath = raise_arguments(layout, highest), caller_arguments(layout, highest)
    for arguments in (raises, *((*of_moment, *beneath) for of_moment in ARGUMENTS.values())):
        assert len({argument.partition("=")[0] for argument in arguments}) == len(arguments)
        bodies = [argument.partition("=")[2] for argument in arguments]
        assert not any("string" in body for body in bodies)  # of which nobody knows how long they are
        assert all(len(body) <= 63 for body in bodies)  # MAX_ARGSTR_LEN, kernel/trace/trace_probe.h
        words = sum(int(body.partition("[")[2].rstrip("]") or 1) for body in bodies)
        assert 8 * words <= 3072  # MAX_PROBE_EVENT_SIZE
