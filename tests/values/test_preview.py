"""One tensor for a screen: soon for tensors of any size, given up when nobody wants it, sensible for every type."""

from __future__ import annotations

import json
import os
import shutil
import threading
import warnings
from pathlib import Path

import ml_dtypes
import msgspec
import numpy as np
import pytest

from livedbg.model.dumps import ValuePreview
from livedbg.session.filereaders import dump_readers
from livedbg.values import state
from livedbg.values.dump import Dump
from livedbg.values.readers import Readers
from livedbg.values.state import Previewer, compared, listed
from livedbg.values.tensor import GivenUp, until
from tests.text.hostile import FORBIDDEN, strings
from tests.values.conftest import Arg, scalar, tensor, write_dump

LARGE = 3 << 20


def looks(path: Path, number: int = 0, looker: Previewer | None = None) -> list[ValuePreview]:
    return list((looker or Previewer(dump_readers())).previews(path, "it", number))


def large(folder: Path, shape: tuple[int, ...] = (1536, 2048)) -> Path:
    """A tensor of 12 MB: ones, and one NaN where no sample looks."""
    values = np.ones(LARGE, np.float32)
    values[40_000] = np.nan
    return write_dump(folder, [tensor(0, 0, "output", values.reshape(shape))])


@pytest.mark.invariant("preview.L2")
def test_of_a_large_tensor_a_sample_comes_first_and_says_so(tmp_path: Path) -> None:
    first, last = looks(large(tmp_path))
    assert dict(first.statistics)["count"] == f"{1 << 21} of {LARGE}" and first.goes_on
    assert "2,097,152 of 3,145,728 elements" in first.sample and "others are being read" in first.sample
    assert set("".join(first.heat)) == {"5"}, "every cell has a piece of the sample"
    assert sum(first.counts) == 1 << 21
    assert dict(last.statistics)["NaN"] == "1" and dict(last.statistics)["first NaN at"] == "[19, 1088]"
    assert not last.sample and not last.goes_on and "N" in last.heat[0]


