"""Every element type, strides and packing: numpy and ml_dtypes are the oracles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from livedbg.session.filereaders import dump_readers, tensor_formats
from livedbg.values.buffers import places_of
from livedbg.values.dump import Entry, Selection
from livedbg.values.statistics import statistics
from livedbg.values.tensor import Held, Payload, Stored, blocks, element_type, index_of
from livedbg.values.tensor_files import export, load
from tests.values.conftest import Arg, tensor, write_dump

WRITTEN = {
    "FLOAT32": np.float32,
    "FLOAT16": np.float16,
    "INT32": np.int32,
    "INT16": np.int16,
    "INT8": np.int8,
    "UINT8": np.uint8,
    "BFLOAT16": ml_dtypes.bfloat16,
    "INT64": np.int64,
    "UINT64": np.uint64,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "BOOL": np.bool_,
    "FP8E4M3FN": ml_dtypes.float8_e4m3fn,
    "FP8E8M0": ml_dtypes.float8_e8m0fnu,
}
"""simpler's data_type.h of August 2026, but the packed FP4E2M1."""


def entry_of(shape: tuple[int, ...], strides: tuple[int, ...], start: int = 0) -> Entry:
    words: dict[str, Any] = dict.fromkeys(Entry.__struct_fields__, False)
    return Entry(**words | {"shape": shape, "strides": strides, "start_offset": start})


@pytest.mark.parametrize("name", [*WRITTEN, *map(str.lower, WRITTEN)])
def test_every_type_that_the_runtime_writes(name: str, tmp_path: Path) -> None:
    numbers = np.array([[8 if name.upper() == "FP8E8M0" else 0, 1, 2], [1, 0.5, 4]])  # a scale is never 0
    values = numbers.astype(WRITTEN[name.upper()])
    arg = Arg(7, 0, "output", "after_completion", values.tobytes(), name, values.shape)
    with dump_readers().open(write_dump(tmp_path, [arg])) as dump:
        (entry,) = dump.entries
        found = dump.tensor(entry)
        assert dump.problems == [] and dump.state(entry) == "" and found is not None
        block = found.block(0, 100)
        assert found.shape == (2, 3) and (block.astype(np.float64) == values.astype(np.float64).reshape(-1)).all()
        export(found, tmp_path / "t.npy", {}, tensor_formats())
        back = np.load(tmp_path / "t.npy", allow_pickle=False)
        assert (back.astype(np.float64) == values.astype(np.float64)).all()
        export(found, tmp_path / "t.pt", {}, tensor_formats())
        again = load(tmp_path / "t.pt", tensor_formats())
        assert again.shape == (2, 3)
        assert (again.block(0, 6).astype(np.float64) == values.astype(np.float64).reshape(-1)).all()
        if name.upper() not in {"UINT64", "UINT16", "UINT32"}:  # torch keeps these as they are, numpy's names differ
            assert again.element.name == name.upper()


def test_four_bits_are_two_in_a_byte_low_half_first(tmp_path: Path) -> None:
    # codes 0..15 of E2M1 in order: 0, .5, 1, 1.5, 2, 3, 4, 6, and the same below zero
    data = bytes(low | (low + 1) << 4 for low in range(0, 16, 2))
    arg = Arg(7, 0, "output", "after_completion", data, "FP4E2M1", (2, 4))
    with dump_readers().open(write_dump(tmp_path, [arg])) as dump:
        found = dump.tensor(dump.entries[0])
        assert found is not None and found.shape == (2, 8) and found.count == 16
        expected = [0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6]
        assert found.block(0, 16).astype(float).tolist() == expected
        assert found.block(3, 4).astype(float).tolist() == expected[3:7]
        assert statistics(found).minimum == -6
        export(found, tmp_path / "t.npy", {}, tensor_formats())
        assert np.load(tmp_path / "t.npy").reshape(-1).tolist() == expected


def test_four_bit_integers_have_a_sign() -> None:
    element = element_type("int4")
    assert element is not None
    assert element.decode(bytes([0xF8, 0x70])).astype(int).tolist() == [-8, -1, 0, 7]
    unsigned = element_type("uint4")
    assert unsigned is not None and unsigned.decode(bytes([0xF8])).astype(int).tolist() == [8, 15]


def test_an_unknown_type_is_shown_as_bytes(tmp_path: Path) -> None:
    arg = Arg(7, 0, "output", "after_completion", bytes([1, 2, 255, 4]), "HIFLOAT9", (4,))
    with dump_readers().open(write_dump(tmp_path, [arg])) as dump:
        found = dump.tensor(dump.entries[0])
        assert found is not None and found.block(0, 9).tolist() == [1, 2, 255, 4] and found.element.kind == "raw"
        assert any("HIFLOAT9" in problem for problem in dump.problems)


