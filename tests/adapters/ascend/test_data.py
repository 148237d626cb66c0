"""The room's data: forms of lines, words of reports, codes; and facts as recordings have them."""

from __future__ import annotations

import re

import msgspec
import pytest

from livedbg.adapters.ascend.compile_reader import compile_lines
from livedbg.adapters.ascend.facts import ReportFacts, RunFacts, StallFacts, TaskFacts, scope_of
from livedbg.adapters.ascend.messages import Form, classify, forms
from livedbg.adapters.ascend.reports import Kind, report_facts, texts
from livedbg.model import Diagnostic, Severity, Task
from livedbg.model.facts import read_facts
from livedbg.signatures.templates import names_in

FORMS = [*forms(), *texts().forms, *compile_lines().forms]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.kind}-{form.word}")
def test_a_form_has_its_word_and_its_examples(form: Form) -> None:
    re.compile(form.pattern)
    for line in form.examples:
        assert form.word in line and form.fields(line) is not None


@pytest.mark.parametrize("form", [form for form in forms() if form.examples], ids=lambda form: form.kind)
def test_a_message_is_what_its_form_says(form: Form) -> None:
    for line in form.examples:
        message = classify(line, True)
        assert message is not None and message.kind == form.kind
        assert form.bare == (classify(line, False) is not None)


def test_what_lines_tell_has_a_place_in_a_report() -> None:
    kept = set(ReportFacts.__struct_fields__) | {"code", "block"}
    for form in texts().forms:
        assert {name.rstrip("0123456789") for name in re.compile(form.pattern).groupindex} <= kept, form.word


def test_each_kind_of_report_has_words_whatever_is_known_of_it() -> None:
    assert {said.kind for said in texts().said if not said.needs} == {kind.value for kind in Kind}
    for said in texts().said:
        assert names_in(said.sentence) or said.kind == "exit"
        for step in said.next:
            assert not step.startswith("@") or step == "@{look}" or step[1:] in texts().steps


def diagnostic(**said: object) -> Diagnostic:
    return Diagnostic(
        id="ascend/x",
        system="ascend",
        code="x",
        severity=Severity.ERROR,
        sentence="",
        **said,  # type: ignore[arg-type]
    )


def test_facts_are_the_same_live_in_a_recording_and_as_the_texts_of_before() -> None:
    run = RunFacts(scope="ascend/dev1", quiet=True, completed=0, total=4, limit_s=60.0, began_wall_ns=7)
    texts_ = {"scope": "ascend/dev1", "quiet": "yes", "completed": "0", "total": "4", "limit_s": "60", "memory": "no"}
    recorded = msgspec.json.decode(msgspec.json.encode(diagnostic(facts=run)), type=Diagnostic)
    for said in (diagnostic(facts=run), recorded, diagnostic(attributes={**texts_, "began_wall_ns": "7"})):
        assert read_facts(said, RunFacts) == run
        assert scope_of(said) == "ascend/dev1"
    assert read_facts(recorded, StallFacts) == StallFacts()  # of another kind
    assert read_facts(diagnostic(attributes={**texts_, "total": "many"}), RunFacts) == RunFacts()  # damaged
    task = Task(id="task:ascend/r0t1", system="ascend", name="r0t1", attributes={"deferred": "yes", "local": "1"})
    assert read_facts(task, TaskFacts) == TaskFacts(deferred=True, local=1)


def test_a_report_of_an_old_recording_says_who_it_is_about() -> None:
    texts_ = {
        "kind": "fault",
        "owner": "(VllmWorker TP1 pid=961)",
        "codes": "507015 107022",
        "lines": "3 4",
        "core": "5",
    }
    known = report_facts(diagnostic(attributes={**texts_, "raised": "yes", "tag": "HcomAllReduce_1"}))
    assert (known.who, known.codes, known.lines, known.core) == (
        "VllmWorker TP1 (pid 961)",
        (507015, 107022),
        (3, 4),
        "5",
    )
    assert (known.raised, known.operation) == (True, "AllReduce")
