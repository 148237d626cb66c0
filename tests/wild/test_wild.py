"""What livedbg says of logs of failed jobs that nobody here wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.sentences import golden, written
from tests.wild.judging import GRADES, Said, graded, report
from tests.wild.not_yet import not_yet, not_yet_wrapped
from tests.wild.padding import padded
from tests.wild.texts import Text, texts
from tests.wild.wrapping import EACH, like_bare, pairs, rotation
from tests.wild.wrappings import RANKED, WRAPPINGS, wrapped

TEXTS = texts()
BY_ID = {text.id: text for text in TEXTS}
ROTATION = rotation(TEXTS)


@pytest.mark.parametrize("text", TEXTS, ids=list(BY_ID))
def test_a_log_that_nobody_here_wrote(text: Text) -> None:
    said, listed = report(text.logs), not_yet().get(text.id, "right")
    grade = graded(text, said)
    assert written(said) == golden()[text.name], "python -m tests.golden --write, and read what changed"
    assert GRADES.index(grade) <= GRADES.index(listed), said
    assert (grade == "right") == (listed == "right"), f"not_yet.toml lists it: {said}"


def test_the_table_names_texts_that_are_there_and_none_that_livedbg_is_wrong_about() -> None:
    assert set(not_yet()) <= set(BY_ID)
    assert set(not_yet().values()) <= {"partly", "unknown"}
    for name, ids in not_yet_wrapped().items():
        assert set(ids) <= {text.id for text in ROTATION[name]}


@pytest.mark.parametrize("name", WRAPPINGS)
def test_the_same_text_gets_the_same_verdict_in_a_wrapping(name: str, tmp_path: Path) -> None:
    other = {text.id: said for text in ROTATION[name] if (said := like_bare(text, name, tmp_path / text.id))}
    assert sorted(other) == not_yet_wrapped().get(name, []), "\n".join(f"{k}: {v}" for k, v in other.items())


def test_a_failure_at_the_end_of_a_long_log(tmp_path: Path) -> None:
    text = BY_ID["th-cuda-index-trl"]
    padded(text, tmp_path, "end", 2 << 20)  # 200 MB: `make wild`
    assert graded(text, report(tmp_path)) == "right"


def test_every_text_is_tried_in_wrappings_and_every_wrapping_with_texts() -> None:
    tried = [text.id for chosen in ROTATION.values() for text in chosen]
    assert all(tried.count(text.id) == EACH for text in TEXTS)
    assert min(len(chosen) for chosen in ROTATION.values()) >= 3
    assert len(set(pairs(TEXTS))) == len(list(pairs(TEXTS)))


def test_a_text_that_names_ranks_is_not_said_to_be_of_another_rank() -> None:
    ranked = [name for text, name in pairs(TEXTS) if text.id == "nccl-03-oom-root"]
    assert ranked
    assert not RANKED.intersection(ranked)


def test_wrapped_lines_hold_the_text() -> None:
    text = "Traceback (most recent call last):\n\nKeyError: 'x'\n"
    for name in WRAPPINGS:
        lines = wrapped(name, text).split("\n")
        assert any("KeyError: " in line for line in lines), name
        assert wrapped(name, text).endswith("\n")
    assert wrapped("srun", text) == "3: Traceback (most recent call last):\n3: \n3: KeyError: 'x'\n"


def _said(state: str, code: int, sentence: str = "It is so.") -> Said:
    return Said(state=state, code=code, sentence=sentence, sentences=sentence, all=sentence)


def test_grades() -> None:
    text = Text(
        id="a", kind="k", source="s", reading="r", culprit="c", next="n",
        state=("crashed",), mention=("Rank 3", "7"), never=("fine",),
    )  # fmt: skip
    assert graded(text, _said("crashed", 11, "rank 3 ended, code 7")) == "right"
    assert graded(text, _said("crashed", 11, "rank 3 ended, code 77")) == "partly"
    assert graded(text, _said("crashed", 11, "rank 3 is Fine, code 7")) == "wrong"
    assert graded(text, _said("unknown", 5)) == "unknown"
    assert graded(text, _said("exited", 0)) == "silent"
    assert graded(text, _said("unknown", 0)) == "silent"
    assert graded(text, _said("stalled", 10)) == "wrong"
    assert len(GRADES) == 5
