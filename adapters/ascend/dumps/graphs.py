"""Read Ascend task graphs (`deps.json`) and kernel names (`name_map*.json`), and the users' terms for them.

A file is parsed whole if it is complete and not huge, else element by element as far as possible.

Sources: simpler docs/dfx/dep-gen.md §4 (August 2026) and the June 2026 shape, which has no `kernel_ids`,
`block_num` and edge `flags`; `host_build_graph` has no `flags` either. Omitted from the file (dep_gen_replay.cpp): the
tensor of an `OUTPUT` slot, and all but the first edge of kind `creator` or `explicit` from one task to another. A
`NO_DEP` argument is written as `UNKNOWN`. 64-bit numbers are decimal strings. A tensor or view with `manual_dep=true`
is neither looked up nor registered, and the file does not show that (pto_dep_compute.h, docs/manual-scope.md,
docs/war-anti-dependency.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from livedbg.adapters.ascend.messages import read_data
from livedbg.adapters.ascend.names import read_names, task_name
from livedbg.graphs.declared import Cause, DeclaredTask, Dependency, GraphReader, LostOrder, TaskGraph, Tensor, Terms
from livedbg.linux import target_files
from livedbg.model.errors import SourceError
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.text.wording import many

WHOLE: Final = 64 << 20
"""Bytes of a file that is decoded at once."""

_READ: Final = 1 << 20
_LONGEST: Final = 512 << 20  # characters of a file that are read
_ELEMENT: Final = 4 << 20  # characters of one element
_MOST: Final = {"tasks": 400_000, "tensors": 400_000, "edges": 1_200_000}  # elements that are kept
_TYPES: Final = {"tasks": DeclaredTask, "tensors": Tensor, "edges": Dependency}
_NAMED: Final = 8  # names of a file's members, where it has no tasks
_NAMES_BYTES: Final = 1 << 24  # of a name_map.json


class _File(msgspec.Struct):
    tasks: list[DeclaredTask]
    tensors: list[Tensor] = []
    edges: list[Dependency] = []


_NO_GRAPH: Final = "run with dep_gen enabled (--enable-dep-gen); the file is written when the run has drained"

_SHAPE_HELP: Final = (
    'what is read: {"tasks":[{"task_id":"0","args":[{"idx":0,"type":"INPUT","tensor_id":"7"}]}],'
    '"edges":[{"pred":"0","succ":"1"}]}, as simpler has written it since June 2026 (docs/dfx/dep-gen.md); '
    "capture it with such a runtime (--enable-dep-gen), or write it in this shape"
)
"""What to do where a file has another shape."""

_PLACE: Final = lazy_re(r"(?P<what>.*?)(?: - at `\$(?P<path>[^`]*)`)?", re.DOTALL)
_IN_LIST: Final = lazy_re(r"\.(?P<list>task|tensor|edge)s\[(?P<number>\d+)\](?P<rest>.*)")
_MISSING: Final = lazy_re(r"missing required field `(\w+)`")
_EXPECTED: Final = lazy_re(r"Expected `([^`]*)`, got `([^`]*)`")
_WORDS: Final = {
    "int": "a whole number",
    "str": "text",
    "array": "a list",
    "object": "an object",
    "bool": "true or false",
}
_KEYS: Final = 8  # that are named

_decoder: Final = msgspec.json.Decoder(_File, strict=False)


def parse_graph(data: bytes) -> TaskGraph:
    """Parse a complete `deps.json`.

    Raises:
        OtherShape: complete JSON of another shape; the text says where.
        ValueError: not (yet) a complete deps.json.
    """
    try:
        file = _decoder.decode(data)
    except msgspec.ValidationError as error:
        raise OtherShape(_refusal(str(error))) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"not a deps.json: {error}") from error
    return TaskGraph.of(file.tasks, file.edges, file.tensors)


def read_graph(path: Path) -> TaskGraph:
    """Return a file's graph, of a damaged one the readable part with `cut` set; raise SourceError if it has no task."""
    try:
        if target_files.status(path).st_size <= WHOLE:
            try:
                return parse_graph(target_files.read_bytes(path))
            except ValueError:
                pass  # cut or damaged: what is there?
        parts = _Parts(path)
        parts.read()
    except OSError as error:
        raise SourceError(
            f"{path} can't be read: {error.strerror}.", "give a deps.json or the folder of a run"
        ) from None
    if not parts.found["tasks"]:
        other = parts.other_shape()
        raise SourceError(
            clean_line(f"{path} is no deps.json: {other or parts.why or 'it names no task'}."),
            _SHAPE_HELP if other else _NO_GRAPH,
            "no-graph",
        )
    return TaskGraph.of(parts.found["tasks"], parts.found["edges"], parts.found["tensors"], parts.cut())


