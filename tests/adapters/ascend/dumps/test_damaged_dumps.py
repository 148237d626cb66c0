"""Dumps that are cut, damaged, huge or hostile: what is there is shown, what is missing is said."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from livedbg.adapters.ascend.dumps.values import read_manifest
from livedbg.model.errors import SourceError
from livedbg.session.filereaders import dump_readers
from livedbg.values.statistics import statistics
from tests.cli.conftest import ASCEND, Said, livedbg
from tests.peak import peak_of
from tests.values.conftest import Arg, tensor, write_dump

Inside = Callable[..., Said]

REAL = ASCEND / "01_healthy_trb" / "dfx" / "args_dump"


@pytest.mark.invariant("manifest.M2")
@pytest.mark.parametrize("indent", [False, True])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(share=st.floats(0, 1))
def test_a_manifest_cut_anywhere_gives_its_whole_entries(tmp_path: Path, indent: bool, share: float) -> None:
    whole = REAL / "args_dump.json"
    data = json.dumps(json.loads(whole.read_bytes()), indent=2).encode() if indent else whole.read_bytes()
    cut = data[: int(len(data) * share)]
    path = tmp_path / "args_dump.json"
    path.write_bytes(cut)
    entries = read_manifest(whole).entries
    try:
        manifest = read_manifest(path)
    except SourceError as error:
        assert b'"args": [' not in cut and error.remedy
        return
    body = cut[cut.index(b'"args": [') :]
    assert manifest.entries == entries[: body.count(b"}")] if body.count(b"}") <= 18 else entries
    if body.count(b"]\n}") == 0 and not body.rstrip().endswith(b"}\n  ]\n}"):
        assert any("cut" in problem and "of 18" in problem for problem in manifest.problems)


def test_both_spellings_of_a_manifest_are_the_same(tmp_path: Path) -> None:
    args = [tensor(0, 0, "input", [1, 2]), tensor(0, 1, "output", [3, 4])]
    lines, pretty = write_dump(tmp_path / "a", args), write_dump(tmp_path / "b", args, indent=True)
    assert read_manifest(lines).entries == read_manifest(pretty).entries
    assert read_manifest(lines).problems == read_manifest(pretty).problems == []


@pytest.mark.invariant("manifest.M2")
def test_damage_inside_a_manifest_costs_what_it_hits(tmp_path: Path) -> None:
    path = write_dump(tmp_path, [tensor(task, 0, "output", [task]) for task in range(5)])
    lines = path.read_bytes().splitlines(keepends=True)
    entry = next(place for place, line in enumerate(lines) if b"task_id" in line)
    lines[entry + 1] = b'    {"task_id": "0x\xff\xfe", "arg_index": -3},\n'
    lines[entry + 3] = os.urandom(200).replace(b"{", b"").replace(b"}", b"").replace(b"\n", b"") + b"\n"
    path.write_bytes(b"".join(lines))
    with dump_readers().open(path) as dump:
        assert [entry.task for entry in dump.entries] == [0, 2, 4]
        assert any("damaged" in problem for problem in dump.problems)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ({"bin_format": {"type": "tiled", "byte_order": "big_endian"}}, "tiled"),
        ({"bin_format": 7}, "head is damaged"),
        ({"bin_file": "../../secret.bin"}, "outside of its folder"),
        ({"dropped_records": 4}, "dropped 4 records for"),
        ({"dropped_records": 1, "dropped_overwrite": 1}, "dropped 1 record for"),
        ({"dropped_records": 1, "dropped_overwrite": 1}, "1 payload was overwritten"),
        ({"dropped_overwrite": 2}, "2 payloads were overwritten"),
        ({"total_args": 9}, "counts 9 entries and holds 1"),
        ({"bin_file": None, "dump_args_level": 3}, "1 tensor was listed without values: dump level 3"),
        ({"bin_file": "gone.bin"}, "gone.bin can't be read"),
    ],
)
def test_what_the_head_admits_is_said(tmp_path: Path, head: dict[str, object], said: str) -> None:
    path = write_dump(tmp_path, [tensor(0, 0, "output", [1])], **head)
    with dump_readers().open(path) as dump:
        assert len(dump.entries) == 1 and any(said in problem for problem in dump.problems), dump.problems
        if "bin_format" in head and head["bin_format"] != 7:
            assert dump.state(dump.entries[0]) == "unread" and dump.tensor(dump.entries[0]) is None


@pytest.mark.parametrize("where", ["head", "entry", "names"])
def test_what_is_nested_deeply_is_damage_and_no_end(tmp_path: Path, where: str) -> None:
    path = write_dump(tmp_path, [tensor(0, 0, "output", [1]), tensor(1, 0, "output", [2])])
    deep = "[" * 30_000 + "]" * 30_000
    text = path.read_text()
    if where == "head":
        path.write_text(text.replace("{", f'{{"deep":{deep},', 1))
    elif where == "entry":
        at = text.rindex('"task_id"')
        path.write_text(f'{text[:at]}"deep":{deep},{text[at:]}')
    else:
        (tmp_path / "name_map_deep.json").write_text(f'{{"callable_id_to_name":{{"0":"ADD"}},"deep":{deep}}}')
        (tmp_path / "name_map_good.json").write_text('{"callable_id_to_name":{"0":"MUL","no number":"X"}}')
    said = livedbg("values", tmp_path)
    assert said.code == 0 and "Traceback" not in said.err, said.err
    assert ("MUL" in said.out) == (where == "names"), said.out
    assert {"head": "head is damaged", "entry": "1 place of the manifest is damaged", "names": ""}[where] in said.err
    assert f"{1 if where == 'entry' else 2} entr" in said.out


def test_payload_that_is_short_truncated_or_overwritten(tmp_path: Path) -> None:
    args = [
        tensor(0, 0, "output", np.arange(8)),
        tensor(1, 0, "output", np.arange(4), shape=[8], truncated=True),
        tensor(2, 0, "output", [], bin_size=0, overwritten=True, shape=[8]),
        tensor(3, 0, "output", np.arange(8)),
    ]
    path = write_dump(tmp_path, args)
    payload = path.parent / "args.bin"
    payload.write_bytes(payload.read_bytes()[:-18])  # in the middle of an element
    with dump_readers().open(path) as dump:
        assert [dump.state(entry) for entry in dump.entries] == ["", "truncated", "overwritten", "short"]
        part = dump.tensor(dump.entries[3])
        assert part is not None and (part.count, part.total) == (3, 8) and part.block(0, 8).tolist() == [0, 1, 2]
        half = dump.tensor(dump.entries[1])
        assert half is not None and statistics(half).count == 4
    said = livedbg("values", tmp_path, "--numbers", "--stats", "--heatmap", "--histogram")
    assert said.code == 0 and "4 of 8" in said.out and "?" in said.out
    for piece in (
        "1 tensor is there in part only",
        "1 tensor was overwritten",
        "1 tensor ends with the file",
        "args.bin has",
    ):
        assert piece in said.err
    refused = livedbg("values", tmp_path, "--task", "r0t3", "--export", tmp_path / "t.npy")
    assert refused.code == 3 and "3 of 8 elements are there" in refused.err and not (tmp_path / "t.npy").exists()
    text = livedbg("values", tmp_path, "--task", "r0t3", "--export", tmp_path / "t.txt")
    assert text.code == 0 and "5 elements are not there" in (tmp_path / "t.txt").read_text()


def test_a_payload_emptied_while_it_is_read_kills_nobody(tmp_path: Path) -> None:
    path = write_dump(tmp_path, [tensor(0, 0, "output", np.arange(5000))])
    with dump_readers().open(path) as dump:
        found = dump.tensor(dump.entries[0])
        assert found is not None
        os.truncate(path.parent / "args.bin", 0)
        assert len(found.block(0, 5000)) == 0 and statistics(found).count == 0


GARBAGE = {
    "empty": b"",
    "zeros": b"\x00" * 4096,
    "braces": b"{" * 100_000,
    "braces inside": b'{"args": [' + b"{" * 200_000,
    "random": os.urandom(5000),
    "no entry": b'{"args": [{}]}',
    "another json": b"[]",
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_is_no_traceback(tmp_path: Path, data: bytes, inside: Inside) -> None:
    (tmp_path / "args_dump.json").write_bytes(data)
    said = inside("values", tmp_path)
    assert said.code in (0, 3) and said.err.startswith("livedbg: ") and len(said.err) < 1000


def test_words_of_the_dump_are_data(tmp_path: Path) -> None:
    evil = "\x1b]52;c;AAAA\x07\x1b[2J"
    folder = tmp_path / "\x1b]0;t\x07run"
    path = write_dump(folder, [Arg(0, 0, evil, evil, b"\0" * 4, evil, (4,), 0, {"kind": evil})])
    (folder / "name_map_x.json").write_text(json.dumps({"callable_id_to_name": {"0": evil + "K"}}))
    for words in ((), ("--json",), ("--stats", "--numbers")):
        said = livedbg("values", path, *words)
        assert said.code == 0 and "\x1b" not in said.everything and "K" in said.out
    (path.parent / "args.bin").unlink()
    for words in ((), ("--task", "r9t9"), ("--against", path.parent / "gone"), ("--against", path)):
        said = livedbg("values", folder, *words)
        assert "\x1b" not in said.everything and "\x07" not in said.everything and said.everything


def test_absurd_numbers_are_left_out_or_shown(tmp_path: Path, inside: Inside) -> None:
    args = [
        tensor(0, 0, "output", [1], shape=[1 << 40, 1 << 40]),
        tensor(1, 0, "output", [1], shape=[1 << 20] * 3, strides=[1] * 3),
        tensor(2, 0, "output", [1], bin_offset=1 << 61),
        tensor(3, 0, "output", [1], shape=[7] * 8, strides=[1] * 8),
        tensor(4, 0, "output", [1], shape=[0, 5], bin_size=0),
    ]
    write_dump(tmp_path, args)
    said = inside("values", tmp_path, "--numbers", "--stats", "--heatmap", "--histogram")
    assert said.code == 0 and "1 place of the manifest is damaged" in said.err
    assert "1 of 1152921504606846976" in said.out and "[]" in said.out


def test_a_hundred_megabytes_of_payload_stay_on_disk(tmp_path: Path) -> None:
    size = 100 << 20
    path = write_dump(
        tmp_path, [tensor(0, 0, "output", [1], shape=[size // 4096, 1024], bin_size=size), tensor(1, 0, "output", [2])]
    )
    with (path.parent / "args.bin").open("r+b") as file:
        file.truncate(size)
        file.seek(size - 4)
        file.write(np.float32("nan").tobytes())
    said = peak_of(tmp_path, "values", path.parent, "--task", "r0t0", "--numbers", "--stats", "--heatmap")
    assert said.code == 0 and "count 26214400" in said.out and "first NaN at [25599, 1023]" in said.out
    assert said.kib < 250_000


def test_a_manifest_of_a_hundred_megabytes(tmp_path: Path) -> None:
    one = tensor(1, 0, "output", [1.5], padding="x" * 3000)  # keys that are not known are skipped
    path = write_dump(tmp_path, [one])
    head, _, rest = path.read_bytes().partition(b"    {")
    entry, _, tail = rest.partition(b"\n  ]")
    count = (100 << 20) // (len(entry) + 6) + 1
    with path.open("wb") as file:
        file.write(head.replace(b'"total_args": 1', b'"total_args": %d' % count))
        file.write(b",\n".join([b"    {" + entry] * count))
        file.write(b"\n  ]" + tail)
    assert path.stat().st_size > 100 << 20
    said = peak_of(tmp_path, "values", path.parent, "--limit", "2")
    assert said.code == 0 and f"{count:,} entries" in said.out and "and more" in said.out and "damaged" not in said.err
    assert said.kib < 250_000


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.invariant("manifest.M1")
def test_M1_memory_is_that_of_the_entries_and_a_chunk(
    whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty megabytes: large entries that are kept without what is not known of them, or one that never ends."""
    monkeypatch.setattr("livedbg.adapters.ascend.dumps.values._CHUNK", 1 << 16)
    entry = tensor(1, 0, "output", [1.5], padding="x" * 50_000)
    path = write_dump(tmp_path, [entry] * 400)
    if not whole:
        path.write_bytes(path.read_bytes().replace(b"}", b" ").replace(b"]", b" "))
    assert path.stat().st_size > 20_000_000
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        found = read_manifest(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found.entries) == (400 if whole else 0) and bool(found.problems) != whole
    assert peak - before < 2_000_000


