"""Templates, cases and values of signatures; files that can't be used; and what the decoder makes of records."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from livedbg.adapters.logfiles.decoding import Decoding
from livedbg.model import LogRecord, LogSource
from livedbg.model.errors import UsageError
from livedbg.model.events import Stamp
from livedbg.session import signatures
from livedbg.signatures.book import Book, parse
from livedbg.signatures.check import problems
from livedbg.signatures.decoder import SignatureDecoder
from livedbg.signatures.templates import names_in, render
from tests.logs.ordinary import SHAPES, block
from tests.logs.reading import verdict

MINE = """
source = "our cluster's agent, agent.go"

[defaults]
class = "host"
ends = "job"

[[signature]]
id = "pump"
pattern = '''the pump of (?P<host>[\\w.-]{1,80}) stopped(?: \\((?P<why>[^)\\n]{1,80})\\))?'''
sentence = "The pump of {host} stopped[: {why}]"
next = ["look at {host}"]

[[signature.examples]]
text = "agent: the pump of n7 stopped (no water)"
says = "The pump of n7 stopped: no water"

[[signature.examples]]
text = "agent: the pump of the house is on"
"""


def wrong(**changes: str) -> list[str]:
    """What is wrong with the file above where lines of it are others."""
    text = MINE
    for name, line in changes.items():
        lines = [row for row in text.splitlines() if row.startswith(f"{name} =")]
        text = text.replace(lines[0], line, 1)
    return list(problems(parse("signatures", "mine.toml", text)))


@pytest.mark.invariant("templates.T1")
@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{a} and {b}", "1 and x{a}[y]"),
        ("{a}[ of {none}]", "1"),
        ("{a}[ of {b}]", "1 of x{a}[y]"),
        ("{a}[ of {b}[ by {none}]]", "1 of x{a}[y]"),
        (r"\[{a}\] \{b\}", "[1] {b}"),
        ("{n:count} {h:count} {n:gib}", "1,234,567 255 1.2 GiB"),
        ("{none:count}", ""),
        ("{s:signal} {k:signal} {x:signal} {s:signal-words}", "SIGSEGV SIGKILL SIGHUP SIGSEGV: Segmentation fault"),
        ("{c:exit-signal}|{z:exit-signal}", "SIGABRT|"),
        ("{s:wait-status} {c:wait-status} {w:wait-status}", "SIGSEGV SIGABRT exit code 3"),
    ],
)
def test_T1_templates(template: str, said: str) -> None:
    values = {"a": "1", "b": "x{a}[y]", "n": "1234567", "h": "0xff", "s": "11", "k": "Killed", "x": "SIGHUP"}
    assert render(template, {**values, "c": "134", "z": "3", "w": "768"}) == said


@pytest.mark.parametrize("template", ["{a", "[a", "a]", "{a:nothing}", "}", "environ['A'] of {a}"])
def test_what_is_no_template(template: str) -> None:
    with pytest.raises(ValueError, match=r"template|filter"):
        names_in(template)


@pytest.mark.invariant("book.B2")
def test_B2_a_file_says_what_is_wrong_with_it_and_what_to_do() -> None:
    assert wrong() == []
    assert "has other characters" in wrong(id='id = "The Pump"')[0]
    assert "is no pattern" in wrong(pattern="pattern = 'a(b'")[0]
    assert "has no class" in wrong(**{"class": ""})[0]
    assert "asks for where; its values are host, why" in wrong(sentence='sentence = "{where} stopped"')[0]
    assert "there is no step 'look'" in wrong(next='next = ["@look"]')[0]
    assert "has no source" in wrong(source="")[0]
    assert all(problem.startswith("mine.toml: signature ") for problem in wrong(next='next = ["@look"]'))
    with pytest.raises(UsageError, match=r"mine\.toml: .*patern"):
        parse("signatures", "mine.toml", MINE.replace("pattern", "patern"))


@pytest.mark.invariant("check.C1")
def test_C1_a_signature_without_a_rare_word_is_refused() -> None:
    assert "no text of four characters" in wrong(pattern="pattern = '(?P<host>\\w+): (?P<why>\\d+)'")[0]
    common = wrong(pattern="pattern = '''loss (?P<host>\\w+) (?P<why>\\d+)'''\nwords = [\"loss\"]")
    assert "stands in logs of healthy jobs" in common[0]
    only = "pattern = '''loss (?P<host>nan) ?(?P<why>x)?'''\nwords = [\"loss\"]\nexact = { loss = 'loss nan' }"
    assert not [problem for problem in wrong(pattern=only) if "healthy jobs" in problem]


@pytest.mark.invariant("check.C2")
def test_C2_an_example_of_which_something_else_is_said() -> None:
    assert "it says 'The pump of n7 stopped: no water'; not 'x'" in wrong(says='says = "x"')[0]
    assert "make the pattern stricter" in wrong(pattern="pattern = '''the pump of (?P<host>\\w+)(?P<why>x)?'''")[-1]


def test_the_healthy_lines_are_of_all_shapes_that_logs_of_healthy_jobs_have() -> None:
    lines = (Path(signatures.__file__).parents[1] / "signatures" / "healthy.log").read_text().splitlines()
    shown = [name for name in SHAPES if set(block(name, 12).replace("\r", "\n").split("\n")) & set(lines)]
    assert len(shown) > len(SHAPES) // 2


@pytest.mark.invariant("book.B1")
def test_B1_a_pattern_is_compiled_when_one_of_its_words_was_found() -> None:
    book = Book([parse("signatures", "mine.toml", MINE)])
    (entry,) = book.entries
    assert book.found("the tank is full") == [] and "patterns" not in vars(entry)
    assert [one.said.sentence for one in book.found("the pump of n1 stopped")] == ["The pump of n1 stopped"]
    assert "patterns" in vars(entry)


@pytest.mark.invariant("signature_decoder.D3")
def test_D3_what_a_later_line_says_to_be_over_is_a_note_until_it_is_said_again() -> None:
    waits, answers = "nfs: server fs1 not responding, still trying\n", "nfs: server fs1 OK\n"
    states = [verdict(text).state.value for text in (waits, waits + answers, waits + answers + "step 1\n" + waits)]
    assert states == ["stalled", "unknown", "stalled"]
    assert verdict(waits + "nfs: server fs2 OK\n").state.value == "stalled"  # another server


def test_who_waits_reports_no_steps() -> None:
    waits = "step 410 loss 2.3\nNo available shared memory broadcast block found in 60 seconds.\n"
    assert verdict(waits).state.value == "stalled"
    assert verdict(waits + "step 420 loss 2.2\nstep 430 loss 2.2\n").state.value != "stalled"
    others = "[rank1]: step 420 loss 2.2\n[rank2]: step 420 loss 2.2\n[rank3]: step 421 loss 2.2\n"
    assert verdict(waits + others).state.value == "stalled"  # each may have come so far before it


@pytest.mark.invariant("signature_decoder.D3")
def test_D3_so_a_run_of_tests_whose_failures_are_counted_below_those_that_passed() -> None:
    passed, failed = "[  PASSED  ] 1 test.\n", "[  FAILED  ] 2 tests, listed below:\n[  FAILED  ] Net.One\n"
    assert verdict(passed).state.value == "exited"
    assert verdict(passed + failed).state.value == "crashed"


@pytest.mark.invariant("signatures.F2")
def test_F2_no_file_is_read_before_a_log_is() -> None:
    read: list[str] = []

    def given() -> Book:
        read.append("now")
        return Book([parse("signatures", "mine.toml", MINE)])

    stamp: Stamp = {"wall_ns": 1, "mono_ns": 1, "host": "box"}
    decoding, source = Decoding([SignatureDecoder(given)]), LogSource(id="log:0", name="0.log")
    decoding.opened(source, stamp)
    decoding.flush(stamp)
    assert read == []
    decoding.feed([LogRecord(source=source.id, text="the pump of n1 stopped", line=1)], stamp)
    assert read == ["now"] and len(decoding.take()) == 1


@pytest.mark.invariant("signatures.F1", "signatures.F2")
def test_F1_F2_folders_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    own = signatures.own_folder()
    own.mkdir(parents=True)
    (own / "mine.toml").write_text(MINE)
    more = tmp_path / "more"
    more.mkdir()
    (more / "broken.toml").write_text(dedent(MINE).replace('"host"', '"hosts"'))
    (more / "second.toml").write_text(MINE.replace("pump", "valve"))
    book, problems_ = signatures.book([str(more)])
    assert [entry.name for entry in book.entries if entry.room.system == "signatures"] == [
        "signatures/pump",
        "signatures/valve",
    ]
    assert len(problems_) == 1 and "broken.toml" in problems_[0]
    assert signatures.book([str(more)])[0] is book


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (
            "thread 'main' panicked at /home/ana/pump/src/device.rs:51:24:\n"
            'called `Result::unwrap()` on an `Err` value: DriverError(CUDA_ERROR_ILLEGAL_ADDRESS, "illegal")\n',
            "device.rs:51",
        ),
        (
            "thread '<unnamed>' panicked at /home/ana/pump/src/slice.rs:252:76:\n"
            "called `Result::unwrap()` on an `Err` value: DriverError(CUDA_ERROR_ILLEGAL_ADDRESS)\n"
            "thread caused non-unwinding panic. aborting.\nAborted (core dumped)\n",
            "slice.rs:252",
        ),
        (
            "Unhandled Exception: System.ApplicationException: CUDA error after the call: unspecified launch failure\n"
            "   at Pump.Runtime.Copy(Object param)\n"
            "   at Pump.Program.Main(String[] args) in C:\\pump\\Program.cs:line 26\n",
            "Program.cs:26",
        ),
        (
            "Program:     gmx mdrun, version 2024.2\nSource file: src/pump/stream.cu (line 101)\n"
            "MPI rank:    2 (out of 4)\n\nAssertion failed:\nCondition: stat == cudaSuccess\n"
            "cudaStreamSynchronize failed. CUDA error #700 (cudaErrorIllegalAddress): an illegal memory access was\n",
            "stream.cu:101",
        ),
        (
            "pumpSynchronize(stream) error( cudaErrorIllegalAddress): an illegal memory access was encountered\n"
            "  what():  cudaStreamSynchronize(stream) error( cudaErrorIllegalAddress): an illegal memory access was "
            "encountered /home/ana/pump/Instance.cpp:162\nAborted (core dumped)\n",
            "Instance.cpp:162",
        ),
    ],
)
def test_a_cuda_error_has_the_place_of_the_text_that_it_stands_in(text: str, place: str) -> None:
    assert place in verdict("step 1 of 9\n" + text).sentence


def test_a_line_of_a_module_that_cython_built_is_no_place_of_the_user() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/w/fill.py", line 41, in power\n    out = water.get()\n'
        '  File "pump/_core/core.pyx", line 18, in pump._core.core.get\n'
        "pump.RuntimeError: cudaErrorIllegalAddress: an illegal memory access was encountered\n"
    )
    assert "reported at power (fill.py:41)" in verdict(text).sentence


def test_an_error_of_hip_is_none_of_cuda() -> None:
    said = verdict("[3] HIP error: 'an illegal memory access was encountered'(700) at fill.hip.cpp:98\n").sentence
    assert "HIP error: an illegal memory access was encountered" in said and "CUDA" not in said


def test_a_status_of_0_behind_a_pipe_does_not_take_back_what_failed_before_it() -> None:
    """`fill | tee log` has the status of `tee`."""
    failed = (
        'Traceback (most recent call last):\n  File "/w/fill.py", line 3, in <module>\n    fill()\nOSError: no tank\n'
    )
    assert verdict(f"begins\n{failed}command exited: 0\n").state.value == "crashed"
    assert verdict("begins\ncommand exited: 0\n").state.value == "unknown"