class _Parts:
    """Reads the three arrays of a file through a moving window."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = target_files.status(path).st_size
        self._text = ""
        self._at = 0
        self._before = 0  # characters before the window
        self._over = False
        self._scan = json.JSONDecoder().raw_decode
        self.found: dict[str, list[Any]] = {name: [] for name in _TYPES}
        self._refused = dict.fromkeys(_TYPES, 0)
        self._refusals: dict[str, str] = {}  # why, the first of each list
        self._members: dict[str, None] = {}  # names at the top
        self.why = ""

    def cut(self) -> str:
        """Return a text on what the file lacks."""
        damaged = sum(self._refused.values())
        if not self.why and not damaged:
            return ""
        read = ", ".join(f"{many(len(self.found[name]), name[:-1])}" for name in _TYPES)
        odd = many(damaged, "element is not as it should be", "elements are not as they should be")
        odd = f"{odd} ({'; '.join(self._refusals.values())}); " if damaged else ""
        why = f"{self.why} (at character {self._before + self._at} of some {self._size}); " if self.why else ""
        return clean_line(f"{why}{odd}read: {read}")

    def other_shape(self) -> str:
        """Return why a complete file without tasks has another shape; "" if that is not the reason."""
        if (refused := self._refusals.get("tasks")) is not None:
            tasks = self._refused["tasks"]
            return f"none of its {many(tasks, 'task')} is as expected: {refused}" if tasks > 1 else refused
        if "tasks" not in self._members and not self.why:
            return f'key "tasks" at its top is missing; it has {", ".join(self._members) or "none"}'
        return ""

    def read(self) -> None:
        with target_files.open_text(self._path) as self._file:
            try:
                self._read_members()
            except _End as end:
                self.why = str(end)
            except RecursionError:
                self.why = "it is nested too deeply"

    def _read_members(self) -> None:
        self._expect("{")
        if self._peek() == "}":
            return
        while True:
            name = self._value()
            self._expect(":")
            if len(self._members) < _NAMED or name in _TYPES:
                self._members[clean_line(str(name), 40)] = None
            if name not in _TYPES:
                self._value()
            elif self._peek() == "[":
                self._array(name)
            else:
                self._take(name, self._value(), list[Any], f'"{name}"')
            if self._peek() == "}":
                return
            self._expect(",")

    def _array(self, name: str) -> None:
        self._expect("[")
        kept = self.found[name]
        if self._peek() == "]":
            self._at += 1
            return
        while True:
            if len(kept) >= _MOST[name]:
                raise _End(f"it has more than {_MOST[name]} {name}")
            self._take(name, self._value(), _TYPES[name], f"{name[:-1]} {len(kept) + self._refused[name]}")
            if self._peek() == "]":
                self._at += 1
                return
            self._expect(",")

    def _take(self, name: str, value: object, kind: Any, what: str) -> None:
        """Keep a value of a list, or count it as refused."""
        try:
            self.found[name].append(msgspec.convert(value, kind, strict=False))
        except (ValueError, OverflowError) as error:  # of another shape, or a name that is no UTF-8
            self._refused[name] += 1
            self._refusals.setdefault(name, _refusal(str(error), value, what))

    def _value(self) -> Any:
        self._peek()
        while True:
            try:
                value, end = self._scan(self._text, self._at)
            except (json.JSONDecodeError, ValueError) as error:
                if self._over or len(self._text) - self._at > _ELEMENT:
                    raise _End("the file ends in the middle" if self._over else "it is damaged") from error
                self._more()
                continue
            if end == len(self._text) and not self._over and not isinstance(value, (dict, list, str)):
                self._more()  # a number may go on
                continue
            self._at = end
            return value

    def _peek(self) -> str:
        """Return the next character that is not white space."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if self._over:
                raise _End("the file ends in the middle")
            self._more()

    def _expect(self, sign: str) -> None:
        if self._peek() != sign:
            raise _End("it is damaged" if self._before + self._at else "it does not begin with {")
        self._at += 1

    def _more(self) -> None:
        if self._before + len(self._text) >= _LONGEST:
            raise _End(f"it is longer than {_LONGEST >> 20} MiB")
        self._before += self._at
        read = self._file.read(_READ)
        self._over = not read
        self._text = self._text[self._at :] + read
        self._at = 0


