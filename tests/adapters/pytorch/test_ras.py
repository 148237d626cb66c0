"""NCCL's RAS service: a local server answers as the public documentation says; no NCCL was tried."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from livedbg.adapters.pytorch.facts import RAS_BEHIND as BEHIND
from livedbg.adapters.pytorch.facts import RAS_DEAD as DEAD
from livedbg.adapters.pytorch.facts import RAS_MISSING as MISSING
from livedbg.adapters.pytorch.ras.adapter import NoAnswer, ask_ras, compared
from livedbg.adapters.pytorch.ras.reply import RasReply, UnreadableReply, read_json, read_text
from tests.cli.zygote import run_livedbg
from tests.conftest import Target

RANK = "    Rank {} -- GPU {} managed by process {} on node 10.0.0.7\n"

STATUS = """NCCL version 2.27.5 compiled with CUDA 12.9
CUDA runtime version 12090, driver version 12080

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          4            1          8        8

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         4         8         8   RUNNING  MISMATCH

Errors
======

%s
Warnings
========

%s"""

BEHIND_TEXT = """#0-0 (5a1cf00dbead0021) MISMATCH
  Communicator ranks have different AllReduce operation counts
  6 ranks have launched up to operation %d
  2 ranks have launched up to operation 40
  Rank 3 -- GPU 3 managed by process 513 on node 10.0.0.7
  Rank 5 -- GPU 1 managed by process 715 on node 10.0.0.8
  Communicator ranks have different Broadcast operation counts
  7 ranks have launched up to operation 2
  Rank 3 has not launched any operations -- GPU 3 managed by process 513 on node 10.0.0.7
"""

GONE_TEXT = """INCOMPLETE
  Missing communicator data from 1 job process
  Process 612 on node 10.0.0.8 managing GPU 5

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 612 on node 10.0.0.8 managing GPU 5

#0-0 (5a1cf00dbead0021) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 4

"""

STATUS_TEXT = """#0-0 (9e17) MISMATCH
  Communicator ranks have different status
  6 ranks have status NOCOMM
  Rank 3 has status FINALIZE -- GPU 3 managed by process 513 on node 10.0.0.7
