"""All patterns of the product: those that its modules name when they are imported, and those in its functions."""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from livedbg.text import patterns
from livedbg.text.issued_tokens import ISSUED, issued

__all__ = ["Used", "collected"]

_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split")
_IMPORTS = re.compile(r"^\s*(?:import re|from livedbg\.text\.patterns import)\b", re.MULTILINE)
_CALL = re.compile(rf"\b([A-Za-z_]\w*)\.({'|'.join(_METHODS)})\b")


_BETWEEN = ("/re/__init__.py", "/text/patterns.py", "/patterns/collected.py")  # a pattern and who names it


class Used(NamedTuple):
    """A pattern, and how it is used.

    Attributes:
        name: module and name, or module and line.
        method: that which is asked most of it: `finditer`, `search`, `match`, `fullmatch`.
    """

    name: str
    pattern: re.Pattern[Any]
    method: str


def collected() -> list[Used]:
    """All patterns; imports every module of the product."""
    import livedbg

    roots = [str(Path(os.path.realpath(livedbg.__file__)).parent)]
    roots += [os.path.realpath(f"{roots[0]}/{part}") for part in ("adapters", "panels", "themes")]
    named: dict[tuple[Any, int], tuple[str, int]] = {}
    original = re._compile  # type: ignore[attr-defined]

    def recording(pattern: Any, flags: Any) -> Any:
        made, frame = original(pattern, flags), sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.endswith(_BETWEEN):
            frame = frame.f_back
        file = os.path.realpath(frame.f_code.co_filename) if frame is not None else ""
        if frame is not None and file.startswith(tuple(root + "/" for root in roots)):
            named.setdefault((made.pattern, made.flags), (file, frame.f_lineno))
        return made

    def at_once(pattern: Any, flags: int) -> Any:
        return re.compile(pattern, flags)

    with mock.patch.object(re, "_compile", recording), mock.patch.object(patterns, "LazyPattern", at_once):
        for found in pkgutil.walk_packages(livedbg.__path__, "livedbg."):
            if not found.name.endswith("__main__"):
                with contextlib.suppress(ModuleNotFoundError):  # of gdb's own Python, or of an extra
                    importlib.import_module(found.name)
    uses = _uses(roots)
    used: dict[tuple[Any, int], Used] = {}
    for (pattern, flags), (file, line) in named.items():
        name = uses.names.get((file, line), "")
        methods = uses.methods.get((file, name), set()) | uses.methods.get(("", name), set()) if name else set()
        where = f"{_short(file)}.{name or line}"
        used[pattern, flags] = Used(where, re.compile(pattern, flags), _most(methods))
    for file, line, pattern, method in uses.inline:
        made = re.compile(pattern)
        used.setdefault((made.pattern, made.flags), Used(f"{_short(file)}.{line}", made, _most({method})))
    for name, pattern, method in _of_signatures():
        made = re.compile(pattern, re.MULTILINE)
        used.setdefault((made.pattern, made.flags), Used(name, made, method))
    for name, pattern in _of_ascend():
        used.setdefault((pattern, re.compile(pattern).flags), Used(name, re.compile(pattern), "search"))
    for sign in ISSUED:
        used.setdefault((issued(sign).pattern, issued(sign).flags), Used(f"token {sign}", issued(sign), "finditer"))
    return sorted(used.values(), key=lambda each: each.name)


def _of_signatures() -> Iterator[tuple[str, str, str]]:
    """The patterns of all files of signatures: they are compiled when one of their words was found."""
    from livedbg.logs.last_words import forms
    from livedbg.session.signatures import book
    from livedbg.signatures.model import Let

    for entry in book()[0].entries:
        signature = entry.signature
        yield from ((entry.name, pattern, "finditer") for pattern in signature.patterns)
        lets = (let for one in (signature, *entry.cases) for let in one.let.values() if isinstance(let, Let))
        yield from ((entry.name, let.match, "search") for let in lets if let.match)
        yield from ((entry.name, pattern, "fullmatch") for case in entry.cases for pattern in case.when.values())
        yield from ((entry.name, pattern, "search") for case in entry.cases for pattern in case.has.values())
        yield from ((entry.name, pattern, "search") for pattern in (signature.unless, signature.over) if pattern)
    for name, form in forms().items():
        yield from ((name, "|".join(form[key]), "search") for key in ("said", "unless") if key in form)
    for room in book()[0].rooms:
        yield from ((room.name, aside, "search") for aside in room.file.asides)
        if room.file.quiet is not None:
            yield (room.name, room.file.quiet.pattern, "search")


def _of_ascend() -> Iterator[tuple[str, str]]:
    """The patterns of lines that the room of Ascend has as data."""
    from livedbg.adapters.ascend.compile_reader import compile_lines
    from livedbg.adapters.ascend.messages import forms
    from livedbg.adapters.ascend.reports import texts

    for form in (*forms(), *texts().forms, *compile_lines().forms):
        yield f"ascend {form.kind} {form.word}", form.pattern


def _most(methods: set[str]) -> str:
    if methods & {"finditer", "findall", "sub", "subn", "split"}:
        return "finditer"
    if methods and methods <= {"match", "fullmatch"}:
        return "fullmatch" if methods == {"fullmatch"} else "match"
    return "search"


def _short(file: str) -> str:
    parts = Path(file).parts
    begin = max(number for number, part in enumerate(parts) if part in ("livedbg", "adapters", "panels", "themes"))
    return ".".join(parts[begin:]).removesuffix(".py")


class _Uses(NamedTuple):
    names: dict[tuple[str, int], str]
    methods: dict[tuple[str, str], set[str]]
    inline: list[tuple[str, int, str, str]]


def _uses(roots: list[str]) -> _Uses:
    names: dict[tuple[str, int], str] = {}
    methods: dict[tuple[str, str], set[str]] = {}
    inline: list[tuple[str, int, str, str]] = []
    files = {Path(os.path.realpath(path)) for root in roots for path in Path(root).rglob("*.py")}
    for path in sorted(files):
        text = path.read_text()
        for name, method in _CALL.findall(text):
            for key in ((str(path), name), *([("", name)] if not name.startswith("_") else [])):
                methods.setdefault(key, set()).add(method)
        if not _IMPORTS.search(text):
            continue  # it compiles none itself
        tree = ast.parse(text)
        own = {
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        }
        nodes = list(ast.walk(tree))
        for node in nodes:
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Name) and target.id in own:
                    for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                        names.setdefault((str(path), line), target.id)
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "re"
                and node.args
                and isinstance(node.args[0], ast.Constant)
                and isinstance(node.args[0].value, str)
                and node.func.attr in _METHODS
            ):
                inline.append((str(path), node.lineno, node.args[0].value, node.func.attr))
        asked = {id(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr in _METHODS}
        for node in nodes:  # handed on, e.g. into a table: may be searched
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in asked:
                methods.setdefault((str(path), node.id), set()).add("handed on")
    return _Uses(names, methods, inline)
