"""The kernel's reads at a traced call, and their meaning: types, message, arguments.

At `__cxa_throw(object, type_info, destructor)` the object is made. `__cxa_begin_catch(unwind_header)` has it in the
header's last word but four (Itanium C++ ABI: exception handling, 2.2.1: `adjustedPtr` is before `unwindHeader`,
`exceptionType` nine words before that). The message of `std::runtime_error`, `std::logic_error` and their children is
a character pointer behind the vtable pointer, in libstdc++ and libc++; so is a `std::string` that is the first member
of an exception (`System.text_exceptions`).

Type layouts (Itanium C++ ABI 2.9.5, run-time type information): a `std::type_info` is {vtable, char const *name};
`__si_class_type_info` adds {base}; `__vmi_class_type_info` adds {unsigned flags, unsigned count, {base, long offset
and flags}…}; `__pointer_type_info` adds {unsigned flags, pointee}. Which one it is follows from the type_info of its
own class, which is before its vtable's first entry.

Invariants:
    exceptions_calls.L1. A message is shown only for types with a known layout, or if the content is text.
    exceptions_calls.L2. Texts are fetched up to a fixed length (tracefs.F1); the rest is read just after the call, and
        shown if it begins with the fetched part.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final

from livedbg.cpython.call_frames import PyFrames
from livedbg.linux import memory
from livedbg.model.catchpoints import Moment
from livedbg.probes.launch_calls import Describe, failure, source_line
from livedbg.probes.newest import Newest
from livedbg.probes.perf_records import Sample
from livedbg.probes.tracefs import Field, bytes_in, number_in, pieces, text_at, values
from livedbg.session.systems import merged, systems
from livedbg.text.demangling import demangled_type
from livedbg.text.sanitize import clean

_SINGLE, _MULTIPLE = "N10__cxxabiv120__si_class_type_infoE", "N10__cxxabiv121__vmi_class_type_infoE"
_MOST_BASES: Final = 16
_DEPTH: Final = 12
_NAME: Final = 512  # bytes of a type's name that are read


class TypeNames:
    """Caches the types of one process by the address of their `type_info`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._known: dict[int, tuple[str, ...]] = {}

    def names(self, type_info: int) -> tuple[str, ...]:
        """Return the type's name and those of its bases, nearest first; () if it can't be read."""
        known = self._known.get(type_info)
        if known is None:
            known = tuple(dict.fromkeys(self._names(type_info, _DEPTH)))
            if known:
                self._known[type_info] = known
        return known

    def _names(self, address: int, depth: int) -> list[str]:
        try:
            vtable, name = self._words(address, 2)
            names = [demangled_type(self._text(name))]
        except (OSError, UnicodeDecodeError):
            return []
        if depth:
            for base in self._bases(address, vtable):
                names += self._names(base, depth - 1)
        return names

    def _bases(self, address: int, vtable: int) -> list[int]:
        try:
            kind = self._text(self._words(self._words(vtable - 8, 1)[0] + 8, 1)[0])
            if kind == _SINGLE:
                return list(self._words(address + 16, 1))
            if kind == _MULTIPLE:
                count = struct.unpack("<II", memory.read(self._pid, address + 16, 8))[1]
                pairs = self._words(address + 24, 2 * min(count, _MOST_BASES))
                return list(pairs[::2])
        except (OSError, UnicodeDecodeError):
            pass  # the name by itself is worth something
        return []

    def _words(self, address: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}Q", memory.read(self._pid, address, 8 * count))

    def _text(self, address: int) -> str:
        return memory.read_text(self._pid, address, _NAME).decode("ascii")


_MESSAGE, _TYPE, _TEXT, _ARGUMENT = 256, 192, 64, 32  # bytes that are fetched: each word costs the target time
_REGISTERS: Final = ("%di", "%si", "%dx", "%cx")


def _thrown(type_info: str, thrown: str) -> tuple[str, ...]:
    """Return the probe arguments that read an exception, given expressions for its type_info and the object."""
    return (
        f"type_info={type_info}:x64",
        *pieces("type", f"+8({type_info})", _TYPE),
        f"message_at=+8({thrown}):x64",
        *pieces("message", f"+8({thrown})", _MESSAGE),
        f"value=+0({thrown}):x64",
        *pieces("text", f"+0({thrown})", _TEXT),
    )


ARGUMENTS: Final[Mapping[Moment, tuple[str, ...]]] = {
    Moment.THROW: _thrown("%si", "%di"),
    Moment.RETHROW: (),
    Moment.CATCH: _thrown("-80(%di)", "-8(%di)"),
    Moment.CALL: (
        *(f"a{number}={register}:x64" for number, register in enumerate(_REGISTERS)),
        *(part for number, register in enumerate(_REGISTERS) for part in pieces(f"s{number}", register, _ARGUMENT)),
    ),
}
"""What the kernel is asked to read (Documentation/trace/uprobetracer.rst)."""

