"""Several threads that read into a class at the same time, for the first time."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

AT_ONCE = """
import importlib, sys, threading
import msgspec
from livedbg.text.typed import ready

sys.setswitchinterval(1e-6)
sys.path.insert(0, sys.argv[1])
import classes

failed = []
threading.excepthook = failed.append
for _ in range(120):
    importlib.reload(classes)  # new classes, of which msgspec knows nothing yet
    begin = threading.Barrier(3)

    def read():
        begin.wait()
        assert msgspec.toml.decode(classes.TEXT, type=ready(classes.Several)).one[0].name == "a"

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("ended", failed)
"""

CLASSES = """
from __future__ import annotations
import msgspec

TEXT = '[[one]]\\nname = "a"\\nbegin = "b"\\nend = "c"\\n'

class One(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    begin: str
    end: str

class Several(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    one: tuple[One, ...]
"""


@pytest.mark.invariant("typed.R1")
def test_R1_threads_that_read_into_a_class_at_once_all_read_it(tmp_path: Path) -> None:
    """Without `ready` this ends by SIGSEGV within some tens of turns."""
    (tmp_path / "classes.py").write_text(CLASSES)
    done = subprocess.run(
        [sys.executable, "-c", AT_ONCE, str(tmp_path)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended []\n", "")


@pytest.mark.invariant("typed.R1")
def test_R1_what_is_read_in_a_function_is_read_into_a_class_that_is_ready() -> None:
    sources = [path for top in ("livedbg", "adapters", "panels") for path in (ROOT / top).rglob("*.py")]
    wrong = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in sources
        if path.name != "typed.py" and "msgspec" in (text := path.read_text())
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and (kind := _read_into(call)) is not None and not _may_be_read_into(kind)
    ]
    assert wrong == []


def _read_into(call: ast.Call) -> ast.expr | None:
    """The class that a call of msgspec reads into."""
    name = ast.unparse(call.func)
    if name.startswith("msgspec.") and name.endswith(".decode"):
        return next((word.value for word in call.keywords if word.arg == "type"), None)
    if name == "msgspec.convert" or (name.startswith("msgspec.") and name.endswith(".Decoder")):
        return call.args[1 if name == "msgspec.convert" else 0]
    return None


def _may_be_read_into(kind: ast.expr) -> bool:
    """Plain types; what `ready` gave; and classes that a decoder of their module has made ready, as it was imported."""
    text = ast.unparse(kind)
    return text.startswith(("ready(", "dict[str, str]", "dict[str, object]")) or text in {"kind", "type(event)"}
