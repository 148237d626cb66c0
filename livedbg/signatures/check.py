"""Checks of signature files; each problem says what to do.

Invariants:
    check.C1. A signature without a word of four characters is refused, and so is one whose word occurs in logs of
        healthy jobs, unless it says what must follow there (`exact`).
    check.C2. A signature is refused whose examples are not found as they say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Final

from livedbg.model.errors import UsageError
from livedbg.model.facts import facts_shown
from livedbg.signatures.blocks import BLOCKS, GIVES
from livedbg.signatures.book import GIVEN, Book, Entry, Room
from livedbg.signatures.functions import FUNCTIONS
from livedbg.signatures.literals import SHORTEST
from livedbg.signatures.model import Case, Example, Let
from livedbg.signatures.templates import names_in
from livedbg.text.patterns import lazy_re

_ID: Final = lazy_re(r"[a-z][a-z0-9-]*")


def checked(room: Room) -> Room:
    """Return the file if it can be used.

    Raises:
        UsageError: its first problem.
    """
    for problem in problems(room, examples=False):
        raise UsageError(problem, f"livedbg signatures --check {room.name}", "usage")
    return room


def problems(room: Room, *, examples: bool = True) -> Iterator[str]:
    """Yield the problems, with the file, the signature and the fix."""
    seen: set[str] = set()
    told = [(signature, list(_of(Entry(room, signature)))) for signature in room.file.signatures]
    book = Book([room]) if examples and not any(found for _, found in told) else None
    for signature, found in told:
        entry = Entry(room, signature)
        if signature.id in seen:
            yield f"{room.name}: signature {signature.id}: there are two of this id; rename one."
        seen.add(signature.id)
        if book is not None:
            found += [problem for example in signature.examples for problem in _of_example(entry, example, book)]
            if not any(example.says for example in signature.examples):
                found.append("it has no example of a failure; add one: [[signature.examples]], text, says.")
        yield from (f"{room.name}: signature {signature.id}: {problem}" for problem in found)


def _of(entry: Entry) -> Iterator[str]:
    signature = entry.signature
    if not _ID.fullmatch(signature.id):
        yield "its id has other characters than a-z, 0-9 and -."
    try:
        groups = {name for pattern in signature.patterns for name in re.compile(pattern).groupindex}
        for pattern in (signature.unless, signature.over, *_of_cases(entry.cases)):
            re.compile(pattern)
    except re.error as error:
        yield f"{error.pattern!r} is no pattern: {error}; write it in '''…''', so that \\ is a \\."
        return
    if signature.function and signature.function not in FUNCTIONS:
        yield f"there is no function {signature.function!r}; there are {', '.join(FUNCTIONS)}."
    if signature.block and signature.block not in BLOCKS:
        yield f"there is no block {signature.block!r}; there are {', '.join(BLOCKS)}."
    if isinstance(signature.cases, str) and signature.cases not in entry.room.file.cases:
        yield f"there are no [[cases.{signature.cases}]] in the file."
    yield from _of_words(entry)
    if entry.usual.cause is None and not entry.usual.none:
        yield "it has no class: class = host, device, process, peer or summary."
    if not entry.usual.sentence and not entry.usual.none:
        yield 'it has no sentence: sentence = "The pump of {host} stopped".'
    if not (signature.source or entry.room.file.source):
        yield "it has no source: the project and file, or the address, that the text is from."
    yield from _of_templates(entry, groups)

    for part in entry.parts:
        if part in _healthy():
            yield f"the part {part!r} stands in logs of healthy jobs; name a rarer one, or say follows = true instead."


def _of_cases(cases: Iterable[Case]) -> Iterator[str]:
    for case in cases:
        yield from case.when.values()
        yield from case.has.values()


def _of_words(entry: Entry) -> Iterator[str]:
    signature = entry.signature
    if not entry.words:
        yield 'no text of four characters is in all of its matches; name one: words = ["…"].'
    for word in entry.words:
        if len(word.encode()) < SHORTEST:
            yield f"the word {word!r} is shorter than four letters; name a longer one."
        elif word not in signature.exact and word in _healthy():
            yield (
                f"the word {word!r} stands in logs of healthy jobs; name a rarer one (words), or what must match where "
                f"it begins: exact = {{ {word!r} = '…' }}."
            )


def _of_templates(entry: Entry, groups: set[str]) -> Iterator[str]:
    file, signature = entry.room.file, entry.signature
    lets = [file.defaults.let, signature.let, *(case.let for case in entry.cases)]
    known = groups.union(GIVEN, *lets)
    if signature.function:
        known |= FUNCTIONS[signature.function].gives
    known |= GIVES.get(signature.block, frozenset())
    shared = entry.cases if isinstance(signature.cases, str) else ()  # they may ask for what others have
    own: list[Case] = [entry.usual, *(entry.cases if not shared else ())]
    strict = [
        text
        for case in own
        for text in (case.sentence, case.who, case.exception, case.key, *case.attributes.values())
        if text
    ]
    loose = [case.sentence for case in shared if case.sentence] + list(file.steps.values())
    for step in (step for case in (*own, *shared) for step in case.next or ()):
        if not step.startswith("@"):
            strict.append(step)
        elif step[1:] not in file.steps:
            yield f"there is no step {step[1:]!r} in [steps] of the file."
    for let in signature.let.values():
        strict += [let.of, let.otherwise] if isinstance(let, Let) else [let]
        named = [name for name in (let.map, let.find) if isinstance(name, str)] if isinstance(let, Let) else []
        yield from (f"there is no table [maps.{name}] in the file." for name in named if name and name not in file.maps)
    for text in (*strict, *loose):
        try:
            missing = names_in(text) - known
        except ValueError as error:
            yield f"{error}."
            continue
        if missing and text in strict:
            there = ", ".join(sorted(known - GIVEN)) or "none"
            yield f"{text!r} asks for {', '.join(sorted(missing))}; its values are {there}."


def _of_example(entry: Entry, example: Example, book: Book) -> Iterator[str]:
    try:
        found = [one.said for one in book.found(example.text) if one.entry.signature is entry.signature]
    except ValueError as error:
        yield f"its sentence can't be made of the example {example.text[:60]!r}: {error}."
        return
    said = [one.whole for one in found]
    if example.says and example.says not in said:
        told = " and ".join(map(repr, said)) or "nothing"
        yield f"of the example {example.text[:60]!r} it says {told}; not {example.says!r}."
    quiet = entry.room.file.quiet
    tuned = quiet is not None and re.search(quiet.pattern, example.text) is not None
    if not (example.says or example.also or tuned) and said:
        yield f"of the healthy example {example.text[:60]!r} it says {said[0]!r}; make the pattern stricter."
    for one in found:
        if example.says != one.whole:
            continue
        if wrong := example.fields.items() - (facts_shown(one.facts) | one.facts.values).items():
            yield f"of the example {example.text[:60]!r} it has not the fields {dict(wrong)}."
        if missing := set(example.marks).difference(one.facts.marks):
            yield f"of the example {example.text[:60]!r} it has not the marks {', '.join(sorted(missing))}."


@cache
def _healthy() -> str:
    return files("livedbg.signatures").joinpath("healthy.log").read_text(encoding="utf-8")