@given(npst.arrays(np.int8, npst.array_shapes(max_dims=5, max_side=4)), st.data())
def test_views_lie_where_numpy_has_them(buffer: np.ndarray[Any, Any], data: st.DataObject) -> None:
    flat = np.arange(buffer.size)
    cut = tuple(
        slice(start, data.draw(st.integers(start + 1, size)), data.draw(st.integers(1, 3)))
        for size in buffer.shape
        for start in (data.draw(st.integers(0, size - 1)),)
    )
    order = data.draw(st.permutations(range(buffer.ndim)))
    view = flat.reshape(buffer.shape)[cut].transpose(order)
    strides = tuple(step // flat.itemsize for step in view.strides)
    entry = entry_of(view.shape, strides, int(view.reshape(-1)[0]))
    places = places_of(entry, flat.size)
    assert places is not None and (places == view.reshape(-1)).all()
    assert places_of(entry, int(view.max())) is None  # the buffer ends one element before
    pairs = places_of(entry, 2 * flat.size, 2)
    assert pairs is not None and (pairs == np.stack([2 * places, 2 * places + 1], 1).reshape(-1)).all()


@given(npst.arrays(np.float32, npst.array_shapes(max_dims=4, max_side=5), elements=st.floats(width=32)))
def test_statistics_are_numpys(array: np.ndarray[Any, Any]) -> None:
    found = statistics(Held(array))
    sound = array[np.isfinite(array)].astype(np.float64)
    assert found.count == array.size and found.finite == sound.size
    assert found.zeros == int((array == 0).sum()) and found.nans == int(np.isnan(array).sum())
    assert found.infinities == int(np.isinf(array).sum())
    assert found.denormals == int(((array != 0) & (np.abs(array) < np.finfo(np.float32).tiny)).sum())
    if sound.size:
        assert (found.minimum, found.maximum) == (sound.min(), sound.max())
        assert found.mean == pytest.approx(sound.mean(), rel=1e-9, abs=1e-300)
        assert found.std == pytest.approx(sound.std(), rel=1e-6, abs=1e-6 * float(np.abs(sound).max()))
    if found.nans:
        assert found.first_nan == tuple(np.argwhere(np.isnan(array))[0].tolist())


@given(npst.array_shapes(max_dims=5), st.data())
def test_an_index_is_numpys(shape: tuple[int, ...], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, int(np.prod(shape)) - 1))
    assert index_of(place, shape) == tuple(int(at) for at in np.unravel_index(place, shape))


def test_a_selection_of_nothing_is_everything(tmp_path: Path) -> None:
    arg = Arg(7, 0, "output", "after_completion", b"\0" * 4, "FLOAT32", (1,))
    with dump_readers().open(write_dump(tmp_path, [arg])) as dump:
        assert list(Selection().of(dump)) == dump.entries


@pytest.mark.invariant("tensor.T1")
def test_T1_a_block_reads_what_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[int, int]] = []
    whole = Payload.read

    def noted(payload: Payload, offset: int, size: int) -> bytes:
        read.append((offset, size))
        return whole(payload, offset, size)

    monkeypatch.setattr(Payload, "read", noted)
    packed = Arg(1, 0, "output", "after_completion", bytes(500), "FP4E2M1", (500,))
    with dump_readers().open(write_dump(tmp_path, [tensor(0, 0, "output", range(1000)), packed])) as dump:
        floats, halves = (dump.tensor(entry) for entry in dump.entries)
        assert floats is not None and halves is not None and read == []
        assert floats.block(10, 5).tolist() == [10, 11, 12, 13, 14] and read.pop() == (40, 20)
        assert len(floats.block(998, 100)) == 2 and read.pop() == (3992, 8)
        assert len(halves.block(3, 4)) == 4 and read.pop() == (4001, 3)  # two elements a byte
        assert len(floats.block(1000, 1)) == 0 and sum(size for _, size in read) == 0


@pytest.mark.invariant("tensor.T2")
@pytest.mark.parametrize(("there", "count"), [(0, 0), (3, 0), (11, 2), (12, 3), (24, 6), (100, 6)])
def test_T2_a_shape_that_promises_more_is_no_error(there: int, count: int, tmp_path: Path) -> None:
    path = tmp_path / "payload"
    path.write_bytes(np.arange(25, dtype=np.float32).tobytes()[:there])
    element = element_type("FLOAT32")
    assert element is not None
    payload = Payload(path)
    try:
        found = Stored(payload, 0, there, (2, 3), element)
        assert (found.count, found.total) == (count, 6)
        assert found.block(0, 100).tolist() == list(range(count))
        assert sum(len(block) for _, block in blocks(found)) == count
    finally:
        payload.close()
