"""Real jobs that checkpoints, DataLoaders, autograd, dead processes and lack of descriptors hold up, and what looks
like them and is healthy. `make jobs` runs all cases, also those that cost more."""

from __future__ import annotations

from livedbg.linux.procfs import child_pids
from tests.adapters.pytorch.conftest import FURTHER, LIBRARIES, Job, hung, sentence
from tests.reports import line_of, report_when, stalled_report_when

TAKE = f"take_row (torch_library_cases.py:{line_of('return rows.get()', LIBRARIES)})"


def test_a_worker_of_a_dataloader_that_hangs(job: Job) -> None:
    said = hung(job("loader_hangs", 2), "stalled", "Rank 1 of 2 has not entered all_reduce #", "its DataLoader waits")
    assert f"for a worker: it waits in Queue.get() in {TAKE} for " in sentence(said)


def test_a_worker_of_a_dataloader_that_is_slow(job: Job) -> None:
    line = line_of("time.sleep(25) if me.last", LIBRARIES)
    said = hung(job("loader_slow", 2), "unknown", "its DataLoader waits for a worker: it waits in sleep() in ")
    assert f"torch_library_cases.py:{line})" in sentence(said)


def test_a_rank_whose_worker_was_killed_and_that_waits_for_another_shard(job: Job) -> None:
    said = hung(job("loader_killed", 2), "stalled", "Rank 1 of 2 has not entered all_reduce #")
    assert f"it waits in {TAKE} on a queue that nobody fills; rank 0 waits for it." in sentence(said)


def test_a_rank_that_was_killed(job: Job) -> None:
    launcher = job("killed", 2)
    # and rank 0 has come so far as to wait
    said = report_when(launcher, lambda one: "was ended by SIGKILL; rank 0 waits" in one["verdict"]["sentence"])
    assert (said["verdict"]["state"], said["exit"]) == ("crashed", 11)
    line = line_of('store.get("shards/ready")', LIBRARIES)
    assert sentence(said) == (
        f"Rank 1 of 2 (process {child_pids(launcher)[1]}) was ended by SIGKILL; rank 0 waits for key 'shards/ready' of "
        f"the store (torch_library_cases.py:{line})."
    )


def test_a_checkpoint_into_a_pipe_that_nobody_reads(job: Job) -> None:
    def meant(one: dict[str, object]) -> bool:
        stalled = one["verdict"]["state"] == "stalled"  # and not yet: a wait of 2.9 s is none
        return stalled and "Rank 0 of 2 has not entered barrier #1" in str(one["findings"])

    said = stalled_report_when(job("checkpoint_pipe", 2), meant)
    assert said["exit"] == 10
    assert TAKE in sentence(said)  # of who should read it
    (missing,) = [one["sentence"] for one in said["findings"] if one["rule"] == "collective-missing"]
    assert "it waits for a task of a thread pool: it waits in write to pipe " in missing


def test_a_checkpoint_into_a_pipe_that_is_read_slowly_is_no_stall(job: Job) -> None:
    hung(job("checkpoint_read", 2), "unknown", "it waits for a task of a thread pool: it waits in write to pipe ")


def test_a_rank_that_can_open_no_more_files(job: Job) -> None:
    words = ("Rank 1 of 2 has not entered all_reduce #5", " in _open_shards (", "; it has all ", " files open that it")
    said = hung(job("descriptors_used_up", 2), "unknown", *words)
    assert "descriptors-used-up" in {one["rule"] for one in said["findings"]}


def test_ranks_with_few_descriptors_left_run(job: Job) -> None:
    said = report_when(job("descriptors_nearly", 2), lambda one: one["verdict"]["state"] == "running")
    assert said["exit"] == 0 and "descriptors-used-up" not in {one["rule"] for one in said["findings"]}


def test_a_backward_pass_that_takes_the_lock_of_its_caller(job: Job) -> None:
    said = report_when(job("autograd_lock", 2), lambda one: one["verdict"]["state"] == "deadlock")
    line = line_of("with Logged.lock:", LIBRARIES)
    assert said["exit"] == 10
    assert f"waits in Logged.backward (torch_library_cases.py:{line}) for a Python lock that it holds its" in sentence(
        said
    )


def test_ranks_that_exchange_messages_in_a_ring_run(job: Job) -> None:
    words = "Running: all 3 ranks have exchanged messages in "
    assert report_when(job("ring"), lambda one: one["verdict"]["sentence"].startswith(words))["exit"] == 0


def test_a_ring_of_messages_that_a_rank_does_not_come_to(job: Job) -> None:
    said = hung(job("ring_stuck"), "stalled", f"it waits in {TAKE} on a queue that nobody fills; ranks 0, 1 wait for")
    assert "rank 2" in sentence(said)


def test_a_helper_that_enters_collectives_hides_no_missing_rank(job: Job) -> None:
    said = hung(
        job("heartbeat"), "unknown", "Rank 2 of 3 has not entered all_reduce #5 of group dp: it waits in Queue.get"
    )
    assert f"next_item (torch_further_cases.py:{line_of('return items.get()', FURTHER)})" in sentence(said)


def test_a_child_that_is_joined_before_what_it_gives_is_read(job: Job) -> None:
    said = hung(job("joined_before_read", 2), "stalled", "Rank 1 of 2 has not entered all_reduce #5", "waitpid of ")
    assert ", and the child waits in write to pipe " in sentence(said)
