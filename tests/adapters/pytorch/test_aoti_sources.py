"""Where the generated code of a model is found: folders, packages and logs made by hand, and one program that is
followed."""

from __future__ import annotations

import json
import os
import shutil
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from livedbg.adapters.pytorch.aoti.generated import Call, Generated
from livedbg.adapters.pytorch.aoti.printed import Value
from livedbg.adapters.pytorch.aoti.provenance import Line, lines_by_kernel, parameters, rows_of
from livedbg.adapters.pytorch.aoti.sources import Model, code_of, keep, models
from livedbg.adapters.pytorch.aoti.tracing import first_bad
from livedbg.recipes.effects import Witness
from livedbg.session.guide import StepRun
from tests.conftest import Target, eventually

CODE = "void AOTInductorModel::run_impl(\n    cpp_fused_0((float*)(buf0.data_ptr()));\n// g++ /w/{kernel}.kernel.o\n"
KERNEL = '{first}extern "C" void cpp_fused_0(float* out_ptr0)\n'


def folder_of(path: Path, name: str = "cabc", kernel: str = "ck1", first: str = "\n") -> Path:
    """A folder with a model's code; gives its library."""
    path.mkdir(parents=True, exist_ok=True)
    (path / f"{name}.wrapper.cpp").write_text(CODE.format(kernel=kernel))
    (path / f"{kernel}.kernel.cpp").write_text(KERNEL.format(first=first))
    library = path / f"{name}.wrapper.so"
    library.write_bytes(b"\x7fELF")
    return library


def package_of(path: Path, folder: Path) -> Path:
    """A package of what is in a folder."""
    with zipfile.ZipFile(path, "w") as archive:
        for file in folder.iterdir():
            archive.write(file, f"m/data/aotinductor/model/{file.name}")
    return path


def log_of(path: Path, first: str, name: str = "cabc") -> Path:
    """A log with the code and where it was written, as torch names these; another process writes between."""
    head = "V0102 03:04:05.000000 77 torch/_inductor/compile_fx.py:17] [0/0] [__output_code] "
    other = head.replace(" 77 ", " 78 ")
    texts = ["W0102 03:04:05.000000 77 torch/utils/x.py:1] no device"]
    for kind, text in (("wrapper", CODE.format(kernel="ck1")), ("kernel", KERNEL.format(first="\n"))):
        texts += [f"{head}{first} {kind} code: ", f"{other}AOT wrapper code: "]
        texts += [line for one in text.splitlines() for line in (f"{head}{one}", f"{other}int i;")]
    texts += [f"{head}{first} wrapper code written to: /w/{name}.wrapper.cpp"]
    texts += [f"{head}{first} kernel code written to: /w/ck1.kernel.cpp"]
    path.write_text("\n".join(texts) + "\n")
    return path


def sources(run: StepRun) -> list[str]:
    """Where the kernel of each model's only call is."""
    return [model.source_of(model.code.calls[0]) for model in models(run)]


def run_of(
    loaded: Sequence[Path] = (), *, argv: Sequence[str] = (), opened: Sequence[Path] = (), logs: Sequence[Path] = (),
    kept: Path | None = None, cache: Path = Path("/nowhere"),
) -> StepRun:  # fmt: skip
    return StepRun(
        number=1,
        argv=tuple(argv),
        loaded=frozenset(map(str, loaded)),
        opened=frozenset(map(str, opened)),
        logs=tuple(logs),
        kept=kept,
        environment={"TORCHINDUCTOR_CACHE_DIR": str(cache)},
    )


def test_the_code_is_found_in_each_place_and_in_the_nearest_one_first(tmp_path: Path) -> None:
    gone = Path("/unpacked/m/cabc.wrapper.so")
    cache, kept, here = tmp_path / "cache", tmp_path / "kept", tmp_path / "here"
    log = log_of(tmp_path / "torch.log", "AOT")
    assert sources(run_of([gone])) == []
    assert sources(run_of([gone], logs=[log])) == [f"{log}:ck1.kernel.cpp:2 (C++)"]
    folder_of(cache / "cdef")
    run = run_of([gone], logs=[log], cache=cache)
    assert sources(run) == [f"{cache}/cdef/ck1.kernel.cpp:2 (C++)"]
    package = package_of(tmp_path / "a.pt2", cache / "cdef")
    run = run_of([gone], opened=[package], logs=[log], cache=cache)
    assert sources(run) == [f"{package}:m/data/aotinductor/model/ck1.kernel.cpp:2 (C++)"]
    library = folder_of(here)
    run = run_of([library], opened=[package], logs=[log], cache=cache)
    assert sources(run) == [f"{here}/ck1.kernel.cpp:2 (C++)"]
    folder_of(kept / "cabc.wrapper")
    run = run_of([library], opened=[package], logs=[log], cache=cache, kept=kept)
    assert sources(run) == [f"{kept}/cabc.wrapper/ck1.kernel.cpp:2 (C++)"]


