"""Help, completion, and what headless commands import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from livedbg import __version__
from livedbg.cli.group import commands
from tests.cli.conftest import livedbg
from tests.conftest import Target


def test_the_help_lists_every_command_and_the_exit_codes() -> None:
    said = livedbg("--help")
    assert said.code == 0 and all(name in said.out for name in commands())
    assert all(f"{code} " in said.out for code in (0, 5, 10, 11, 12, 2, 3, 4))
    assert livedbg("--version").out.split() == ["livedbg,", "version", __version__]


@pytest.mark.parametrize("name", commands())
def test_every_command_has_an_example_in_its_help(name: str) -> None:
    said = livedbg(name, "--help")
    entry = commands()[name]
    assert said.code == 0 and "Example" in said.out
    assert all(line in said.out for line, _ in entry.example)
    assert all(len(line) <= 100 for line in said.out.splitlines())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    said = livedbg("completion", shell)
    assert said.code == 0 and "_LIVEDBG_COMPLETE" in said.out


def test_completion_completes_commands_and_options() -> None:
    words = {"_LIVEDBG_COMPLETE": "bash_complete", "COMP_WORDS": "livedbg re", "COMP_CWORD": "1"}
    program = "import sys; sys.argv[0] = 'livedbg'; from livedbg.cli import main; main()"
    import os

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, env={**os.environ, **words}, check=False
    )
    assert {b"report", b"record", b"replay"} <= {line.partition(b",")[2] for line in done.stdout.splitlines()}


HEADLESS = (
    ["report", "--logs", "/dev/null"],
    ["ps", "--json"],
    ["stacks", "--help"],
    ["watch", "--logs", "/dev/null", "--timeout", "0.5"],
    ["doctor"],
    ["attach", "--help"],
    ["--help"],
)


LOOKS = ("report {}", "stacks {}", "record {} --for 0.5 -o {}", "launch -- true")


def test_headless_commands_import_neither_textual_nor_torch(
    idle: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after another in one interpreter, which says after which of them there is what."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    commands = [*HEADLESS, *(words.format(idle.pid, tmp_path / "r.livedbg").split() for words in LOOKS)]
    program = (
        "import json, sys\nfrom livedbg.cli import main\n"
        "for words in json.loads(sys.argv[1]):\n    main(words)\n"
        "    found = [m for m in ('textual', 'rich', 'torch', 'livedbg.panels') if m in sys.modules]\n"
        "    print('after', json.dumps([words, found]), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(commands)], capture_output=True, timeout=250, check=False
    )
    lines = [line.removeprefix(b"after ") for line in done.stderr.splitlines() if line.startswith(b"after ")]
    assert [json.loads(line) for line in lines] == [[words, []] for words in commands], done.stderr


def test_importing_livedbg_imports_almost_nothing() -> None:
    program = (
        "import sys; import livedbg; print([m for m in ('click', 'textual', 'torch', 'msgspec') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", program]) == b"[]\n"
