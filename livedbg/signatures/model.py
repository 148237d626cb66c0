"""The content of a signature file (docs/signatures.md)."""

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
    """The thing that ended, according to a failure text."""

    NOTHING = "nothing"  # a note
    BESIDE = "beside"  # a failure next to it, of which it says more
    PERHAPS = "perhaps"  # the text does not say so: the verdict is unknown
    WAITS = "waits"  # nothing: somebody waits, and at the end of the log still does: a stall
    COMPLETES = "completes"  # its run, which is well
    DIVERGES = "diverges"  # nothing, but its results are wrong
    HOST = "host"  # what jobs of a host had: a crash where its log is all there is, else the verdict is unknown
    PROCESS = "process"
    RANK = "rank"
    JOB = "job"


class Let(Struct, frozen=True, forbid_unknown_fields=True):
    """A value that is derived from others.

    Attributes:
        of: template of the input.
        find: name of a table of the file: the input becomes its key whose value occurs in the input, the longest one.
        match: a pattern; the input becomes its first group, or the whole match, or "" without a match.
        map: templates of the value by input, or the name of such a table of the file (`[maps.NAME]`).
        otherwise: template of the value if the map has none (`else` in the file). Without this and a map the value is
            the input.
    """

    of: str
    find: str = ""
    match: str = ""
    map: str | dict[str, str] = field(default_factory=dict)
    otherwise: str = field(default="", name="else")


class Case(Struct, frozen=True, forbid_unknown_fields=True):
    """Overrides of a signature for some values; or the defaults of a file's signatures.

    Attributes:
        when: patterns for whole values, by name ("" for a missing one); all of them match.
        has: patterns that are found in values, by name; all of them are.
        none: it is no failure.
        kind: `Diagnostic.code`; the signature's id by default.
        cause: how near it is to the cause of an end (`class` in the file).
        ends: the entity that the failure ends.
        sentence: template, without the full stop.
        who: template of the subject (`Rank 3`), if the sentence does not include it.
        exception: template of its type in the list of exceptions; without one it is no exception.
        key: template that tells it from others of its kind; a repeated one is reported once.
        next: the advice; `@NAME` for a step of the file's table `[steps]`.
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
    """A text, and the expected report.

    Attributes:
        says: the sentence, without its full stop; "" if the text is no failure.
        also: further sentences.
        kind: of the message, if it is to be checked.
        verdict: the state of the verdict if the text is the whole log; by default what `ends` implies.
    """

    text: str
    says: str = ""
    also: tuple[str, ...] = ()
    kind: str = ""
    verdict: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    marks: tuple[str, ...] = ()


class Signature(Case, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A failure text.

    Attributes:
        id: its name: small letters, digits, `-`.
        pattern: regular expressions, one of which finds it; `^` and `$` are of lines. Named groups are values.
        words: one of them is in each such text; derived from the pattern by default.
        parts: words of its other lines, if it has several; derived too.
        follows: its other lines have no such word: all lines after one with a word are read.
        near: its lines are at most so many lines apart; others are between them.
        first: a text has one message: of the first of its patterns that matches.
        exact: for a word in many ordinary lines: the pattern (of bytes) that must match where it begins.
        unless: a pattern: if it matches in the same lines, it is no failure.
        over: a pattern: after a line that it matches, the message is over, and a note. Such a line comes soon, or has
            one of `parts`.
        function: makes further values, if no pattern can (livedbg.signatures.functions).
        block: reads a block of many lines, whose stack is that of the exception (livedbg.signatures.blocks); or `here`:
            the values `function`, `file`, `line` and `language` are a frame above those of `native`.
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
        return (self.pattern,) if isinstance(self.pattern, str) else self.pattern


class Quiet(Struct, frozen=True, forbid_unknown_fields=True):
    """Lines near which nothing is a failure: a tuner's attempts may fail. `lines` lines after one are quiet too."""

    pattern: str
    words: tuple[str, ...]
    lines: int = 0


class SignatureFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of signatures.

    Attributes:
        source: projects and files that the texts are from.
        defaults: shared by its signatures.
        steps: next steps by name.
        maps: tables for `let`.
        cases: shared by several signatures.
        asides: patterns of lines that are printed beside such failures and add nothing.
        heeds_levels: a warning is a note, and a message at a lower level is none.
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
