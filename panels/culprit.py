"""Whose code explains the verdict: the thread (or task) that the others wait for, or one of the deadlock."""

from __future__ import annotations

from collections.abc import Iterator

from livedbg.analysis.diagnosis import VerdictState
from livedbg.panels.draw_context import DrawContext

__all__ = ["culprit"]


def culprit(context: DrawContext) -> str | None:
    """The first of the verdict's roots, else of what its findings name, that has a stack; None where all is well."""
    verdict = context.diagnosis.verdict
    if verdict.state in (VerdictState.RUNNING, VerdictState.EXITED):
        return None
    stacks, code = context.snapshot.stacks, context.diagnosis.code
    for entity in _named(context):
        for one in _threads(context, entity):
            if code.frame(stacks.get(one)) is not None:
                return one
    return None


def _named(context: DrawContext) -> Iterator[str]:
    verdict = context.diagnosis.verdict
    yield from verdict.roots
    for finding in context.diagnosis.findings.values():
        if finding.state is verdict.state:
            yield from finding.roots
            yield from finding.entities


def _threads(context: DrawContext, entity: str) -> Iterator[str]:
    """The entity, or the threads in which it runs."""
    yield entity
    process = context.snapshot.processes.get(entity)
    if process is not None:
        yield f"thread:{process.host}/{process.pid}/{process.pid}"
    task = context.snapshot.tasks.get(entity)
    if task is not None:
        yield from task.where
