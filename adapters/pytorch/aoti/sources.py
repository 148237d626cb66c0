"""Find the generated code of the models of a run.

A model's library names its code: `NAME.wrapper.so` was made from `NAME.wrapper.cpp`, whose name is also in its text,
since errors name it (`__FILE__`). So code of loaded libraries, and code that a log reports as written, is looked up by
name, in this order: copies made when the library was mapped (a loader deletes the folder into which it unpacks a
package), the folder of the library, packages, Inductor's cache, and the logged text (`output_code`), which equals the
file, line by line. A package (`.pt2`) is a zip file with the generated code below data/aotinductor
(torch/export/pt2_archive/constants.py).

Invariants:
    aoti_sources.F1. Only members of a bounded size are read from a package; nothing is unpacked or run.
    aoti_sources.F2. Code belongs to a run only if a library made from it was loaded, or a log of the run says that it
        was written or failed; if neither is known, if a package that the command names or opened has it.
    aoti_sources.F3. Of several models in one folder each has its own kernels: those that its code names.
"""

from __future__ import annotations

import contextlib
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from livedbg.adapters.pytorch.aoti.generated import Call, Generated, generated
from livedbg.adapters.pytorch.aoti.printed import lines_of
from livedbg.adapters.pytorch.aoti.provenance import Line, attributes_at, lines_by_kernel, parameters
from livedbg.linux import target_files
from livedbg.session.guide import StepRun
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

_CODE: Final = ".wrapper.cpp"
_KERNELS: Final = ".kernel.cpp"
_INFORMATION: Final = "kernel_information.json"
_NAMED: Final = lazy_re(
    r"[Ww]rapper code written to: (\S+\.wrapper\.cpp)\s*$|API call failed at (\S+\.wrapper\.cpp), line \d+"
)
_LOGGED: Final = lazy_re(
    r"^(?:\[\w+\]:)?[VDIWE]\d{4} \S+ (?P<process>\d+) \S+:\d+\] (?:\[[^\]]{1,40}\] )?\[__output_code\] ?(?P<text>.*)$"
)
_BEGINS: Final = lazy_re(r"^(?:\w+ )?(?P<kind>[Ww]rapper|[Kk]ernel) code:\s*$")
_WRITTEN: Final = lazy_re(r"^(?:\w+ )?(?P<kind>[Ww]rapper|[Kk]ernel) code written to: (?P<path>\S+)\s*$")
_ELSEWHERE: Final = lazy_re(r"/(?:site|dist)-packages/|/lib(?:32|64)?/|^/usr/")
"""Where programs have libraries that are no models."""
_LARGEST: Final = 64 << 20  # bytes of one file
_MOST: Final = 16  # models
_MOST_MAKERS: Final = 8  # calls from which a value came, one behind the other
_FOLDERS: Final = 64  # of what is kept
_DEFINED: Final = 'extern "C"'
_SYMBOLS: Final = 255  # of a file's name


class Model(Struct, frozen=True, kw_only=True):
    """One model's generated code.

    Attributes:
        kernels: text of the generated kernels by path.
        lines: source lines of the model by provenance handle.
        parameters: names of the model's positional arguments, if known.
    """

    code: Generated
    kernels: Mapping[str, str]
    lines: Mapping[str, tuple[Line, ...]]
    parameters: tuple[str, ...] = ()

    def source_of(self, call: Call, text: str = "") -> str:
        """Return where a call's kernel is defined in generated code: `FILE:LINE (C++)`, or "".

        Args:
            text: the line of the kernel that has this text is meant, if there is one.
        """
        cpp = re.compile(rf"\b{re.escape(call.kernel)}\s*\(")
        triton = re.compile(rf"^(?://|#)?\s*def {re.escape(call.kernel)}\s*\(")
        for path, code in self.kernels.items():
            for number, line in enumerate(code.splitlines(), 1):
                if triton.search(line):
                    return f"{path}:{number} (Triton)"
                if line.startswith(_DEFINED) and cpp.search(line):
                    below = enumerate(code.splitlines()[number:], number + 1)
                    meant = next((at for at, one in below if text and text in one), number)
                    return f"{path}:{meant} (C++)"
        return ""

    def input_name(self, number: int) -> str:
        """Return the name of an input in the model's signature (`scale`, `state['h']`), or ""."""
        path = self.code.signature.get(number, "")
        if not path.startswith("["):
            return path
        position, _, rest = path[1:].partition("]")
        if int(position) < len(self.parameters):
            return f"{self.parameters[int(position)]}{rest}"
        return f"argument {position} {rest}" if rest else ""

    def model_lines(self, call: Call) -> Sequence[Line]:
        """Return the model lines of a call, most likely makers of a NaN first."""
        return self.lines.get(call.handle, ())

    def model_line(self, call: Call) -> str:
        """Return the first of the model lines as text, or ""."""
        return next((line.told for line in self.model_lines(call)), "")

    def module_of(self, call: Call) -> str:
        """Return the module that a call runs for: its parameters', its line's, or most likely its inputs'; or ""."""
        own, modules = self.model_lines(call), self._owners(call)
        if len(modules) == 1:
            return next(iter(modules))
        return own[0].module or self._module_before(call, own[0]) if own else ""

    def _owners(self, call: Call) -> dict[str, None]:
        return dict.fromkeys(full.rpartition(".")[0] for one in call.reads if (full := self.code.constants.get(one)))

    def _module_before(self, call: Call, line: Line) -> str:
        """Return the module of the line's class whose own modules made the call's inputs (O3), or ""."""
        attributes, makers = attributes_at(line), {call.index}
        for _ in range(_MOST_MAKERS):
            makers = {maker for index in makers for _, maker in self.code.calls[index].makers}
            owners = [owner.rpartition(".") for index in makers for owner in self._owners(self.code.calls[index])]
            if owners:
                own = {parent: f"{parent}.{attribute}" for parent, _, attribute in owners if attribute in attributes}
                said = [parent and f"{parent} (most likely: {made} made its input)" for parent, made in own.items()]
                return said[0] if len(said) == 1 else ""
        return ""


