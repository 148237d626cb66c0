"""What a file of signatures holds (docs/signatures.md)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field

from livedbg.model import CauseClass, Severity

NEAR: Final = 6
"""So many lines apart are the lines of a text, unless its signature says otherwise."""
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class Ends(StrEnum):
    """What a failure text says to have ended."""

    NOTHING = "nothing"  # a note
    PERHAPS = "perhaps"  # the text does not say so: the verdict is unknown
    WAITS = "waits"  # nothing: somebody waits, and at the end of the log still does: a stall
    COMPLETES = "completes"  # its run, which is well
    DIVERGES = "diverges"  # nothing, but its results are wrong
    HOST = "host"  # what jobs of a host had: a crash where its log is all there is, else the verdict is unknown
    PROCESS = "process"
    RANK = "rank"
    JOB = "job"


class Let(Struct, frozen=True, forbid_unknown_fields=True):
    """A value that is made of others.

    Attributes:
        of: template of what is looked at.
        find: name of a table of the file: what is looked at is its key whose value stands in there, the longest one.
        match: a pattern; what is looked at is its first group, or all that it matched, or "" where it does not match.
        map: templates of the value by what is looked at, or the name of such a table of the file (`[maps.NAME]`).
        otherwise: template of the value where the map has none (`else` in the file). Without this and a map the value
            is what is looked at.
    """

    of: str
    find: str = ""
    match: str = ""
    map: str | dict[str, str] = field(default_factory=dict)
    otherwise: str = field(default="", name="else")


class Case(Struct, frozen=True, forbid_unknown_fields=True):
    """What differs from the rest of a signature where some values are as said; or what a file's signatures share.

    Attributes:
        when: patterns for whole values, by name ("" for one that is not there); all of them match.
        has: patterns that are found in values, by name; all of them are.
        none: it is no failure.
        kind: what the rules of its room call it (`Diagnostic.code`); the signature's id by default.
        cause: how near to the cause of an end it is (`class` in the file).
        ends: what it ends.
        severity: how bad it is.
        sentence: template of what is said, without the full stop.
        who: template of who it is about (`Rank 3`), where the sentence goes on from there.
        exception: template of its type in the list of exceptions; it is none without one.
        key: template of what tells it from others of its kind; one that comes again is reported once.
        next: what to do; `@NAME` for a step of the file's table `[steps]`.
        let: values for the templates: of templates, or of maps.
        marks: words of `MessageFacts.marks`; `late` is a field of the diagnostic.
        attributes: templates of `MessageFacts.values`.
        source: project and file, or address, that the text is from.
    """

    when: dict[str, str] = field(default_factory=dict)
    has: dict[str, str] = field(default_factory=dict)
    none: bool = False
    kind: str | None = None
    cause: CauseClass | None = field(default=None, name="class")
    ends: Ends | None = None
    severity: Severity | None = None
    sentence: str | None = None
    who: str | None = None
    exception: str | None = None
    key: str | None = None
    next: tuple[str, ...] | None = None
    let: dict[str, str | Let] = field(default_factory=dict)
    marks: tuple[str, ...] | None = None
    attributes: dict[str, str] = field(default_factory=dict)
    source: str = ""


class Example(Struct, frozen=True, forbid_unknown_fields=True):
    """A text, and what is to be said of it.

    Attributes:
        text: lines of a log.
        says: the sentence, without its full stop; "" where the text is no failure.
        also: other sentences that are said of it.
        kind: of the message, where that is to be checked.
        verdict: the state of the verdict where the text is all of a log; by default what `ends` amounts to.
        fields: facts of the message.
        marks: of the message.
    """

    text: str
    says: str = ""
    also: tuple[str, ...] = ()
    kind: str = ""
    verdict: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    marks: tuple[str, ...] = ()


class Signature(Case, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One failure text.

    Attributes:
        id: its name: small letters, digits, `-`.
        pattern: regular expressions, one of which finds it; `^` and `$` are of lines. Named groups are values.
        words: one of them is in each such text; derived from the pattern where none is given.
        parts: words of its other lines, where it has several; derived too.
        follows: its other lines have no such word: the lines behind one with a word are read whatever is in them.
        near: its lines are at most so many lines apart; others stand between them.
        first: it says one thing of a text: what the first of its patterns that finds something says.
        exact: of a word that stands in many ordinary lines: the pattern (of bytes) that must match where it begins.
        unless: a pattern: where it matches in the same lines, it is no failure.
        over: a pattern: after a line that it matches, what was said is over, and a note. Such a line comes soon, or has
            one of `parts`.
        function: makes further values, where no pattern can (livedbg.signatures.functions).
        block: reads a block of many lines, whose stack is that of the exception (livedbg.signatures.blocks); or `here`:
            the values `function`, `file`, `line` and `language` are its one frame.
        cases: the first that fits counts; or the name of cases of the file (`[[cases.NAME]]`).
        examples: the tests.
    """

    id: str
    pattern: str | tuple[str, ...]
    words: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    follows: bool = False
    near: int = NEAR
    first: bool = False
    exact: dict[str, str] = field(default_factory=dict)
    unless: str = ""
    over: str = ""
    function: str = ""
    block: str = ""
    cases: str | tuple[Case, ...] = ()
    examples: tuple[Example, ...] = ()

    @property
    def patterns(self) -> tuple[str, ...]:
        """All of them."""
        return (self.pattern,) if isinstance(self.pattern, str) else self.pattern


class Quiet(Struct, frozen=True, forbid_unknown_fields=True):
    """Lines near which nothing is a failure: a tuner tries what may fail.

    Attributes:
        pattern: such a line.
        words: one of them is in each.
        lines: so many lines after it are quiet too.
    """

    pattern: str
    words: tuple[str, ...]
    lines: int = 0


class SignatureFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of signatures.

    Attributes:
        source: projects and files that the texts are from.
        defaults: what its signatures share.
        steps: next steps by name.
        maps: tables for `let`.
        cases: cases that several signatures have.
        quiet: see `Quiet`.
        asides: patterns of lines that are printed beside such failures and say nothing more.
        heeds_levels: what a logger calls a warning is a note, and what it calls less is nothing.
        signatures: `[[signature]]`.
    """

    source: str = ""
    defaults: Case = field(default_factory=Case)
    steps: dict[str, str] = field(default_factory=dict)
    maps: dict[str, dict[str, str]] = field(default_factory=dict)
    cases: dict[str, tuple[Case, ...]] = field(default_factory=dict)
    quiet: Quiet | None = None
    asides: tuple[str, ...] = ()
    heeds_levels: bool = False
    signatures: tuple[Signature, ...] = field(default=(), name="signature")
