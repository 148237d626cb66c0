"""Raises what it is told to, line by line, and says how often it has caught something by then."""

from __future__ import annotations

import asyncio
import os
import sys
import threading

KEPT: list[BaseException] = []


class Sad(ValueError):
    """A class of the program itself."""


class Outer:
    """Has a class inside."""

    class Inner(Exception):
        """One whose qualified name has a point."""


def inner(error: BaseException) -> None:
    """Raises."""
    raise error


def middle(error: BaseException) -> None:
    """Passes on."""
    inner(error)


def deep(levels: int, error: BaseException) -> None:
    """Raises some levels below."""
    if levels:
        deep(levels - 1, error)
    inner(error)


def stay(levels: int) -> None:
    """Raises some levels below, catches it there, and stays there until there is another line."""
    if levels:
        stay(levels - 1)
        return
    try:
        inner(ValueError("stays"))
    except ValueError:
        sys.stdin.readline()


def keep(error: BaseException) -> None:
    """Catches, and keeps what was caught."""
    try:
        middle(error)
    except type(error):
        KEPT.append(error)


def again(error: BaseException) -> None:
    """Catches, and raises the same thing again."""
    try:
        middle(error)
    except type(error):
        raise


def numbers(count: int) -> int:
    """Runs generators to their ends."""
    return sum(number for number in range(count))


def one_by_one() -> None:
    """Ends an iterator by itself."""
    try:
        next(iter(()))
    except StopIteration:
        pass


async def awaited() -> None:
    """Raises in a coroutine, some awaits deep."""
    await asyncio.sleep(0)
    inner(RuntimeError("from a coroutine"))


async def program() -> None:
    """Awaits."""
    await awaited()


def torch_product() -> None:
    """Has C++ throw what becomes a Python exception."""
    import torch

    torch.ones(2, 3) @ torch.ones(5, 7)


def from_c(what: str) -> None:
    """Has C code raise."""
    empty: dict[object, int] = {}
    none: list[int] = []
    text: object = "text"
    if what == "key":
        print(empty["missing"])
    elif what == "number":
        print(empty[-70000000000])
    elif what == "attribute":
        print(text.no_such_thing)  # type: ignore[attr-defined]
    elif what == "type":
        len(5)  # type: ignore[arg-type]
    elif what == "file":
        os.open("/no/such/file", os.O_RDONLY)
    elif what == "value":
        int("x")
    elif what == "index":
        print(none[1])
    elif what == "zero":
        print(1 / len(none))
    elif what == "import":
        __import__("no_such_module")


def run(word: str, argument: str) -> None:
    """One command."""
    if word == "plain":
        middle(ValueError(argument))
    elif word == "many":
        for number in range(int(argument)):
            try:
                middle(ValueError(f"number {number}"))
            except ValueError:
                pass
    elif word == "sad":
        middle(Sad(argument))
    elif word == "inner":
        middle(Outer.Inner())
    elif word == "deep":
        deep(int(argument), ValueError("deep"))
    elif word == "stay":
        stay(int(argument))
    elif word == "kept":
        keep(ValueError(argument))
    elif word == "again":
        again(ValueError(argument))
    elif word == "loops":
        numbers(1000)
        one_by_one()
    elif word == "async":
        asyncio.run(program())
    elif word == "torch":
        torch_product()
    elif word == "c":
        from_c(argument)
    elif word == "fork":
        if not (child := os.fork()):
            try:
                middle(ValueError(argument))
            except ValueError:
                os._exit(0)
        os.waitpid(child, 0)


def main() -> None:
    """Reads commands."""
    caught = 0
    print(f"READY {os.getpid()} {threading.get_native_id()}", flush=True)
    for line in sys.stdin:
        word, _, argument = line.strip().partition(" ")
        if word == "end":
            middle(ValueError("the end"))

        def guarded(word: str = word, argument: str = argument) -> None:
            nonlocal caught
            try:
                run(word, argument)
            except Exception:
                caught += 1

        if word == "thread":
            word, _, argument = argument.partition(" ")
            thread = threading.Thread(target=guarded, args=(word, argument), name="raiser")
            thread.start()
            thread.join()
        else:
            guarded()
        print(caught, flush=True)


main()
