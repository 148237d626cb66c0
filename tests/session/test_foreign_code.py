"""Packages that raise what ends programs, and that print: a warning with their name, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from livedbg.model.foreign_code import ForeignError, foreign, only_exceptions
from tests.session.test_declared_systems import _package

RAISED = {
    "exits": "raise SystemExit(3)",
    "exits-well": "import sys; sys.exit()",
    "interrupts": "raise KeyboardInterrupt",
    "generates": "raise GeneratorExit('none')",
    "own": "class Own(BaseException): pass\nraise Own('word')",
    "fails": "raise ValueError('usual')",
}
PRINTS = """
import ctypes, os, subprocess, sys
print("NOISE")
sys.__stdout__.write("NOISE\\n")
os.write(1, b"NOISE\\n")
ctypes.CDLL(None).printf(b"NOISE\\n")
subprocess.run(["/bin/echo", "NOISE"])
from livedbg.session.systems import System
SYSTEM = System(name="prints", title="Prints")
"""
LATE = """
from livedbg.logs.decoder import LogDecoder
from livedbg.session.adapter import Adapter
from livedbg.session.systems import Lazy, System

class Raises(Adapter):
    name = title = "late-{n}"
    handles = ()
    @classmethod
    def applies(cls, request):
        if "{when}" == "applies":
            {what}
        return True
    def decoders(self, request):
        if "{when}" == "decoders":
            {what}
        return (Decoder(),) if "{when}" in ("opened", "feed", "flush") else ()
    async def run(self, context):
        context.settled()
        if "{when}" == "run":
            {what}

class Decoder(LogDecoder):
    name = "late"
    triggers = (b"ERROR",)
    def opened(self, source):
        if "{when}" == "opened":
            {what}
    def feed(self, record, stamp):
        if "{when}" == "feed":
            {what}
        return (), ()
    def flush(self, stamp):
        if "{when}" == "flush":
            {what}
        return ()

class Rule:
    name, doc = "late-rule", "Raises."
    def apply(self, state):
        if "{when}" == "apply":
            {what}
        return ()

def rules():
    if "{when}" == "rules":
        {what}
    return [Rule()]

ADAPTERS = {"late-{n}": Lazy("{package}:Raises")}
SYSTEM = System(name="late", title="Late", adapters=ADAPTERS, rules=Lazy("{package}:rules"))
"""


def livedbg(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command with the packages of a folder."""
    return subprocess.run(
        [sys.executable, "-m", "livedbg", *map(str, words)],
        env={**os.environ, "PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with one error."""
    (tmp_path / "worker.log").write_text("12:00:00 INFO begun\n12:00:01 ERROR step 7 failed\n")
    return tmp_path / "worker.log"


@pytest.mark.invariant("foreign_code.F1")
@pytest.mark.invariant("foreign_code.F3")
def test_whatever_a_package_raises_or_prints_as_it_is_imported_the_report_is_whole(tmp_path: Path, log: Path) -> None:
    alone = livedbg(tmp_path, "report", "--logs", log, "--json")
    for name, text in RAISED.items():
        _package(tmp_path, f"pkg_{name.replace('-', '_')}", name, text)
    _package(tmp_path, "pkg_prints", "prints", PRINTS)
    done = livedbg(tmp_path, "report", "--logs", log, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == alone.returncode
    assert "Traceback" not in done.stderr
    said = " ".join(limit["sentence"] for limit in found["limits"])
    for name, what in (
        ("exits", "SystemExit: 3"),
        ("exits-well", "SystemExit"),
        ("interrupts", "KeyboardInterrupt"),
        ("generates", "GeneratorExit: none"),
        ("own", "Own: word"),
        ("fails", "ValueError: usual"),
    ):
        assert f"System {name} of package pkg_{name.replace('-', '_')} is left out" in said
        assert what in said
    assert "System prints" not in said
    assert done.stderr.count("NOISE") == 5
    doctor = livedbg(tmp_path, "doctor")
    assert doctor.returncode == 0
    assert all(name in doctor.stdout for name in RAISED)
    assert "NOISE" not in doctor.stdout


@pytest.mark.invariant("foreign_code.F2")
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("then", ["", "except BaseException: pass", "except BaseException: raise ImportError"])
def test_a_signal_while_a_package_is_imported_ends_livedbg(tmp_path: Path, number: str, then: str) -> None:
    text = f"import os, signal, time\nos.kill(os.getpid(), signal.{number})\ntime.sleep(0)\nSYSTEM = None\n"
    if then:
        text = "try:\n" + "".join(f"    {line}\n" for line in text.splitlines()) + then + "\n"
    _package(tmp_path, "pkg_slow", "slow", text)
    done = livedbg(tmp_path, "doctor")
    assert done.returncode in ((130,) if number == "SIGINT" else (-15, 143))
    assert done.stdout == ""


@pytest.mark.invariant("foreign_code.F1")
@pytest.mark.parametrize(
    ("when", "what"),
    [  # each part, each kind, and each kind where CancelledError has a meaning of its own
        ("applies", "SystemExit"),
        ("decoders", "KeyboardInterrupt"),
        ("run", "SystemExit"),
        ("run", "KeyboardInterrupt"),
        ("run", "asyncio.CancelledError"),
        ("opened", "asyncio.CancelledError"),
        ("feed", "SystemExit"),
        ("flush", "KeyboardInterrupt"),
        ("rules", "asyncio.CancelledError"),
        ("apply", "SystemExit"),
    ],
)
def test_what_its_parts_raise_later_is_told_with_its_name_and_ends_nothing(
    tmp_path: Path, log: Path, when: str, what: str
) -> None:
    text = LATE.replace("{when}", when).replace("{what}", f"import asyncio; raise {what}").replace("{n}", "adapter")
    _package(tmp_path, "pkg_late", "late", text)
    done = livedbg(tmp_path, "report", "--logs", log, "--json")
    found = json.loads(done.stdout)
    assert "Traceback" not in done.stderr
    said = " ".join(limit["sentence"] for limit in found["limits"])
    assert "late" in said.lower()
    assert what.rpartition(".")[2] in said
    assert "step 7 failed" in done.stdout


def test_a_function_that_gives_piece_by_piece_is_guarded_in_each() -> None:
    """foreign_code.F1: doctor's checks are such."""

    def pieces() -> object:
        yield 1
        raise SystemExit(2)

    guarded = only_exceptions(pieces)()
    assert next(guarded) == 1  # type: ignore[call-overload]
    with pytest.raises(ForeignError, match="SystemExit: 2"):
        next(guarded)  # type: ignore[call-overload]
    with pytest.raises(ForeignError), foreign():
        raise GeneratorExit
