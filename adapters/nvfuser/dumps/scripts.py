"""Checks reproduction scripts without running them: do they parse, which inputs do they make."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass

from livedbg.adapters.nvfuser.dumps.scalars import Number


@dataclass(frozen=True, slots=True)
class ScriptInput:
    """One input that a script makes.

    Attributes:
        source: its expression.
        size, stride: of a tensor; the stride where it is said.
        value: of a number.
    """

    source: str
    size: tuple[int, ...] | None = None
    stride: tuple[int, ...] | None = None
    value: Number | None = None


def check(text: str) -> str:
    """Why a script is no valid Python, or ""; it is parsed, never run."""
    try:
        _parsed(text)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error) or type(error).__name__
    return ""


def inputs_of(text: str) -> list[ScriptInput]:
    """The inputs in a script's list `inputs = […]`; empty where there is none."""
    try:
        tree = _parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="inputs")], value=ast.List(elts=items)):
                return [_input(item, text) for item in items]
    return []


def _parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the target's text, not of ours
        return ast.parse(text)


def _input(node: ast.expr, text: str) -> ScriptInput:
    source = ast.get_source_segment(text, node) or ast.unparse(node)
    match node:
        case ast.Call(func=ast.Attribute(attr="as_strided"), args=[size, stride, *_]):
            return ScriptInput(source, _numbers(size), _numbers(stride))
        case ast.Call(func=ast.Attribute(attr="make_tensor" | "empty" | "ones" | "zeros"), args=[size, *_]):
            return ScriptInput(source, _numbers(size))
        case ast.Call(func=ast.Attribute(attr="randn"), args=args):
            return ScriptInput(source, _numbers(args[0] if len(args) == 1 else ast.Tuple(args)))
        case ast.Call(func=ast.Attribute(attr="randint"), args=[_, _, size, *_]):
            return ScriptInput(source, _numbers(size))
        case ast.Constant(value=bool() | int() | float() as value):
            return ScriptInput(source, value=value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return ScriptInput(source, value=-value)
    return ScriptInput(source)


def _numbers(node: ast.expr) -> tuple[int, ...] | None:
    match node:
        case ast.Tuple(elts=items) | ast.List(elts=items):
            found = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, int)]
            return tuple(found) if len(found) == len(items) else None
        case ast.Constant(value=int() as value):
            return (value,)
    return None