@pytest.mark.parametrize("first", ["AOT", "Output"])
def test_the_code_of_a_log_is_that_of_its_file_line_by_line(first: str, tmp_path: Path) -> None:
    (model,) = models(run_of(logs=[log_of(tmp_path / "torch.log", first)]))
    assert [(call.line, call.name) for call in model.code.calls] == [(2, "cpp_fused_0")]


def printed(when: str, argument: str, mean: str) -> list[Value]:
    """A value of an argument of cpp_fused_0."""
    return [Value(when=when, kernel="cpp_fused_0", argument=argument, mean=float(mean))]


def test_of_models_with_kernels_of_one_name_the_arguments_say_whose_was_launched(tmp_path: Path) -> None:
    first, second = folder_of(tmp_path / "a", "cone"), folder_of(tmp_path / "b", "ctwo")
    code = second.with_suffix(".cpp")
    code.write_text(code.read_text().replace("buf0", "buf7"))
    found = models(run_of([first, second]))
    ran = [*printed("before", "buf0", "nan"), *printed("after", "buf0", "1"), *printed("before", "buf7", "1")]
    trail = first_bad([*ran, *printed("after", "buf7", "nan")], found)
    assert trail is not None and trail.model is found[1] and trail.made
    code.write_text(code.read_text().replace("buf7", "buf0"))
    unsure = first_bad(printed("after", "buf0", "nan"), models(run_of([first, second])))
    assert unsure is not None and unsure.model is None and not unsure.made


@pytest.mark.invariant("aoti_sources.F2")
def test_a_package_of_another_model_is_not_that_of_the_run(tmp_path: Path) -> None:
    folder_of(tmp_path / "old", "cold")
    package = package_of(tmp_path / "old.pt2", tmp_path / "old")
    command = ["./run", str(package)]
    assert len(models(run_of(argv=command))) == 1  # all that is known
    assert models(run_of([Path("/unpacked/cnew.wrapper.so")], argv=command)) == []
    assert [model.code.path for model in models(run_of(argv=command, logs=[log_of(tmp_path / "log", "AOT")]))] == [
        f"{tmp_path}/log:cabc.wrapper.cpp"
    ]


