"""The inputs of a function, for worker.py, from words of `iree-run-module --input=`; imports nothing of ours.

A spec is a number (`3.14`), `4x8xf32` (random), `4x8xf32=0.5`, `4x8xf32=@FILE.bin` (raw values), `@FILE.npy`; `+FILE`
goes on in the file of the spec before it, and `*FILE.npy` takes all arrays of a file. An array of the bits of bfloat16
or of an 8-bit float has that type if the function declares it (numpy's files have no such types).
"""

from __future__ import annotations

import io
import re
from pathlib import Path

import ml_dtypes  # comes with iree.runtime
import numpy as np

_TYPE = re.compile(
    r"%\w{1,200}: (?:tensor<((?:\d+x)*)([a-z]+\d{1,40}(?:E\w+)?)(?:,[^>]{0,999})?>|([a-z]{1,20}\d{1,40})|[^,)]{0,999})"
)
_NUMBER = re.compile(r"[-+]?(?:0x[\da-fA-F]+|(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d+)?|inf|nan)")
_NUMPY = {
    "f64": "float64", "f32": "float32", "f16": "float16", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8",
    "i1": "bool", "si32": "int32", "ui8": "uint8", "ui32": "uint32", "bf16": "bfloat16", "f8E4M3FN": "float8_e4m3fn",
    "f8E4M3FNUZ": "float8_e4m3fnuz", "f8E5M2": "float8_e5m2", "f8E5M2FNUZ": "float8_e5m2fnuz",
}  # fmt: skip


def inputs_of(specs, declaration, seed):
    """Return the arguments of a function: arrays, and numbers if it takes numbers."""
    random = np.random.default_rng(seed)
    declared = list(_TYPE.finditer(declaration.partition("(")[2].partition(") ->")[0]))
    if not specs:
        specs = [f"{match[1]}{match[2]}" if match[2] else match[3] for match in declared]
        if None in specs:
            raise ValueError(f"inputs have to be given, since not all types are known: {declaration}")
    arrays, files = [], {}
    for spec in specs:
        arrays += _arrays(spec, random, files)
    return [_fitted(array, declared[at] if at < len(declared) else None) for at, array in enumerate(arrays)]


def _fitted(array, declared):
    element = declared[2] if declared is not None else None
    if element in _NUMPY and array.dtype.kind in "uV" and _dtype(element).kind == "V":
        return array.view(_dtype(element))
    return array.item() if declared is not None and declared[3] and array.ndim == 0 else array


def _arrays(spec, random, files):
    if _NUMBER.fullmatch(spec):
        return [np.asarray(int(spec, 0) if re.fullmatch(r"[-+]?(?:0x[\da-fA-F]+|\d+)", spec) else float(spec))]
    kind, _, value = spec.partition("=")
    where = value if value[:1] in ("@", "+") and "=" in spec else kind if kind[:1] in ("@", "+", "*") else ""
    if not where:
        return [_values(kind, value, random)]
    path, going_on = where[1:], where[0] == "+"
    if not going_on or path not in files:
        files[path] = io.BytesIO(Path(path).read_bytes())
    stream = files[path]
    if where == value:
        dtype, dims = _kind(kind)
        return [np.frombuffer(stream.read(dtype.itemsize * int(np.prod(dims))), dtype).reshape(dims)]
    found = [np.load(stream, allow_pickle=False)]
    while where[0] == "*" and stream.tell() < stream.getbuffer().nbytes:
        found.append(np.load(stream, allow_pickle=False))
    return found


def _kind(kind):
    *shape, element = kind.split("x")
    if element not in _NUMPY or not all(size.isdigit() for size in shape):
        raise ValueError(f"{kind} is no input that can be made here; give @FILE.npy")
    return _dtype(element), [int(size) for size in shape]


def _dtype(element):
    name = _NUMPY[element]
    return np.dtype(getattr(ml_dtypes, name, name))


def _values(kind, value, random):
    dtype, dims = _kind(kind)
    if value:
        words = value.translate({ord(one): " " for one in "[],"}).split()
        numbers = np.array([float(word) for word in words])
        return (
            np.broadcast_to(numbers, dims).astype(dtype) if numbers.size == 1 else numbers.astype(dtype).reshape(dims)
        )
    if dtype.kind in "fV":
        return np.asarray(random.standard_normal(dims)).astype(dtype)
    return np.asarray(random.integers(0, 2 if dtype.kind == "b" else 8, dims)).astype(dtype)
