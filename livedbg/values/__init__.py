"""Values of tensors that a run dumped: listed, shown, exported, and compared with those of a good run.

What a screen or a command needs:

- `readers.Readers`: finds and opens dumps of every system that declares a reader. It doesn't import numpy.
- `dump.Dump`: `entries`, `problems`, `task_name`, `tensor(entry)`.
- `tensor.Tensor`: read piece by piece, by `block(first, count)`.
- `statistics`, `tensor_files`: what a tensor holds, and files of it.
- `divergence`: compares a dump with a second one; `program`: with golden tensors of the whole program.

Only `readers` can be imported without numpy and ml_dtypes; the others are imported where values are read.
"""
