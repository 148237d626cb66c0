"""Flight Recorder dumps as files: captured from a hung job of four ranks, and made by hand for the edges."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from livedbg.adapters.pytorch.recorder_dumps.adapter import (
    BadDump,
    Dump,
    compare,
    load_plain,
    looks_like_dump,
    rank_in_name,
    read_dump,
)
from livedbg.adapters.pytorch.recorder_dumps.saved import save
from livedbg.linux.procfs import child_pids
from livedbg.model import Process
from livedbg.model.events import ProcessSeen, Stamper
from livedbg.state.store import Store
from tests.adapters.pytorch.conftest import Job, hung, sentence
from tests.cli.zygote import run_livedbg
from tests.conftest import TARGETS

FIXTURES = TARGETS.parent / "fixtures" / "pytorch"
BEGAN = 10**18


def entry(record: int, sequence: int, name: str = "all_reduce", **more: Any) -> dict[str, Any]:
    row = {
        "record_id": record,
        "process_group": ["1", "dp"],
        "profiling_name": f"nccl:{name}",
        "time_created_ns": BEGAN + record,
        "collective_seq_id": sequence,
        "input_sizes": [[8]],
        "output_sizes": [[8]],
        "state": "started",
        "retired": False,
    }
    return row | more


def dump_of(folder: Path, rank: int, *entries: object, age_s: float = 60, **more: Any) -> Path:
    path = folder / f"nccl_trace_rank_{rank}"
    whole = {"version": "2.10", "pg_config": {"1": {"name": "1", "desc": "dp", "ranks": "[0, 1, 2]"}}}
    path.write_bytes(pickle.dumps(whole | {"entries": list(entries)} | more, protocol=2))
    os.utime(path, ns=(BEGAN + int(age_s * 1e9),) * 2)
    return path


DONE = entry(0, 1, state="completed")


def said(folder: Path) -> list[str]:
    dumps = [read_dump(path) for path in sorted(folder.iterdir())]
    return [one.sentence for one in compare(dumps)]


@pytest.mark.parametrize("kind", ["hung_dp", "hung_dp_pickles"])
def test_dumps_of_a_hung_job_name_the_rank_at_the_root(kind: str, tmp_path: Path) -> None:
    """Rank 3, whom torchrun blames, is a victim: it waits for rank 2 in another group."""
    folder = tmp_path / "dumps"
    shutil.copytree(FIXTURES / kind, folder)
    done = run_livedbg(["report", "--logs", folder, "--json"], 150)
    report = json.loads(done.stdout)
    assert (report["verdict"]["state"], done.returncode) == ("unknown", 5)
    sentence = report["verdict"]["sentence"]
    assert sentence.startswith(
        "Rank 2 of 4 had not entered all_reduce #6 of group dp when the Flight Recorders were dumped"
    )
    assert "ranks 0, 1, 3 waited for it" in sentence
    if kind == "hung_dp_pickles":
        assert "its last was all_reduce #5 of dp (train.py:39)" in sentence
    assert [one["inferred"] for one in report["findings"]] == [True]


def test_who_calls_something_else_is_named_first(tmp_path: Path) -> None:
    for rank in range(2):
        dump_of(tmp_path, rank, DONE, entry(1, 2))
    dump_of(tmp_path, 2, DONE, entry(1, 2, input_sizes=[[16]]))
    assert said(tmp_path) == [
        "all_reduce #2 of group dp was not the same on all ranks: rank 2: all_reduce [16]; ranks 0, 1: all_reduce [8]."
    ]


def verdict(folder: Path) -> tuple[str, int]:
    done = run_livedbg(["report", "--logs", folder, "--json"], 150)
    return json.loads(done.stdout)["verdict"]["state"], done.returncode


@pytest.mark.invariant("rules_notes.D1")
def test_D1_only_calls_that_differ_are_a_stall(tmp_path: Path) -> None:
    """Those of a healthy job look the same but for the time of the files, which is that of their last copy."""
    for rank in range(2):
        dump_of(tmp_path, rank, DONE, entry(1, 2), age_s=86_400)
    dump_of(tmp_path, 2, DONE, age_s=86_400)
    assert verdict(tmp_path) == ("unknown", 5)
    dump_of(tmp_path, 2, DONE, entry(1, 2, "broadcast"), age_s=86_400)
    assert verdict(tmp_path) == ("stalled", 10)


def test_ranks_that_wait_for_each_other(tmp_path: Path) -> None:
    other = {"process_group": ["2", "ep"]}
    config = {str(n): {"name": str(n), "desc": d, "ranks": "[0, 1, 2]"} for n, d in ((1, "dp"), (2, "ep"))}
    for rank in range(2):
        dump_of(tmp_path, rank, DONE, entry(1, 2), pg_config=config)
    dump_of(tmp_path, 2, DONE, entry(1, 1, **other), pg_config=config)
    (sentence,) = said(tmp_path)
    assert sentence == (
        "Ranks 0, 1 waited in all_reduce #2 of group dp; rank 2 waited in all_reduce #1 of group ep: the ranks did not "
        "call the same in one order."
    )


def test_a_dump_that_is_missing_is_said_and_no_stall(tmp_path: Path) -> None:
    for rank in range(2):
        dump_of(tmp_path, rank, DONE, entry(1, 2))
    assert said(tmp_path) == ["Ranks 0, 1 waited in all_reduce #2 of group dp; there is no dump of rank 2."]
    done = run_livedbg(["report", "--logs", tmp_path, "--json"], 150)
    assert done.returncode == 5 and json.loads(done.stdout)["verdict"]["state"] == "unknown"


def test_dumps_of_a_healthy_job_are_no_stall(tmp_path: Path) -> None:
    """Something is pending in half of the looks at a healthy job, for a moment; or nothing is."""
    for rank in range(2):
        dump_of(tmp_path, rank, DONE, entry(1, 2), age_s=0.5)
    dump_of(tmp_path, 2, DONE, age_s=0.5)
    done = run_livedbg(["report", "--logs", tmp_path, "--json"], 150)
    assert done.returncode == 5 and "Rank 2 of 3 had not entered" in json.loads(done.stdout)["verdict"]["sentence"]
    for rank in range(3):
        dump_of(tmp_path, rank, DONE)
    assert said(tmp_path) == []


@pytest.mark.invariant("compared.R1")
def test_R1_a_rank_that_waits_itself_is_not_the_root(tmp_path: Path) -> None:
    config = {
        "1": {"name": "1", "desc": "dp", "ranks": "[0, 1, 2]"},
        "2": {"name": "2", "desc": "tp", "ranks": "[1, 2]"},
    }
    dump_of(tmp_path, 0, DONE, entry(1, 2), pg_config=config)
    dump_of(tmp_path, 1, DONE, entry(1, 1, process_group=["2", "tp"]), pg_config=config)
    dump_of(tmp_path, 2, DONE, pg_config=config)
    (sentence,) = said(tmp_path)
    assert sentence.startswith("Rank 2 of 3 had not entered") and "ranks 0, 1 waited for it" in sentence


@pytest.mark.invariant("compared.D1")
def test_D1_one_bad_entry_costs_that_entry(tmp_path: Path) -> None:
    bad: list[object] = [{"record_id": "x"}, 7, entry(9, 9, process_group="1"), entry(3, 3, time_created_ns=None)]
    path = dump_of(tmp_path, 0, DONE, *bad, entry(4, 4))
    assert [one.record for one in read_dump(path).entries] == [0, 4]
    with pytest.raises(BadDump, match="not those of a Flight Recorder"):
        read_dump(dump_of(tmp_path, 1, *bad))


def test_files_that_are_no_dumps(tmp_path: Path) -> None:
    def bad(name: str, data: bytes, words: str) -> None:
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(BadDump, match=words):
            read_dump(path)

    bad("trace_rank_", pickle.dumps({"entries": []}), "does not end with the number of a rank")
    bad("rank_1", pickle.dumps([1, 2]), "not a dump")
    bad("rank_1", pickle.dumps({"entries": 3}), "no entries")
    bad("rank_1", pickle.dumps({"entries": [entry(0, 1)]})[:-20], "cut short or damaged")
    bad("rank_1.json", b'{"entries": [', "no whole JSON")
    bad("rank_1.json", b'{"entries": ' + b"[" * 100_000, "no whole JSON")
    assert rank_in_name("nccl_trace_rank_12") == 12 and rank_in_name("fr.rank3.json") == 3
    assert rank_in_name("model.bin") is None and rank_in_name("x99999999999") is None
    (tmp_path / "log_7").write_text("2026-11-23 step 7\n")
    assert not looks_like_dump(tmp_path / "log_7") and not looks_like_dump(tmp_path / "none_7")


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("evil"),))


@pytest.mark.invariant("compared.A1")
def test_R1_a_pickle_that_names_a_function_calls_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for protocol in range(6):
        with pytest.raises(BadDump, match=r"wants to use|cut short or damaged"):
            load_plain(pickle.dumps({"entries": [Evil()]}, protocol=protocol))
    assert not (tmp_path / "evil").exists()
    written = io.BytesIO()
    refers = pickle.Pickler(written)
    refers.persistent_id = lambda what: "x" if what == 5 else None  # type: ignore[method-assign]
    refers.dump([5])
    with pytest.raises(BadDump, match="outside of it"):
        load_plain(written.getvalue())
    assert load_plain(pickle.dumps({"a": [1, (2.5, "x"), None, True, b"y"]})) == {
        "a": [1, (2.5, "x"), None, True, b"y"]
    }


def test_a_damaged_dump_is_said_beside_the_others(tmp_path: Path) -> None:
    for rank in range(2):
        dump_of(tmp_path, rank, DONE, entry(1, 2))
    path = dump_of(tmp_path, 2, DONE)
    path.write_bytes(path.read_bytes()[:-30])
    report = json.loads(run_livedbg(["report", "--logs", tmp_path, "--json"], 150).stdout)
    told = json.dumps(report)
    assert "nccl_trace_rank_2 looks like a Flight Recorder dump and can't be read" in told
    assert "there is no dump of rank 2" in report["verdict"]["sentence"]


def test_no_dumps_and_empty_ones_say_nothing() -> None:
    empty = [Dump(rank=0, written_wall_ns=time.time_ns(), entries=(), lines={}, groups={}, whole=True)]
    assert compare(empty) == [] and compare([]) == []


def test_the_rings_of_running_ranks_are_saved_as_dumps_that_say_the_same(job: Job, tmp_path: Path) -> None:
    parent = job("missing")
    said = hung(parent, "stalled", "Rank 2 of 3 has not entered all_reduce #5")
    store = Store()
    for pid in child_pids(parent):
        process = Process(id=f"process:box/{pid}", host="box", pid=pid, target=True)
        store.apply(ProcessSeen(process=process, **Stamper("box")()))
    save(store.snapshot(), tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {f"flight_recorder_rank_{rank}.json" for rank in range(3)}
    dumps = [read_dump(path) for path in sorted(tmp_path.iterdir())]
    assert dumps[0].groups[dumps[0].entries[-1].group] == (0, 1, 2)
    (one,) = compare(dumps)
    assert one.sentence.startswith("Rank 2 of 3 had not entered all_reduce #5 of group dp")
    assert "Rank 2 of 3 has not entered all_reduce #5 of group dp" in sentence(said)
