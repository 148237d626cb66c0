"""What a comparison with golden data found, in words and as JSON values."""

from __future__ import annotations

from collections.abc import Iterator

from livedbg.text.wording import many
from livedbg.values.dump import Dump, task_name
from livedbg.values.program import GoldenMatch, ProgramComparison
from livedbg.values.sentences import difference_json, difference_text

__all__ = ["cause", "conclusions", "program_json", "program_lines"]

_NAMED = 8


def program_lines(dump: Dump, found: ProgramComparison) -> Iterator[str]:
    """A line for each golden tensor, then what follows from those that differ."""
    matched = sum(bool(match.by) for match in found.matches)
    yield f"{matched} of {many(len(found.matches), 'golden tensor')} matched with what the tasks dumped."
    if not found.ordered:
        yield "There is no deps.json beside the dump: views of one buffer can't be put together."
    width = max((len(match.file.label) for match in found.matches), default=0)
    for match in found.matches:
        yield f"  {match.file.label:{width}}  {_line(match)}"
    said = list(conclusions(dump, found))
    if said:
        yield ""
        yield from said
    else:
        yield "No golden tensor differs." if matched else "Nothing was compared."


def conclusions(dump: Dump, found: ProgramComparison) -> Iterator[str]:
    """What follows from the golden tensors that differ; nothing where none does."""
    wrong = [match for match in found.matches if match.differs]
    given = [match for match in wrong if not match.file.output]
    if given:
        names = ", ".join(match.file.label for match in given)
        yield f"FIRST DIVERGENCE: the program was given other data than {names}: its outputs say nothing about kernels."
    for match in [] if given else wrong:
        yield cause(dump, match)


def _line(match: GoldenMatch) -> str:
    if not match.by:
        return f"not matched: {match.note}"
    what = difference_text(match.difference)
    if not match.difference.outside and match.difference.compared < match.difference.total:
        what += ", the others are in no dumped tensor"
    return f"by {match.by}: {what}" + (f" ({match.note})" if match.note else "")


def cause(dump: Dump, match: GoldenMatch) -> str:
    """Who may have computed a golden tensor that differs, in a sentence."""
    label, writers = match.file.label, match.writers
    names = ", ".join(map(dump.task_name, writers[:_NAMED]))
    names += f" and {len(writers) - _NAMED} more" if len(writers) > _NAMED else ""
    if match.certain:
        return f"FIRST DIVERGENCE: {names} computes otherwise: it found the golden inputs, and left not {label}."
    text = (
        f"{label}: candidates are {names}, which wrote what differs" if writers else f"{label}: no candidate is known"
    )
    if match.behind:
        text += f", and the {many(match.behind, 'task')} before"
    return f"{text}. Golden data hold no values in between: compare with the dump of a good run to name the task."


def program_json(dump: Dump, found: ProgramComparison) -> dict[str, object]:
    """All of it for a program."""
    return {
        "ordered": found.ordered,
        "matches": [
            {
                "name": match.file.name,
                "side": "out" if match.file.output else "in",
                "matched_by": match.by,
                "differs": match.differs,
                "difference": difference_json(match.difference),
                "candidates": [task_name(task) for task in match.writers],
                "certain": match.certain,
                "note": match.note,
            }
            for match in found.matches
        ],
    }