class _Place(NamedTuple):
    """A folder, archive or log with generated code: a display prefix for its files, and their readers by name."""

    name: str
    files: Mapping[str, Callable[[], bytes]]


def models(run: StepRun) -> list[Model]:
    """Return the models of a run."""
    logs = (*run.logs, *run.output)
    written = list(_written(logs))
    libraries = [Path(name) for name in sorted(run.loaded) if _may_be_model(name)]
    kept = target_files.matching(run.kept, "*") if run.kept is not None else []
    wanted = dict.fromkeys(f"{folder.name}.cpp" for folder in kept)
    wanted |= dict.fromkeys(name for library in libraries if (name := code_of(library)))
    wanted |= dict.fromkeys(path.name for path in written)
    packages = dict.fromkeys(name for name in (*run.argv, *sorted(run.opened)) if name.endswith(".pt2"))
    if not wanted:
        return [model for name in packages for model in in_package(Path(name))][:_MOST]
    found: dict[str, Model] = {}
    folders = dict.fromkeys((*kept, *(path.parent for path in (*libraries, *written))))
    for place in _places(folders, packages, _caches(run.environment), wanted, logs):
        for name in [name for name in wanted if name not in found and name in place.files][: _MOST - len(found)]:
            found[name] = _model(place, name)
        if len(found) == len(wanted):
            break
    return [found[name] for name in wanted if name in found]


def _places(
    folders: Iterable[Path],
    packages: Iterable[str],
    caches: Iterable[Path],
    wanted: Iterable[str],
    logs: Sequence[Path],
) -> Iterator[_Place]:
    """Yield possible places of the generated code, nearest first."""
    for folder in folders:
        yield _in_folder(folder)
    for package in packages:
        yield from _in_package(Path(package))
    for cache in caches:
        for name in wanted:
            yield from (_in_folder(path.parent) for path in target_files.matching(cache, f"*/{name}"))
    yield from _in_logs(logs)


def _caches(environment: Mapping[str, str]) -> Sequence[Path]:
    """Return the possible Inductor cache folders (torch/_inductor/runtime/cache_dir_utils.py)."""
    named = environment.get("TORCHINDUCTOR_CACHE_DIR")
    if named:
        return [Path(named)]
    return target_files.matching(Path(environment.get("TMPDIR") or "/tmp"), "torchinductor_*")


def _may_be_model(library: str) -> bool:
    return library.endswith(".so") and not _ELSEWHERE.search(library)


def code_of(library: Path) -> str:
    """Return the name of the generated code of a library, or "" if it is no model."""
    if library.name.endswith(".wrapper.so"):
        return f"{library.stem}.cpp"
    text = _read(library)
    end = text.find(f"{_CODE}\0".encode()) + len(_CODE)
    name = re.search(rb"[\w.-]+$", text[max(0, end - _SYMBOLS) : end]) if end >= len(_CODE) else None
    return name[0].decode() if name is not None else ""


