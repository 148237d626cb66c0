"""What the names of logs tell of their rank, attempt and host, and which numbers tell nothing."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from livedbg.logs.clock import SourceClock
from livedbg.logs.lines import LineCutter
from livedbg.logs.naming import attempt_of, beside, older_attempts, tag_of, tag_of_names, told_by_name
from livedbg.logs.records import RecordAssembler
from livedbg.model import LogSource

NO_RANK = (
    *("checkpoint_3.log", "2026-03-04.log", "run2.log", "step_100.log", "log.1", "rank.log", "frank3.log"),
    *("lora_rank8.log", "lora-rank-16/train.log", "low_rank_4.out", "tp_rank_1.log", "mp_rank_00.log"),
    "node_rank_1.log",
    *("slurm-4711_4.out", "job.o123", "run-2026-03-04.out", "epoch-0-1-2.log", "gpu0.log", "device-1.log"),
    *("train-48213-0-1.out", "run3/stderr.log", "attempt_1.log", "3/stderr.log", "worker.log"),
    "coworker-2.log",
)  # fmt: skip


@pytest.mark.invariant("naming.N1")
@pytest.mark.parametrize("name", NO_RANK)
def test_N1_a_number_that_counts_something_else_is_no_rank(name: str) -> None:
    assert tag_of_names(name).rank is None
    assert not tag_of_names(name).host


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        *(("rank_2.log", 2), ("rank-2.out", 2), ("Rank2.txt", 2), ("rank3.log.1", 3), ("rank2/stderr.log", 2)),
        *(("logs/train_rank7_log.txt", 7), ("global_rank_5.log.gz", 5), ("local_rank_1.log", 1)),
        *(("tp_rank_0-rank_3.log", 3), ("worker-1.err", 1), ("trainer_2.log", 2), ("worker-1/stdout.log", 1)),
    ],
)
def test_a_name_that_says_rank_tells_it(name: str, rank: int) -> None:
    assert (tag_of_names(name).rank, tag_of_names(name).writer) == (rank, f"rank {rank}")


@pytest.mark.parametrize(
    ("name", "host"),
    [
        *(("node3.log", "node3"), ("node-12/stderr.log", "node-12"), ("nid001234.out", "nid001234")),
        *(("train-worker-3.log", "train-worker-3"), ("llm-master-0/main.log", "llm-master-0")),
        ("node3/local_rank_1.log", "node3"),
    ],
)
def test_a_host_or_a_pod_is_told_and_is_no_rank(name: str, host: str) -> None:
    tag = tag_of_names(name)
    assert (tag.host, tag.rank, tag.writer) == (host, None, host)


def test_a_rank_on_a_host_is_told_with_the_host() -> None:
    assert tag_of_names("node3/rank_9.log")[:2] == ("rank 9", 9)
    assert tag_of_names("node3/rank_9.log").host == "node3"


def test_a_worker_beside_a_master_is_not_told_by_its_number() -> None:
    assert tag_of_names("worker-0.err", ("master-0.err", "worker-0.err")).rank is None
    assert tag_of_names("worker-0.err", ("worker-1.err", "worker-0.err")).rank == 0


def test_tasks_of_one_slurm_job_are_ranks_where_several_are_there() -> None:
    names = ("train-48213-0-0.out", "train-48213-0-1.out", "train-48213-node1-2.out")
    assert [tag_of_names(name, names).rank for name in names] == [0, 1, 2]
    others = ("train-48213-0-0.out", "train-48214-0-1.out")
    assert [tag_of_names(name, others).rank for name in others] == [None, None]
    days = ("run-2026-03-00.out", "run-2026-03-01.out")
    assert [tag_of_names(name, days).rank for name in days] == [None, None]


def _log(path: str, size: int | None = 10) -> LogSource:
    name = path.partition("/job/")[2] or path
    return told_by_name(LogSource(id=f"log:box{path}", name=name, path=path, size=size), name)


def test_torchelastics_folders_tell_attempt_and_rank() -> None:
    source = _log("/srv/job/none_x1/attempt_1/3/stderr.log")
    assert (source.attempt, source.rank) == (1, 3)
    named = LogSource(id="log:box/a", name="stderr.log", path="/srv/job/none_x1/attempt_0/2/stderr.log")
    named = told_by_name(named, "stderr.log")
    assert (named.attempt, named.rank) == (0, 2)
    assert attempt_of("/srv/job/attempt_0.log") is None


@pytest.mark.invariant("naming.N2")
def test_a_later_attempt_of_the_same_job_replaces_an_earlier_one_once_it_has_written() -> None:
    first, second = _log("/srv/job/a/attempt_0/0/stderr.log"), _log("/srv/job/a/attempt_1/0/stderr.log")
    other, empty = _log("/srv/job/b/attempt_1/0/stderr.log"), _log("/srv/job/a/attempt_1/0/stdout.log", 0)
    assert older_attempts([first, second]) == {first.id: "attempt 0, and there is attempt 1"}
    assert older_attempts([first, other, empty]) == {}


def test_folders_and_logs_beside_a_log() -> None:
    found = beside([PurePath("/a/x/one.log"), PurePath("/a/y/two.log")])
    assert found[PurePath("/a/x")] == {"one.log", "x", "y"}


def test_records_say_whose_log_they_are_in_unless_their_line_says_otherwise() -> None:
    source = _log("/srv/job/rank_2.log")
    assembler = RecordAssembler(source.id, SourceClock(), own=tag_of(source))
    lines = LineCutter().feed(b"step 1\n[rank5]: step 2\n(Engine pid=77) step 3\n")
    records = [*assembler.feed(lines), *assembler.flush()]
    assert [(one.text, one.rank, one.pid) for one in records] == [
        ("step 1", 2, None),
        ("step 2", 5, None),
        ("step 3", 2, 77),
    ]
    assert [one.writer for one in records[:2]] == ["rank 2", "rank 5"]


def test_a_log_whose_name_tells_nothing_has_records_without_a_writer() -> None:
    source = _log("/srv/job/step_100.log")
    assert source == LogSource(id=source.id, name=source.name, path=source.path, size=10)
    assembler = RecordAssembler(source.id, SourceClock(), own=tag_of(source))
    (record,) = [*assembler.feed(LineCutter().feed(b"step 1\n")), *assembler.flush()]
    assert (record.writer, record.rank, record.host) == ("", None, "")
