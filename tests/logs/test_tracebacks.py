# ruff: noqa: E501 (whole sentences)
"""Which of several exceptions of a record counts, where it was raised, and tracebacks in other forms than Python's."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedbg.logs.last_words import telling_line
from livedbg.logs.tracebacks import innermost_raised, plain_form
from livedbg.model import FAILED_TESTS, ExceptionHit
from tests.logs.reading import verdict
from tests.logs.test_crashes import hits, stderr_of

RAISES = "def g():\n  {}\ndef f():\n  try: {}\n  except {}: {}\nf()"


def places(hit: ExceptionHit) -> list[str]:
    return [f"{frame.function} {(frame.file or '').rpartition('/')[2]}:{frame.line}" for frame in hit.stack]


def test_T1_of_direct_causes_the_first_one_counts() -> None:
    code = "try:\n  1/0\nexcept ZeroDivisionError as e:\n  raise RuntimeError('outer') from e"
    (hit,) = hits(stderr_of(code))
    assert (hit.type, hit.related) == ("ZeroDivisionError", "it led to RuntimeError: outer")
    assert (hit.first_line, hit.raised_line) == (1, 3)
    (hit,) = hits(stderr_of(code.replace(" from e", "")))
    assert (hit.type, hit.related) == ("ZeroDivisionError", "it led to RuntimeError: outer")


@pytest.mark.invariant("tracebacks.T2")
def test_T2_what_a_handler_raises_itself_follows_from_what_it_handled() -> None:
    (hit,) = hits(stderr_of(RAISES.format("1/0", "g()", "ZeroDivisionError", "raise RuntimeError('outer')")))
    assert (hit.type, places(hit)[0]) == ("ZeroDivisionError", "g <string>:2")


@pytest.mark.invariant("tracebacks.T2")
def test_T2_what_a_handler_tried_instead_and_failed_is_the_error() -> None:
    (hit,) = hits(stderr_of(RAISES.format("raise ValueError('slow way')", "{}['k']", "KeyError", "g()")))
    assert (hit.type, hit.message, hit.related) == ("ValueError", "slow way", "it came while KeyError: 'k' was handled")


@pytest.mark.invariant("tracebacks.T2")
@pytest.mark.parametrize(
    ("handled", "raised", "type_"),
    [
        ("the pool of 4 GiB is full. 1 GiB was asked for", "no graph: the pool of 4 GiB is full", "ValueError"),
        ("the pool of 4 GiB is full", "the slow way is closed, too", "KeyError"),
        ("full", "the pool is full", "KeyError"),
    ],
)
def test_T2_what_quotes_the_handled_one_follows_from_it(handled: str, raised: str, type_: str) -> None:
    text = RAISES.format(f"raise KeyError({raised!r})", f"raise ValueError({handled!r})", "ValueError", "g()")
    (hit,) = hits(stderr_of(text))
    assert hit.type == type_


@pytest.mark.invariant("tracebacks.T2")
def test_T2_what_comes_while_ctrl_c_is_handled_does_not_count() -> None:
    (hit,) = hits(stderr_of("def f():\n  try: raise KeyboardInterrupt\n  finally: 1/0\nf()"))
    assert hit.type == "KeyboardInterrupt"


def test_T2_a_program_that_only_says_that_another_failed() -> None:
    code = "import subprocess\ntry: subprocess.run(['false'], check=True)\nexcept Exception: raise ValueError('why')"
    (hit,) = hits(stderr_of(code))
    assert (hit.type, hit.message, hit.related) == ("ValueError", "why", "")


def test_the_user_s_frames_of_a_consequence_where_a_library_has_taken_out_those_between() -> None:
    inner = '  File "/opt/site-packages/plan/graph.py", line 9, in call\n    out = lower(x)\nplan.Bad: no rule for x\n'
    outer = '  File "/w/train.py", line 14, in main\n    fast(x)\nplan.BackendError: failed\n'
    head, link = (
        "Traceback (most recent call last):\n",
        "\nThe above exception was the direct cause of the following exception:\n\n",
    )
    (hit,) = hits(f"{head}{inner}{link}{head}{outer}".encode())
    assert (hit.type, hit.message) == ("plan.Bad", "no rule for x")
    assert places(hit) == ["call graph.py:9", "main train.py:14"]
    other = link.replace(
        "The above exception was the direct cause of the", "During handling of the above exception, another"
    )
    (hit,) = hits(f"{head}{inner}{other.replace('following exception:', 'exception occurred:')}{head}{outer}".encode())
    assert (hit.type, places(hit)) == ("plan.BackendError", ["main train.py:14"])


@pytest.mark.parametrize("name", ["SimplifiedTraceback", "UnfilteredStackTrace"])
def test_what_says_that_frames_were_taken_out_is_no_cause(name: str) -> None:
    head, link = (
        "Traceback (most recent call last):\n",
        "\nThe above exception was the direct cause of the following exception:\n\n",
    )
    frame = '  File "/w/train.py", line 14, in main\n    fast(x)\n'
    text = f"{head}{frame}lib.{name}: frames were removed\n{link}{head}{frame}lib.RunError: no pump\n"
    (hit,) = hits(text.encode())
    assert (hit.type, hit.message, hit.related) == ("lib.RunError", "no pump", "")


@pytest.mark.invariant("tracebacks.T1")
def test_T1_of_a_group_its_first_exception() -> None:
    code = (
        "def f(x):\n  raise ValueError(x)\nes = []\n"
        "for i in 'abc':\n  try: f(i)\n  except ValueError as e: es.append(e)\n"
        "raise ExceptionGroup('many', [ExceptionGroup('in', es[:2]), es[2]])"
    )
    (hit,) = hits(stderr_of(code))
    assert (hit.type, hit.message, places(hit)[0]) == ("ValueError", "a", "f <string>:2")


@pytest.mark.parametrize(
    "code",
    [
        "import multiprocessing as m\ndef f(x): raise ValueError('bad')\n"
        "with m.get_context('fork').Pool(1) as p: p.map(f, [3])",
        "import concurrent.futures as c, multiprocessing as m\ndef f(x): raise ValueError('bad')\n"
        "with c.ProcessPoolExecutor(1, mp_context=m.get_context('fork')) as p: p.submit(f, 3).result()",
    ],
    ids=["Pool", "ProcessPoolExecutor"],
)
@pytest.mark.invariant("tracebacks.T1")
def test_T1_the_worker_s_traceback_comes_before_the_parent_s(code: str) -> None:
    (hit,) = hits(stderr_of(code))
    assert (hit.type, hit.message, places(hit)[0]) == ("ValueError", "bad", "f <string>:2")


def test_rich_s_boxes(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import io, sys\nfrom rich.console import Console\nfrom rich.traceback import install\n"
        "file = io.TextIOWrapper(sys.stderr.buffer, encoding=sys.argv[-1], errors='replace')\n"
        "install(console=Console(file=file), show_locals=True)\n"
        "def collate(batch):\n    return batch['ids']\n"
        "try:\n    collate({})\nexcept KeyError as error:\n    raise ValueError('no ids') from error\n"
    )
    for encoding in ("utf-8", "ascii"):
        run = f"import runpy, sys; sys.argv = ['x', '{encoding}']; runpy.run_path({str(script)!r}, run_name='__main__')"
        (hit,) = hits(stderr_of(run))
        assert (hit.type, hit.message, places(hit)[0]) == ("KeyError", "'ids'", "collate train.py:7"), encoding
        assert hit.related == "it led to ValueError: no ids"


NOTEBOOK = """\
---------------------------------------------------------------------------
ValueError                                Traceback (most recent call last)
Cell In[3], line 2
      1 def f():