class _End(Exception):
    """End of readable input."""


def kernel_names(folder: Path) -> dict[int, str]:
    """Return kernel names by func id, from the `name_map*.json` of a folder."""
    found: dict[int, str] = {}
    for path in target_files.matching(folder, "name_map*.json"):
        try:
            with target_files.open_binary(path) as file:
                names = read_names(file.read(_NAMES_BYTES))
        except (OSError, ValueError, RecursionError):  # msgspec's errors are ValueErrors
            continue  # being written: the ids say as much
        found |= {func: clean_line(name, 200) for func, name in names.items()}
    return found


class OtherShape(ValueError):
    """Complete JSON that is no known `deps.json`."""


def _refusal(error: str, found: object = None, element: str = "") -> str:
    """Return why something is refused: `key "idx" of args[0] of task 3 is missing`.

    Args:
        error: msgspec's message (`Expected …, got …`, `Object missing required field …`).
        found: the element; its own keys are listed if one of them is missing.
        element: its name: `task 3`; by default from the path in `error`.
    """
    parts = _PLACE.fullmatch(error)
    what, path = (parts["what"], parts["path"] or "") if parts is not None else (error, "")
    if not element and (inside := _IN_LIST.fullmatch(path)) is not None:
        element, path = f"{inside['list']} {inside['number']}", inside["rest"]
    path = path.removeprefix(".")
    within = f" of {element}" if element else ""
    if (missing := _MISSING.search(what)) is not None:
        said = f'key "{missing[1]}"{f" of {path}" if path else ""}{within} is missing{"" if path else _keys(found)}'
    else:
        subject = f'key "{path}"{within}' if path else element or "all of it"
        types = _EXPECTED.search(what)
        said = f"{subject}: {what}" if types is None else f"{subject} is {_word(types[2])}, not {_word(types[1])}"
    return clean_line(said, 400)


def _word(types: str) -> str:
    return " or ".join(_WORDS.get(word, word) for word in types.split(" | "))


def _keys(found: object) -> str:
    if not isinstance(found, dict) or not found:
        return ""
    names = ", ".join(clean_line(str(key), 40) for key in list(found)[:_KEYS])
    return f"; it has {names}{' …' if len(found) > _KEYS else ''}"


class _Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Users' terms for arguments, causes and remedies (data/graph.toml)."""

    declares: dict[str, str]
    why: dict[Cause, str]
    next: dict[Cause, tuple[str, ...]]
    overwritten_next: tuple[str, ...]


@cache
def _words() -> _Words:
    return read_data("graph.toml", _Words)


def why_of(lost: LostOrder) -> str:
    """Return the likely cause of a lost order."""
    return _words().why[lost.cause]


def next_of(lost: LostOrder) -> tuple[str, ...]:
    """Return the remedies for a lost order."""
    return _words().next[lost.cause]


class DepsReader:
    """Reads `deps.json`."""

    names: Sequence[str] = ("deps.json",)

    def read(self, path: Path) -> TaskGraph:
        return read_graph(path)

    def task_name(self, raw: int) -> str:
        """Return the name of a task: `r1t2`."""
        return task_name(raw)

    def terms(self, path: Path) -> Terms:
        """Return the terms for describing a file's graph."""
        return Terms(kernels=kernel_names(path.parent), task_name=task_name, **msgspec.structs.asdict(_words()))


READERS: Final[tuple[GraphReader, ...]] = (DepsReader(),)
