"""Loops that only compute, one a word: `for` loops that come to an end, and loops that poll for what never comes."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator

MANY = 10**12
FEW = tuple(range(200))
FLAG: list[int] = []  # stays empty


def ready() -> None:
    print("READY", flush=True)


def over(items: Iterable[object]) -> int:
    done = 0
    for item in items:
        done += len(str(item)) % 3
    return done


def passes(items: Iterable[object]) -> Iterator[object]:
    yield from (item for item in items)


def by_range() -> None:
    over(range(MANY))


def by_step() -> None:
    over(range(10, MANY, 5))


def downwards() -> None:
    over(range(MANY, 0, -1))


def by_list() -> None:
    over([0] * 20_000_000)


def by_zip() -> None:
    over(zip(range(MANY), itertools.repeat(1)))  # noqa: B905


def by_generator() -> None:
    over(item for item in range(MANY))


def by_enumerate() -> None:
    over(enumerate(passes(range(MANY))))


def nested() -> None:
    for _ in range(100_000):
        over(range(20_000))


def polls_a_flag() -> None:
    for _ in range(10):
        while not FLAG:
            pass


def polls_a_short_list() -> None:
    while True:
        for item in FEW:
            if item in FLAG:
                return


def counts_while_it_polls() -> None:
    for _ in itertools.count():
        if FLAG:
            return


def numbers_its_polls() -> None:
    for _ in enumerate(itertools.repeat(None)):
        if FLAG:
            return


if __name__ == "__main__":
    ready()
    globals()[sys.argv[1]]()
