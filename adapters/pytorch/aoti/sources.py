"""Finds the generated code of the models of a run: what it wrote as it compiled, packages, and unpacked packages.

A package (`.pt2`) is a zip file with the generated code below data/aotinductor (torch/export/pt2_archive/constants.py).

Invariants:
    aoti_sources.F1. Of a package only members of a bounded size are read, and nothing is unpacked or run.
"""

from __future__ import annotations

import contextlib
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from livedbg.adapters.pytorch.aoti.generated import Call, Generated, generated
from livedbg.adapters.pytorch.aoti.printed import lines_of
from livedbg.linux import target_files
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

_WRITTEN: Final = lazy_re(r"Wrapper code written to: (\S+\.wrapper\.cpp)\s*$")
_FAILED: Final = lazy_re(r"API call failed at (\S+\.wrapper\.cpp), line \d+")
_LARGEST: Final = 64 << 20  # bytes of one file
_MOST: Final = 16  # models
_TRACE: Final = lazy_re(r'File "([^"]+)", line (\d+), in (\S+)\n\s*(.*)')
_LIBRARY: Final = lazy_re(r"/(?:site|dist)-packages/|/torch/")
_DEFINED: Final = 'extern "C"'


class Model(Struct, frozen=True, kw_only=True):
    """One model's generated code, and what is known of it.

    Attributes:
        code: its calls.
        kernels: text of the generated kernels by path.
        lines: the lines of the model's own source by provenance handle, the innermost first.
    """

    code: Generated
    kernels: Mapping[str, str]
    lines: Mapping[str, tuple[str, ...]]

    def source_of(self, call: Call) -> str:
        """Where the kernel of a call is defined in generated code: `FILE:LINE (C++)`, or ""."""
        cpp = re.compile(rf"\b{re.escape(call.kernel)}\s*\(")
        triton = re.compile(rf"^(?://|#)?\s*def {re.escape(call.kernel)}\s*\(")
        for path, text in self.kernels.items():
            for number, line in enumerate(text.splitlines(), 1):
                if triton.search(line):
                    return f"{path}:{number} (Triton)"
                if line.startswith(_DEFINED) and cpp.search(line):
                    return f"{path}:{number} (C++)"
        return ""

    def model_line(self, call: Call) -> str:
        """The line of the model that a call came from, or ""."""
        return next(iter(self.lines.get(call.handle, ())), "")


def models(logs: Sequence[Path], argv: Sequence[str], loaded: Iterable[str]) -> list[Model]:
    """The models of a run.

    Args:
        logs: texts that may name the code that was written as a model was compiled, or in which a call failed.
        argv: the command: packages that it names.
        loaded: files that its processes had mapped: unpacked packages.
    """
    found: dict[str, Model] = {}
    for path in _written(logs):
        _add(found, in_folder(path))
    if not found:
        for word in argv:
            if word.endswith(".pt2"):
                for model in in_package(Path(word)):
                    _add(found, model)
    if not found:
        for name in loaded:
            if name.endswith(".wrapper.so"):
                _add(found, in_folder(Path(name).with_suffix(".cpp")))
    return list(found.values())


def model_of(found: Iterable[Model], name: str) -> Model | None:
    """The model of a file of generated code, by the file's name: packages are unpacked anywhere."""
    return next((model for model in found if Path(model.code.path).name == Path(name).name), None)


def _add(found: dict[str, Model], model: Model | None) -> None:
    if model is not None and len(found) < _MOST:
        found.setdefault(Path(model.code.path).name, model)


def _written(logs: Sequence[Path]) -> Iterator[Path]:
    names: dict[str, None] = {}
    for log in logs:
        for line in lines_of(log):
            if match := _WRITTEN.search(line) or _FAILED.search(line):
                names[match[1]] = None
    yield from map(Path, names)


def in_folder(path: Path) -> Model | None:
    """The model of a `.wrapper.cpp` that lies in a folder."""
    text = _read(path)
    if not text:
        return None
    kernels = {
        str(file): _read(file).decode("utf-8", "replace") for file in target_files.matching(path.parent, "*.kernel.cpp")
    }
    return _model(
        str(path), text, _read(path.with_suffix(".json")), kernels, _read(path.parent / "kernel_information.json")
    )


def in_package(path: Path) -> Iterator[Model]:
    """The models of a package."""
    broken = (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError)
    with contextlib.suppress(*broken), target_files.open_binary(path) as file, zipfile.ZipFile(file) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}

        def read(name: str) -> bytes:
            return archive.read(name) if sizes.get(name, _LARGEST) < _LARGEST else b""

        for name in [name for name in sizes if name.endswith(".wrapper.cpp")][:_MOST]:
            folder = name.rpartition("/")[0]
            kernels = {
                f"{path}:{other}": read(other).decode("utf-8", "replace")
                for other in sizes
                if other.startswith(f"{folder}/") and other.endswith(".kernel.cpp")
            }
            yield _model(
                f"{path}:{name}",
                read(name),
                read(f"{name.removesuffix('.cpp')}.json"),
                kernels,
                read(f"{folder}/kernel_information.json"),
            )


def _model(path: str, text: bytes, nodes: bytes, kernels: Mapping[str, str], information: bytes) -> Model:
    decoded = text.decode("utf-8", "replace")
    return Model(
        code=generated(clean_line(path, 500), decoded, nodes),
        kernels={**{clean_line(name, 500): code for name, code in kernels.items()}, clean_line(path, 500): decoded},
        lines=_lines(information),
    )


def _lines(information: bytes) -> dict[str, tuple[str, ...]]:
    """By provenance handle: the lines of the model's source, those of torch left out where there are others."""
    try:
        decoded = msgspec.json.decode(information) if information else {}
        traces = {str(handle): [str(text) for text in known["stack_traces"]] for handle, known in decoded.items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}
    found: dict[str, tuple[str, ...]] = {}
    for handle, texts in traces.items():
        places: dict[str, None] = {}
        for text in texts:
            frames = _TRACE.findall(text)
            own = [frame for frame in frames if not _LIBRARY.search(frame[0])] or frames
            for file, line, _function, source in own[-1:]:
                places[clean_line(f"{file}:{line}: {source}" if source else f"{file}:{line}", 300)] = None
        found[handle] = tuple(places)
    return found


def _read(path: Path) -> bytes:
    try:
        with target_files.open_binary(path) as file:
            return file.read(_LARGEST)
    except OSError:
        return b""
