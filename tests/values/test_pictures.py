"""Values as numbers and pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from livedbg.session.filereaders import dump_readers
from livedbg.values.statistics import heat_map, histogram, histogram_lines, number_lines
from livedbg.values.tensor import Held
from tests.values.conftest import tensor, write_deps, write_dump


@given(npst.arrays(np.int32, npst.array_shapes(min_dims=1, max_dims=4, max_side=12), elements=st.integers(-99, 99)))
def test_numbers_are_printed_as_numpy_prints_them(array: Any) -> None:
    printed = "\n".join(number_lines(Held(array), width=80, whole=50))
    cut = array.size > 50
    expected = np.array2string(array, max_line_width=80, threshold=0 if cut else array.size, edgeitems=3)
    assert "".join(printed.split()) == "".join(expected.split())


def test_a_scalar_tensor_and_an_empty_one() -> None:
    assert list(number_lines(Held(np.float32(1.5).reshape(())))) == ["1.5"]
    assert list(number_lines(Held(np.zeros((0, 3), np.float32)))) == ["[]"]
    assert heat_map(Held(np.zeros((0, 3), np.float32))).lines == ()
    assert histogram(Held(np.full(3, np.nan, np.float32))) is None


@given(npst.arrays(np.float32, st.integers(1, 60), elements=st.floats(width=32)), st.integers(1, 20))
def test_every_finite_element_is_in_one_bin(array: Any, bins: int) -> None:
    found = histogram(Held(array), bins=bins)
    finite = array[np.isfinite(array)]
    assert (found is None) == (finite.size == 0)
    if found is not None:
        assert sum(found.counts) == finite.size and list(found.edges) == sorted(found.edges)
        assert len(list(histogram_lines(found))) == len(found.counts) + 1


def test_a_heat_map_shows_where() -> None:
    array = np.zeros((64, 256), np.float32)
    array[32:, 192:] = 1
    array[0, 0], array[63, 0] = np.nan, np.inf
    for plain, low, high in ((False, " ", "█"), (True, " ", "@")):
        picture = heat_map(Held(array), 16, 8, plain)
        assert [line[12:] for line in picture.lines] == [low * 4] * 4 + [high * 4] * 4
        assert picture.lines[0][0] == "N" and picture.lines[7][0] == "I"
        assert picture.lines[3][:12] == low * 12 and all(len(line) == 16 for line in picture.lines)
        assert "N: has NaN" in picture.legend and picture.legend.isascii() == plain


def test_kernels_come_from_deps_where_the_dump_has_none(tmp_path: Path) -> None:
    """host_build_graph writes func_id -1."""
    path = write_dump(tmp_path, [tensor(0, 0, "output", [1], kernel=-1)])
    write_deps(tmp_path, [(0, [("OUTPUT_EXISTING", 10)])], [])
    (tmp_path / "name_map_x.json").write_text(json.dumps({"callable_id_to_name": {"0": "ADD"}}))
    with dump_readers().open(path) as dump:
        assert dump.task_name(0) == "r0t0 (ADD)"
