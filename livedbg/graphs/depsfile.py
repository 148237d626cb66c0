"""Reads `deps.json`, whole or what is there of it."""

from __future__ import annotations

from typing import Final

import msgspec

from livedbg.graphs.declared import DeclaredTask, Dependency, TaskGraph, Tensor

__all__ = ["parse_graph"]


class _File(msgspec.Struct):
    tasks: list[DeclaredTask]
    tensors: list[Tensor] = []
    edges: list[Dependency] = []


_decoder: Final = msgspec.json.Decoder(_File, strict=False)


def parse_graph(data: bytes) -> TaskGraph:
    """The graph of a `deps.json`.

    Raises:
        ValueError: not (yet) a whole deps.json.
    """
    try:
        file = _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"not a deps.json: {error}") from error
    return TaskGraph.of(file.tasks, file.edges, file.tensors)
