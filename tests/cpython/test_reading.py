"""What is read of interpreters: this one, and real processes of every version that is here."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

import pytest
from msgspec import structs

from livedbg.cpython.call_frames import FrameLocals
from livedbg.cpython.exception_message import ExceptionTypes
from livedbg.cpython.heap import HeapReader
from livedbg.cpython.interpreter import find_interpreter, image_of
from livedbg.cpython.layout import Layout, layout_of
from livedbg.cpython.objects import ObjectReader, is_pointer
from livedbg.cpython.threads import ThreadReader
from tests.conftest import Target, eventually
from tests.cpython.interpreters import interpreters, label

KNOWN = interpreters("3.12", "3.13", "3.14")
SLEEPER = """
import threading, time

def inner():
    print('READY', flush=True)
    time.sleep(600)

class Worker:
    def outer(self):
        inner()

threading.Thread(target=Worker().outer, daemon=True).start()
time.sleep(600)
"""

LOCALS = """
import threading
def outer(number, text, *, missing=None):
    cell = 7
    def inner(deep):
        nonlocal cell
        print('READY', flush=True)
        threading.Event().wait()
    inner(40_000_000_000)
    unset = 1
outer(-3, "words")
"""


class Late(ValueError):
    """An exception of this module."""


@pytest.fixture
def layout() -> Layout:
    """The layout of this very interpreter."""
    found = find_interpreter(os.getpid())
    assert found is not None and found.layout is not None
    return found.layout


def test_this_interpreter() -> None:
    found = find_interpreter(os.getpid())
    assert found is not None and found.layout is not None
    assert found.version == sys.version_info[:2] == found.layout.version
    assert found.label.startswith("Python 3.") and image_of(os.getpid())[0] == found.image


def test_a_process_without_python(spawn: Callable[..., Target]) -> None:
    assert find_interpreter(spawn(["sh", "-c", "echo READY; exec sleep 600"]).pid) is None


@pytest.mark.parametrize("python", KNOWN, ids=label)
def test_frames_of_every_thread(python: str, spawn: Callable[..., Target]) -> None:
    target = spawn([python, "-c", SLEEPER])
    found = find_interpreter(target.pid)
    assert found is not None and found.layout is not None
    reader = ThreadReader(target.pid, found)
    eventually(lambda: names(reader).get(target.pid) == ["<module>"])  # it has started its thread
    by_tid = {thread.native_id: thread for thread in reader.threads()}
    ((tid, worker),) = ((tid, thread) for tid, thread in by_tid.items() if tid != target.pid)
    assert names(reader)[tid][:2] == ["inner", "Worker.outer"] and names(reader)[tid][-1].endswith("_bootstrap")
    eventually(lambda: "inner() <string>:6" in [thread.frames[0].where for thread in reader.threads()])
    assert reader.states() == {tid: thread.address for tid, thread in by_tid.items()}
    assert len(reader.gils()) == 1 and worker.gil == reader.gils()[0].address


def names(reader: ThreadReader) -> dict[int, list[str]]:
    """The functions of each thread, innermost first."""
    return {thread.native_id: [frame.code.name for frame in thread.frames] for thread in reader.threads()}


@pytest.mark.parametrize("text", ["plain", "grüße", "漢字", "🦀 and more", "x" * 500])
def test_strings_of_every_width(layout: Layout, text: str) -> None:
    assert ObjectReader(os.getpid(), layout).text(id(text)) == text


def test_what_is_no_string_is_none(layout: Layout) -> None:
    reader = ObjectReader(os.getpid(), layout)
    assert reader.text(0) == reader.text(8) == "?"
    assert reader.code(id(test_this_interpreter)) is None and not is_pointer(5)
    code = reader.code(id(test_this_interpreter.__code__))
    assert code is not None and code.name == "test_this_interpreter" and code.file == __file__


def test_locks_and_who_has_them(layout: Layout) -> None:
    reader = ObjectReader(os.getpid(), layout)
    lock, recursive = threading.Lock(), threading.RLock()
    free = reader.lock_at(id(lock))
    assert free is not None and not free.locked
    with lock, recursive:
        held, owned = reader.lock_at(id(lock)), reader.lock_at(id(recursive))
    assert held is not None and held.locked and not held.recursive
    assert owned is not None and owned.locked and owned.owner == threading.get_ident()
    assert reader.lock_at(id("no lock")) is None


def test_names_of_exception_classes_and_of_their_bases(layout: Layout) -> None:
    types = ExceptionTypes(ObjectReader(os.getpid(), layout))
    assert types.names(id(KeyError), "KeyError") == ("KeyError", "LookupError", "Exception", "BaseException")
    assert types.names(id(Late), "Late")[:3] == (f"{__name__}.Late", "Late", "ValueError")
    assert types.names(8, "Gone") == ("Gone",)


def test_a_version_whose_layout_is_not_known() -> None:
    assert layout_of((3, 10), b"") is None
    assert layout_of((3, 13), b"not what the process should have published") is None


@pytest.mark.invariant("call_frames.F1")
@pytest.mark.parametrize("python", KNOWN, ids=label)
def test_F1_local_variables_by_name(python: str, spawn: Callable[..., Target]) -> None:
    target = spawn([python, "-c", LOCALS])
    found = find_interpreter(target.pid)
    assert found is not None and found.layout is not None
    reader = ThreadReader(target.pid, found)
    eventually(lambda: names(reader).get(target.pid, [""])[0].endswith("wait"))  # of the condition, and blocked
    heap = HeapReader(reader.objects)
    variables = FrameLocals(heap)
    frames = {frame.code.name: frame for frame in reader.threads()[0].frames}
    outer = variables.of(frames["outer"], {"number", "text", "missing", "cell", "unset", "nothing"})
    assert sorted(outer) == ["cell", "missing", "number", "text"]
    assert (heap.integer(outer["number"]), heap.name(outer["text"]), heap.integer(outer["cell"])) == (-3, "words", 7)
    assert heap.type_name(outer["missing"]) == "NoneType"
    inner = variables.of(frames["outer.<locals>.inner"], {"deep", "cell"})
    assert (heap.integer(inner["deep"]), heap.integer(inner["cell"])) == (40_000_000_000, 7)
    code = frames["outer"].code
    other = structs.replace(frames["outer"], code=structs.replace(code, locals_count=code.locals_count + 1))
    assert FrameLocals(heap).of(other, {"number"}) == {}
