"""Standard streams that are full, closed, read by nobody, or of another character set."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from livedbg.commands.output import note
from livedbg.text.sanitize import clean_what_is_written, drawing, is_clean
from tests.cli.conftest import livedbg
from tests.conftest import Target, eventually, settled

LIVEDBG = f"{shlex.quote(sys.executable)} -m livedbg"


def shell(line: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash; the status of a pipeline is that of livedbg in it."""
    done = subprocess.run(
        ["bash", "-c", f"{line}; exit ${{PIPESTATUS[0]}}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=200,
        check=False,
        env={**os.environ, **env},
    )
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr, done.stderr
    return done


@pytest.mark.parametrize(
    "words", ["--help", "doctor", "report {} --timeout 140", "stacks {} --timeout 140", "watch {}", "launch -- echo hi"]
)
def test_a_full_device_as_output_is_one_sentence(words: str, idle: Target, tmp_path: Path) -> None:
    done = shell(f"{LIVEDBG} {words.format(idle.pid)} >/dev/full", XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == 3 and "No space left on device" in done.stderr and "try:" in done.stderr


@pytest.mark.parametrize("words", ["--help", "stacks {} --json --timeout 140", "watch {} --json --timeout 100"])
def test_a_reader_that_goes_away_ends_it_in_silence(words: str, stuck: Target) -> None:
    done = shell(f"{LIVEDBG} {words.format(stuck.pid)} | head -c 1")
    assert len(done.stdout) == 1 and done.stderr == ""
    assert done.returncode in (0, 4, 10, 141)


def test_a_launched_command_that_nobody_reads_ends_as_in_any_pipeline(tmp_path: Path) -> None:
    talk = "import os, time\nprint(os.getpid(), flush=True)\nwhile True: print('y', flush=True); time.sleep(0.05)"
    line = f"{LIVEDBG} launch -- {shlex.quote(sys.executable)} -c {shlex.quote(talk)} | head -1"
    done = shell(line, XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == 141
    eventually(lambda: not Path(f"/proc/{int(done.stdout)}").exists())


def test_closed_streams_are_no_error(idle: Target, tmp_path: Path) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path)}
    assert shell(f"{LIVEDBG} launch -- echo hi <&-", **state).stdout == "hi\n"
    assert "needs a terminal" in shell(f"{LIVEDBG} attach {idle.pid} <&-").stderr
    assert shell(f"{LIVEDBG} report {idle.pid} --timeout 90 >&-").returncode == 0
    silent = shell(f"{LIVEDBG} report 999999999 2>&-")
    assert (silent.returncode, silent.stdout) == (3, "")


def test_what_is_printed_never_lands_in_a_file_of_ours(idle: Target, tmp_path: Path) -> None:
    file = tmp_path / "r.livedbg"
    done = shell(f"{LIVEDBG} record {idle.pid} -o {file} --for 1 <&- >&- 2>&-")
    assert done.returncode == 0
    assert livedbg("report", file).err == ""  # a whole recording


@pytest.mark.parametrize("form", ["report {} --json --timeout 90", "watch {} --until unknown --timeout 90"])
def test_every_character_can_be_printed_anywhere(form: str, tmp_path: Path) -> None:
    program = tmp_path / "日本"
    program.symlink_to(sys.executable)
    none = subprocess.DEVNULL
    os.mkfifo(tmp_path / "fifo")
    with (
        # not these tests, which go on, hold the other end, nor one that sleeps
        subprocess.Popen(["cat", tmp_path / "fifo"], stdout=subprocess.PIPE, stderr=none) as writer,
        subprocess.Popen([program, "-c", "input()"], stdin=writer.stdout, stdout=none, stderr=none) as child,
    ):
        eventually(lambda: Path(f"/proc/{child.pid}/comm").read_text().startswith("日"))
        settled(child.pid)  # it reads
        try:
            done = shell(f"{LIVEDBG} {form.format(child.pid)}", PYTHONIOENCODING="latin-1")
        finally:
            child.kill()
            writer.kill()
    assert done.returncode in (4, 5) and done.stdout and done.stderr == ""


def test_a_name_with_an_escape_sequence_or_without_utf8_is_printed_and_does_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    name = b"a\xff\x1b]0;title\x07\xc2\x9b31m.log"
    (folder / os.fsdecode(name)).write_text("Traceback (most recent call last):\nValueError: \x9b\n", "utf-8")
    done = livedbg("report", "--logs", folder, "--json")
    assert done.code == 11 and is_clean(done.out)
    assert '"name": "a\\\\xff.log"' in done.out
    done = livedbg("report", os.fsdecode(name))
    assert done.code == 3 and is_clean(done.err) and "No process is named" in done.err


@pytest.mark.invariant("streams.O1")
def test_O1_what_is_printed_is_cleaned_last(capfd: pytest.CaptureFixture[str]) -> None:
    stream = io.TextIOWrapper(io.FileIO(os.dup(1), "w"), encoding="utf-8")
    clean_what_is_written(stream)
    with stream:
        print("a\x1b]0;title\x07b\udcff\x9b31mc\td", file=stream)
    assert capfd.readouterr().out == "ab\\xffc\td\n"


def test_a_newline_in_what_a_line_quotes_begins_no_line_of_ours(capfd: pytest.CaptureFixture[str]) -> None:
    note("train\nlivedbg: all is well\x1b[2J")
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and said.startswith("livedbg: train livedbg: all is well") and "\x1b" not in said


def test_the_terminal_app_draws_and_what_is_printed_after_it_is_cleaned(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.TextIOWrapper(io.FileIO(os.dup(1), "w"), encoding="utf-8")
    monkeypatch.setattr(sys, "__stderr__", stream)
    clean_what_is_written(stream)
    with stream:
        with drawing():
            stream.write("\x1b[1m|")
        stream.write("\x1b[1mprinted")
    assert capfd.readouterr().out == "\x1b[1m|printed"
