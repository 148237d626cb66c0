"""Kills and stops livedbg, gdb and the guard at random moments of all that they do to targets, and looks how those
fare.

    python -m tests.touch.chaos [ROUNDS] [--seed N] [--first N] [--aim NAME] [--action WORDS] [--signal NAME]

Every round draws from the seed and its own number: what went wrong is played again by `--seed N --first NUMBER` and
one round. Prints tables of figures, also when it is interrupted; exit status 1 when a single round went wrong.
"""

from __future__ import annotations

import argparse
import random
import secrets
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.touch.actions import ACTIONS
from tests.touch.aims import AIMS, Aim, Running
from tests.touch.rounds import SIGNALS, Blow, Outcome, play

__all__ = ["blows", "plan", "rounds"]


def blows() -> list[Blow]:
    """All that can be tried on this box."""
    return [
        Blow(action, victims, number)
        for action in ACTIONS
        if not action.refused()
        for victims in action.victims
        for number in SIGNALS
    ]


def rounds(chosen: Sequence[tuple[Aim, Blow]], seed: int, first: int, folder: Path) -> Iterator[Outcome]:
    """Play a plan. A target of which a round went wrong proves nothing any more: the next round gets another one."""
    targets: dict[Aim, Running] = {}
    with ExitStack() as stack:
        for number, (aim, blow) in enumerate(chosen, first):
            if aim not in targets:
                targets[aim] = stack.enter_context(Running(aim, folder))
            outcome = play(targets[aim], blow, random.Random(f"{seed}/{number}"))
            if outcome.wrong:
                del targets[aim]
            yield outcome


def plan(
    seed: int, first: int, number: int, *, aim: str = "", action: str = "", signals: str = ""
) -> list[tuple[Aim, Blow]]:
    """Every blow on every target as often as the next, in an order that the seed gives.

    Args:
        seed: of the order.
        first: how many rounds to leave out.
        number: how many to play.
        aim, action, signals: only those with these words in their names.
    """
    every = [
        (one, blow)
        for one in AIMS
        for blow in blows()
        if aim in one.name and action in blow.action.name and signals in blow.number.name
    ]
    chance, found = random.Random(seed), list[tuple[Aim, Blow]]()
    while len(found) < first + number:
        chance.shuffle(every)
        found += every
    return found[first : first + number]


def _by_target(outcomes: Sequence[Outcome]) -> str:
    """What was done to which target, and how soon it ran on."""
    lines = [
        "| target | action | rounds | failed | resumes after, median | worst |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for (aim, action), group in _grouped(outcomes, lambda one: (one.aim, one.blow.action.name)):
        times = [outcome.well_s * 1000 for outcome in group if not outcome.wrong] or [0.0]
        wrong = sum(bool(outcome.wrong) for outcome in group)
        figures = f"{len(group)} | {wrong} | {statistics.median(times):.0f} ms | {max(times):.0f} ms"
        lines.append(f"| {aim} | {action} | {figures} |")
    return "\n".join(lines)


def _by_signal(outcomes: Sequence[Outcome]) -> str:
    """Rounds by who was struck in what, and by which signal."""
    names = " | ".join(number.name for number in SIGNALS)
    lines = [f"| action | victim | {names} | failed |", "| --- | --- |" + " ---: |" * (len(SIGNALS) + 1)]
    for (action, victims), group in _grouped(outcomes, lambda one: (one.blow.action.name, one.blow.victims)):
        counts = [sum(outcome.blow.number is number for outcome in group) for number in SIGNALS]
        wrong = sum(bool(outcome.wrong) for outcome in group)
        lines.append(f"| {action} | {victims} | {' | '.join(map(str, counts))} | {wrong} |")
    return "\n".join(lines)


def _grouped(
    outcomes: Sequence[Outcome], key: Callable[[Outcome], tuple[str, str]]
) -> list[tuple[tuple[str, str], list[Outcome]]]:
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(key(outcome), []).append(outcome)
    return sorted(groups.items())


def main(argv: Sequence[str]) -> int:
    """Play, print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.touch.chaos")
    parser.add_argument("rounds", type=int, nargs="?", default=500)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 30))
    parser.add_argument("--first", type=int, default=0)
    for word in ("--aim", "--action", "--signal"):
        parser.add_argument(word, default="")
    found = parser.parse_args(argv)
    chosen = plan(found.seed, found.first, found.rounds, aim=found.aim, action=found.action, signals=found.signal)
    outcomes: list[Outcome] = []
    print(f"seed {found.seed}", flush=True)
    for action in ACTIONS:
        if action.refused():
            print(f"left out: {action.name}: {action.refused()}")
    with tempfile.TemporaryDirectory(prefix="livedbg-chaos-") as folder, suppress(KeyboardInterrupt):
        for outcome in rounds(chosen, found.seed, found.first, Path(folder)):
            outcomes.append(outcome)
            if outcome.wrong:
                number = found.first + len(outcomes) - 1
                print(f"round {number}, {outcome.aim}, {outcome.blow}: {outcome.wrong}", flush=True)
    print(f"\n{_by_target(outcomes)}\n\n{_by_signal(outcomes)}")
    wrong = sum(bool(outcome.wrong) for outcome in outcomes)
    print(f"\nseed {found.seed}: {len(outcomes)} rounds, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
