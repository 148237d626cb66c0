"""The generated C++ of an AOTInductor model: its kernel calls in order, with what each reads and writes.

Sources: torch/_inductor/codegen/{cpp_wrapper_cpu,cpp_wrapper_gpu,debug_utils}.py of torch 2.13. Tested with CPU code;
calls of Triton kernels are read as those files write them.

Invariants:
    aoti_generated.G1. A buffer that is moved or viewed keeps its maker: the call that wrote it last.
    aoti_generated.G2. A call is found by its exact line only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

_START: Final = lazy_re(r"::run_impl\(\s*$")
_END: Final = "} // AOTInductorModel::run_impl"
_CALL: Final = lazy_re(
    r"^\s*(?:AOTI_TORCH_ERROR_CODE_CHECK\()?(?:kernels\.)?(?P<name>cpp_\w+|call_triton_\w+|triton_\w+|aoti_torch_\w+)\s*\("
)
_NO_KERNEL: Final = lazy_re(
    r"aoti_torch_(?:empty|new_|get_|delete|print_|save_|check_|create_|as_strided|_?reinterpret|assign|clone_preserve"
    r"|item|cuda_guard|set_current|grad_mode|storage|sizes|strides|dtype|device|layout)"
)
_BUFFER: Final = lazy_re(r"\b((?:buf\d+|arg\d+_\d+|constant\d+)\b|\w+?(?=_handle\b))")
_PRINTED: Final = lazy_re(r'printf\("\[ before_launch: (.{1,4000}?) \]\\n"\)')
_PRINTED_VALUE: Final = lazy_re(
    r'aoti_torch_print_tensor_handle\([^"\n]{0,400}"before_launch - ([^"\n]{1,400}) - [^\s"]{1,400}"\)'
)
_ATEN: Final = lazy_re(r"Original ATen: \[(.{0,4000}?)\]")
_HANDLE: Final = lazy_re(r"\[Provenance debug handles\] (\S+)")
_MOVED: Final = lazy_re(r"\bauto (\w+) = std::move\((\w+)\);")
_VIEWED: Final = lazy_re(r"\bauto (\w+) = wrap_with_raii_handle_if_needed\(reinterpret_tensor_wrapper\((\w+),")
_ALLOCATED: Final = lazy_re(r"aoti_torch_empty_strided\w{0,20}\([^;\n]{0,400}&(\w{1,100})_handle\b")
_INPUT: Final = lazy_re(r"\bauto (\w+) = std::move\(inputs\[(\d+)\]\)")
_CONSTANT: Final = lazy_re(r"auto& (\w+) = constants_->at\(")
_FULL_NAME: Final = lazy_re(r'constants_info_\[\d{1,40}\]\.(name|original_fqn) = "(.{0,4000})";')
_WANTED: Final = lazy_re(
    r'"input_handles\[(?P<input>\d+)\]: unmatched dim value at (?P<dim>\d+), "\s*<< "expected: (?P<value>[^,"]+), '
)
_WANTED_TYPE: Final = lazy_re(r"int32_t (\w+)_expected_dtype = aoti_torch_dtype_(\w+)\(")
_NUMBER: Final = lazy_re(r"aoti_torch_proxy_executor_call_function\(\s*proxy_executor,\s*(\d+)")
_MOST_DIMENSIONS: Final = 64
_HEADER: Final = 100  # lines of the parameters of a launch
_TRITON_PARAMETER: Final = lazy_re(r"\b(in_out_ptr|in_ptr|out_ptr)\d+\b")

_Operator = tuple[str, tuple[str, ...], tuple[str, ...]]
"""A custom operator, the tensors that it reads, and those that it writes."""


class Call(Struct, frozen=True, kw_only=True):
    """One call of a kernel.

    Attributes:
        index: among the calls, from 0.
        line: in the file, from 1.
        name: the kernel's name as the printers show it, or else the function.
        operator: a custom operator (`myops::gather`), or "".
        handle: the provenance handle (`cpp_fused_0:2`), or "".
        aten: the operators it was generated from.
        reads: buffers, inputs and constants.
        writes: buffers.
        makers: for each buffer that it reads and a call wrote: name and that call's index.
    """

    index: int
    line: int
    function: str
    name: str
    operator: str = ""
    handle: str = ""
    aten: str = ""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    makers: tuple[tuple[str, int], ...] = ()

    @property
    def shown(self) -> str:
        """Return its name for users."""
        return self.operator or self.name

    @property
    def kernel(self) -> str:
        """Return the kernel's function in the generated sources."""
        return self.function.removeprefix("call_")