----> 2     run(batch)

File /w/train.py:31, in collate(batch)
     29 x = 1

---> 31 raise ValueError("bad")

ValueError: bad
step 3
"""
OLD_NOTEBOOK = """\
KeyError                                  Traceback (most recent call last)
<ipython-input-3-0c> in <module>
----> 1 f()

~/w/train.py in collate(x)
     10 def f(x):
---> 31     return x["a"]

KeyError: 'a'
"""
RAY = """\
Traceback (most recent call last):
  File "driver.py", line 10, in <module>
    ray.get(f.remote())
ray.exceptions.RayTaskError(ValueError): ray::train() (pid=4711, ip=10.0.0.7)
  File "/w/train.py", line 31, in collate
    step()
ValueError: bad
"""
LOADER = """\
Traceback (most recent call last):
  File "/w/main.py", line 20, in <module>
    for b in loader:
ValueError: Caught ValueError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/opt/torch/utils/data/_utils/worker.py", line 351, in _worker_loop
    data = fetcher.fetch(index)
  File "/w/train.py", line 31, in collate
    raise ValueError("bad")
ValueError: bad

"""
SPAWNED = """\
Traceback (most recent call last):
  File "/w/main.py", line 20, in <module>
    mp.spawn(main, nprocs=2)
torch.multiprocessing.spawn.ProcessRaisedException:\x20

-- Process 1 terminated with the following error:
Traceback (most recent call last):
  File "/w/train.py", line 31, in collate
    raise ValueError("bad")
ValueError: bad

"""
UNDERLINED = """\
Traceback (most recent call last):
  File "/w/train.py", line 31, in collate
    1 / 0
    ~~^~~