_TEXT_TYPES: Final = frozenset(("char const*", "char*"))
_NUMBERS: Final = {"int": 32, "unsigned int": 32, "long": 64, "unsigned long": 64, "bool": 8, "char": 8, "short": 16}
_WITH_TEXT: Final = frozenset(("std::runtime_error", "std::logic_error"))
_SHORTEST: Final = 3  # letters of what may be a message of a type that we don't know
_LONGEST: Final = 4096
_PROCESSES: Final = 256  # whose types are remembered


@dataclass(frozen=True, slots=True)
class Call:
    """One call.

    Attributes:
        names: the thrown type and its bases, nearest first; the function's name for any other function.
        type_info: address; 0 for none.
        words: key of its Python frames; () for none.
        sent: another process sent the signal.
        fatal: nothing handles the signal, and it ends the process.
        overflow: bytes of the stack that the thread has overflowed; 0: it has not.
    """

    names: tuple[str, ...]
    message: str
    type_info: int = 0
    words: tuple[int, ...] = ()
    sent: bool = False
    fatal: bool = False
    overflow: int = 0


@dataclass(frozen=True, slots=True)
class TracedCall:
    """A matching call, with the Python frames that it is in or under; None for none."""

    sample: Sample
    call: Call
    python: PyFrames | None = None


class CallReader:
    """Converts samples to calls.

    Args:
        moment: meaning of the calls.
    """

    def __init__(self, moment: Moment) -> None:
        self.moment = moment
        self._known = known_calls() if moment is Moment.CALL else {}
        self._types: Newest[int, TypeNames] = Newest(_PROCESSES)

    def names(self, pid: int, type_info: int) -> tuple[str, ...]:
        """Return the names of a type and its bases; () if it can't be read."""
        types = self._types.get(pid)
        if types is None:
            types = self._types[pid] = TypeNames(pid)
        return types.names(type_info)

    def call(self, sample: Sample, fields: Mapping[str, Field], function: str) -> Call:
        """Return the call of a sample."""
        read = values(fields, sample.raw)
        if self.moment is Moment.CALL:
            return Call((function,), self._arguments(function, read, sample.pid))
        type_info = number_in(read, "type_info")
        names = self.names(sample.pid, type_info) if type_info else ()
        if not names:
            mangled = _bytes(read, "type", sample.pid).decode("ascii", "replace") if type_info else ""
            names = (demangled_type(mangled),) if mangled else (function,)
        return Call(names, _message(names, read, sample.pid), type_info)

    def _arguments(self, function: str, read: Mapping[str, int | bytes], pid: int) -> str:
        numbers = [number_in(read, f"a{number}") for number in range(len(_REGISTERS))]
        texts = [_bytes(read, f"s{number}", pid, f"a{number}") for number in range(len(_REGISTERS))]
        known = self._known.get(function)
        if known is not None:
            return known(numbers, [_text(text) + ("…" if len(text) == _ARGUMENT else "") for text in texts])
        return ", ".join(
            f'"{_text(text)}"' if _is_text(text) else f"{number:#x}"
            for number, text in zip(numbers, texts, strict=True)
        )


def _message(names: tuple[str, ...], read: Mapping[str, int | bytes], pid: int) -> str:
    kind = names[0]
    if kind in _TEXT_TYPES:
        return _text(_bytes(read, "text", pid, "value"))
    if kind in _NUMBERS:
        bits = _NUMBERS[kind]
        number = number_in(read, "value") & ((1 << bits) - 1)
        signed = not kind.startswith("unsigned") and number >> (bits - 1)
        return str(number - (1 << bits) if signed else number)
    message = _bytes(read, "message", pid, "message_at")
    if not _with_text().isdisjoint(names):
        return _text(message)
    if kind.startswith("std::") or "std::exception" not in names:
        return ""  # no text of its own, or of a layout that is not known
    return _text(message) if _is_text(message) else ""


@cache
def _with_text() -> frozenset[str]:
    """Return the types whose message is behind the vtable pointer."""
    return _WITH_TEXT.union(*(system.text_exceptions for system in systems()))


def _is_text(data: bytes) -> bool:
    text = data.decode("utf-8", "replace")
    return len(text) >= _SHORTEST and text.replace("\n", " ").isprintable()


def _text(data: bytes) -> str:
    return clean(data[:_LONGEST].decode("utf-8", "replace"))


def _bytes(read: Mapping[str, int | bytes], name: str, pid: int, pointer: str = "") -> bytes:
    return text_at(pid, number_in(read, pointer), bytes_in(read, name), _LONGEST)


def _assertion(numbers: Sequence[int], texts: Sequence[str]) -> str:
    """Describe __assert_fail(assertion, file, line, function): assert.h."""
    return failure("", texts[0], ", ".join(filter(None, (source_line(texts[1], numbers[2]), texts[3]))))


_C_LIBRARY: Final[Mapping[str, Describe]] = {"__assert_fail": _assertion, "abort": lambda _numbers, _texts: ""}


@cache
def known_calls() -> Mapping[str, Describe]:
    """Return the descriptions of known functions' calls, by name."""
    return MappingProxyType(merged(_C_LIBRARY, lambda system: system.known_calls, "description of calls of"))