def test_folders_without_a_dump_say_how_to_make_one(tmp_path: Path, inside: Inside) -> None:
    for words, code, piece in (
        ((tmp_path,), 3, "enable_dump_args"),
        ((tmp_path / "no",), 3, "can't be read"),
        ((__file__,), 3, "no manifest"),
        ((REAL, "--task", "x"), 2, "names no task"),
        ((REAL, "--shape", "1"), 2, "--as"),
        ((REAL, "--rtol", "1"), 2, "--against"),
        ((REAL / "args.bin", "--as", "complex"), 2, "float32"),
        ((REAL / "args.bin", "--as", "f32", "--shape", "a"), 2, "is not a shape"),
        ((REAL / "args.bin", "--as", "f32", "--shape", "-1"), 2, "is not a shape"),
        ((REAL, "--export", "/no/such/place.npy", "--task", "r1t2", "--stage", "after"), 3, "can't be written"),
    ):
        said = inside("values", *words)
        assert said.code == code and piece in said.err, (words, said.everything)


def test_several_ranks_are_each_a_dump(tmp_path: Path, inside: Inside) -> None:
    for rank in range(3):
        write_dump(tmp_path / f"rank{rank}" / "d0", [tensor(0, 0, "output", [rank])])
    (tmp_path / "loop").symlink_to(tmp_path)
    assert len(dump_readers().find(tmp_path)) == 3
    said = inside("values", tmp_path, "--json", "--numbers")
    dumps = json.loads(said.out)["dumps"]
    assert [dump["entries"][0]["numbers"] for dump in dumps] == [[0], [1], [2]]


def test_a_path_that_is_no_text_is_data_too(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(bytes(tmp_path) + b"/\x1b]0;evil\x07\xff"))
    write_dump(folder, [tensor(0, 0, "output", [1])])
    for words in ((), ("--json",), ("--against", folder, "--json")):
        said = livedbg("values", tmp_path, *words)
        assert said.code in {0, 2, 3} and "\x1b" not in said.everything and "evil" not in said.everything
    assert json.loads(livedbg("values", tmp_path, "--json").out)["dumps"][0]["count"] == 1
