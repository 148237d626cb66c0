"""Real jobs whose ranks wait in what no recorder has: sends, receives, monitored barriers; and roots that differ."""

from __future__ import annotations

from typing import Any

from tests.adapters.pytorch.conftest import PROGRAM, Job, hung, sentence
from tests.reports import STALL_S, line_of, report_when

FETCH = f"in fetch_batch (torch_jobs.py:{line_of('return batches.get()', PROGRAM)}) on a queue that nobody fills"
MUTUAL = line_of("dist.recv(torch.ones(8), 1 - me.rank, group=me.dp)", PROGRAM)

NOBODY = "Ranks 0 and 1 both receive from each other (torch_jobs.py:{}); no matching send was seen."


def test_two_ranks_that_receive_from_each_other(job: Job) -> None:
    said = hung(job("mutual", 2), "stalled", "both receive from each other")
    assert sentence(said) == NOBODY.format(MUTUAL)


def test_another_thread_may_send(job: Job) -> None:
    said = hung(
        job("feeder", 2), "unknown", "both receive from each other", "another of their threads may do it in feed"
    )
    assert f"(torch_jobs.py:{line_of('            time.sleep(3600)', PROGRAM)})." in sentence(said)


def test_a_broadcast_from_two_ranks(job: Job) -> None:
    said = hung(job("wrong_root"), "stalled", "broadcast #5 of group dp: rank 2 expects it from rank 1 (torch_jobs.py:")
    where = f"(torch_jobs.py:{line_of('1 if me.last else 0, group=me.dp', PROGRAM)})"
    assert sentence(said).endswith(f"rank 2 expects it from rank 1 {where}, the others from rank 0 {where}.")


def test_a_monitored_barrier_that_a_rank_does_not_come_to(job: Job) -> None:
    said = hung(job("monitored"), "stalled", "Rank 2 of 3 is not in monitored_barrier: it waits in ")
    assert FETCH in sentence(said) and sentence(said).endswith("; ranks 0, 1 wait for it.")


def test_a_chain_of_receivers_goes_on_to_the_first_stage(job: Job) -> None:
    said = hung(
        job("stages"), "stalled", "Rank 1 waits in recv from rank 0 (torch_jobs.py:", "; ranks 1, 2 wait for it."
    )
    assert "which does not send: it waits " + FETCH in sentence(said)


def test_a_receiver_whose_sender_computes(job: Job) -> None:
    def is_said(one: dict[str, Any]) -> bool:
        return "which does not send: it computes" in one["verdict"]["sentence"]

    said = report_when(job("slow_stage"), is_said, stall_s=STALL_S)
    assert (said["verdict"]["state"], said["exit"]) in (("running", 0), ("unknown", 5))


def test_a_rank_that_does_not_come_to_a_new_group(job: Job) -> None:
    said = hung(
        job("late_group"), "stalled", "2 of 3 ranks are in new_group (torch_jobs.py:", "; rank 2 does not come: "
    )
    assert FETCH in sentence(said)


def test_a_rank_that_does_not_join_the_job(job: Job) -> None:
    said = hung(job("starts"), "stalled", "2 of 3 ranks are in init_process_group (", "; rank 2 does not come: ")
    assert FETCH in sentence(said)


def test_two_ranks_that_wait_for_what_they_have_posted(job: Job) -> None:
    said = hung(job("posted_wait", 2), "stalled", "both receive from each other")
    line = line_of("awaited.wait()", PROGRAM)
    assert sentence(said) == NOBODY.format(line)


def test_a_key_of_the_store_that_nobody_sets(job: Job) -> None:
    said = hung(
        job("keys"), "stalled", "Ranks 0, 1 wait for key 'shards/ready' of the store (torch_jobs.py:", "rank 2: "
    )
    assert FETCH in sentence(said) and "stop" not in sentence(said)


def test_what_a_worker_was_asked_for_by_rpc(job: Job) -> None:
    said = hung(job("asks", 2), "stalled", "Rank 1 waits for serves of worker0 in asks (torch_jobs.py:")
    line = line_of("return batches.get()", PROGRAM)
    assert f"worker0 waits in Queue.get() in fetch_batch (torch_jobs.py:{line}) for " in sentence(said)
