"""All rules of the diagnosis: the generic ones and those of the systems, and the page that describes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

from livedbg.analysis.diagnosis import Diagnosis, Finding
from livedbg.analysis.engine import Diagnostician
from livedbg.analysis.rules.base import Judged, Rule, RuleInput, Settings
from livedbg.analysis.rules.chapters import GENERAL, PROVED, Chapter
from livedbg.analysis.user_code import UserCode
from livedbg.model import ExceptionHit
from livedbg.model.foreign_code import foreign, is_foreign
from livedbg.model.snapshot import Snapshot
from livedbg.session.recognition import ShownSystems
from livedbg.session.systems import declared, functions, note_problem, systems


def all_rules() -> tuple[Rule, ...]:
    """Return every rule of the diagnosis."""
    return tuple(rule for _, rules in _chapters() for rule in rules)


def judged() -> Judged:
    """Return the parts of a state that the systems' own rules judge."""
    return Judged(
        tasks=frozenset(system.name for system in systems() if system.judges_tasks),
        diagnostics={system.name: system.judges_diagnostics for system in systems()},
        explains=(*(explains for _, explains in functions(lambda system: system.explains, False)), _by_signature),
        causes=tuple(cause for system in systems() for cause in system.causes),
    )


def _by_signature(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """Return whether a signature that the general rule judges explains an exception."""
    from livedbg.analysis.rules.signatures import explained, says_an_end
    from livedbg.session.signatures import ids_in

    own = Judged(diagnostics={system.name: system.judges_diagnostics for system in systems()})
    return explained(hit, snapshot, ids_in, lambda said: says_an_end(said) and not own.judges(said))


def user_code() -> UserCode:
    """Return the classifier that tells the user's own code from the frameworks of all systems."""
    return UserCode(system.framework for system in systems())


def diagnostician(settings: Settings | None = None) -> Diagnostician:
    """Return a diagnostician with all rules. Those of a system are imported once a state shows it."""
    return Diagnostician(tuple(_rules()), settings, judged(), user_code())


def diagnose(snapshot: Snapshot, settings: Settings | None = None) -> Diagnosis:
    """Diagnose one snapshot, by all rules, from nothing."""
    return diagnostician(settings).diagnose(snapshot)


def rules_page() -> str:
    """Return the text of docs/rules.md."""
    lines = [
        "# Rules",
        "",
        "Every finding names the rule that made it. Each rule is a small pure function of the state and its wait-for",
        "graph; this page is made from the rules themselves (`livedbg.session.rulebook.rules_page()`).",
    ]
    for title, rules in _chapters():
        lines += ["", f"## {title}"]
        for rule in rules:
            lines += ["", f"### `{rule.name}`", "", rule.doc]
    return "\n".join(lines) + "\n"


class _Guarded:
    """A rule of another package: an exception is a problem of its system, and the other rules go on (systems.Y2)."""

    def __init__(self, rule: Rule, system: str) -> None:
        self.name, self.doc = rule.name, rule.doc
        self._rule, self._system = rule, system

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        try:
            with foreign():
                return tuple(self._rule.apply(state))
        except Exception as error:
            note_problem(self._system, f"its rule {self.name} failed", error)
            return ()


def _guarded(rule: Rule, system: str) -> Rule:
    return _Guarded(rule, system) if is_foreign(type(rule).__module__) else rule


class _Sleeping:
    """Rules that find nothing in most states, and that are imported for the first state in which they may."""

    doc = ""

    def __init__(self, name: str, may: Callable[[Snapshot], bool], make: Callable[[], Iterable[Rule]]) -> None:
        self.name = name
        self._may = may
        self._make = make
        self._rules: Sequence[Rule] | None = None

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        if self._rules is None:
            if not self._may(state.snapshot):
                return ()
            self._rules = tuple(self._make())
        return chain.from_iterable(rule.apply(state) for rule in self._rules)


def _rules() -> Iterator[Rule]:
    """Yield all rules; those of a system behind a sleeping one if possible (`System.on_signs`)."""
    yield from _general(PROVED)
    for system in systems():
        if system.on_signs and system.rules is not None:
            may = partial(ShownSystems().may_show, system.name)
            yield _Sleeping(system.name, may, partial(_rules_of_system, system.name))
        else:
            yield from _rules_of_system(system.name)
    yield from _general(GENERAL)


def _general(chapters: Iterable[Chapter]) -> Iterator[Rule]:
    for chapter in chapters:
        if chapter.needs is not None:
            yield _Sleeping(chapter.module, chapter.needs, chapter.rules)
        else:
            yield from chapter.rules()


def _rules_of_system(name: str) -> Iterator[Rule]:
    return (rule for _, rules in _of_system(name) for rule in rules)


def _of_system(name: str) -> Iterator[tuple[str, Sequence[Rule]]]:
    for system, make in declared(lambda system: system.rules if system.name == name else None):
        try:
            rules = tuple(make())
        except Exception as error:  # systems.Y2: a system that fails is a problem, and ends nothing
            note_problem(system.name, "its rules can't be made", error)
        else:
            yield system.title, [_guarded(rule, system.name) for rule in rules]


def _chapters() -> Iterator[tuple[str, Sequence[Rule]]]:
    """Yield all chapters in order of precedence: of findings of equal weight, the first one is the verdict."""
    yield from ((chapter.title, chapter.rules()) for chapter in PROVED)
    for system in systems():
        yield from _of_system(system.name)
    yield from ((chapter.title, chapter.rules()) for chapter in GENERAL)
