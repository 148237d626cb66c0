"""Dumps that real runs wrote (both layouts, and one whose run hung), through the real command line."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from livedbg.session.filereaders import dump_readers
from livedbg.values.dump import Selection
from livedbg.values.statistics import statistics
from tests.cli.conftest import ASCEND, Said, livedbg

Inside = Callable[..., Said]

HEALTHY = ASCEND / "01_healthy_trb" / "dfx"
JUNE = ASCEND / "12_june2026_v0_era" / "healthy_debug" / "dfx"
HUNG = ASCEND / "02_hang_kernel" / "timeout_debug" / "dfx_on_disk_while_hung"


@pytest.mark.parametrize(("run", "layout"), [(HEALTHY, "args_dump"), (JUNE, "tensor_dump")])
def test_what_the_run_computed_is_read_in_both_layouts(run: Path, layout: str) -> None:
    (path,) = dump_readers().find(run)
    with dump_readers().open(path) as dump:
        assert (dump.layout, len(dump.entries), dump.problems) == (layout, 18, [])
        outputs = {}
        for entry in Selection(stage="after").of(dump):
            tensor = dump.tensor(entry)
            assert tensor is not None and tensor.shape == (256,)
            found = statistics(tensor)
            assert found.minimum == found.maximum and found.count == 256 and found.std == 0
            outputs[entry.task] = found.minimum
    # f = (a + b + 1) * (a + b + 2) + (a + b) with a=2, b=3: see the capture's program
    assert outputs == {0: 5, 1 << 32: 6, 1 << 32 | 1: 7, 1 << 32 | 2: 42, 1 << 32 | 3: 47}


def test_the_list_names_tasks_kernels_and_scalars() -> None:
    said = livedbg("values", HEALTHY)
    assert said.code == 0 and said.err == ""
    assert "18 entries of 5 tasks" in said.out
    assert any(
        line.split()[1:7] == ["r0t0", "ADD", "after", "output", "2", "FLOAT32"] for line in said.out.splitlines()
    )
    assert "= 1.0" in said.out


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        (("--task", "r1t2"), {11, 12, 13, 14}),
        (("--task", "4294967298", "--stage", "after"), {14}),
        (("--task", "0x100000002", "--arg", "0"), {11}),
        (("--kernel", "MUL", "--role", "output"), {14}),
        (("--kernel", "2", "--stage", "before"), {11, 12, 13}),
        (("--role", "inout"), set()),
    ],
)
def test_entries_are_chosen(options: tuple[str, ...], numbers: set[int], inside: Inside) -> None:
    said = inside("values", HEALTHY, "--json", *options)
    assert said.code == 0
    (dump,) = json.loads(said.out)["dumps"]
    assert {entry["number"] for entry in dump["entries"]} == numbers
    assert ("No entry" in said.err) == (not numbers)


def test_views_of_one_tensor(inside: Inside) -> None:
    said = inside(
        "values", HEALTHY, "--task", "r1t3", "--stage", "after", "--stats", "--numbers", "--histogram", "--heatmap"
    )
    assert said.code == 0
    for piece in ("count 256", "min 47", "zeros 0", "[47 47 47 ... 47 47 47]", "256", "everything 47"):
        assert piece in said.out


def test_ascii_terminals_get_ascii() -> None:
    said = livedbg("values", HEALTHY, "--histogram", "--heatmap", env={"PYTHONIOENCODING": "ascii"})
    assert said.code == 0 and said.out.isascii() and "#" in said.out and "\\u" not in said.out


def test_a_hung_runs_payload_without_manifest() -> None:
    said = livedbg("values", HUNG)
    assert said.code == 0
    assert "10,240 bytes" in said.err and "only when a run has drained" in said.err and "--as" in said.err
    read = livedbg("values", HUNG, "--as", "float32", "--shape", "10,256", "--json", "--numbers", "--stats")
    assert read.code == 0
    raw = json.loads(read.out)["raw"]
    payload = (HUNG / "args_dump" / "args.bin").read_bytes()
    assert raw["numbers"] == list(struct.unpack("<1000f", payload[:4000]))
    assert raw["statistics"]["count"] == 2560
    part = livedbg("values", HUNG / "args_dump" / "args.bin", "--as", "f32", "--offset", "10000", "--shape", "100")
    assert part.code == 0 and "60 of 100 elements are in the file" in part.err and "?" in part.out


def test_an_export_that_has_no_place_says_so(tmp_path: Path, inside: Inside) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "folder", tmp_path / "no" / "x.npy"):
        said = inside("values", HEALTHY, "--task", "r0t0", "--arg", "0", "--export", place)
        assert said.code == 3 and "try: choose another path" in said.err and "Traceback" not in said.err, said.err


def test_exports_are_read_back(tmp_path: Path, inside: Inside) -> None:
    one = ("values", HEALTHY, "--task", "r1t2", "--stage", "after", "--export")
    for form in ("npy", "txt"):
        said = inside(*one, tmp_path / f"c.{form}")
        assert said.code == 0 and said.out.strip() == str(tmp_path / f"c.{form}"), said.everything
    assert (np.load(tmp_path / "c.npy") == np.full(256, 42, np.float32)).all()
    text = (tmp_path / "c.txt").read_text().splitlines()
    assert text[0].startswith("# tensor: #14 r1t2 (MUL) after output arg 2") and text[-1] == "[255] 42"
    every = inside("values", HEALTHY, "--export", tmp_path / "all")
    assert every.code == 0 and len(list((tmp_path / "all").glob("*.npy"))) == 13
    two = inside("values", HEALTHY, "--task", "r1t2", "--export", tmp_path / "two.npy")
    assert two.code == 2 and "one tensor" in two.err


def test_torch_is_asked_for_where_it_is_missing(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('none here')")
    without = {"PYTHONPATH": str(tmp_path)}
    said = livedbg("values", HEALTHY, "--task", "r1t2", "--stage", "after", "--export", tmp_path / "c.pt", env=without)
    assert said.code == 3 and "pip install torch" in said.err and not (tmp_path / "c.pt").exists()
    (tmp_path / "g" / "out").mkdir(parents=True)
    (tmp_path / "g" / "out" / "f.pt").write_bytes(b"")
    against = livedbg("values", HEALTHY, "--against", tmp_path / "g", env=without)
    assert against.code == 3 and "pip install torch" in against.everything


def test_the_screen_wants_a_terminal_and_takes_no_other_option(inside: Inside) -> None:
    run = ASCEND / "01_healthy_trb"
    assert "--screen and --rtol exclude each other" in inside("values", run, "--screen", "--rtol", 1).err
    assert inside("values", run, "--screen", "--task", "r1t2").code == 2
    said = livedbg("values", run, "--screen")
    assert said.code == 2 and "terminal" in said.err