class Generated(Struct, frozen=True, kw_only=True):
    """One model's generated code.

    Attributes:
        path: of the file, as it was written or as it is named in a package.
        inputs: names by number.
        constants: name in the code -> the model's own name (`a.weight`).
        expected: by input: what it was compiled for, such as `float32 [4, 32]`.
        checks_nan: it checks for NaN and infinity.
        allocated: buffers that were only allocated: their memory has no values before a call writes it.
        printers: it prints values or launches.
        signature: by input: its path in the model's arguments, such as `scale`, or `[1][0]` for a positional one.
    """

    path: str
    calls: tuple[Call, ...] = ()
    inputs: Mapping[int, str] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)
    expected: Mapping[int, str] = field(default_factory=dict)
    checks_nan: bool = False
    allocated: frozenset[str] = frozenset()
    printers: bool = False
    signature: Mapping[int, str] = field(default_factory=dict)

    def at_line(self, line: int) -> Call | None:
        """Return the call at a line (G2)."""
        return next((call for call in self.calls if call.line == line), None)

    def named(self, kernel: str) -> tuple[Call, ...]:
        """Return the calls of a kernel, by any of its names."""
        return tuple(call for call in self.calls if kernel in (call.name, call.function, call.kernel, call.operator))


def generated(path: str, text: str, nodes: bytes = b"") -> Generated:
    """Parse a `.wrapper.cpp`; `nodes` is the `.wrapper.json` next to it, with the calls of custom operators."""
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if _START.search(line)), len(lines))
    body = "\n".join(lines[start:])
    constants = [match.group(1, 2) for match in _FULL_NAME.finditer(text)]
    inputs = {int(match[2]): match[1] for match in _INPUT.finditer(body)}
    return Generated(
        path=path,
        calls=tuple(_calls(lines, start, _operators(nodes))),
        inputs=inputs,
        constants={
            name: clean_line(full)
            for (kind, name), (other, full) in pairwise(constants)
            if (kind, other) == ("name", "original_fqn")
        },
        expected=_expected(text, inputs),
        checks_nan="aoti_torch_check_inf_and_nan(" in body,
        allocated=frozenset(match[1] for match in _ALLOCATED.finditer(body)),
        printers="aoti_torch_print_tensor_handle(" in body or _PRINTED.search(body) is not None,
        signature=_signature(text, len(inputs)),
    )


def _signature(text: str, count: int) -> dict[int, str]:
    """Return the paths of inputs in the argument tree: by keyword or position (torch.utils._pytree)."""
    tree = text.partition('in_spec_ = R"(')[2].partition(')";')[0]
    try:
        positional, named = msgspec.json.decode(tree)[1]["children_spec"] if tree else ({}, {})
        leaves = [*_leaves(positional, ""), *_leaves(named, "")]
    except (ValueError, LookupError, TypeError, RecursionError):
        return {}
    return {number: name for number, name in enumerate(leaves) if name} if len(leaves) == count else {}


def _leaves(tree: Mapping[str, Any], path: str) -> Iterator[str]:
    if not tree or tree["type"] is None:
        yield from [path] if tree else ()
        return
    keys = msgspec.json.decode(tree["context"]) if str(tree["type"]).endswith("dict") else None
    for number, child in enumerate(tree["children_spec"]):
        if keys is not None:
            key = clean_line(str(keys[number]), 100)
            yield from _leaves(child, f"{path}[{key!r}]" if path else key)
        else:
            yield from _leaves(child, f"{path}[{number}]")


def _expected(text: str, inputs: Mapping[int, str]) -> dict[int, str]:
    """Return the types and shapes that the input checks compare with, by input."""
    types = {match[1]: match[2] for match in _WANTED_TYPE.finditer(text)}
    sizes: dict[int, dict[int, str]] = {}
    for match in _WANTED.finditer(text):
        sizes.setdefault(int(match["input"]), {})[int(match["dim"])] = match["value"]
    shapes = {
        number: f"[{', '.join(known.get(dim, '?') for dim in range(min(max(known) + 1, _MOST_DIMENSIONS)))}]"
        for number, known in sizes.items()
    }
    told = {number: f"{types.get(name, '')} {shapes.get(number, '')}".strip() for number, name in inputs.items()}
    return {number: text for number, text in told.items() if text}


def _operators(nodes: bytes) -> Sequence[_Operator]:
    """Return each proxy executor call: operator, tensors read, tensors written."""
    try:
        listed = msgspec.json.decode(nodes)["nodes"] if nodes else ()
        return [
            (
                clean_line(str(node["node"]["target"])),
                tuple(_tensors([given["arg"] for given in node["node"]["inputs"]])),
                tuple(_tensors(node["node"]["outputs"])),
            )
            for node in listed
        ]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ()


