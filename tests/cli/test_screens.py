"""The commands with a screen, on a real terminal and real targets."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.app.terminal import Terminal
from tests.cli.conftest import livedbg
from tests.conftest import Target, eventually

MAIN = "import sys\nfrom livedbg.cli import main\nsys.exit(main(sys.argv[1:]))"


def test_attach_shows_the_verdict_and_its_recording_is_replayed_in_the_same_screens(
    stuck: Target, tmp_path: Path
) -> None:
    file = tmp_path / "seen.livedbg"
    with Terminal("attach", str(stuck.pid), "--record", str(file), program=MAIN) as terminal:
        terminal.until(b"DEADLOCK")
        terminal.type(b"q")
        assert terminal.wait() == 0 and terminal.is_clean()
    assert stuck.process.poll() is None
    assert livedbg("report", file).code == 10
    with Terminal("replay", str(file), program=MAIN) as terminal:
        terminal.until(b"DEADLOCK")
        terminal.type(b"q")
        assert terminal.wait() == 0 and terminal.is_clean()


def test_a_screen_without_a_terminal_is_refused_before_a_file_is_made(stuck: Target, tmp_path: Path) -> None:
    file = tmp_path / "never.livedbg"
    said = livedbg("attach", stuck.pid, "--record", file)
    assert said.code == 2 and "livedbg report" in said.err and not file.exists()


def test_replay_without_a_terminal_says_what_to_use_instead(idle: Target, tmp_path: Path) -> None:
    file = tmp_path / "r.livedbg"
    assert livedbg("record", idle.pid, "-o", file, "--for", "1").code == 0
    said = livedbg("replay", file)
    assert said.code == 2 and "livedbg report" in said.err


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_can_show_nothing_is_named(term: str, stuck: Target) -> None:
    with Terminal("attach", str(stuck.pid), env={"TERM": term}, program=MAIN) as terminal:
        assert terminal.wait() == 2
        assert b"livedbg report" in terminal.output


def test_a_file_that_cannot_be_written_is_said_before_the_screen(stuck: Target) -> None:
    with Terminal("attach", str(stuck.pid), "--record", "/no/such/place", program=MAIN) as terminal:
        assert terminal.wait() == 3
        assert b"can't be written" in terminal.output and b"1049h" not in terminal.output


def test_the_target_is_untouched_by_a_screen_that_is_killed(stuck: Target) -> None:
    with Terminal("attach", str(stuck.pid), program=MAIN) as terminal:
        terminal.until(b"DEADLOCK")
        children: list[str] = []

        def unwinds() -> bool:
            look = ["ps", "-o", "pid=,comm=", "--ppid", str(terminal.process.pid)]
            lines = subprocess.run(look, capture_output=True, text=True, check=False).stdout.splitlines()
            children[:] = [line.split()[0] for line in lines if line.split()[1:] == ["livedbg-unwind"]]
            return bool(children)

        eventually(unwinds)
        terminal.process.kill()
        terminal.process.wait(60)
    assert "TracerPid:\t0" in Path(f"/proc/{stuck.pid}/status").read_text()
    assert stuck.process.poll() is None
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))  # its unwinder ends with it
