from __future__ import annotations

import subprocess
import sys

import pytest

from livedbg.text.commands import program_of, with_brief_commands

LONG = ["--flag", "/a/long/folder/of/a/user/file.c", "-O3"]


def _said(*command: str) -> str:
    with pytest.raises(subprocess.CalledProcessError) as raised:
        subprocess.run([sys.executable, "-c", "raise SystemExit(3)", *command], check=True)
    return str(raised.value)


def test_python_s_own_words_are_known() -> None:
    text = _said(*LONG, "it's")
    assert with_brief_commands(f"CalledProcessError: {text}").endswith("returned exit status 3.")
    assert len(with_brief_commands(text)) < 60
    died = str(subprocess.CalledProcessError(-9, ["/opt/bin/pumpcc", *LONG]))
    assert with_brief_commands(died) == "pumpcc died of SIGKILL."
    odd = str(subprocess.CalledProcessError(-77, ["/opt/bin/pumpcc", *LONG]))
    assert with_brief_commands(odd) == "pumpcc died of unknown signal 77."
    late = str(subprocess.TimeoutExpired(["/opt/bin/pumpcc", *LONG], 9.5))
    assert with_brief_commands(late) == "pumpcc timed out after 9.5 seconds"
    line = str(subprocess.CalledProcessError(2, "A=1 /opt/bin/pumpcc --flag /a/long/folder/of/a/user/file.c"))
    assert with_brief_commands(line) == "pumpcc returned exit status 2."


def test_what_is_short_or_no_command_stays() -> None:
    short = "Command 'make all' returned non-zero exit status 2."
    assert with_brief_commands(short) == short
    assert with_brief_commands("Command 'x' is not known") == "Command 'x' is not known"


def test_a_command_that_is_cut_off_has_its_program() -> None:
    assert with_brief_commands("failed: Command '['/opt/bin/pumpcc', '/tmp/v") == "failed: Command pumpcc …"


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("['/usr/bin/python3.11', '-u', '/w/train.py', '--lr', '1']", "python3.11 train.py"),
        ("['python', '-m', 'pip', 'install', 'x']", "python -m pip"),
        ("bash -c /w/go.sh", "bash go.sh"),
        ("ninja -v", "ninja"),
        ("[]", "a command"),
    ],
)
def test_the_program_of_an_interpreter_is_its_script(command: str, program: str) -> None:
    assert program_of(command) == program
