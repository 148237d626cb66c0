"""What signatures make of values, and which exceptions their messages explain."""

from __future__ import annotations

import pytest

from livedbg.signatures.book import Book, parse
from livedbg.signatures.templates import FILTERS, render
from tests.logs.reading import found, read, verdict

TRACE = 'Traceback (most recent call last):\n  File "/w/train.py", line 9, in main\n    next(batches)\n'

TOY = """
source = "a toy"

[defaults]
class = "process"

[maps.texts]
E1 = "it broke"
E2 = "it broke badly"

[[signature]]
id = "toy"
first = true
pattern = ['pump (?P<name>E\\d): (?P<text>[^\\n]{1,80})', 'toy: (?P<text>[^\\n]{1,80})']
words = ["pump ", "toy: "]
let.by_text = { of = "{text}", find = "texts" }
let.error = "{name|by_text}"
sentence = "{error|text:upper}[ in {record:frame}]"
exception = "Toy{error}"
"""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pump E7: toy: it broke", ["E7"]),  # the first pattern alone
        ("toy: then it broke badly today", ["E2"]),  # the longest that stands in it
        ("toy: no word of it", ["NO WORD OF IT"]),
        (f"{TRACE}toy: it broke", ["E1 in main (train.py:9)"]),
        ('    raise Error("toy: it broke")', []),  # source
        ("# toy: it broke", []),
    ],
)
def test_values_of_a_text(text: str, says: list[str]) -> None:
    told = Book([parse("toy", "toy.toml", TOY)]).found(text)
    assert [one.said.sentence for one in told] == says


def test_the_first_of_several_values_that_is_there() -> None:
    assert render("{a|b:upper|c}", {"a": "", "b": "x", "c": "y"}) == "X"
    assert render("[{a|b}]z", {}) == "z"
    assert [render("{a:more-than}", {"a": pair}) for pair in ("10 9", "17.0 17.1", "3 3")] == ["more", "", ""]


def test_the_frame_of_a_text_is_the_innermost_that_is_in_no_library() -> None:
    library = '  File "/v/site-packages/torch/x.py", line 4, in call\n'
    assert render("{a:frame}", {"a": TRACE + library}) == "main (train.py:9)"
    dumped = '  File "/lib/python3.10/q.py", line 4 in get\n  File "/w/a.py", line 7 in f\n  File "b.py", line 9 in g'
    assert render("{a:frame}", {"a": dumped}) == "f (a.py:7)"  # faulthandler's: innermost first
    chained = (
        f"{TRACE}OSError: no\n\nDuring handling of the above exception, another exception occurred:\n\n{TRACE}E: on: no"
    )
    chained = chained.replace("line 9", "line 7", 1).replace("E: on", "RuntimeError: on")
    assert render("{a:frame}", {"a": chained}) == "main (train.py:7)"  # where the first one was raised
    assert render("{a:frame}", {"a": library}) == "call (x.py:4)" and render("{a:frame}", {"a": "x"}) == ""


@pytest.mark.parametrize(
    "message",
    [
        "RuntimeError: DataLoader worker (pid 5) is killed by signal: Terminated. ",  # it may have been asked to end
        "{'loss': nan, 'grad_norm': nan, 'learning_rate': 4.9e-05, 'epoch': 0.12}",  # nothing ended there
        "srun: job 7718 queued and waiting for resources",
    ],
)
def test_an_exception_beside_a_text_that_says_no_end_is_a_crash(message: str) -> None:
    assert verdict(f"{TRACE}{message}\n").state == "crashed"


def test_an_exception_that_comes_again_is_explained_each_time() -> None:
    text = f"{TRACE}torch._inductor.exc.InductorError: RuntimeError: No valid triton configs\nnext\n"
    assert found("crash", text * 3) == []


def test_an_error_outside_of_a_traceback_is_in_the_list_of_exceptions() -> None:
    line = "CUDA Error: an illegal memory access was encountered\n"
    (hit,) = read(line * 2).snapshot().exceptions.values()
    assert (hit.type, hit.count) == ("cudaErrorIllegalAddress", 2)


@pytest.mark.parametrize(
    ("status", "says"),
    [
        ("139", "SIGSEGV"),
        ("256", "exit code 1"),
        ("127", "status 127"),  # stopped, not ended
        ("65535", "status 65535"),
        ("999999999999", "status 999999999999"),
    ],
)
def test_a_status_of_wait_that_is_no_end_is_said_as_it_is(status: str, says: str) -> None:
    assert FILTERS["wait-status"](status) == says
