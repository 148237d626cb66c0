"""A strict reader of the part of Graphviz's language that livedbg writes (graphviz.org/doc/info/lang.html)."""

from __future__ import annotations

import re

_TOKEN = re.compile(r'\s+|"((?:[^"\\\n]|\\.)*)"|([A-Za-z_][A-Za-z0-9_]*|-?\d+(?:\.\d+)?)|(->|[{}\[\]=;,])')


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match, f"no token at {text[at : at + 40]!r}"
        at = match.end()
        if match[1] is not None:
            found.append(("id", match[1].replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")))
        elif match[2] is not None:
            found.append(("id", match[2]))
        elif match[3] is not None:
            found.append((match[3], match[3]))
    return found


def read_dot(text: str) -> tuple[dict[str, dict[str, str]], list[tuple[str, str, dict[str, str]]]]:
    """Nodes and edges with their attributes; fails on anything that is not the language."""
    nodes, edges, _ranks = read_ranks(text)
    return nodes, edges


def read_ranks(
    text: str,
) -> tuple[dict[str, dict[str, str]], list[tuple[str, str, dict[str, str]]], list[list[str]]]:
    """The same, with the nodes of each group of one rank."""
    tokens = _tokens(text)
    nodes: dict[str, dict[str, str]] = {}
    edges: list[tuple[str, str, dict[str, str]]] = []
    ranks: list[list[str]] = []

    def take(kind: str) -> str:
        assert tokens and tokens[0][0] == kind, (kind, tokens[:3])
        return tokens.pop(0)[1]

    def attributes() -> dict[str, str]:
        found = {}
        if tokens[0][0] == "[":
            take("[")
            while tokens[0][0] != "]":
                name = take("id")
                take("=")
                found[name] = take("id")
                if tokens[0][0] == ",":
                    take(",")
            take("]")
        return found

    def group() -> list[str]:
        """`{ rank=same; "a"; "b"; }`"""
        take("{")
        assert (take("id"), take("="), take("id"), take(";")) == ("rank", "=", "same", ";")
        found = []
        while tokens[0][0] != "}":
            found.append(take("id"))
            take(";")
        take("}")
        return found

    assert take("id") == "digraph"
    take("id")
    take("{")
    while tokens[0][0] != "}":
        if tokens[0][0] == "{":
            ranks.append(group())
            continue
        name = take("id")
        if tokens[0][0] == "=":
            take("=")
            take("id")
        elif tokens[0][0] == "->":
            take("->")
            other = take("id")
            edges.append((name, other, attributes()))
        else:
            nodes[name] = attributes()
        take(";")
    take("}")
    assert not tokens
    nodes.pop("node", None)
    return nodes, edges, ranks