@pytest.mark.invariant("preview.L2")
def test_of_a_huge_one_the_sample_is_all_and_the_remedy_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "WHOLE", LARGE - 1)
    (only,) = looks(large(tmp_path, (2, LARGE // 2)))
    assert not only.goes_on and "`livedbg values DUMP --stats` reads all" in only.sample


def test_a_look_is_given_up_between_two_pieces(tmp_path: Path) -> None:
    path, stop = large(tmp_path), threading.Event()
    with until(stop):
        found = Previewer(dump_readers()).previews(path, "it", 0)
        assert next(found).goes_on
        stop.set()
        with pytest.raises(GivenUp):
            next(found)
        with pytest.raises(GivenUp):
            looks(path)


def test_a_cursor_that_moves_does_not_begin_the_manifest_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_dump(tmp_path, [tensor(task, 0, "output", [task]) for task in range(3)])
    opened, end, newer, looker = [], threading.Event(), threading.Event(), Previewer(dump_readers())
    really = Readers.open

    def slow(readers: Readers, path: Path) -> Dump:
        opened.append(path)
        newer.set()  # the cursor moves on meanwhile
        return really(readers, path)

    monkeypatch.setattr(Readers, "open", slow)
    with until(end, newer), pytest.raises(GivenUp):
        looks(path, 0, looker)
    assert looks(path, 1, looker)[0].numbers == ("[1]",) and len(opened) == 1
    end.set()
    with until(end), pytest.raises(GivenUp):
        looks(path, 1, Previewer(dump_readers()))


@pytest.mark.invariant("preview.L1")
def test_the_manifest_is_read_once_and_nothing_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_dump(tmp_path, [tensor(task, 0, "output", [task]) for task in range(3)])
    opened = []
    really = Readers.open
    monkeypatch.setattr(Readers, "open", lambda readers, path: opened.append(path) or really(readers, path))
    looker = Previewer(dump_readers())
    for number in (0, 2, 1, 2):
        (look,) = looks(path, number, looker)
        assert look.numbers == (f"[{number}]",)
    assert len(opened) == 1
    payload = path.with_name("args.bin")
    assert not any(fd.samefile(payload) for fd in Path("/proc/self/fd").iterdir() if fd.exists())
    payload.write_bytes(np.array([7, 8, 9], np.float32).tobytes())
    os.utime(payload, (1, 1))
    assert looks(path, 1, looker)[0].numbers == ("[8]",) and len(opened) == 2
    payload.unlink()
    assert looks(path, 1, looker)[0].problem == "no payload: args.bin can't be read"
    path.unlink()
    assert "can't be read" in looks(path, 1, looker)[0].problem
    assert "no such entry" in looks(write_dump(tmp_path, []), 1, looker)[0].problem


def _of(values: np.ndarray, kind: str) -> Arg:  # type: ignore[type-arg]
    return Arg(0, 0, "output", "after_completion", values.tobytes(), kind, values.shape)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("arg", "said", "legend", "numbers"),
    [
        (_of(np.array([NAN] * 4, "f4"), "FLOAT32"), {"NaN": "4"}, "no finite value, N: has NaN", "[nan nan nan nan]"),
        (_of(np.array([INF, 5], "f4"), "FLOAT32"), {"max": "5", "Inf": "1"}, "everything else 5, I", "[inf   5]"),
        (_of(np.zeros((0, 3), "f4"), "FLOAT32"), {"count": "0"}, "no elements", "[]"),
        (_of(np.array(7, "f4"), "FLOAT32"), {"count": "1", "std": "0"}, "everything 7", "7"),
        (
            _of(np.array([1.5, -3e38], ml_dtypes.bfloat16), "BFLOAT16"),
            {"NaN": "0"},
            "-3.004e+38 to 1.5",
            "[   1.5 -3e+38]",
        ),
        (
            _of(np.array([448, NAN], ml_dtypes.float8_e4m3fn), "FP8E4M3FN"),
            {"max": "448"},
            "everything else 448",
            "[448 nan]",
        ),
        (_of(np.array([0.25, 4], ml_dtypes.float8_e8m0fnu), "FP8E8M0"), {"min": "0.25"}, "0.25 to 4", "[0.25    4]"),
        (_of(np.array([0x21, 0xF8], "u1"), "FP4E2M1"), {"count": "4", "min": "-6"}, "-6 to 1", "[0.5   1  -0  -6]"),
        (_of(np.array([0x8F, 0x70], "u1"), "INT4"), {"count": "4", "min": "-8"}, "-8 to 7", "[-1 -8  0  7]"),
        (
            _of(np.array([3.4e38, -3.4e38], "f4"), "FLOAT32"),
            {"mean": "0"},
            "-3.4e+38 to 3.4e+38",
            "[ 3.4e+38 -3.4e+38]",
        ),
        (_of(np.array([1.7e308, -1.7e308]), "FLOAT64"), {"max": "1.7e+308"}, "to 1.7e+308", "[ 1.7e+308 -1.7e+308]"),
        (
            _of(np.array([2**63 - 1, -(2**63)]), "INT64"),
            {"max": f"{2**63 - 1}"},
            "9.223e+18",
            f"[ {2**63 - 1} -{2**63}]",
        ),
        (_of(np.array([97, 98], "u1"), "\x1b]0;evil\x07ODD\u202e"), {"min": "97"}, "97 to 98", "[61 62]"),
    ],
)
def test_every_type_and_every_extreme_is_shown_sensibly(
    tmp_path: Path, arg: Arg, said: dict[str, str], legend: str, numbers: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (look,) = looks(write_dump(tmp_path, [arg]))
    assert not look.problem and look.title.isprintable() and "evil" not in look.title
    assert said.items() <= dict(look.statistics).items()
    assert legend in look.legend and look.numbers == (numbers,)
    finite = int(dict(look.statistics)["count"]) - sum(int(dict(look.statistics).get(odd, 0)) for odd in ("NaN", "Inf"))
    assert sum(look.counts) == finite


def test_scalars_and_shapes_beyond_all_bounds(tmp_path: Path) -> None:
    vast = Arg(1, 0, "output", "after_completion", b"1234", "FLOAT32", (1 << 61, 1))
    path = write_dump(tmp_path, [scalar(0, 0, "\x1b[31mevil\x1b[0m"), vast])
    (look,) = looks(path, 0)
    assert look.numbers == ("= evil",) and not look.problem
    (look,) = looks(path, 1)
    assert look.title.endswith("short") and look.heat == ("5", *"?" * 11)


@pytest.mark.parametrize("name", ["args.bin", "args_dump.json"])
@pytest.mark.parametrize("odd", ["pipe", "folder"])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, name: str, odd: str) -> None:
    path = write_dump(tmp_path, [tensor(0, 0, "output", [1])])
    target = path.with_name(name)
    target.unlink()
    os.mkfifo(target) if odd == "pipe" else target.mkdir()
    (look,) = looks(path)
    assert "args" in look.problem and "can't be read" in look.problem
    shutil.rmtree(path.parent)


@pytest.mark.invariant("dumps.D1")
def test_D1_texts_of_a_dump_are_clean(tmp_path: Path) -> None:
    evil = "\x1b]52;c;AAAA\x07\x1b[2J"
    dumps = []
    for run in (1, 2):
        odd = Arg(0, 1, evil, evil, bytes(4), evil, (4,), 0, {"kind": evil})
        dumps.append(write_dump(tmp_path / f"{evil}{run}", [tensor(0, 0, "output", [run]), odd]))
        names = json.dumps({"callable_id_to_name": {"0": f"{evil}Kernel"}})
        (dumps[-1].parents[1] / "name_map_x.json").write_text(names)
    readers = dump_readers()
    seen = [listed(readers, dumps[0]), compared(readers, *dumps), *looks(dumps[0])]
    texts = [text for each in seen for _, text in strings(msgspec.to_builtins(each))]
    assert any("Kernel" in text for text in texts)
    assert [text for text in texts if FORBIDDEN.search(text)] == []


@pytest.mark.invariant("dumps.D2")
def test_D2_rows_and_pictures_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "ROWS", 20)
    path = write_dump(tmp_path / "many", [tensor(task, 0, "output", [task]) for task in range(100)])
    tasks = [f"task:ascend/r0t{task}" for task in range(100)]
    assert len(listed(dump_readers(), path).rows) == 20
    shown = listed(dump_readers(), path, also=tasks)
    assert (len(shown.rows), shown.count) == (40, 100)
    sizes = set()
    for number, shape in enumerate([(2048, 1536), (LARGE,), (3, 1 << 20)]):
        *_, look = looks(large(tmp_path / f"large{number}", shape))
        assert max(len(look.heat), *map(len, look.heat), len(look.counts), len(look.numbers)) <= 64
        sizes.add(len(msgspec.json.encode(look)) // 10_000)
    assert sizes == {0}
