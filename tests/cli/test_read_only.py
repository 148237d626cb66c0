"""Where touches are forbidden: by option, by the user's file, by the file for everybody on a box."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from livedbg.cli import main
from livedbg.linux.procfs import status_fields, thread_ids
from livedbg.model.errors import TouchRefused
from livedbg.session.adapter import Request, TargetProcess
from livedbg.session.live import LiveView
from livedbg.session.tools import find_gdb
from livedbg.touch import config
from livedbg.touch.attach import Attachment
from livedbg.touch.config import refuse_touch, restricted
from tests.cli.conftest import Said, running
from tests.conftest import Target

_PROGRAM = """
import pathlib, sys
from livedbg.touch import config
config.SYSTEM_FILE = pathlib.Path(sys.argv.pop(1))
from livedbg.cli import main
sys.exit(main())
"""
REQUEST = Request(host="box")


@pytest.fixture(scope="module")
def thrower(build_target: Callable[..., Path]) -> Iterator[Target]:
    with running(build_target("throws")) as target:
        yield target


@pytest.fixture(autouse=True)
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the file for everybody would be; not there yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    monkeypatch.setattr(config, "SYSTEM_FILE", tmp_path / "etc" / "config.toml")
    return config.SYSTEM_FILE


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return tmp_path / "own" / "livedbg" / "config.toml"


def write(path: Path, text: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def livedbg(*words: str | int) -> Said:
    """`livedbg WORDS` in a process of its own, with the file for everybody where the test has it."""
    argv = [sys.executable, "-c", _PROGRAM, str(config.SYSTEM_FILE), *map(str, words)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=200, stdin=subprocess.DEVNULL, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return Said(done.returncode, done.stdout, done.stderr)


def untouched(target: Target) -> bool:
    return {status_fields(target.pid, tid)["TracerPid"] for tid in thread_ids(target.pid)} == {"0"}


def touches(pid: int, folder: Path) -> list[tuple[str | int, ...]]:
    """Every command line that would touch."""
    return [
        ("catch", pid, "any", "--timeout", 60),
        ("catch", pid, "any", "--stop", "--timeout", 60),
        ("stacks", pid, "--glance"),
        ("launch", "--headless", "--catch", "any", "--", "touch", str(folder / "started")),
    ]


@pytest.mark.parametrize("number", range(4), ids=["catch", "stop", "stacks", "launch"])
@pytest.mark.invariant("config.C1")
def test_C1_the_file_for_everybody_forbids_every_touch(
    thrower: Target, system: Path, own: Path, tmp_path: Path, number: int
) -> None:
    write(system, "# no touching on this box\n\nread_only = true\n")
    write(own, "read_only = false\n")
    said = livedbg(*touches(thrower.pid, tmp_path)[number])
    assert (said.code, said.out) == (2, "")
    assert f"`read_only = true` in line 3 of {system} forbids." in said.err
    assert f"ask the owner of {system}: no option and no file of yours overrides it" in said.err
    assert not (tmp_path / "started").exists()
    assert untouched(thrower)


@pytest.mark.invariant("config.C1")
async def test_C1_no_debugger_is_attached(thrower: Target, system: Path) -> None:
    gdb = find_gdb(None)
    if gdb is None:
        pytest.skip("gdb is not installed")
    write(system, "read_only = true\n")
    attachment = Attachment(gdb, thrower.pid)
    await attachment.start()
    try:
        with pytest.raises(TouchRefused, match=r"This attaches a debugger, which .* forbids"):
            await attachment.attach()
        assert untouched(thrower) and attachment.guard_pid is None
    finally:
        await attachment.close()


@pytest.mark.invariant("config.C1")
def test_C1_a_session_is_read_only_from_its_start(thrower: Target, own: Path) -> None:
    request = Request(host="box", processes=(TargetProcess(thrower.pid),))
    assert LiveView(request, adapters=()).mode == "observe"
    write(own, "read_only = true\n")
    view = LiveView(request, adapters=())
    own.unlink()
    assert view.mode == "read-only" and view.request.read_only
    with pytest.raises(TouchRefused, match=f"line 1 of {own}"):
        refuse_touch(view.request, "This")


@pytest.mark.invariant("config.C2")
def test_C2_what_one_forbids_no_other_allows(system: Path, own: Path) -> None:
    refuse_touch(REQUEST, "This")
    asked = Request(host="box", read_only=True)
    write(own, "read_only = false\n")
    write(system, "read_only = false\n")
    with pytest.raises(TouchRefused, match="This, which --read-only forbids"):
        refuse_touch(asked, "This")
    write(own, "read_only = true\n")
    with pytest.raises(TouchRefused) as refused:
        refuse_touch(REQUEST, "This")
    assert str(own) in refused.value.message and refused.value.remedy == f"change {own}"
    write(system, "'read_only' = true\n")
    write(own, "read_only = false\n")
    for request in (REQUEST, asked, None):
        with pytest.raises(TouchRefused, match=f"line 1 of {system}"):
            refuse_touch(request, "This")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("read_only true", "line 1"),
        ("read_only = 'no'", "`read_only` must be true or false"),
        ("readonly = true", "unknown key `readonly`; the only key is `read_only`"),
        (b"read_only = false # \xff", "utf-8"),
        ("'\\u001b[31m' = 1", "the only key"),
    ],
    ids=["syntax", "type", "typo", "encoding", "hostile"],
)
@pytest.mark.parametrize("whose", ["system", "own"])
@pytest.mark.invariant("config.C3")
def test_C3_a_file_that_cant_be_understood_forbids(
    system: Path, own: Path, whose: str, text: str | bytes, why: str
) -> None:
    path = system if whose == "system" else own
    write(path, text)
    with pytest.raises(TouchRefused) as refused:
        refuse_touch(REQUEST, "This")
    message = refused.value.message
    assert f"{path}, which can't be parsed (" in message and why in message and "\x1b" not in message
    assert restricted(REQUEST).read_only


@pytest.mark.invariant("config.C3")
def test_C3_a_file_that_cant_be_read_forbids(system: Path) -> None:
    system.mkdir(parents=True)
    with pytest.raises(TouchRefused, match="can't be read: Is a directory"):
        refuse_touch(REQUEST, "This")


def test_doctor_says_what_holds(system: Path, own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    assert f"allowed ({system} and {own} do not forbid them)" in capsys.readouterr().out
    write(system, "\nread_only = true\n")
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert f"forbidden by `read_only = true` in line 2 of {system}" in out
    assert f"try: ask the owner of {system}" in out and "without it: no catchpoints" in out


def test_looking_goes_on(thrower: Target, system: Path) -> None:
    write(system, "read_only = true\n")
    said = livedbg("stacks", thrower.pid, "--timeout", 90)
    assert said.code == 0 and "main" in said.out
