"""The mutants of a source file: Cosmic Ray's operators, and a few of our own.

Cosmic Ray replaces each comparison by the seven others and each arithmetic operator by the eleven others; most of
these die together. Here each is replaced by its opposite and by its neighbour (`<` by `>=` and by `<=`).

Left out: annotations, imports for them, texts and how numbers are formatted in them, the options of classes
(`frozen`), `strict` of `zip`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.operators.provider import OperatorProvider
from parso.python.tree import Keyword, Name, PythonNode
from parso.tree import NodeOrLeaf

_COMPARISONS: Final = {
    "Eq": ("NotEq",),
    "NotEq": ("Eq",),
    "Lt": ("LtE", "GtE"),
    "LtE": ("Lt", "Gt"),
    "Gt": ("GtE", "LtE"),
    "GtE": ("Gt", "Lt"),
    "Is": ("IsNot",),
    "IsNot": ("Is",),
}
_ARITHMETIC: Final = {
    "Add": ("Sub",),
    "Sub": ("Add",),
    "Mul": ("FloorDiv",),
    "Div": ("Mul",),
    "FloorDiv": ("Mul",),
    "Mod": ("FloorDiv",),
    "Pow": ("Mul",),
    "RShift": ("LShift",),
    "LShift": ("RShift",),
    "BitOr": ("BitAnd",),
    "BitAnd": ("BitOr",),
    "BitXor": ("BitAnd",),
}
_THEIRS: Final = (
    *(f"ReplaceComparisonOperator_{a}_{b}" for a, others in _COMPARISONS.items() for b in others),
    *(f"ReplaceBinaryOperator_{a}_{b}" for a, others in _ARITHMETIC.items() for b in others),
    "ReplaceUnaryOperator_Delete_Not",
    "ReplaceUnaryOperator_Delete_USub",
    "ReplaceUnaryOperator_Delete_Invert",
    "AddNot",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ExceptionReplacer",
    "NumberReplacer",
    "ZeroIterationForLoop",
)
_CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
Position = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed source.

    Attributes:
        operator: what was done, in Cosmic Ray's names or ours.
        line: where, 1-based.
        before, after: that line, as it is and as the mutant has it.
        source: the whole changed file.
    """

    operator: str
    line: int
    before: str
    after: str
    source: str


def mutants(source: str) -> list[Mutant]:
    """All mutants of a file, ordered by line; a few do not compile.

    Raises:
        SyntaxError: the file itself does not compile.
    """
    skipped = _skipped(source)
    found = {}
    for name, begin, end, changed in (*_theirs(source), *_ours(source)):
        if any(first <= begin and end <= last for first, last in skipped):
            continue
        if name == "AddNot" and source[_offset(source, begin) :].startswith("not "):
            continue  # "not not": ReplaceUnaryOperator_Delete_Not has it
        before, after = source.splitlines(), changed.splitlines()
        line = begin[0]
        found[changed] = Mutant(name, line, before[line - 1].strip(), after[line - 1].strip(), changed)
    return sorted(found.values(), key=lambda mutant: mutant.line)


def _offset(source: str, position: Position) -> int:
    return sum(len(line) for line in source.splitlines(keepends=True)[: position[0] - 1]) + position[1]


def _theirs(source: str) -> Iterator[tuple[str, Position, Position, str]]:
    tree = get_ast(source)
    nodes = list(ast_nodes(tree))
    provider = OperatorProvider()
    for name in _THEIRS:
        operator = provider[name]()
        for node in nodes:
            for index, (begin, end) in enumerate(operator.mutation_positions(node)):
                with _kept(node):
                    changed = operator.mutate(node, index)
                    if changed is not node:
                        siblings = node.parent.children
                        place = next(i for i, child in enumerate(siblings) if child is node)
                        siblings[place] = changed
                    text = tree.get_code()
                yield name, begin, end, text


@contextmanager
def _kept(node: NodeOrLeaf) -> Iterator[None]:
    """Undo what an operator does to a node, its children or its place among them: to parse again takes far longer."""
    around = [node, node.parent, *getattr(node, "children", ())]
    children = [(each, list(each.children)) for each in around if hasattr(each, "children")]
    values = [(each, each.value) for each in around if hasattr(each, "value")]
    yield
    for each, before in children:
        each.children = before
    for each, value in values:
        each.value = value


def _ours(source: str) -> Iterator[tuple[str, Position, Position, str]]:
    lines = source.splitlines(keepends=True)
    for node in ast_nodes(get_ast(source)):
        new = None
        if isinstance(node, Name) and node.value in _CALLS and node.get_next_leaf() == "(":
            new = _CALLS[node.value]
        elif isinstance(node, Keyword) and node.value == "in" and node.parent.type == "comparison":
            new = "not in"
        elif isinstance(node, PythonNode) and node.type == "comp_op" and node.children[0] == "not":
            new = "in"
        if new is None:
            continue
        (line, column), (last, end) = node.start_pos, node.end_pos
        if line == last:
            changed = lines[line - 1][:column] + new + lines[line - 1][end:]
            old = re.sub(r"\s+", "_", node.get_code().strip())
            name = f"Replace_{old}_{new.replace(' ', '_')}"
            yield name, node.start_pos, node.end_pos, "".join([*lines[: line - 1], changed, *lines[line:]])


def _skipped(source: str) -> list[tuple[Position, Position]]:
    """The parts of a file that are not mutated."""
    found: list[ast.AST] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found += [node.returns] if node.returns else []
        if isinstance(node, ast.ClassDef):
            found += [d for d in node.decorator_list if isinstance(d, ast.Call)]
            found += node.keywords
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation:
            found.append(node.annotation)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("cast", "TypeVar"):
            found.append(node.args[0])
        if isinstance(node, ast.FormattedValue) and node.format_spec:
            found.append(node.format_spec)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            found.append(node)
        if isinstance(node, ast.keyword) and node.arg == "strict":
            found.append(node)
    return [((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset)) for n in found]  # type: ignore[attr-defined]
