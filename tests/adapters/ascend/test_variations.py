"""Captures of the same kind as the recorded ones: other names, numbers, clocks, levels, shapes and damage.

Each recorded run is changed in every way that keeps what it says, and must keep its verdict; where
information is taken away, the verdict may become weaker, and must never blame anything else.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from livedbg.analysis import VerdictState
from livedbg.analysis.diagnosis import Diagnosis
from livedbg.model.snapshot import Snapshot
from livedbg.session.rulebook import diagnose
from tests.adapters.ascend.replay import replay_folder

T = "task:ascend/"
_RING_1 = 1 << 32


@dataclass(frozen=True)
class Case:
    """A recorded run and what is true of it."""

    folder: str
    state: VerdictState
    root: str | None = None
    core: int | None = None
    kernel: str | None = None


STALLED = VerdictState.STALLED
CASES = (
    Case("01_healthy_trb", VerdictState.EXITED),
    Case("01_healthy_hbg", VerdictState.EXITED),
    Case("02_hang_kernel/live_gdb", VerdictState.UNKNOWN, "r1t2", 8, "MUL"),
    Case("02_hang_kernel/timeout_debug", STALLED, "r1t2", 8, "MUL"),
    Case("02_hang_kernel/timeout_info", STALLED, "r1t2", 10, "MUL"),
    Case("02_hang_kernel/timeout_v0", STALLED, "r1t2", 8),
    Case("05_hang_ring_full", STALLED, "r1t0", 8, "MUL"),
    Case("06_hang_tensor_wait/timeout_debug", STALLED, "r0t0", 8, "MUL"),
    Case("07_crash_throw", VerdictState.CRASHED),
    Case("08_fatal_explicit", VerdictState.CRASHED, "orchestrator"),
    Case("09_dep_good", VerdictState.EXITED),
    Case("09_dep_lost", VerdictState.DIVERGED, "r0t1"),
    Case("12_june2026_v0_era/hang_debug", STALLED, "r1t2", 10, "func 2"),
    Case("12_june2026_v0_era/hang_v0", STALLED, "r1t2", 8, "func 2"),
)
STALLS = tuple(case for case in CASES if case.state in {STALLED, VerdictState.UNKNOWN})

Change = Callable[[str], str]


def _texts(folder: Path) -> Iterable[Path]:
    return (
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".bin" and path.name != "README.txt"
    )


def _copy(recorded: Path, case: Case, target: Path) -> Path:
    shutil.copytree(recorded / case.folder, target)
    return target


def _change(folder: Path, change: Change) -> None:
    for path in _texts(folder):
        path.write_bytes(change(path.read_bytes().decode()).encode())


def _log(folder: Path) -> Path:
    return next(path for path in _texts(folder) if path.name.startswith("err"))


def _look(folder: Path) -> tuple[Snapshot, Diagnosis]:
    snapshot = replay_folder(folder)
    return snapshot, diagnose(snapshot)


def _check(case: Case, folder: Path, *, core: int | None = None, kernel: str | None = None) -> None:
    snapshot, diagnosis = _look(folder)
    assert diagnosis.verdict.state is case.state, diagnosis.verdict
    if case.root is None:
        return
    assert diagnosis.verdict.roots[0] == T + case.root
    if case.core is not None:
        task = snapshot.tasks[T + case.root]
        assert task.where == (f"core:ascend/{case.core if core is None else core}",)
        assert (task.kernel or None) == (kernel or case.kernel)


def _ids(case: Case) -> str:
    return case.folder


each_case = pytest.mark.parametrize("case", CASES, ids=_ids)
each_stall = pytest.mark.parametrize("case", STALLS, ids=_ids)


# changes that keep what the capture says


@each_stall
def test_other_kernel_names(recorded: Path, tmp_path: Path, case: Case) -> None:
    folder = _copy(recorded, case, tmp_path / "run")
    _change(folder, lambda text: re.sub(r'"MUL"', '"flash_attn_fwd<bf16, 128>"', text))
    renamed = "flash_attn_fwd<bf16, 128>" if case.kernel == "MUL" else None
    _check(case, folder, kernel=renamed)


@each_case
def test_other_ring(recorded: Path, tmp_path: Path, case: Case) -> None:
    def change(text: str) -> str:
        text = re.sub(r"\b42949672(\d\d)\b", lambda m: str(int(m[0]) + 2 * _RING_1), text)
        return re.sub(r"\bring([= ])1\b", r"ring\g<1>3", text)

    folder = _copy(recorded, case, tmp_path / "run")
    _change(folder, change)
    root = case.root.replace("r1t", "r3t") if case.root else None
    _check(Case(case.folder, case.state, root, case.core, case.kernel), folder)


@each_case
def test_other_cores(recorded: Path, tmp_path: Path, case: Case) -> None:
    pattern = re.compile(r"(core_id=|stuck_core=|core=|\bcore|\bCore |AI[CV][01]?=)(\d+)\b")
    folder = _copy(recorded, case, tmp_path / "run")
    _change(folder, lambda text: pattern.sub(lambda m: f"{m[1]}{int(m[2]) + 40}", text))
    _check(case, folder, core=(case.core or 0) + 40)


@each_case
def test_other_time(recorded: Path, tmp_path: Path, case: Case) -> None:
    def change(text: str) -> str:
        text = re.sub(r"mono_ns=(\d+)", lambda m: f"mono_ns={int(m[1]) + 10**15}", text)
        text = re.sub(r"wall_ns=(\d+)", lambda m: f"wall_ns={int(m[1]) - 3 * 10**16}", text)
        return re.sub(r"\[2026-11-21 01:", "[2025-02-28 23:", text)

    folder = _copy(recorded, case, tmp_path / "run")
    _change(folder, change)
    _check(case, folder)


@each_case
@pytest.mark.parametrize(
    "dress",
    [
        pytest.param(lambda line: line + "\r", id="crlf"),
        pytest.param(lambda line: f"\x1b[36m{line}\x1b[0m", id="coloured-lines"),
        pytest.param(
            lambda line: re.sub(r"\[(ERROR|WARN|DEBUG|INFO\w*)\]", "\x1b[1;31m[\\1]\x1b[0m", line), id="coloured-levels"
        ),
        pytest.param(lambda line: f"[rank0]: {line}", id="torchrun"),
        pytest.param(lambda line: f"2026-11-21T01:00:00.123456Z stderr F {line}", id="containerd"),
    ],
)
def test_dressed_lines(recorded: Path, tmp_path: Path, case: Case, dress: Change) -> None:
    folder = _copy(recorded, case, tmp_path / "run")
    log = _log(folder)
    lines = log.read_text().split("\n")
    log.write_bytes("\n".join(dress(line) if line else line for line in lines).encode())
    _check(case, folder)


@each_case
def test_without_names_and_graph(recorded: Path, tmp_path: Path, case: Case) -> None:
    folder = _copy(recorded, case, tmp_path / "run")
    for path in list(_texts(folder)):
        if path.suffix == ".json" or path.name.startswith("out"):
            path.unlink()
    weaker = Case(case.folder, VerdictState.EXITED) if case.state is VerdictState.DIVERGED else case
    named = "func 2" if case.kernel == "MUL" else None
    _check(weaker, folder, kernel=named)


@each_case
def test_noise_of_other_programs(recorded: Path, tmp_path: Path, case: Case) -> None:
    dice = random.Random(3)
    noise = (
        "INFO:root:step 12 loss 0.3",
        "[W1121 01:00:00.000000000 ProcessGroupHCCL.cpp:12] a warning",
        "",
        '  File "train.py", line 3, in <module>',
        "[INFO] other_tool: all tasks completed 5/5",
    )
    folder = _copy(recorded, case, tmp_path / "run")
    log = _log(folder)
    mixed = [part for line in log.read_text().split("\n") for part in (line, dice.choice(noise))]
    log.write_text("\n".join(mixed))
    _check(case, folder)


def _as_dlog(log: Path, root: Path) -> None:
    """The same as CANN would have written it on a device: a host log and a device log of one pid."""
    host: list[str] = []
    device: list[str] = []
    for line in log.read_text().splitlines():
        match = re.match(r"(?:\[(?:mono_ns=\d+|\d{4}-[^\]]*)\]\[T0x\w+\])?\[(\w+)\] (\w+): (.*)", line)
        if match is None:
            continue
        of_host = line.startswith("[mono") or (line.startswith("[2026") and ".cpp" in line and "device_runner" in line)
        level = "INFO" if match[1].startswith("INFO_V") else "EVENT" if match[1] == "TIMING" else match[1]
        minute, second = divmod(len(host), 60)
        module = "CCECPU" if of_host else "AICPU"
        head = f"[{level}] {module}(77,x):2026-11-21-01:{minute:02}:{second:02}.000.000"
        (host if of_host else device).append(f'{head} [device_log.cpp:89]2 {match[2]} "{match[3]}"')
    for name, lines in (("plog/plog", host), ("device-0/device", device)):
        path = root / "debug" / f"{name}-77_20261121010000000.log"
        path.parent.mkdir(parents=True)
        path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("case", [c for c in CASES if c.folder[:2] in {"01", "02", "05", "06", "08", "12"}], ids=_ids)
def test_as_dlog_of_a_device(recorded: Path, tmp_path: Path, case: Case) -> None:
    folder = _copy(recorded, case, tmp_path / "run")
    log = _log(folder)
    _as_dlog(log, folder / "ascend")
    log.unlink()
    for path in list(_texts(folder)):
        if path.name.startswith(("out", "exit")):
            path.unlink()  # a launcher's output stands elsewhere
    named = any(path.name.startswith("name_map") for path in _texts(folder))
    _check(case, folder, kernel="func 2" if case.kernel == "MUL" and not named else None)


# several runs


@each_stall
def test_a_healthy_run_before_it_in_the_same_log(recorded: Path, tmp_path: Path, case: Case) -> None:
    folder = _copy(recorded, case, tmp_path / "run")
    before = "12_june2026_v0_era/healthy_debug" if case.folder.startswith("12") else "01_healthy_trb"
    log = _log(folder)
    log.write_bytes((recorded / before / "err.txt").read_bytes() + log.read_bytes())
    _check(case, folder)


@each_stall
def test_a_healthy_run_after_it_in_the_same_log(recorded: Path, tmp_path: Path, case: Case) -> None:
    folder = _copy(recorded, case, tmp_path / "run")
    for path in list(_texts(folder)):
        if path.name == "exit.txt":
            path.unlink()
    after = "12_june2026_v0_era/healthy_debug" if case.folder.startswith("12") else "01_healthy_trb"
    log = _log(folder)
    log.write_bytes(log.read_bytes() + (recorded / after / "err.txt").read_bytes())
    assert _look(folder)[1].verdict.state is VerdictState.EXITED


@each_stall
def test_ranks_in_folders_of_their_own(recorded: Path, tmp_path: Path, case: Case) -> None:
    healthy = "12_june2026_v0_era/healthy_debug" if case.folder.startswith("12") else "01_healthy_trb"
    for rank in range(4):
        shutil.copytree(recorded / (case.folder if rank == 2 else healthy), tmp_path / f"rank{rank}")
    snapshot, diagnosis = _look(tmp_path)
    assert diagnosis.verdict.state is case.state
    assert diagnosis.verdict.roots == (f"{T}rank2/{case.root}",)
    assert diagnosis.verdict.sentence.startswith("rank2: ")
    assert len([d for d in snapshot.diagnostics.values() if d.code == "run-complete"]) == 3


# what takes information away


@each_case
@pytest.mark.parametrize("level", ["INFO", "TIMING", "WARN", "ERROR"])
def test_other_log_level(recorded: Path, tmp_path: Path, case: Case, level: str) -> None:
    order = ("DEBUG", "INFO", "TIMING", "WARN", "ERROR")
    hidden = "|".join(name + (r"(?:_V\d)?" if name == "INFO" else "") for name in order[: order.index(level)])
    folder = _copy(recorded, case, tmp_path / "run")
    log = _log(folder)
    lines = log.read_text().split("\n")
    log.write_text("\n".join(line for line in lines if not re.search(rf"\[(?:{hidden})\] ", line)))
    _snapshot, diagnosis = _look(folder)
    _never_wrong(case, diagnosis)
    if "timeout" in case.folder or case.folder.startswith(("08", "09_dep_lost", "12")):
        assert diagnosis.verdict.state is case.state
    if "02_hang_kernel/timeout" in case.folder:
        assert diagnosis.verdict.roots[0] == T + "r1t2"


def _never_wrong(case: Case, diagnosis: Diagnosis) -> None:
    """A weaker verdict is right; a firm one about anything but the truth is not."""
    verdict = diagnosis.verdict
    if case.state is VerdictState.EXITED:
        firm = [f for f in diagnosis.findings.values() if f.state in {STALLED, VerdictState.CRASHED} and not f.inferred]
        assert not firm, firm
    elif verdict.state is STALLED:
        for finding in diagnosis.findings.values():
            if finding.state is STALLED and not finding.inferred and finding.roots and case.root:
                assert T + case.root in finding.roots, finding
    else:
        assert verdict.state in {case.state, VerdictState.UNKNOWN, VerdictState.EXITED, VerdictState.CRASHED}
        if verdict.state is VerdictState.EXITED:
            assert case.state in {VerdictState.DIVERGED}, verdict


@each_case
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.floats(0, 1), chop=st.floats(0, 1))
def test_cut_anywhere(
    recorded: Path, tmp_path_factory: pytest.TempPathFactory, case: Case, cut: float, chop: float
) -> None:
    """The head is lost (rotated away) or the tail (still buffered), at any byte."""
    folder = _copy(recorded, case, tmp_path_factory.mktemp("cut") / "run")
    log = _log(folder)
    data = log.read_bytes()
    begin, end = sorted((int(cut * len(data)), int(chop * len(data))))
    log.write_bytes(data[:begin] if cut < chop else data[end:])
    _never_wrong(case, _look(folder)[1])
