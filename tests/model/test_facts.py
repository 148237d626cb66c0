"""Facts of systems: read back as they were, live and from a recording; what is no such fact is none."""

from __future__ import annotations

import msgspec
import pytest

from livedbg.model import Diagnostic, Resource, Severity
from livedbg.model import events as ev
from livedbg.model.facts import DescriptorFacts, Facts, GroupFacts, LockFacts, MessageFacts, facts_of, facts_shown
from livedbg.recording.file import renamed
from livedbg.session.redaction import Redaction

STAMP = ev.Stamp(host="box", mono_ns=1, wall_ns=1)


class ToyFacts(Facts, frozen=True, kw_only=True, tag="toy"):
    """Of a system that the core does not know."""

    count: int = 0
    words: str = ""


def resource(facts: object, kind: str = "toy", attributes: dict[str, str] | None = None) -> ev.ResourcesSeen:
    known = Resource(id=f"{kind}:box/1", kind=kind, facts=facts, attributes=attributes or {})
    return ev.ResourcesSeen(resources=(known,), **STAMP)


@pytest.mark.invariant("facts.F1")
@pytest.mark.parametrize("facts", [ToyFacts(count=3), GroupFacts(throttled=0.5, killed=2), LockFacts(ended_owner=7)])
def test_F1_facts_are_read_back_from_a_recording(facts: Facts) -> None:
    event = ev.decode(ev.encode(resource(facts)))
    assert isinstance(event, ev.ResourcesSeen)
    assert facts_of(event.resources[0].facts, type(facts)) == facts == facts_of(facts, type(facts))
    assert event.resources[0].shown() == facts_shown(facts) != {}
    assert ev.decode(ev.encode(event)) == event


@pytest.mark.invariant("facts.F2")
@pytest.mark.parametrize("facts", [None, "x", 3, {"of": "toy"}, {"of": "lock", "ended_owner": "?"}, ToyFacts(count=1)])
def test_F2_what_is_no_such_fact_is_none(facts: object) -> None:
    assert facts_of(facts, LockFacts) == LockFacts()


def test_facts_of_an_unknown_system_are_shown_as_they_are() -> None:
    assert facts_shown({"of": "new", "a": 1, "b": "x", "c": True, "d": "", "e": 0.25}) == {
        "a": "1", "b": "x", "c": "yes", "e": "0.25",
    }  # fmt: skip


@pytest.mark.parametrize("decoded", [False, True])
def test_secrets_in_facts_are_masked(decoded: bool) -> None:
    event = resource(ToyFacts(words="password=hunter2hunter2"))
    event = msgspec.convert(msgspec.to_builtins(event), ev.ResourcesSeen) if decoded else event
    (masked,) = Redaction().of([event])
    assert isinstance(masked, ev.ResourcesSeen)
    assert "hunter2hunter2" not in facts_of(masked.resources[0].facts, ToyFacts).words


OF_SIGNATURE = {
    "signature": "kernel-oom", "ends": "perhaps", "order": "4", "until": "5", "source": "log:/x", "pid": "4711",
    "next": "ask for more\nask for less", "interpreter": "yes", "warned": "warning", "xid": "31",
}  # fmt: skip
OF_DECODER = {"order": "8", "source": "log:/x", "dispatch": "1:2:3", "next": "info threads"}
OF_A_SYSTEM = {"scope": "ascend", "source": "log:/x", "next": "read it"}


@pytest.mark.invariant("recording.O1")
@pytest.mark.parametrize(
    ("texts", "known"),
    [
        (OF_SIGNATURE,
         MessageFacts(signature="kernel-oom", ends="perhaps", first=4, last=5, pid=4711, warned=True,
                      steps=("ask for more", "ask for less"), marks=("interpreter",), values=OF_SIGNATURE)),
        (OF_SIGNATURE | {"pid": "", "count": "3", "over": "yes"},
         MessageFacts(signature="kernel-oom", ends="perhaps", first=4, last=5, count=3, warned=True, over=True,
                      steps=("ask for more", "ask for less"), marks=("interpreter", "over"),
                      values=OF_SIGNATURE | {"pid": "", "count": "3", "over": "yes"})),
        (OF_DECODER, MessageFacts(first=8, steps=("info threads",), values=OF_DECODER)),
        (OF_A_SYSTEM, None),
    ],
)  # fmt: skip
def test_O1_messages_whose_facts_were_texts(texts: dict[str, str], known: Facts | None) -> None:
    said = Diagnostic(id="d", system="s", code="c", severity=Severity.ERROR, sentence="", attributes=texts)
    event = renamed(ev.DiagnosticSeen(diagnostic=said, **STAMP))
    assert isinstance(event, ev.DiagnosticSeen)
    assert event.diagnostic.facts == known
    assert event.diagnostic.attributes == ({} if known is not None else texts)
    assert renamed(event) == event


@pytest.mark.invariant("facts.F2")
def test_F2_what_a_signature_took_is_read_as_typed_values() -> None:
    assert MessageFacts(values={"count": "3", "words": "", "more": "x"}).read(ToyFacts) == ToyFacts(count=3)
    assert MessageFacts(values={"count": "three"}).read(ToyFacts) == ToyFacts()


@pytest.mark.invariant("recording.O1")
@pytest.mark.parametrize(
    ("kind", "text", "known"),
    [
        ("mutex", {"owner": "99 (exited)", "kind": "normal"}, LockFacts(ended_owner=99)),
        ("mutex", {"owner": "99"}, None),
        ("pylock", {"forked": "likely", "evidence": "a thread has it"},
         LockFacts(forked="likely", inherited="a thread has it")),
        ("descriptors", {"limit": "1024"}, DescriptorFacts(limit=1024)),
        ("cgroup", {"throttled": "0.9", "cores": "0.5", "under_oom": "yes", "memory_limit": "1.0 GiB"},
         GroupFacts(throttled=0.9, cores=0.5, under_oom=True)),
        ("pipe", {"outside": "a FIFO", "wake-up": "x"}, None),
    ],
)  # fmt: skip
def test_O1_what_was_text_in_old_recordings_is_read_as_facts(
    kind: str, text: dict[str, str], known: Facts | None
) -> None:
    event = renamed(resource(None, kind, text))
    assert isinstance(event, ev.ResourcesSeen)
    (seen,) = event.resources
    assert seen.facts == known
    assert (seen.outside, seen.wakes_itself) == (text.get("outside", ""), "wake-up" in text)
    assert renamed(event) == event
