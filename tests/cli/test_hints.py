"""Every command of livedbg that its own messages name is one that its command line understands."""

from __future__ import annotations

import ast
import functools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from livedbg.cli.group import commands
from livedbg.cli.group import livedbg as group

_ROOT = Path(__file__).parents[2]
_COMMAND = re.compile(r"(?:^|[`(]|: |\bsudo |\bsudo -u \S+ | or +)livedbg ([a-z][^`\n]*)")
_END = re.compile(r" {3}|[,)]| or | works? | applies| tells?\b| lists | traces |\.$")
"""Where a command ends: the words behind it say what it is for."""

_VALUE = "60"
"""Stands for a pid, a time or a name."""


def _texts(tree: ast.AST) -> Iterator[str]:
    """The strings of a module that may be shown, each value in them as a number; no docstrings."""
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else _VALUE for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (inside | docs):
            yield node.value


@functools.cache
def hints() -> list[tuple[str, str]]:
    """Where a message names a command, and the words behind `livedbg`."""
    found = set()
    for folder in ("livedbg", "adapters", "panels"):
        for path in sorted((_ROOT / folder).resolve().rglob("*.py")):
            source = path.read_text()
            texts = _texts(ast.parse(source)) if "livedbg " in source else ()
            for hit in (hit for text in texts for hit in _COMMAND.finditer(text)):
                line = _END.split(hit[1])[0]
                if hit[0].startswith("`") or line.split()[0] in commands():  # else it is prose: "livedbg does not see"
                    found.add((str(path.relative_to(_ROOT)), line))
    return sorted(found)


def test_messages_name_commands() -> None:
    named = {line.split()[0] for _, line in hints()}
    assert len(hints()) > 100
    assert {"stacks", "watch", "attach", "report", "launch", "doctor", "ps"} <= named


def test_the_commands_that_messages_name_are_understood() -> None:
    context = group.make_context("livedbg", [], resilient_parsing=True)
    wrong = []
    for path, line in hints():
        name, *words = shlex.split(line)
        command = group.get_command(context, name) if name in commands() else None
        try:
            assert command is not None, "no such command"
            if words:  # a command that is only named takes what it needs elsewhere
                command.make_context(name, words, parent=context, resilient_parsing="--help" in words)  # runs nothing
        except (AssertionError, click.UsageError) as error:
            wrong.append(f"{path}: livedbg {line}: {error}")
    assert wrong == []