def keep(pid: int, name: str, folder: Path) -> None:
    """Copy the code of a model when its library is mapped: the loader deletes it with its folder."""
    if not _may_be_model(name):
        return
    library = Path(f"/proc/{pid}/root{name}")
    place = _in_folder(library.parent)
    code = code_of(library) if any(one.endswith(_CODE) for one in place.files) else ""
    if code not in place.files or len(target_files.matching(folder, "*")) >= _FOLDERS:
        return
    copy = folder / Path(code).stem
    texts = {one: place.files[one]() for one in _belonging(place, code)}
    with contextlib.suppress(OSError):
        copy.mkdir(parents=True, exist_ok=True, mode=0o700)
        for one in [one for one, text in texts.items() if text]:
            (copy / one).write_bytes(texts[one])


def compiled_here(run: StepRun) -> bool:
    """Return whether a log of the run says that it compiled a model."""
    return any(True for _ in _written(run.logs))


def model_of(found: Iterable[Model], name: str) -> Model | None:
    """Return the model of a generated file, by file name only: packages are unpacked anywhere."""
    return next((model for model in found if Path(model.code.path).name == Path(name).name), None)


def in_folder(path: Path) -> Model | None:
    """Return the model of a `.wrapper.cpp` in a folder."""
    place = _in_folder(path.parent)
    return _model(place, path.name) if path.name in place.files else None


def in_package(path: Path) -> Iterator[Model]:
    """Yield the models of a package."""
    for place in _in_package(path):
        yield from (_model(place, name) for name in place.files if name.endswith(_CODE))


def _written(logs: Sequence[Path]) -> Iterator[Path]:
    """Yield the code files that logs report as written or failed."""
    found = (_NAMED.search(line) for log in logs for line in lines_of(log))
    yield from dict.fromkeys(Path(match[1] or match[2]) for match in found if match is not None)


def _in_folder(folder: Path) -> _Place:
    paths = [path for kind in (f"*{_CODE}", f"*{_KERNELS}", "*.json") for path in target_files.matching(folder, kind)]
    return _Place(f"{folder}/", {path.name: partial(_read, path) for path in paths})


def _in_package(path: Path) -> Iterator[_Place]:
    broken = (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError)
    with contextlib.suppress(*broken), target_files.open_binary(path) as file, zipfile.ZipFile(file) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}

        def read(name: str) -> bytes:
            with contextlib.suppress(*broken):
                return archive.read(name) if sizes[name] < _LARGEST else b""
            return b""

        for folder in dict.fromkeys(name.rpartition("/")[0] for name in sizes if name.endswith(_CODE)):
            inside = [name for name in sizes if name.rpartition("/")[0] == folder]
            names = {name.rpartition("/")[2]: partial(read, name) for name in inside}
            yield _Place(f"{path}:{folder}/", names)


def _in_logs(logs: Sequence[Path]) -> Iterator[_Place]:
    """Yield the logged texts of code, for each process those of its newest model."""
    for log in logs:
        texts: dict[tuple[str, str], list[str]] = {}
        current: dict[str, list[str]] = {}
        files: dict[str, Callable[[], bytes]] = {}
        for line in lines_of(log):
            match = _LOGGED.match(line)
            if match is None:
                continue
            process, text = match["process"], match["text"]
            if begun := _BEGINS.match(text):
                current[process] = texts[process, begun["kind"].lower()] = []
            elif written := _WRITTEN.match(text):
                current.pop(process, None)
                code = "\n".join(texts.pop((process, written["kind"].lower()), ())).encode()
                files[Path(written["path"]).name] = partial(bytes, code)
            elif process in current:
                current[process].append(text)
        if files:
            yield _Place(f"{log}:", files)


def _belonging(place: _Place, code: str) -> list[str]:
    """Return the files that belong to a model's code: the kernels that it names, or all (F3)."""
    text = place.files[code]()
    kernels = [name for name in place.files if name.endswith(_KERNELS)]
    own = [name for name in kernels if name.removesuffix(".cpp").encode() in text] or kernels
    beside = (f"{code.removesuffix('.cpp')}.json", _INFORMATION)
    return [code, *own, *(name for name in beside if name in place.files)]


def _model(place: _Place, name: str) -> Model:
    texts = {one: place.files[one]() for one in _belonging(place, name)}
    shown = {one: clean_line(f"{place.name}{one}", 500) for one in texts}
    decoded = {one: text.decode("utf-8", "replace") for one, text in texts.items() if not one.endswith(".json")}
    kernels = {shown[one]: text for one, text in decoded.items() if one != name}
    return Model(
        code=generated(shown[name], decoded[name], texts.get(f"{name.removesuffix('.cpp')}.json", b"")),
        kernels={**kernels, shown[name]: decoded[name]},
        lines=lines_by_kernel(texts.get(_INFORMATION, b"")),
        parameters=parameters(texts.get(_INFORMATION, b"")),
    )


def _read(path: Path) -> bytes:
    try:
        with target_files.open_binary(path) as file:
            return file.read(_LARGEST)
    except OSError:
        return b""