ZeroDivisionError: division by zero
step 3
"""


@pytest.mark.parametrize("text", [NOTEBOOK, OLD_NOTEBOOK, RAY, LOADER, SPAWNED, UNDERLINED], ids=range(6))
def test_other_forms(text: str) -> None:
    (hit,) = hits(text.encode())
    assert hit.type in ("ValueError", "KeyError", "ZeroDivisionError") and hit.message in (
        "bad",
        "'a'",
        "division by zero",
    )
    assert places(hit)[0] == "collate train.py:31"
    lines = text.splitlines()
    assert hit.raised_line is not None and lines[hit.raised_line - 1].startswith(hit.type)


@pytest.mark.parametrize("text", [NOTEBOOK, OLD_NOTEBOOK, RAY, LOADER])
@pytest.mark.invariant("tracebacks.F1")
def test_F1_each_line_stays_one(text: str) -> None:
    lines = text.splitlines()
    assert len(plain_form(lines)) == len(lines)


def test_a_message_that_announces_more_is_whole() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/w/run.py", line 14, in <module>\n    f(x)\n'
        "app.BackendFailed: backend='x' raised:\nRuntimeError: device kernel image is invalid\n\nstep 3\n"
    )
    (hit,) = hits(text.encode())
    assert hit.message == "backend='x' raised:\nRuntimeError: device kernel image is invalid"


def test_a_message_whose_bracket_closes_in_the_next_line_is_whole() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/w/run.py", line 14, in <module>\n    f(x)\n'
        "RuntimeError: no room for 31 bytes. Error code 12 (\nCannot allocate memory)\nstep 3\n"
    )
    (hit,) = hits(text.encode())
    assert hit.message == "no room for 31 bytes. Error code 12 (\nCannot allocate memory)"
    assert "Error code 12 (Cannot allocate memory)." in verdict(text).sentence


def test_two_programs_that_crash_one_after_the_other_are_two() -> None:
    text = stderr_of("raise ValueError('one')") + stderr_of("raise ValueError('two')")
    assert [hit.message for hit in hits(text)] == ["one", "two"]


PYTEST = """\
=================================== FAILURES ===================================
____________________________________ test_x ____________________________________

    def test_x():
>       assert 1 == 2
E       assert 1 == 2

test_a.py:3: AssertionError
=========================== short test summary info ============================
FAILED test_a.py::test_x - assert 1 == 2
"""


def test_a_test_run_fails_if_a_test_failed() -> None:
    *before, hit = hits(PYTEST.encode() + b"==================== 1 failed, 2 passed in 0.12s ====================\n")
    assert {one.id for one in before} == {hit.id} and hit.count == 1  # the summary takes the place of its test
    assert hit.catchpoint == f"log: {FAILED_TESTS}"
    assert (hit.type, hit.message, hit.related) == ("test_a.py::test_x", "assert 1 == 2", "1 failed, 2 passed in 0.12s")
    assert hits(b"==================== 3 passed, 1 warning in 4.12s ====================\n") == []
    assert hits(b"FAILED to open a window, 3 tries\n") == []


def test_a_frame_has_the_line_of_source_that_is_printed_below_it() -> None:
    text = """Traceback (most recent call last):
  File "a.py", line 3, in <module>
    main(
    ~~~~^
        1)
  File "a.py", line 2, in main
  [Previous line repeated 9 more times]
  File "<frozen runpy>", line 8, in run
  File "b.py", line 1, in last
    raise KeyError
KeyError"""
    raised = innermost_raised(text.split("\n"))
    assert raised is not None
    assert [(frame.source, frame.source_from) for frame in raised.stack] == [
        (("raise KeyError",), 1),
        ((), 0),
        ((), 0),
        (("main(",), 3),
    ]


SCRIPTED = """\
Traceback (most recent call last):
  File "/w/serve.py", line 12, in <module>
    y = model(x)
RuntimeError: The following operation failed in the TorchScript interpreter.
Traceback of TorchScript, serialized code (most recent call last):
  File "code/__torch__/net.py", line 4, in forward
def forward(self,
    x: Tensor) -> Tensor:
  y = torch.linear(x, self.w)
      ~~~~~~~~~~~~ <--- HERE
class Gate(Module):

Traceback of TorchScript, original code (most recent call last):
  File "/w/net.py", line 33, in forward
        return self.gate(x)
               ~~~~~~~~~ <--- HERE