@pytest.mark.invariant("aoti_sources.F3")
def test_models_in_one_folder_have_their_own_kernels(tmp_path: Path) -> None:
    first, second = folder_of(tmp_path / "c", "cone", "ck1", "\n"), folder_of(tmp_path / "c", "ctwo", "ck2", "\n\n")
    assert sources(run_of([first, second])) == [
        f"{tmp_path}/c/ck1.kernel.cpp:2 (C++)",
        f"{tmp_path}/c/ck2.kernel.cpp:3 (C++)",
    ]


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("cabc.wrapper.so", b"", "cabc.wrapper.cpp"),
        ("model.so", b"\x7fELF at: \0/cache/cabc.wrapper.cpp\0 rest", "cabc.wrapper.cpp"),
        ("model.so", b"\x7fELF made with cabc.wrapper.cpp and more", ""),
        ("model.so", b"\x7fELF", ""),
    ],
)
def test_a_library_names_the_code_that_it_was_made_of(name: str, content: bytes, code: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert code_of(tmp_path / name) == code


LOADS = """
import mmap, os, shutil, sys
folder, name = sys.argv[1], sys.argv[2]
with open(os.path.join(folder, name), "rb") as file, open(os.path.join(folder, "a.pt2"), "w"):
    held = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    print("READY", flush=True)
    sys.stdin.readline()
shutil.rmtree(folder)
print("GONE", flush=True)
sys.stdin.readline()
"""
"""A loader: it maps a library, and deletes its folder."""


@pytest.mark.parametrize("name", ["cabc.wrapper.so", "model.so"])
def test_what_a_loader_deletes_is_kept_as_its_library_is_mapped(
    name: str, tmp_path: Path, spawn: Callable[..., Target]
) -> None:
    unpacked, kept = tmp_path / "unpacked", tmp_path / "kept"
    folder_of(unpacked, "cother", "ck2")
    folder_of(unpacked).unlink()
    (unpacked / name).write_bytes(b"\x7fELF\0/w/cabc.wrapper.cpp\0")
    target = spawn([sys.executable, "-c", LOADS, str(unpacked), name])
    witness = Witness(target.pid, (), lambda pid, path: keep(pid, path, kept))
    eventually((kept / "cabc.wrapper").is_dir)
    target.stdin.write(b"\n")
    target.stdin.flush()
    target.until("GONE")
    (seen,) = witness.stop()
    assert not unpacked.exists()
    assert sorted(file.name for file in kept.glob("*/*")) == ["cabc.wrapper.cpp", "ck1.kernel.cpp"]
    run = run_of([Path(path) for path in seen.loaded], kept=kept)
    assert sources(run) == [f"{kept}/cabc.wrapper/ck1.kernel.cpp:2 (C++)"]
    assert str(unpacked / "a.pt2") in seen.opened and str(unpacked / name) in seen.loaded


def test_what_was_written_after_the_library_was_linked_is_kept_too(tmp_path: Path) -> None:
    library, kept = folder_of(tmp_path / "m"), tmp_path / "kept"
    keep(os.getpid(), str(library), kept)
    (tmp_path / "m" / "kernel_information.json").write_text("{}")
    keep(os.getpid(), str(library), kept)
    library.with_suffix(".cpp").unlink()
    keep(os.getpid(), str(library), kept)
    assert sorted(file.name for file in kept.glob("*/*")) == [
        *("cabc.wrapper.cpp", "ck1.kernel.cpp", "kernel_information.json")
    ]


def test_nothing_is_kept_of_a_library_that_is_no_model(tmp_path: Path) -> None:
    library = tmp_path / "libops.so"
    library.write_bytes(b"\x7fELF")
    shutil.copy(folder_of(tmp_path / "m").with_suffix(".cpp"), tmp_path / "cabc.wrapper.cpp")
    keep(1, str(library), tmp_path / "kept")
    keep(1, "/nowhere/cabc.wrapper.so", tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def frames(*places: tuple[str, int, str]) -> str:
    """A stack trace as torch writes it, the innermost frame last."""
    return "\n  ".join(f'File "{file}", line {line}, in forward\n    {source}' for file, line, source in places)


def rows(nodes: list[str], *traces: str, value: str = "NaN") -> list[tuple[str, str]]:
    """Return the rows for the source lines of one kernel."""
    known = {"k:1": {"stack_traces": traces, "post_grad_nodes": nodes}}
    return list(rows_of(lines_by_kernel(json.dumps(known).encode())["k:1"], value))


@pytest.mark.invariant("aoti_provenance.O1")
@pytest.mark.parametrize(
    ("source", "nodes", "maker"),
    [
        ("return x * torch.rsqrt(v)", ["mul_1", "rsqrt_2"], "rsqrt"),
        ("y = x.log_()", ["log"], "log"),
        ("y = torch.arccos(x)", ["acos"], "acos"),
        ("y = a / b", ["div_3"], "div"),
        ("y = a ** 0.5", ["pow_1"], "pow"),
        ("y = a ** p", ["pow_1"], "pow"),
        ("y = a ** 2", ["pow_1"], ""),
        ("y = a / 16.0", ["div"], ""),
        ("y = a / 0.0", ["div"], "div"),
        ("y = q / math.sqrt(d)", ["mul"], ""),  # of a number, not of a tensor: the kernel has no such operator
        ("y = F.log_softmax(x)", ["log", "exp", "sub"], ""),
    ],
)
def test_a_line_that_can_make_nan_comes_first(source: str, nodes: list[str], maker: str) -> None:
    plain, wanted = frames(("/m/a.py", 3, "y = x + 1")), frames(("/m/a.py", 7, source))
    told = rows(["add", *nodes], plain, wanted)
    first = f"/m/a.py:7 in forward: {source} ({maker} can make NaN of finite numbers)"
    assert told[0] == ("model", first if maker else "/m/a.py:3 in forward: y = x + 1")
    assert [label for label, _ in told] == ["model", "also"]
    assert "finite" not in str(rows(["add", *nodes], plain, wanted, value=""))


def test_the_line_of_the_model_is_told_and_the_operator_may_be_in_torch_below_it() -> None:
    outer = ("/m/a.py", 3, "x = self.norm(x)")
    told = rows(
        ["add", "rsqrt"],
        frames(("/m/a.py", 9, "return x + 1")),
        frames(outer, ("/v/site-packages/torch/nn/functional.py", 8, "return x * torch.rsqrt(v)")),
        frames(outer),
    )
    assert [text for _, text in told] == [
        "/m/a.py:3 in forward: x = self.norm(x) (rsqrt can make NaN of finite numbers)",
        "/m/a.py:9 in forward: return x + 1",
    ]


def test_a_function_is_named_with_its_class_while_the_file_has_that_line(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("class Norm:\n    def forward(self, x):\n        return x.log()\n")
    place = (str(file), 3, "return x.log()")
    assert rows(["log"], frames(place), value="") == [("model", f"{file}:3 in Norm.forward: return x.log()")]
    changed = (str(file), 2, "return x.log()")
    assert rows(["log"], frames(changed), value="") == [("model", f"{file}:2 in forward: return x.log()")]


@pytest.mark.parametrize("information", [b"", b"{", b"[]", b'{"k": 1}', b'{"k": {}}', b"[" * 100_000])
def test_damaged_provenance_is_none(information: bytes) -> None:
    assert lines_by_kernel(information) == {}


NET = """\
class Attention:
    def forward(self, x):
        return self.norm(x)
    def norm(self, x):
        return x.log()

class Net:
    def __init__(self):
        self.second = Attention(4)
        self.third = other.Module()
    def forward(self, batch, /, scale, *others, mask=None):
        y = self.blocks[1].attention(batch["x"])
        return self.third(self.second(y))
"""
LOG = (5, "return x.log()")
OUTER = (12, 'y = self.blocks[1].attention(batch["x"])')
TWO = (13, "return self.third(self.second(y))")


@pytest.mark.invariant("aoti_provenance.O2")
@pytest.mark.parametrize(
    ("callers", "module"),
    [
        ([OUTER], "blocks.1.attention"),
        ([OUTER, (3, "return self.norm(x)")], ""),  # a method of its class is no module
        ([TWO], "second"),  # the one that has the class
        ([(12, "y = self.a(self.b(x))")], ""),  # which of two is not known: the file is another now
        ([(9, "y = self.blocks[2](x)")], "blocks.2"),
        ([], ""),
    ],
)
def test_a_module_has_its_path_where_each_frame_names_one(
    callers: list[tuple[int, str]], module: str, tmp_path: Path
) -> None:
    file = tmp_path / "net.py"
    file.write_text(NET)
    trace = frames(*((str(file), line, source) for line, source in (*callers, LOG)))
    known = {"k:1": {"stack_traces": [trace], "post_grad_nodes": ["log"]}}
    assert lines_by_kernel(json.dumps(known).encode())["k:1"][0].module == module


GATE = """\
class Gate:
    def __init__(self):
        self.fc = Linear(4, 4)
        self.bias = Linear(4, 4)
    def forward(self, x):
        return torch.log(self.fc(x))
"""


@pytest.mark.invariant("aoti_provenance.O3")
@pytest.mark.parametrize(
    ("reads", "module"),
    [
        (["blocks.1.fc.weight"], "blocks.1 (most likely: blocks.1.fc made its input)"),
        (["fc.weight"], ""),  # of the model itself
        (["blocks.1.fc.weight", "blocks.1.bias.weight"], "blocks.1 (most likely: blocks.1.bias made its input)"),
        (["blocks.1.fc.weight", "blocks.2.fc.weight"], ""),  # which of the two is not known
        (["head.proj.weight"], ""),  # no attribute of the line's class
        ([], ""),
    ],
)
def test_in_a_loop_over_modules_what_made_the_input_tells(reads: list[str], module: str, tmp_path: Path) -> None:
    file = tmp_path / "gate.py"
    file.write_text(GATE)
    constants = {f"c{number}": name for number, name in enumerate(reads)}
    calls = (
        Call(index=0, line=1, function="addmm", name="addmm", reads=tuple(constants), writes=("buf0",)),
        Call(index=1, line=2, function="relu", name="relu", reads=("buf0",), makers=(("buf0", 0),)),
        Call(index=2, line=3, function="k", name="k", handle="k:1", reads=("buf1",), makers=(("buf1", 1),)),
    )
    line = Line(file=str(file), number=6, function="Gate.forward", source="return torch.log(self.fc(x))")
    code = Generated(path="m.cpp", calls=calls, constants=constants)
    assert Model(code=code, kernels={}, lines={"k:1": (line,)}).module_of(calls[2]) == module


@pytest.mark.invariant("aoti_provenance.O2")
def test_inputs_have_the_names_that_forward_has(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(NET)
    outer, two, inner = ((str(file), line, source) for line, source in (OUTER, TWO, LOG))
    known = {"k:1": {"stack_traces": [frames(outer, inner)]}, "k:2": {"stack_traces": [frames(two)]}}
    assert parameters(json.dumps(known).encode()) == ("batch", "scale")
    known["k:2"]["stack_traces"].append(frames(inner))  # begins in another function
    assert parameters(json.dumps(known).encode()) == ()
    assert parameters(b"") == ()


@pytest.mark.parametrize(
    ("path", "names", "name"),
    [
        ("[1]", ("x", "scale"), "scale"),
        ("[0]['ids'][2]", ("x",), "x['ids'][2]"),
        ("[1]['ids']", ("x",), "argument 1 ['ids']"),
        ("[1]", (), ""),
        ("mask", (), "mask"),
    ],
)
def test_an_input_is_named_as_in_the_models_signature(path: str, names: tuple[str, ...], name: str) -> None:
    code = Generated(path="x", signature={0: path})
    assert Model(code=code, kernels={}, lines={}, parameters=names).input_name(0) == name
