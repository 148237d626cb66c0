"""The gdb/MI engine on a real gdb, and on programs that pretend to be one."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg.gdbmi import engine as engine_module
from livedbg.gdbmi.engine import GdbEngine
from livedbg.gdbmi.errors import GdbCommandError, GdbGone, GdbTimeout
from livedbg.gdbmi.records import c_string, parse_line
from livedbg.session.tools import find_gdb
from tests.waiting import awaited


@pytest.fixture
async def gdb():
    path = find_gdb()
    assert path is not None, "the tests need gdb: make test installs it"
    engine = GdbEngine(path)
    await engine.start()
    yield engine
    await engine.close()


async def test_commands_are_pipelined_and_matched_by_token(gdb: GdbEngine) -> None:
    answers = await asyncio.gather(*(gdb.command(f"-data-evaluate-expression {n}+1") for n in range(50)))
    assert [record.payload["value"] for record in answers] == [str(n + 1) for n in range(50)]


async def test_console_and_python_answers(gdb: GdbEngine) -> None:
    assert await gdb.console('echo a "quoted" \\303\\244\\n') == 'a "quoted" ä\n'
    assert await gdb.python("[1, {'a': 'b\"\\\\\\n'}, None]") == [1, {"a": 'b"\\\n'}, None]
    assert len(await gdb.python("'x' * 3_000_000", 60)) == 3_000_000


async def test_errors_are_gdbs_own_words(gdb: GdbEngine) -> None:
    with pytest.raises(GdbCommandError, match="Undefined MI command"):
        await gdb.command("-no-such-command")
    with pytest.raises(GdbCommandError, match="No symbol"):
        await gdb.command("-data-evaluate-expression no_such_symbol")


@pytest.mark.invariant("engine.G1")
async def test_G1_a_command_that_takes_too_long_fails_and_the_next_one_works(gdb: GdbEngine) -> None:
    with pytest.raises(GdbTimeout, match=r"within 0\.2 s"):
        await gdb.python("__import__('time').sleep(1)", 0.2)
    assert await gdb.python("7", 60) == 7


@pytest.mark.invariant("engine.G4")
async def test_G4_a_late_answer_is_dropped(tmp_path: Path) -> None:
    body = (
        "print('(gdb) ', flush=True)\n"
        "held = []\n"
        "for line in sys.stdin:\n"
        "    token, _, word = line.partition('-')\n"
        "    held.append(f'{token}^done,value=\"{word.strip()}\"')\n"
        "    if word.strip() != 'late':\n"
        "        print('\\n'.join(held), flush=True)\n"
        "        held = []\n"
    )
    engine = GdbEngine(pretend(tmp_path, body))
    await engine.start()
    with pytest.raises(GdbTimeout):
        await engine.command("-late", 0.2)
    assert (await engine.command("-next", 60)).payload["value"] == "next"  # behind the answer to the one before
    assert not engine._waiting
    await engine.close()


@pytest.mark.invariant("engine.G2")
async def test_G2_when_gdb_is_killed_everything_that_waits_fails(gdb: GdbEngine) -> None:
    waiting = asyncio.create_task(gdb.python("__import__('time').sleep(600)", 600))
    await awaited(lambda: gdb._waiting)
    assert gdb.pid is not None
    os.kill(gdb.pid, signal.SIGKILL)
    with pytest.raises(GdbGone):
        await asyncio.wait_for(waiting, 60)
    with pytest.raises(GdbGone):
        await gdb.command("-gdb-version")
    assert not gdb.alive


@pytest.mark.invariant("engine.G2")
async def test_G2_a_child_of_gdb_that_lives_on_delays_nothing(tmp_path: Path) -> None:
    body = (
        "import os, signal\n"
        "print('(gdb) ', flush=True)\n"
        "for line in sys.stdin:\n"
        "    child = os.fork() or time.sleep(1000)\n"
        "    print(line.split('-')[0] + '^done', 'child=\"%d\"' % child, sep=',', flush=True)\n"
        "    if 'die' in line: os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    engine = GdbEngine(pretend(tmp_path, body))
    await engine.start()
    child = int((await engine.command("-first", 60)).payload["child"])
    waiting = asyncio.create_task(engine.command("-die", 600))
    try:
        with pytest.raises(GdbGone):
            while True:
                await asyncio.wait_for(waiting, 60)
                waiting = asyncio.create_task(engine.command("-more", 600))
        await asyncio.wait_for(engine.close(), 60)
        os.kill(child, 0)  # it lives, and holds the output
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.invariant("engine.G5")
async def test_G5_an_error_at_a_line_costs_that_line_and_the_end_of_the_output_everything_that_waits(
    tmp_path: Path,
) -> None:
    def refuses(record: object) -> None:
        raise ValueError("a bug of ours")

    body = (
        "import os\n"
        "print('(gdb) ', flush=True)\n"
        "for line in sys.stdin:\n"
        "    print('=thread-created,id=\"1\"', line.split('-')[0] + '^done', sep='\\n', flush=True)\n"
        "    if 'quiet' in line: os.close(1), os.close(2), time.sleep(100000)\n"
    )
    errors: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
    engine = GdbEngine(pretend(tmp_path, body), notice=refuses)
    await engine.start()
    assert (await engine.command("-next", 60)).name == "done" and len(errors) == 1
    first = asyncio.create_task(engine.command("-quiet", 600))
    second = asyncio.create_task(engine.command("-more", 600))
    assert isinstance((await asyncio.wait_for(asyncio.gather(second, return_exceptions=True), 60))[0], GdbGone)
    await first
    await awaited(lambda: not engine.alive)  # it was killed
    await engine.close()


@pytest.mark.invariant("engine.G5")
async def test_G5_an_answer_that_can_not_be_taken_fails_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(line: str, tables: object) -> None:
        raise RecursionError("a bug of ours")

    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    engine = GdbEngine(
        pretend(
            tmp_path,
            "print('(gdb) ', flush=True)\nfor line in sys.stdin: print(line.split('-')[0] + '^done', flush=True)",
        )
    )
    await engine.start()
    monkeypatch.setattr(engine_module, "parse_line", broken)
    with pytest.raises(GdbCommandError, match="could not be parsed"):
        await engine.command("-next", 600)
    await engine.close()


@pytest.mark.invariant("engine.G3")
async def test_G3_gdb_has_a_session_of_its_own_and_ends_with_its_input(gdb: GdbEngine) -> None:
    pid = gdb.pid
    assert pid is not None
    assert os.getsid(pid) == pid != os.getsid(0)
    await gdb.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def pretend(folder: Path, body: str) -> str:
    program = folder / "gdb"
    program.write_text(f"#!{sys.executable}\nimport sys, time\n{body}\n")
    program.chmod(0o755)
    return str(program)


async def test_a_gdb_that_talks_garbage_never_hangs_us(tmp_path: Path) -> None:
    body = (
        "print('(gdb) ', flush=True)\n"
        "for line in sys.stdin:\n"
        "    token = line.split('-')[0]\n"
        "    sys.stdout.write('\\x00\\xff garbage\\n~\"half\\n&\"log\\n')\n"
        "    sys.stdout.write(token + '^done,stack=[frame={level=\"0\"\\n')\n"
        "    sys.stdout.flush()\n"
    )
    engine = GdbEngine(pretend(tmp_path, body))
    await engine.start()
    with pytest.raises(GdbCommandError, match="could not be parsed"):
        await engine.command("-stack-list-frames", 60)
    await engine.close()


async def test_a_gdb_that_ends_at_once_or_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(GdbGone, match="exited at once"):
        await GdbEngine(pretend(tmp_path, "sys.exit(1)")).start()
    with pytest.raises(GdbGone, match="can't be started"):
        await GdbEngine(str(tmp_path / "none")).start()
    assert find_gdb(str(tmp_path / "none")) is None


@pytest.mark.parametrize("babble", ["x\\n", "x", '~\\"x\\"\\n'])
async def test_a_gdb_that_babbles_is_named_and_ended(
    tmp_path: Path, babble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "_OUTPUT_LIMIT", 1 << 20)
    body = f"print('(gdb) ', flush=True)\nsys.stdin.readline()\nwhile True: sys.stdout.write('{babble}' * 10_000)\n"
    engine = GdbEngine(pretend(tmp_path, body))
    await engine.start()
    with pytest.raises(GdbGone, match=r"wrote \d+ MB without an answer"):
        await engine.command("-gdb-version", 60)
    await engine.close()


async def test_an_old_gdb_without_mi4_is_asked_for_mi3(tmp_path: Path) -> None:
    body = (
        "if '--interpreter=mi4' in sys.argv: sys.exit('Interpreter `mi4\\' unrecognized')\n"
        "print('(gdb) ', flush=True)\n"
        "for line in sys.stdin: print(line.split('-')[0] + '^done', flush=True)\n"
    )
    engine = GdbEngine(pretend(tmp_path, body))
    await engine.start()
    assert (await engine.command("-gdb-version")).name == "done"
    await engine.close()


@pytest.mark.parametrize(
    "line",
    [
        '1^done,stack=[frame={level="0"',
        "^done,a",
        '^done,script={"silent","bt 1"}',
        '^error,msg="open',
        '^done,x="\\',
        "^done,a=[1,2}",
        '^done,BreakpointTable={nr_rows="1",body=[bkpt={number="1"},{number="1.1"}]}',
    ],
)
def test_a_line_that_gdb_never_writes_is_broken_or_parsed_but_ends(line: str) -> None:
    assert parse_line(line) is not None  # pytest's own time limit ends one that loops


@pytest.mark.filterwarnings("ignore:The 'warn' method:DeprecationWarning")  # pygdbmi's own
@given(st.text(max_size=60) | st.text('[]{},="\\ab \n', max_size=60))
def test_no_line_makes_the_parser_fail(line: str) -> None:
    parse_line(line)
    parse_line("^done," + line)


@pytest.mark.parametrize("piece", ["[", "a={", " ", '"', "a=", "a", ",", "{}", '="', "\\", "}"])
@pytest.mark.invariant("mi_grammar.V1")
def test_V1_a_line_costs_time_in_proportion_to_its_length(piece: str) -> None:
    for line in ("^done," + piece * 200_000, "^done,a=[" + piece * 200_000 + "]"):
        assert parse_line(line) is not None  # pytest's own time limit ends one that takes longer


def test_results_are_dictionaries_lists_and_texts() -> None:
    record = parse_line(
        '7^done,stack=[frame={level="0",args=[]},frame={level="1"}],ids={id="1",id="2",id="3"},x="a\\"b"'
    )
    assert record is not None and not record.broken and record.token == 7
    assert record.payload == {
        "stack": [{"level": "0", "args": []}, {"level": "1"}],
        "ids": {"id": ["1", "2", "3"]},
        "x": 'a"b',
    }
    deep = parse_line("^done,a=" + "[" * 5000 + "]" * 5000)
    assert deep is not None and deep.broken


@pytest.mark.parametrize(
    ("literal", "text"),
    [('"a\\nb"', "a\nb"), ('"\\303\\244"', "ä"), ('"q\\"q\\\\"', 'q"q\\'), ('"€"', "€"), ('"\\377"', "\ufffd")],
)
def test_c_strings(literal: str, text: str) -> None:
    assert c_string(literal) == text