def _tensors(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("as_tensor"), dict):
            yield str(value["as_tensor"].get("name", ""))
        else:
            for inner in value.values():
                yield from _tensors(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _tensors(inner) if not (isinstance(inner, dict) and set(inner) == {"name"}) else [inner["name"]]


def _calls(lines: Sequence[str], start: int, operators: Sequence[_Operator]) -> Iterator[Call]:
    maker: dict[str, int] = {}
    known: set[str] = set()
    printed = handle = aten = ""
    index = 0
    for number in range(start, len(lines)):
        line = lines[number]
        if line.startswith(_END):
            return
        for pattern in (_INPUT, _CONSTANT):
            known.update(match[1] for match in pattern.finditer(line))
        for pattern in (_MOVED, _VIEWED):
            if (match := pattern.search(line)) and match[2] in maker:
                maker[match[1]] = maker[match[2]]
        printed = _first(_PRINTED, line) or _first(_PRINTED_VALUE, line) or printed
        handle, aten = _first(_HANDLE, line) or handle, _first(_ATEN, line) or aten
        match = _CALL.match(line)
        if match is None or _NO_KERNEL.match(match["name"]):
            continue
        function = match["name"]
        operator, reads, writes = _buffers(function, line, lines, operators, maker=maker, known=known)
        name = operator or printed or function.removeprefix("call_")
        makers = tuple((read, maker[read]) for read in reads if read in maker)
        yield Call(
            index=index,
            line=number + 1,
            function=function,
            name=clean_line(name, 300),
            operator=operator,
            handle=handle,
            aten=clean_line(aten, 300),
            reads=reads,
            writes=writes,
            makers=makers,
        )
        maker.update(dict.fromkeys(writes, index))
        index, printed, handle, aten = index + 1, "", "", ""


def _first(pattern: re.Pattern[str], line: str) -> str:
    match = pattern.search(line)
    return match[1] if match else ""


def _buffers(
    function: str,
    line: str,
    lines: Sequence[str],
    operators: Sequence[_Operator],
    *,
    maker: Mapping[str, int],
    known: set[str],
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return the custom operator of a call, what it reads, and what it writes."""
    arguments = line[line.index("(", line.index(function)) :]
    named = [name for name in _BUFFER.findall(arguments) if name]
    named += [word for word in re.findall(r"\w+", arguments) if word in known and word not in named]
    number = _NUMBER.search(line)
    if number is not None:
        if int(number[1]) < len(operators):
            return operators[int(number[1])]
        tensors = re.findall(r"\w+", arguments.rpartition("{")[2].partition("}")[0])
        return "a custom operator", _once(tensors[:-1]), _once(tensors[-1:])
    if function.startswith("cpp_"):
        pointers = re.findall(r"\((const )?[\w:]+\s?\*\)\((\w+)\.data_ptr", arguments)
        writes = [name for const, name in pointers if not const]
        reads = [name for const, name in pointers if const] + [name for name in writes if name in maker]
        return "", _once(reads), _once(writes)
    if function.startswith(("call_triton_", "triton_")):
        return "", *_of_triton(function, arguments, lines, {*maker, *known})
    made = re.findall(r"&(\w+?)_handle\b", arguments)
    if not made:
        made = named[:1]
    return "", _once([name for name in named if name not in made]), _once(made)


def _of_triton(
    function: str, arguments: str, lines: Sequence[str], there: set[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return reads and writes of a Triton call, by the parameter names of its launcher.

    A user's kernel has other names: then buffers that exist already are read, and any may be written.
    """
    given = [word.strip() for word in arguments.strip("();").split(",")]
    begin = next((number for number, line in enumerate(lines) if re.search(rf"\bvoid {function}\(", line)), None)
    kinds: list[str] = []
    if begin is not None:
        end = next((n for n in range(begin, min(begin + _HEADER, len(lines))) if "{" in lines[n]), begin)
        header = " ".join(lines[begin : end + 1]).partition(f"{function}(")[2]
        kinds = [match[1] if (match := _TRITON_PARAMETER.search(one)) else "" for one in header.split(",")]
    if any(kinds):
        reads = [name for name, kind in zip(given, kinds, strict=False) if kind in ("in_ptr", "in_out_ptr")]
        writes = [name for name, kind in zip(given, kinds, strict=False) if kind in ("out_ptr", "in_out_ptr")]
        return _once(reads), _once(writes)
    buffers = [name for name in given if re.fullmatch(r"buf\d+", name)]
    return _once([name for name in given if name in there]), _once(buffers)


def _once(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
