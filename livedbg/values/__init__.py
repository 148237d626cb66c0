"""Values of tensors that a run dumped: `args_dump` and its predecessor `tensor_dump` of Ascend's runtime.

What a screen or a command needs:

- `find_dumps(path)` and `open_dump(path)`: a `Dump` with `entries`, `problems`, `task_name`, `tensor(entry)`.
- a `Tensor` is read piece by piece: `block(first, count)`, `window(tensor, row, rows, column, columns)`.
- `statistics`, `histogram`, `heat_map`, `number_lines`, `export` look at a tensor.
- `livedbg.values.divergence` compares a dump with a second one, `livedbg.values.golden` with golden files.

This package imports numpy and ml_dtypes; it is imported only where values are read.
"""

from __future__ import annotations

from livedbg.values.dump import Dump, Selection, open_dump, parse_task, task_name
from livedbg.values.finding import find_dumps
from livedbg.values.manifest import Entry
from livedbg.values.numbers import element_text, number_lines, statistic_pairs
from livedbg.values.pictures import HeatMap, heat_map, histogram_lines
from livedbg.values.statistics import Histogram, Statistics, histogram, statistics
from livedbg.values.tensor import Stored, Tensor, window

__all__ = [
    "Dump",
    "Entry",
    "HeatMap",
    "Histogram",
    "Selection",
    "Statistics",
    "Stored",
    "Tensor",
    "element_text",
    "find_dumps",
    "heat_map",
    "histogram",
    "histogram_lines",
    "number_lines",
    "open_dump",
    "parse_task",
    "statistic_pairs",
    "statistics",
    "task_name",
    "window",
]
