"""What can go wrong with a command line: one clear sentence and what to do, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.unwind.helper_process import usable
from tests.cli.conftest import livedbg
from tests.cli.zygote import Livedbg, run_livedbg
from tests.conftest import Target, eventually

ONE_LOOK = (("report",), ("stacks",), ("watch", "--timeout", "5"), ("attach",), ("doctor",))


@pytest.mark.parametrize("command", ONE_LOOK, ids=lambda c: c[0])
def test_a_pid_that_is_not_there(command: tuple[str, ...]) -> None:
    child = subprocess.Popen(["true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    child.wait()
    said = livedbg(*command, child.pid)
    assert said.code == 3 and str(child.pid) in said.err and "try:" in said.err


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("report",), 2, "Missing a TARGET"),
        (("report", "no-such-program-anywhere"), 3, "no-such-program-anywhere"),
        (("report", "--logs", "/no/such/folder"), 3, "does not exist"),
        (("report", "-1"), 2, ""),
        (("report", "0"), 3, ""),
        (("report", "99999999999999999999"), 3, ""),
        (("report", "--no-such-option"), 2, "No such option"),
        (("no-such-command",), 2, "No such command"),
        (("record", "1"), 2, "-o"),
        (("replay", "/no/such/file"), 3, "can't be read"),
        (("replay", __file__), 3, "not a livedbg recording"),
        (("report", __file__), 3, "not a livedbg recording"),
        (("launch",), 2, "CMD"),
        (("launch", "--", "/no/such/program"), 2, "can't be run"),
        (("demo", "no-such-demo"), 2, "deadlock"),
        (("completion", "tcsh"), 2, "bash"),
        (("watch", "1", "--until", "sunrise"), 2, "deadlock"),
        (("report", "1", "--timeout", "0"), 2, "--timeout"),
        (("report", str(Path(__file__).parent)), 3, "--logs"),
        (("report", "otherbox:4711"), 2, "other hosts"),
        (("report", "slurm:4711"), 2, "run livedbg on that host"),
        (("report", "torchrun:x"), 2, "pid"),
        (("report", "--logs", "/dev/null", "-o", "/no/such/folder/r.txt"), 3, "can't be written"),
        (("stacks",), 2, "Missing a TARGET"),
        (("doctor", "no-such-program-anywhere"), 3, "no-such-program-anywhere"),
        (("launch", "--no-such-option", "true"), 2, "No such option"),
        (("iree", "--no-such-option", "--", "true"), 2, "No such option"),
        (("iree", __file__), 2, "is no program"),
        (("aoti", "--", "/no/such/program"), 2, "is no command"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_wrong_words(words: tuple[str, ...], code: int, sentence: str) -> None:
    said = livedbg(*words)
    assert said.code == code, said.everything
    assert sentence in said.err and said.err.strip() and len(said.err) < 1500
    assert "try:" in said.err or "Try 'livedbg" in said.err or "Usage:" in said.err


def test_a_zombie_is_reported_as_one(spawn: Callable[..., Target]) -> None:
    program = "import subprocess\nchild = subprocess.Popen(['true'])\nprint('READY', child.pid, flush=True)\ninput()"
    target = spawn([sys.executable, "-c", program])
    zombie = int(target.words[0])
    eventually(lambda: " Z " in Path(f"/proc/{zombie}/stat").read_text())
    said = livedbg("report", zombie)
    assert said.code in (0, 3) and "zombie" in said.everything.lower() and str(target.pid) in said.everything


def is_kernels(folder: Path) -> bool:
    """Whether it has the flag PF_KTHREAD (include/linux/sched.h; proc_pid_stat(5), field 9)."""
    try:
        return bool(int((folder / "stat").read_text().rpartition(")")[2].split()[6]) & 0x00200000)
    except OSError:
        return False  # it has just ended


def test_a_kernel_thread_is_refused() -> None:
    kernel = next((int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and is_kernels(p)), None)
    if kernel is None:
        pytest.skip("this box shows no kernel threads (a container's PID namespace)")
    said = livedbg("report", kernel)
    assert said.code == 3 and "kernel" in said.err.lower()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user: only root can become one")
def test_another_users_process_shows_what_can_be_seen_and_says_how_to_see_more(stuck: Target) -> None:
    said = livedbg("report", stuck.pid, prefix=["setpriv", "--reuid=65534", "--clear-groups"], env={"HOME": "/tmp"})
    if "No module named" in said.err or "Permission denied" in said.err:
        pytest.skip("this Python's folder can't be read by other users")
    assert said.code == 3
    assert "sudo" in said.everything and "UNKNOWN" in said.out and said.everything.count("belongs to user root") == 1


def test_debug_shows_where_an_error_came_from() -> None:
    done = run_livedbg(["report", "999999999"], env={**os.environ, "LIVEDBG_DEBUG": "1"})
    assert done.returncode == 3 and b"Traceback" in done.stderr


def test_hostile_logs_stay_data(tmp_path: Path) -> None:
    log = tmp_path / "evil\x1b]52;c;AAAA\x07.log"
    log.write_bytes(b"\x1b]0;owned\x07\x1b[2J\x00\xff" * 1000 + b"\nERROR \x1b]52;c;aGk=\x07 end\n" + b"A" * 20_000_000)
    for form in ("--text", "--markdown", "--json"):
        said = livedbg("report", "--logs", tmp_path, form)
        assert said.code == 5, said.everything
        assert "\x1b" not in said.everything and "\x07" not in said.everything and "\x00" not in said.out


def test_a_name_of_several_processes_lists_them(spawn: Callable[..., Target], tmp_path: Path) -> None:
    program = tmp_path / f"twice-{os.getpid()}"
    program.symlink_to(sys.executable)
    pids = [spawn([program, "-c", "print('READY', flush=True); input()"]).pid for _ in range(2)]
    said = livedbg("report", program.name)
    assert said.code == 2 and all(str(pid) in said.err for pid in pids) and "one of the pids" in said.err


def test_a_process_that_ends_while_it_is_looked_at(spawn: Callable[..., Target]) -> None:
    target = spawn([sys.executable, "-c", "import sys; print('READY', flush=True); sys.stdin.read()"])
    look = Livedbg(
        ["report", target.pid, "--for", "100", "--timeout", "200", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    unwinder = b"livedbg-unwind" if usable() else b"gdb"
    eventually(lambda: look.poll() is not None or unwinder in children_of(look.pid))
    target.stdin.close()
    out, err = look.communicate(timeout=200)
    assert look.returncode == 0 and err == b"" and b'"exited"' in out


def children_of(pid: int) -> bytes:
    return subprocess.run(["ps", "-o", "comm=", "--ppid", str(pid)], capture_output=True, check=False).stdout


@pytest.mark.parametrize(
    "content",
    [b"\x7fELF" + bytes(range(256)) * 4000, b"\x00" * 100_000, b"", b"\xff\xfe\n" * 999],
    ids=["binary", "zeros", "empty", "no-utf-8"],
)
def test_logs_that_are_no_text_are_looked_at_without_a_fuss(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.log").write_bytes(content)
    said = livedbg("report", "--logs", tmp_path)
    assert said.code == 5 and said.out.strip() and "\x00" not in said.everything


def test_a_recording_beside_other_targets_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "r.livedbg"
    assert livedbg("record", os.getpid(), "-o", file, "--for", "0.5", "--no-native").code == 0
    said = livedbg("report", file, os.getpid())
    assert said.code == 2 and "can't be combined" in said.err
    for cut in (0, 3, 60):
        file.write_bytes(file.read_bytes()[:cut])
        said = livedbg("report", file)
        assert said.code == 3 and "not a livedbg recording" in said.err and "try:" in said.err
        file.write_bytes(file.read_bytes())


def test_what_is_said_of_a_file_can_not_steer_the_terminal(tmp_path: Path) -> None:
    odd = tmp_path / "core\x1b[31m\x07.nvcudmp"
    odd.write_bytes(b"x")
    said = livedbg("device", odd)
    assert said.code == 3 and "is no core dump" in said.err
    assert "\x1b" not in said.err and "\x07" not in said.err