"""


def as_json(counts: dict[int, int], missing: dict[int, bool] | None = None) -> str:
    """A reply in JSON: what each rank has launched; the missing ranks, and whether each is dead."""

    def rank(number: int) -> dict[str, Any]:
        return {"rank": number, "host": "10.0.0.7", "pid": 500 + number, "cuda_dev": number, "nvml_dev": number}

    ready = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
    ranks = [rank(n) | {"status": ready, "collective_counts": {"AllReduce": c}} for n, c in counts.items()]
    gone = [rank(n) | {"status": {"unresponsive": True, "considered_dead": d}} for n, d in (missing or {}).items()]
    group = {"hash": "0x5a1cf00dbead0021", "secondary_hash": "0x1:0x2", "size": 8, "ranks_count": len(ranks)}
    group |= {"missing_ranks_count": len(gone), "ranks": ranks, "missing_ranks": gone}
    reply = {"nccl_version": "2.29.1", "communicators_count": 1, "communicators": [group]}
    return json.dumps(reply | {"ras": {"collection_time_sec": 0.0, "timeouts_count": 0}}, indent=2)


def said(before: RasReply | None, now: RasReply) -> dict[str, str]:
    return {one.code: one.sentence for one in compared(before, now)}


def text(warnings: str = "", errors: str = "") -> RasReply:
    return read_text(STATUS % (errors, warnings))


def test_a_rank_behind_in_two_answers_is_named() -> None:
    before, now = text(BEHIND_TEXT % 41), text(BEHIND_TEXT % 41)
    found = [one.sentence for one in compared(before, now)]
    assert found == [
        "By NCCL's RAS ranks 3, 5 of communicator 5a1cf00dbead0021 launched AllReduce 40 last, in two queries; others "
        "launched 41.",
        "By NCCL's RAS rank 3 of communicator 5a1cf00dbead0021 launched Broadcast 0 last, in two queries; others "
        "launched 2.",
    ]
    counts = {rank: 40 if rank == 3 else 41 for rank in range(8)}
    same = read_json(as_json(counts))
    assert said(same, same)[BEHIND].startswith("By NCCL's RAS rank 3 of communicator 5a1cf00dbead0021 launched AllRed")
    assert compared(same, same)[0].evidence[0].text == "rank 3: process 503 on 10.0.0.7"


@pytest.mark.invariant("ras_adapter.R3")
def test_R3_a_healthy_job_has_nobody_behind() -> None:
    first = text(BEHIND_TEXT % 41)
    assert said(None, first) == {}  # one answer
    moved = (BEHIND_TEXT % 43).replace("operation 40", "operation 42").replace("operation 2\n", "operation 3\n")
    assert BEHIND not in said(first, text(moved.replace("not launched any operations", "launched up to operation 1")))
    assert said(first, text()) == {}  # all are equal now
    assert said(text(STATUS_TEXT), text(STATUS_TEXT)) == {}  # a communicator that is being torn down
    steps = [read_json(as_json({0: n, 1: n + 1, 2: n + 1})) for n in (7, 8)]
    assert said(*steps) == {}
    swapped = [read_json(as_json({0: 7, 1: 8})), read_json(as_json({0: 9, 1: 8}))]  # who was ahead is behind now
    assert said(*swapped) == {}


def test_missing_and_dead_ranks() -> None:
    expected = {
        DEAD: "NCCL's RAS takes 1 process for dead: process {} on 10.0.0.{}.",
        MISSING: "NCCL's RAS has no data of rank 4 of communicator 5a1cf00dbead0021.",
    }
    found = said(None, text(errors=GONE_TEXT))
    assert found == {**expected, DEAD: expected[DEAD].format(612, 8)}
    found = said(None, read_json(as_json({0: 1, 1: 1}, {4: True})))
    assert found == {**expected, DEAD: expected[DEAD].format(504, 7)}
    assert set(said(None, read_json(as_json({0: 1, 1: 1}, {4: False})))) == {MISSING}


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "{",
        "[]",
        "220 mail.example ESMTP\r\n",
        as_json({0: 1})[:200],
        as_json({0: -1}),
        as_json({1 << 40: 1}),
        '{"communicators": ' + "[" * 100_000,
        '{"communicators": {"hash": 1}}',
        "\x00\x1b]0;x\x07" * 100,
    ],
)
def test_what_is_no_answer_is_refused(reply: str) -> None:
    with pytest.raises(UnreadableReply):
        read_json(reply)
    if "NCCL version" not in reply:
        with pytest.raises(UnreadableReply):
            read_text(reply)


def test_a_text_that_is_cut_anywhere_says_nothing_wrong() -> None:
    whole = STATUS % (GONE_TEXT, BEHIND_TEXT % 41)
    complete = {one.name: one for one in read_text(whole).communicators}
    for end in range(whole.index("Communicators..."), len(whole), 7):
        for one in read_text(whole[:end]).communicators:
            if one.name in complete:
                assert {rank.rank for rank in one.missing} <= {4}
    hostile = text(BEHIND_TEXT.replace("10.0.0.7", "\x1b[31m" + "h" * 5000) % 41)
    assert not any("\x1b" in rank.host for one in hostile.communicators for got in one.launched for rank in got.ranks)


class Ras(threading.Thread):
    """A server that takes commands and answers each query with the next reply; closes then, as RAS does."""

    def __init__(self, replies: list[bytes], *, silent: bool = False) -> None:
        super().__init__(daemon=True)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.commands: list[list[str]] = []
        self._replies = replies
        self._silent = silent

    def run(self) -> None:
        for reply in self._replies:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            with peer, peer.makefile("rwb") as lines:
                asked = []
                for line in lines:
                    asked.append(line.decode().strip())
                    if asked[-1].endswith("status"):
                        break
                    lines.write(b"OK\n")
                    lines.flush()
                self.commands.append(asked)
                if self._silent:
                    lines.read()
                else:
                    lines.write(reply)


def ask(server: Ras, *, as_json: bool, limit_s: float = 60.0) -> RasReply:
    server.start()
    try:
        return asyncio.run(ask_ras("127.0.0.1", server.port, json=as_json, limit_s=limit_s))
    finally:
        server.socket.close()


@pytest.mark.invariant("ras_adapter.Q1")
def test_Q1_a_query_ends() -> None:
    server = Ras([as_json({0: 1, 1: 2}).encode()])
    assert [one.name for one in ask(server, as_json=True).communicators] == ["5a1cf00dbead0021"]
    assert server.commands == [["timeout 5", "set format json", "verbose status"]]
    with pytest.raises(NoAnswer, match="has not answered within"):
        ask(Ras([b""], silent=True), as_json=False, limit_s=0.2)
    with pytest.raises(NoAnswer, match="more than 16 MiB"):
        ask(Ras([bytes(17 << 20)]), as_json=False)
    with pytest.raises(NoAnswer, match="refuses: ERROR: Unknown command"):
        ask(Ras([b"ERROR: Unknown command set format json\n"]), as_json=True)
    closed = Ras([])
    closed.socket.close()
    with pytest.raises(NoAnswer, match="can't be asked: Connect"):
        asyncio.run(ask_ras("127.0.0.1", closed.port, json=True))


@pytest.fixture
def with_nccl(tmp_path: Path, spawn: Callable[..., Target]) -> Iterator[Callable[[str], int]]:
    """The pid of a process that has a library loaded which says to be NCCL of some version."""

    def begin(version: str) -> int:
        library = tmp_path / "libnccl.so.2"
        code = f'const char text[] = "NCCL version {version}+cuda12.9";\n'
        subprocess.run(["gcc", "-shared", "-xc", "-", "-o", library], input=code.encode(), check=True)
        program = f"import ctypes, time; ctypes.CDLL({str(library)!r}); print('READY', flush=True); time.sleep(1000)"
        return spawn([sys.executable, "-c", program]).pid

    yield begin


def report(pid: int, *options: str) -> dict[str, Any]:
    done = run_livedbg(["report", pid, "--json", "--no-native", *options], 150)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.invariant("ras_adapter.R1")
@pytest.mark.invariant("ras_adapter.R2")
@pytest.mark.invariant("rules_notes.T1")
def test_R1_R2_only_what_was_asked_for_is_asked(with_nccl: Callable[[str], int]) -> None:
    pid = with_nccl("2.28.9")
    server = Ras([as_json({rank: 40 if rank == 3 else 41 for rank in range(8)}).encode()] * 2)
    server.start()
    quiet = report(pid)
    assert not server.commands
    found = report(pid, "--ask", f"nccl-ras=127.0.0.1:{server.port}")
    assert [commands[1] for commands in server.commands] == ["set format json"] * 2
    (one,) = [finding for finding in found["findings"] if finding["rule"] == "nccl-ras-asked"]
    assert one["sentence"].startswith("By NCCL's RAS rank 3 of communicator")
    assert found["verdict"]["state"] == quiet["verdict"]["state"]
    touches = [touch for touch in found["intrusions"]["touches"] if touch["what"] == "query"]
    assert len(touches) == 2 and found["intrusions"]["stops"] == 0
    server.socket.close()


@pytest.mark.invariant("ras_adapter.R1")
@pytest.mark.parametrize(
    ("version", "options", "why"),
    [
        ("2.26.5", (), "the job has NCCL 2.26.5: before 2.27.3 a query can crash the rank that answers it"),
        ("2.28.9", ("--read-only",), "wakes a thread in every rank of the job, which --read-only forbids"),
    ],
)
def test_R1_an_old_nccl_and_a_read_only_session_are_not_asked(
    version: str, options: tuple[str, ...], why: str, with_nccl: Callable[[str], int]
) -> None:
    server = Ras([b""])
    server.start()
    done = run_livedbg(["report", with_nccl(version), "--ask", f"nccl-ras=127.0.0.1:{server.port}", *options], 150)
    server.socket.close()
    assert why in " ".join((done.stdout + done.stderr).decode().split())
    assert not server.commands


def test_a_service_that_nobody_knows_is_refused() -> None:
    done = run_livedbg(["report", 1, "--ask", "ncclras"], 60)
    assert done.returncode == 2
    assert b"There is no service 'ncclras' to ask" in done.stderr and b"nccl-ras" in done.stderr