RuntimeError: mat1 has 3 columns
"""


@pytest.mark.invariant("tracebacks.T1")
def test_T1_a_traceback_that_a_message_quotes_comes_before_what_holds_it() -> None:
    (hit,) = hits(SCRIPTED.encode())
    assert (hit.type, hit.message) == ("RuntimeError", "mat1 has 3 columns")
    assert places(hit) == ["forward net.py:33", "<module> serve.py:12"]


@pytest.mark.invariant("tracebacks.T1")
def test_T1_so_in_what_a_program_of_cpp_throws() -> None:
    quoted = SCRIPTED.partition("RuntimeError: ")[2]
    (hit,) = hits(f"terminate called after throwing an instance of 'jit::Error'\n  what():  {quoted}".encode())
    assert (hit.type, hit.message) == ("RuntimeError", "mat1 has 3 columns")
    assert places(hit)[0] == "forward net.py:33"


@pytest.mark.invariant("tracebacks.T1")
def test_T1_so_one_that_says_of_which_rank_it_is() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/w/save.py", line 9, in main\n    raise SaveError(failed)\n'
        "save.SaveError: ranks: [9]\nTraceback (most recent call last): (RANK 9)\n"
        '  File "/w/shard.py", line 7, in read\n    open(path)\nOSError: no page 7\n'
    )
    (hit,) = hits(text.encode())
    assert (hit.type, hit.message, places(hit)) == ("OSError", "no page 7", ["read shard.py:7"])


@pytest.mark.invariant("tracebacks.T1")
@pytest.mark.parametrize("blank", ["", "\n"])
def test_T1_so_one_that_a_message_announces_in_a_line_of_its_own_or_below_an_empty_one(blank: str) -> None:
    text = (
        'Traceback (most recent call last):\n  File "/w/run.py", line 9, in main\n    pool.get()\n'
        f"pool.WorkerError: a worker raised an exception:\n{blank}Traceback (most recent call last):\n"
        '  File "/w/job.py", line 7, in work\n    build()\nkern.BuildError: at 2:4:\n    x = load(n)\n        ^\n'
        "n must be a power of 2\n"
    )
    (hit,) = hits(text.encode())
    assert (hit.type, places(hit)) == ("kern.BuildError", ["work job.py:7"])
    assert hit.message.endswith("\nn must be a power of 2")
    (other, _) = hits(text.replace("exception:", "exception.").encode())
    assert other.type == "pool.WorkerError"


FRAMES = '  File "/w/b.py", line 3, in load\n    d["a"]\n'


@pytest.mark.invariant("tracebacks.T3")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{FRAMES}KeyError: 'a'\n", "KeyError b.py:3"),
        (f"step 4\n{FRAMES}KeyError: 'a'\n", "KeyError b.py:3"),
        (f"{FRAMES}    {'x, ' * 90}\nKeyError: 'a'\n", "KeyError b.py:3"),  # however far below the name stands
        ('  File "/w/b.py", line 3\n    lr = 3e-4.\n         ^\nSyntaxError: invalid syntax\n', "SyntaxError b.py:3"),
        (f"{FRAMES}step 5\n", ""),  # traceback.print_stack
        (f"{FRAMES}Error rate 0.3\n", ""),
        (f"step 4\n{FRAMES}\nKeyError: 'a'\n", ""),
    ],
)
def test_T3_frames_without_a_head(text: str, said: str) -> None:
    assert " ".join(f"{hit.type} {places(hit)[0].partition(' ')[2]}" for hit in hits(text.encode())) == said


def test_the_reason_below_where_a_node_was_made_is_of_the_message() -> None:
    text = (
        'Traceback (most recent call last):\n  File "fit.py", line 12, in <module>\n    model.fit(x)\n'
        "errors_impl.InvalidError: Graph execution error:\n\nDetected at node a/B defined at (most recent call last):\n"
        '  File "fit.py", line 12, in <module>\n\n  File "trainer.py", line 320, in fit\n\nshapes differ: [8] vs. [9]\n'
        "\t [[{{node a/B}}]]\nepoch 3\n"
    )
    (hit,) = hits(text.encode())
    assert "shapes differ: [8] vs. [9]" in hit.message
    assert "epoch 3" not in hit.message


BEGUN = 'Traceback (most recent call last):\n  File "/w/train.py", line 9, in step\n    load(path)\n'
REST = '  File "/w/load.py", line 4, in load\n    raise Away(path)\nValueError: no such plan\n'


@pytest.mark.invariant("tracebacks.T4")
def test_T4_a_line_of_another_program_between_two_frames_is_no_exception() -> None:
    for stray in ("Using the plan of last week. It goes away soon.", "loaded 3 plans", "plan: 3"):
        (hit,) = hits(f"{BEGUN}{stray}\n{REST}".encode())
        assert (hit.type, hit.message, places(hit)) == (
            "ValueError",
            "no such plan",
            ["load load.py:4", "step train.py:9"],
        )
    kinds = [hit.type for hit in hits(f"{BEGUN}KeyError: 3\n{REST}".encode())]
    assert kinds[0] == "KeyError"


STORED = """\
tank._core.errors.StepError: Error occurred while executing op "fill"::

{}

Stack Trace:
  File "/venv/lib/python3.11/site-packages/tank/_core/plan.py", line 54, in boundary
    yield
  File "/srv/jobs/fill.py", line 71, in fill
    water = pumps["p3"]
