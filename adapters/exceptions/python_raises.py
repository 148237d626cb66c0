"""Python exceptions as they are raised, with class, message and Python stack.

Traced is what reaches Python code: an exception that C code raises and clears by itself (as `hasattr` does) passes
through no frame, and one that is raised again with the traceback that it had is the same one.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from livedbg.adapters.exceptions.calls import Call
from livedbg.cpython.call_frames import CallFrames, PyFrames, goes_on, words_of
from livedbg.cpython.exception_message import Kinds, message_of
from livedbg.cpython.exception_types import ExceptionTypes
from livedbg.cpython.interpreter import interpreter_in
from livedbg.cpython.layout import Layout
from livedbg.cpython.objects import ObjectReader
from livedbg.cpython.probe_arguments import FUNCTION, RAISED, own_tid, raise_arguments
from livedbg.linux.elf import ElfError
from livedbg.linux.registers import PC
from livedbg.model.errors import TargetError
from livedbg.probes.functions import NotTraceable
from livedbg.probes.newest import Newest
from livedbg.probes.perf import NoPerf
from livedbg.probes.perf_records import Sample
from livedbg.probes.places import Found, Place
from livedbg.probes.tracefs import Field, NoTracefs, values

_MOST: Final = 256  # processes, and threads, that are remembered


_KINDS: Final = {"PyUnicode_Type": "str", "PyLong_Type": "int", "PyTuple_Type": "tuple"}


@dataclass(frozen=True, slots=True)
class _Process:
    kinds: Kinds
    types: ExceptionTypes
    frames: CallFrames


class PythonRaises:
    """Python exceptions as they are raised.

    Args:
        awaited: an interpreter may still be loaded, or started as a child.
    """

    functions = (FUNCTION,)
    only = RAISED
    stack_bytes = 8  # none: the frames are read by themselves

    def __init__(self, *, awaited: bool) -> None:
        self.awaited = awaited
        self._files: dict[Place, tuple[Layout, dict[str, int]]] = {}
        self._last: Newest[int, tuple[object, int, tuple[int, ...]]] = Newest(_MOST)
        self._processes: Newest[tuple[int, Place, int], _Process] = Newest(_MOST)

    def changed(self) -> bool:
        """Never: what is read depends on the file alone."""
        return False

    def arguments(self, found: Found) -> Sequence[str]:
        """What is read at the function, by the version of its file.

        Raises:
            NotTraceable: of this version it is not known.
            OSError: the file is gone.
        """
        try:
            file = interpreter_in(found.place.path, FUNCTION, *_KINDS)
        except ElfError as error:
            raise NotTraceable(f"{found.file} can't be read: {error}") from None
        if file is None or FUNCTION not in file.symbols:
            raise NotTraceable(f"{found.file} does not contain the address of the interpreter state")
        label = ".".join(map(str, file.version)) if file.version else "older than 3.11"
        if file.layout is None:
            raise NotTraceable(f"Python {label} ({found.file}): exceptions can be traced in CPython 3.11 to 3.14")
        if file.layout.free_threaded:
            raise NotTraceable(
                f"Python {label}, free-threaded ({found.file}): without a GIL the raising thread is unknown"
            )
        self._files[found.place] = file.layout, file.symbols
        distance = file.runtime - file.symbols[FUNCTION]
        return raise_arguments(file.layout, found.place.offset + distance)

    def describe(self, sample: Sample, fields: Mapping[str, Field], found: Found) -> Call | None:
        """Class, bases and message; None where it is none.

        That is where another thread's state was read (of an interpreter with its own GIL), or where an exception on
        its way outwards was relieved of its traceback: import does that (Python/import.c, remove_importlib_frames).
        """
        process = self._process(sample, found.place)
        read = values(fields, sample.raw)
        kind, tid, name, words = read.get("type_info"), read.get("tid"), read.get("name"), words_of(read)
        if not isinstance(kind, int) or not isinstance(name, bytes) or tid != own_tid(sample.pid, sample.tid):
            return None
        now = read.get("value"), kind, words
        before = self._last.get(sample.tid)
        self._last[sample.tid] = now
        if before is not None and before[:2] == now[:2] and goes_on(words, before[2]):
            return None
        names = process.types.names(kind, name.partition(b"\0")[0].decode("utf-8", "replace"))
        return Call(names, message_of(read, names, process.kinds), kind, words)

    def python(self, sample: Sample, fields: Mapping[str, Field], found: Found) -> PyFrames:
        """The Python frames."""
        return self._process(sample, found.place).frames.of(values(fields, sample.raw))

    def _process(self, sample: Sample, place: Place) -> _Process:
        layout, symbols = self._files[place]
        bias = sample.registers[PC] - symbols[FUNCTION]
        key = sample.pid, place, bias  # a process that executes a program is another one
        known = self._processes.get(key)
        if known is None:
            objects = ObjectReader(sample.pid, layout)
            kinds = {bias + symbols[symbol]: name for symbol, name in _KINDS.items() if symbol in symbols}
            frames = CallFrames(ObjectReader(sample.pid, layout))
            known = self._processes[key] = _Process(Kinds(objects, kinds), ExceptionTypes(objects), frames)
        return known


def refused_raises(error: LookupError | OSError, pid: int) -> TargetError | None:
    """Why Python exceptions can't be traced, in words for a user; None where it is no matter of Python's."""
    if isinstance(error, NotTraceable):
        return TargetError(f"{error}.", "C++ exceptions can be caught there, with other patterns", "python-unheard")
    if isinstance(error, LookupError):
        return TargetError(
            f"Process {pid} runs no Python whose exceptions can be traced: none of its files has {FUNCTION}.",
            "name the process that runs the interpreter, or add --follow for its children",
            "no-python",
        )
    if isinstance(error, NoTracefs | NoPerf) or error.errno in {errno.EACCES, errno.EPERM}:
        return TargetError(
            f"Python exceptions need probe events, which are not allowed here: {error.strerror}.",
            "run livedbg with sudo, or give it CAP_PERFMON and CAP_SYS_ADMIN",
            "no-permission",
        )
    return None
