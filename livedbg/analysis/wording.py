"""Wording shared by rules: the short form of a finding, sentences after it, and followers.

Rules pass parts (subject, event, consequence) as values; nothing here or later parses a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from livedbg.analysis.diagnosis import Finding
from livedbg.logs.writers import rank_of
from livedbg.text.quantities import duration
from livedbg.text.wording import many, sentence_case, sentences, spans

_LONGEST: Final = 100
_NAMED: Final = 4
_SHOWN: Final = 2
_RUNS: Final = 4  # beside the first one that are said
_DIGITS: Final = str.maketrans(dict.fromkeys("0123456789", None))


def brief(finding: Finding, most: int = _LONGEST) -> str:
    """Return the report of a finding, without who and where: `KeyError: 'input_ids'`."""
    text = finding.claim or finding.sentence
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def with_more(finding: Finding, *more: str, **changes: Any) -> Finding:
    """Return the finding with sentences appended, and with other fields changed."""
    return replace(finding, sentence=sentences(finding.sentence, *more), **changes)


def time_said(gap_ns: int) -> str:
    """Return a sentence on how much earlier the first message came than the others."""
    return f"It came first, {duration(gap_ns)} before the others, by the logs' times."


def followers_said(first: str, following: Sequence[tuple[str, str]], does: str = " followed", own: str = "") -> str:
    """Return `Ranks 0-2 followed: connection closed by peer.`; "" if nobody else is named.

    Args:
        own: what the first one said, which is not said again.
    """
    groups: dict[str, list[str]] = {}
    wholes: dict[str, str] = {}
    for writer, said in following:
        if writer and writer != first:
            groups.setdefault(_alike(said), []).append(writer)
            wholes.setdefault(_alike(said), said)
    parts = [
        f"{_who(writers)}{does}{' with the same' if wholes[key] == own else f': {wholes[key]}'}"
        for key, writers in list(groups.items())[:_SHOWN]
    ]
    if rest := {writer for writers in list(groups.values())[_SHOWN:] for writer in writers}:
        parts.append(f"{_who(sorted(rest))} followed with other errors")
    return "".join(f"{sentence_case(part)}. " for part in parts).rstrip()


def runs_said(runs: Sequence[tuple[str, str]]) -> str:
    """Return how runs ended, by log: `gpu2.log: KeyError: 'a'; gpu0.log: the test run passed.`; "" for none."""
    shown = [f"{name}: {said}" for name, said in runs[:_RUNS]]
    if len(runs) > _RUNS:
        shown.append(f"and {many(len(runs) - _RUNS, 'more log')}")
    return sentences("; ".join(shown))


def together(writers: Sequence[str]) -> str:
    """Return `5 engine cores (DP7, DP2 and 3 more)`, or `Ranks 0-3`, of writers that say the same."""
    split = [writer.rpartition(" ") for writer in writers]
    if len({kind for kind, _, _ in split}) > 1 or not split[0][0] or split[0][0] == "rank":
        return sentence_case(_who(writers))
    names = [name for _, _, name in split]
    shown = (
        ", ".join(names)
        if len(names) <= _NAMED
        else f"{', '.join(names[: _NAMED - 1])} and {len(names) - _NAMED + 1} more"
    )
    return f"{len(names)} {split[0][0]}s ({shown})"


def _alike(said: str) -> str:
    return said.translate(_DIGITS)


def _who(writers: Iterable[str]) -> str:
    names = list(dict.fromkeys(writers))
    ranks = [rank for name in names if (rank := rank_of(name)) is not None]
    others = [name for name in names if rank_of(name) is None]
    said = [f"rank{'s' if len(ranks) > 1 else ''} {spans(ranks)}"] if ranks else []
    shown = others[:3] if len(others) <= 3 else [*others[:2], f"{len(others) - 2} more"]
    return " and ".join([*said, *shown])