"""


@pytest.mark.invariant("tracebacks.T5")
def test_T5_of_stored_exceptions_the_one_below_caused_the_others() -> None:
    (hit,) = hits(STORED.format("KeyError: 'p3'").encode())
    assert (hit.type, hit.message, places(hit)[0], hit.raised_line) == ("KeyError", "'p3'", "fill fill.py:71", 3)
    cause = 'KeyError: \'p4\'\n\nStack Trace:\n  File "/srv/jobs/pump.py", line 9, in start\n    return pumps["p4"]\n'
    below = f"The above exception was caused by the following exception:\n{cause}"
    lines = f"ValueError: no water\n\n{STORED[STORED.index('Stack') :]}\n{below}".split("\n")
    raised = innermost_raised(lines)
    assert raised is not None
    assert (raised.type, raised.stack[0].line, raised.related) == ("KeyError", 9, "it led to ValueError: no water")


ANEW = """\
Traceback (most recent call last):
  File "/srv/pump.py", line 9, in read
    raise TimeoutError
{cause}

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/srv/jobs.py", line 31, in ask
    raise TimeoutError(f"{{method}} timed out") from e
{later}
"""


@pytest.mark.invariant("tracebacks.T6")
@pytest.mark.parametrize(
    ("cause", "later", "said"),
    [
        ("TimeoutError", "TimeoutError: fill timed out", ("TimeoutError", "fill timed out", "ask jobs.py:31")),
        ("TimeoutError: no water", "TimeoutError: fill", ("TimeoutError", "no water", "read pump.py:9")),
        ("AssertionError", "RuntimeError: fill failed", ("AssertionError", "", "read pump.py:9")),
    ],
)
def test_T6_an_exception_that_is_said_anew_with_a_message(cause: str, later: str, said: tuple[str, str, str]) -> None:
    (hit,) = hits(ANEW.format(cause=cause, later=later).encode())
    assert (hit.type, hit.message, places(hit)[0]) == said


def _chain(*links: tuple[str, str, str]) -> bytes:
    """A chain of exceptions: words between, frame, and last line of each."""
    parts = []
    for between, frame, raised in links:
        parts += [f"\n{between}:\n\n"] if between else []
        file, _, rest = frame.partition(":")
        line, _, function = rest.partition(":")
        parts.append(
            f'Traceback (most recent call last):\n  File "{file}", line {line}, in {function}\n    go()\n{raised}\n'
        )
    return "".join(parts).encode()


_CAUSE = "The above exception was the direct cause of the following exception"
_DURING = "During handling of the above exception, another exception occurred"
_SOCKET = ("", "/usr/lib/python3.11/socket.py:718:readinto", "TimeoutError: timed out")
_POOL = (
    _CAUSE,
    "/v/lib/python3.11/site-packages/pool.py:540:urlopen",
    "pool.ReadTimeout: host 'n7', port 81: no answer in 9 s",
)
_SERVER = (
    _DURING,
    "/w/client.py:139:ask",
    "client.ServerError: cannot reach the plan server: host 'n7', port 81: no answer in 9 s",
)


@pytest.mark.invariant("tracebacks.T7")
@pytest.mark.parametrize(
    ("links", "type_", "place", "related"),
    [
        ((_SOCKET, _POOL), "pool.ReadTimeout", "urlopen pool.py:540", ""),
        ((_SOCKET, _POOL, _SERVER), "client.ServerError", "ask client.py:139", ""),
        (
            (_SOCKET, _POOL, (_CAUSE, "/w/run.py:4:main", "RuntimeError: no plan for tank 3 was made")),
            "pool.ReadTimeout",
            "urlopen pool.py:540",
            "it led to RuntimeError: no plan for tank 3 was made",
        ),
        # what says something stays the cause
        (
            (
                ("", "/w/tank.py:7:fill", "KeyError: 3"),
                (_CAUSE, "/w/run.py:4:main", "RuntimeError: the run of 12 steps failed"),
            ),
            "KeyError",
            "fill tank.py:7",
            "it led to RuntimeError: the run of 12 steps failed",
        ),
        (
            (
                ("", "/w/tank.py:7:fill", "ValueError: no lid"),
                (_CAUSE, "/w/run.py:4:main", "RuntimeError: the run of 12 steps failed"),
            ),
            "ValueError",
            "fill tank.py:7",
            "it led to RuntimeError: the run of 12 steps failed",
        ),
        # what follows says no more
        (
            (_SOCKET, (_CAUSE, "/w/run.py:4:main", "RuntimeError: failed")),
            "TimeoutError",
            "readinto socket.py:718",
            "it led to RuntimeError: failed",
        ),
    ],
)
def test_T7_the_one_that_says_of_what(
    links: tuple[tuple[str, str, str], ...], type_: str, place: str, related: str
) -> None:
    (hit,) = hits(_chain(*links))
    assert (hit.type, places(hit)[0], hit.related) == (type_, place, related)


@pytest.mark.invariant("tracebacks.T8")
@pytest.mark.parametrize(
    ("caller", "callers"),
    [
        ("/v/lib/python3.11/site-packages/app/cli.py:17:main", []),
        ("/w/train.py:17:main", ["main train.py:17"]),
    ],
)
def test_T8_the_callers_of_a_consequence_within_libraries_alone_are_no_place(caller: str, callers: list[str]) -> None:
    missing = ("", "/v/lib/python3.11/site-packages/pump/init.py:4:<module>", "ImportError: no valve")
    (hit,) = hits(_chain(missing, (_CAUSE, caller, "RuntimeError: the pump could not be loaded")))
    assert places(hit) == ["<module> init.py:4", *callers]


_DURING_IT = "\nDuring handling of the above exception, another exception occurred:\n\n"
_FROM_IT = "\nThe above exception was the direct cause of the following exception:\n\n"
_LEFT_OUT = "pump.errors.{}: for brevity the inner frames were left out.\n"


@pytest.mark.invariant("tracebacks.T8")
@pytest.mark.parametrize(
    ("link", "type_", "stack"),
    [
        (
            _DURING_IT + _LEFT_OUT.format("ShortTraceback") + _FROM_IT,
            "pump.Dry",
            ["make.py:20", "api.py:8", "run.py:15"],
        ),
        (_DURING_IT + _LEFT_OUT.format("FrameError") + _FROM_IT, "pump.Dry", ["make.py:20", "api.py:8", "run.py:15"]),
        (_FROM_IT, "pump.Dry", ["make.py:20", "api.py:8", "run.py:15"]),
        (_DURING_IT, "RuntimeError", ["api.py:8", "run.py:15"]),  # the handler tried something else
    ],
)
def test_T8_the_users_frame_of_a_chain_that_was_shortened_is_its_place(link: str, type_: str, stack: list[str]) -> None:
    head, at = (
        "Traceback (most recent call last):\n",
        '  File "/v/lib/python3.11/site-packages/pump/{}", line {}, in f\n',
    )
    inner = f"{head}{at.format('make.py', 20)}    return _make(name)\npump.Dry: no water.\n"
    outer = f'{head}  File "/w/run.py", line 15, in f\n    fill()\n{at.format("api.py", 8)}    raise it\n'
    (hit,) = hits(f"{inner}{link}{outer}RuntimeError: cannot fill the tank\n".encode())
    assert hit.type == type_
    assert [place.partition(" ")[2] for place in places(hit)] == stack
    (plain,) = hits(f"{inner}\nValueError: not of the chain\n".encode())
    assert (plain.type, len(plain.stack)) == ("pump.Dry", 1)


def test_a_library_without_a_symbol_is_told_in_words() -> None:
    said = verdict(
        _chain(
            ("", "/w/run.py:2:<module>", "ImportError: /v/lib/libpump.so: undefined symbol: _ZN4tank4fillEi")
        ).decode()
    ).sentence
    assert (
        said
        == "Crashed in run.py:2: ImportError: libpump.so does not fit the libraries it is loaded with: undefined symbol tank::fill."
    )


def test_a_package_that_raised_is_named_beside_the_only_line_of_a_script() -> None:
    head = 'Traceback (most recent call last):\n  File "/w/run.py", line 2, in <module>\n    plan()\n'
    package = '  File "/v/lib/python3.11/site-packages/plan/make.py", line 9, in make\n    go()\n'
    standard = '  File "/usr/lib/python3.11/json/decoder.py", line 3, in decode\n    go()\n'
    own = '  File "/w/tank.py", line 5, in fill\n    go()\n'
    raised = "TypeError: no tank\n"
    assert (
        verdict(f"{head}{package}{raised}").sentence == "Crashed in run.py:2, in make (make.py:9): TypeError: no tank."
    )
    assert "make (make.py:9)" in verdict(f"{head}{package}{standard}{raised}").sentence
    assert verdict(f"{head}{standard}{raised}").sentence == "Crashed in run.py:2: TypeError: no tank."
    assert verdict(f"{head}{own}{package}{raised}").sentence == "Crashed in fill (tank.py:5): TypeError: no tank."


@pytest.mark.parametrize("text", ["Stack Trace:\n", "ValueError: x\n\nStack Trace: off\n", "ValueError: x\n\nStack:\n"])
def test_a_heading_alone_is_no_stack(text: str) -> None:
    assert not hits(text.encode())


def test_the_words_above_the_stack_of_another_language_are_no_traceback() -> None:
    frames = "./tank.exe(print_trace+0x24) [0x55d0a1]\n./tank.exe(main+0x3d) [0x55d09]\n"
    stack = f"Traceback (most recent call last):\n{frames}"
    assert not hits(f"[ERROR] ../src/tank.c:50: no water\n{stack}".encode())
    assert hits(b"Traceback (most recent call last):\nValueError: x\n")


def test_a_path_that_the_box_has_broken_is_one() -> None:
    box = (
        "╭───────────── Traceback (most recent call last) ──────────────╮\n"
        "│ /opt/env/lib/python3.11/site-packages/pump/data/waterload     │\n"
        "│ er.py:101 in fill                                             │\n"
        "│ /w/run.py:8 in main                                           │\n"
        "╰──────────────────────────────────────────────────────────────╯\n"
    )
    frames = plain_form(box.split("\n"))
    path = "/opt/env/lib/python3.11/site-packages/pump/data/waterloader.py"
    assert f'  File "{path}", line 101, in fill' in frames and '  File "/w/run.py", line 8, in main' in frames


def test_one_that_is_pasted_without_its_indentation() -> None:
    text = (
        'Traceback (most recent call last):\nFile "/w/train.py", line 202, in\nmain()\n'
        'File "/w/train.py", line 32, in main\nfill(tank)\nValueError: no tank\n'
    )
    (hit,) = hits(text.encode())
    assert (hit.type, hit.message, places(hit)) == (
        "ValueError",
        "no tank",
        ["main train.py:32", "<module> train.py:202"],
    )


CONVERTED = """\
Traceback (most recent call last):
  File "/w/fit.py", line 31, in <module>
    tank.fill(water)
  File "/tmp/__generated_file9.py", line 9, in tf__fill
    raise converted(ValueError)
ValueError: in user code:

    File "/w/tank.py", line 22, in fill  *
        raise ValueError(

    ValueError: The tank holds 7 litres, not 14.

"""


def test_the_frames_and_the_reason_of_code_that_was_converted_stand_in_the_message() -> None:
    (hit,) = hits(f"{CONVERTED}saved 3 lids\n".encode())
    assert places(hit)[0] == "fill tank.py:22"
    assert hit.message.endswith("ValueError: The tank holds 7 litres, not 14.")


SECTIONS = """\
Traceback (most recent call last):
  File "/w/train.py", line 199, in train
    run(plan)
plant.core.NotMet:{blank}

--------------------------------------------
C++ Call Stacks (for developers):
--------------------------------------------
0   std::string plant::trace<int>(int)
1   plant::Pump::open(plant::Lid const&)

----------------------
Error Message Summary:
----------------------
Error: a lid is shut.
  [Hint: LID_STATUS_SHUT] at (/w/pump.cc:213)

"""


def test_the_sections_below_a_name_without_a_message_are_its_message() -> None:
    (hit,) = hits(f"{SECTIONS.format(blank=' ')}step 1 loss 3\n".encode())
    assert hit.type == "plant.core.NotMet" and hit.message.endswith("[Hint: LID_STATUS_SHUT] at (/w/pump.cc:213)")
    assert "step 1" not in hit.message
    said = telling_line(hit.message.replace("Error: a lid is shut.", "LidError: a lid is shut."))
    assert said == "LidError: a lid is shut."


_NOT_SENT = """Traceback (most recent call last):
  File "/w/plant.py", line 30, in drain
    raise ValveError("stuck")
ValveError: stuck

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/w/run.py", line 9, in <module>
    fill()
  File "/w/tank.py", line 12, in fill
    raise TankError("""


def test_T2_one_that_came_after_and_was_not_printed_to_its_end_is_not_the_error() -> None:
    raised = innermost_raised(_NOT_SENT.split("\n"))
    assert raised is not None
    assert (raised.type, raised.message) == ("ValveError", "stuck")


def test_of_an_exception_whose_head_is_cut_off_the_next_traceback_has_the_callers() -> None:
    raised = innermost_raised(_NOT_SENT.split("\n")[1:])
    assert raised is not None
    assert raised.type == "ValveError"
    assert [frame.function for frame in raised.stack] == ["drain", "fill", "<module>"]
    complete = innermost_raised(f"{_NOT_SENT}\nTankError: empty".split("\n"))
    assert complete is not None
    assert complete.type == "TankError"


@pytest.mark.invariant("tracebacks.T11")
@pytest.mark.parametrize(
    ("source", "raised", "message"),
    [
        ("assert n > 0", "AssertionError", "assert n > 0"),
        ("assert n > 0", "pump.FillError: AssertionError: ", "AssertionError: assert n > 0"),
        ('assert n > 0, "no tank"', "AssertionError: no tank", "no tank"),
        ("assert fits(n, 7), sizes()", "AssertionError: {'n': 3}", "assert fits(n, 7): {'n': 3}"),
        ('assert n in ("a, b"), n', "AssertionError: 3", 'assert n in ("a, b"): 3'),
        ("assert full, tanks", f"AssertionError: [{'7, ' * 40}]", f"assert full\n[{'7, ' * 40}]"),
        ("assert not lids, (", "AssertionError: [3]", "[3]"),  # more lines than one
        ("check(lids)", "AssertionError: [3]", "[3]"),
        ("assert n, m", "AssertionError: [3] are no lids", "[3] are no lids"),
        ("assert n, m", "ValueError: [3]", "[3]"),
        ("raise AssertionError", "AssertionError", ""),
        ("fill(n)", "AssertionError", ""),
    ],
)
def test_an_assert_without_a_message_is_told_by_its_condition(source: str, raised: str, message: str) -> None:
    text = f'Traceback (most recent call last):\n  File "/w/a.py", line 3, in fill\n    {source}\n{raised}'
    found = innermost_raised(text.split("\n"))
    assert found is not None
    assert found.message == message


@pytest.mark.invariant("tracebacks.T11")
@pytest.mark.parametrize(
    ("caller", "below", "raised", "message"),
    [
        ("self.assertTrue(tank.full)", "assertTrue", "AssertionError: False is not true", "{}: {}"),
        ("self.assertTrue(tank.full)", "", "AssertionError: False is not true", "{}: {}"),  # as unittest prints it
        ("self.assertIsNotNone(lid())", "assertIsNotNone", "pump.Failure: unexpectedly None", "{}: {}"),
        ("check.assert_(tank.full)", "assert_", "AssertionError", "{1}"),
        ("self.assertTrue(tank.full, lid)", "assertTrue", "AssertionError: False is not true : no lid", "{}"),
        ("self.assertEqual(3, 4)", "assertEqual", "AssertionError: 3 != 4", "{}"),
        ("self.assertTrue(", "assertTrue", "AssertionError: False is not true", "{}"),  # more lines than one
        ("fill(tank)", "assertTrue", "AssertionError: False is not true", "{}"),
        ("fill(asserted)", "", "AssertionError", "{}"),
    ],
)
def test_what_is_only_false_is_told_by_the_line_that_asserts_it(
    caller: str, below: str, raised: str, message: str
) -> None:
    inner = f'  File "/w/case.py", line 9, in {below}\n    raise failed(msg)\n' if below else ""
    text = f'Traceback (most recent call last):\n  File "/w/a.py", line 3, in fill\n    {caller}\n{inner}{raised}'
    found = innermost_raised(text.split("\n"))
    assert found is not None
    assert found.message == message.format(raised.partition(": ")[2], caller)


def test_a_frame_of_ipython_at_the_level_of_a_module_has_no_function() -> None:
    text = (
        "In [4]: import tank.pump\n---------------------------\n"
        "ImportError                               Traceback (most recent call last)\nCell In[4], line 1\n"
        "----> 1 import tank.pump\n\nFile ~/dev/tank/pump/__init__.py:31\n     29 import lid\n---> 31 import no\n\n"
        "File /w/tank/load.py:12, in load(name)\n---> 12     raise ImportError(name)\n\nImportError: no lid\n"
    )
    raised = innermost_raised(text.splitlines())
    assert raised is not None
    assert [(frame.file, frame.line, frame.function) for frame in raised.stack] == [
        ("/w/tank/load.py", 12, "load"),
        ("~/dev/tank/pump/__init__.py", 31, "<module>"),
        ("Cell In[4]", 1, "<module>"),
    ]


_LINKED = """ValueError: the tank has no valve

The above exception was the direct cause of the following exception:

"""
_CELL = """PumpError                                 Traceback (most recent call last)
Cell In[4], line 9
      7 pump = make(tank)
----> 9 pump.fill()

File ~/plant/pump.py:31, in fill(self)
     30 def fill(self):
---> 31     self.valve.open()
"""


@pytest.mark.invariant("tracebacks.T9")
def test_T9_the_last_line_of_a_traceback_and_the_one_that_it_led_to() -> None:
    (hit,) = hits(
        f'{_LINKED}Traceback (most recent call last):\n  File "/w/a.py", line 3, in go\nPumpError: dry\n'.encode()
    )
    assert (hit.type, hit.message, hit.related) == ("ValueError", "the tank has no valve", "it led to PumpError: dry")
    assert places(hit) == ["go a.py:3"]


@pytest.mark.invariant("tracebacks.T9")
def test_T9_in_a_notebook_whose_last_line_is_missing() -> None:
    (hit,) = hits((_LINKED + _CELL).encode())
    assert (hit.type, hit.message, hit.related) == ("ValueError", "the tank has no valve", "it led to PumpError")
    assert places(hit) == ["fill pump.py:31", "<module> Cell In[4]:9"]


def test_a_notebooks_traceback_without_its_last_line_has_its_type() -> None:
    (hit,) = hits(_CELL.encode())
    assert (hit.type, hit.message) == ("PumpError", "the traceback is cut off")
