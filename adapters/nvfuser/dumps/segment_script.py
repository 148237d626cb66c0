"""Write a script that runs one segment: a fusion definition of its expressions, with inputs of its shapes and types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from livedbg.adapters.nvfuser.dumps.ir import DTYPES, TORCH_TYPES, Number, Tensor, number_of
from livedbg.adapters.nvfuser.dumps.operations import Uncovered, Writer, literal
from livedbg.adapters.nvfuser.dumps.reproduction_sources import Cut
from livedbg.adapters.nvfuser.dumps.script_run import ScriptInput, inputs_of
from livedbg.adapters.nvfuser.dumps.segments import Group
from livedbg.adapters.nvfuser.dumps.statements import Arguments, Domain
from livedbg.text.patterns import lazy_re

_DEFAULT: Final = 8  # the size that is taken where none is known
_SHAPE: Final = lazy_re(r"Tensor: shape: \[([\d, ]{0,400})\], dtype: (.{1,4000}?), device:")
_DEFINED: Final = lazy_re(r"\bfd\.define_(tensor|scalar)\(([^\n]{0,2000})\)")
_SYMBOL: Final = lazy_re(r"[a-z]{1,100}\d{1,18}")
_NAMES: Final = lazy_re(r"\bdef (\w+)\(")


@dataclass(slots=True)
class Built:
    """A script for one segment.

    Attributes:
        text: the script, or "" if `uncovered`.
        notes: assumptions.
        uncovered: why it could not be written.
    """

    text: str = ""
    notes: list[str] = field(default_factory=list)
    uncovered: str = ""


def build_segment(cut: Cut, number: int) -> Built:
    """Return a script for a group of a dumped, segmented fusion."""
    group = cut.fusion.groups[number]
    built = Built()
    if number in cut.definitions:
        return _from_definition(cut, group, built)
    if not group.complete:
        built.uncovered = "the dump of this group is cut off"
        return built
    sizes = _Sizes(cut, built)
    writer = Writer(sizes.known, cut.domains.tensors if cut.domains is not None else {})
    inputs: list[str] = []
    try:
        for tensor in group.inputs:
            inputs.append(sizes.make(tensor))
            writer.lines.append(f"T{tensor.number} = fd.define_tensor({sizes.define(tensor)})")
            writer.defined[tensor.number] = tensor
        for name, dtype in group.scalars:
            inputs.append(sizes.scalar(name, dtype))
            writer.lines.append(f"{name} = fd.define_scalar(None, dtype=DataType.{_bindings(dtype)})")
            writer.variables.add(name)
            sizes.known.pop(name, None)
        for expression in group.expressions:
            writer.write(expression)
        for tensor in group.outputs:
            if tensor.number not in writer.defined:
                raise Uncovered(f"output T{tensor.number}: no expression of the group defines it")
            writer.lines.append(f"fd.add_output(T{tensor.number})")
    except Uncovered as error:
        built.uncovered = str(error)
        return built
    body = ["def nvfuser_segment(fd: FusionDefinition) -> None:", *(f"    {line}" for line in writer.lines)]
    built.text = _script(cut, group, body, "nvfuser_segment", inputs)
    return built


def _from_definition(cut: Cut, group: Group, built: Built) -> Built:
    """Use the definition that nvFuser itself printed (`python_definition_segments`)."""
    text = cut.definitions[group.number]
    name = _NAMES.search(text)
    if name is None:
        built.uncovered = "its Python definition is cut off"
        return built
    launched = _launched(cut.arguments.get(group.number)) or _listed(cut, group, built)
    inputs: list[str] = []
    tensors = 0
    for match in _DEFINED.finditer(text):
        about = match[2]
        if match[1] == "scalar":
            if about.startswith("None"):
                inputs.append("1.0" if "Double" in about or "Float" in about else "1")
                built.notes.append(f"number {len(inputs)} of the inputs isn't said: {inputs[-1]}")
            continue
        shape = [
            int(word)
            for word in re.findall(r"-?\d{1,18}", (re.search(r"shape=\[([^\]]{0,2000})\]", about) or ["", ""])[1])
        ]
        dtype = (re.search(r"DataType\.(\w+)", about) or ["", "Float"])[1]
        known = next((one for one in launched if _fits(*one, shape, dtype)), None)
        tensors += 1
        if known is not None:
            launched.remove(known)
        elif -1 in shape:
            built.notes.append(f"the sizes of tensor {tensors} of the inputs aren't said: {_DEFAULT} each")
        size = known[0] if known is not None else tuple(_DEFAULT if one < 0 else one for one in shape)
        torch = next((d.torch for d in DTYPES.values() if d.bindings == dtype), "float32")
        inputs.append(f"torch.testing.make_tensor({size}, dtype=torch.{torch}, device='cuda:0')")
    body = text.rstrip("\n").split("\n")
    built.text = _script(cut, group, body, name[1], inputs)
    return built


def _fits(size: tuple[int, ...], kind: str, shape: list[int], dtype: str) -> bool:
    """Return whether a tensor's size and type match a definition's shape (-1: any size) and type."""
    same = len(size) == len(shape) and kind in DTYPES and DTYPES[kind].bindings == dtype
    return same and all(wanted in {-1, extent} for extent, wanted in zip(size, shape, strict=True))


def _listed(cut: Cut, group: Group, built: Built) -> list[tuple[tuple[int, ...], str]]:
    """Return (size, type) of the group's input tensors in the dump."""
    sizes = _Sizes(cut, built)
    try:
        return [(sizes.size(tensor), tensor.dtype) for tensor in group.inputs]
    except Uncovered:
        return []


def _script(cut: Cut, group: Group, body: list[str], function: str, inputs: list[str]) -> str:
    number = f" {cut.number}" if cut.number is not None else ""
    generation = cut.script.generation if cut.script is not None else "nvfuser_direct"
    return "\n".join(
        [
            *head_of(cut),
            f"# Segmentation group {group.number} ({group.scheduler}) of fusion{number}, cut out by livedbg from",
            f"# {cut.where}",
            "import torch",
            f"from {generation} import FusionDefinition, DataType",
            "",
            "",
            *body,
            "",
            "",
            "with FusionDefinition() as fd:",
            f"    {function}(fd)",
            "",
            "inputs = [",
            *(f"    {one}," for one in inputs),
            "]",
            "fd.execute(inputs)",
            "",
        ]
    )


def head_of(cut: Cut) -> Iterator[str]:
    """Yield the versions and devices named in the original script, as comments."""
    if cut.script is not None:
        for line in cut.script.text.split("\n"):
            if not line.startswith("#"):
                return
            yield line


class _Sizes:
    """Sizes in the segmented fusion: from the script's inputs, and from launch arguments."""

    def __init__(self, cut: Cut, built: Built) -> None:
        self.known: dict[str, Number] = {}
        self._built = built
        self._sources: dict[int, ScriptInput] = {}
        self._defined: dict[int, str] = {}
        self._domains = cut.domains.tensors if cut.domains is not None else {}
        self._from_script(cut)
        for group_number, said in cut.arguments.items():
            self._from_arguments(cut.fusion.groups.get(group_number), said)

    def _from_script(self, cut: Cut) -> None:
        text = cut.script.text if cut.script is not None else ""
        made = inputs_of(text)
        defined = [match[2] for match in _DEFINED.finditer(text) if match[1] == "tensor"]
        whole = cut.whole.inputs if cut.whole is not None else []
        if len(made) != len(whole):
            return
        tensors = [said for said in whole if not isinstance(said, str)]
        if len(defined) == len(tensors):
            self._defined = {said.number: about for said, about in zip(tensors, defined, strict=True)}
        for said, one in zip(whole, made, strict=True):
            if isinstance(said, str):
                if one.value is not None:
                    self.known[said] = one.value
            elif one.size is not None and len(one.size) == len(said.logical):
                self._sources[said.number] = one
                self._learn(said, one.size)

    def _from_arguments(self, group: Group | None, said: Arguments) -> None:
        """Learn a tensor's size from launch arguments, if only one fits."""
        launched = _launched(said)
        for tensor in group.inputs if group is not None else ():
            fitting = {size for size, dtype in launched if dtype == tensor.dtype and len(size) == len(tensor.logical)}
            if len(fitting) == 1:
                self._learn(tensor, fitting.pop())

    def _learn(self, tensor: Tensor, size: tuple[int, ...]) -> None:
        for axis, extent in zip(tensor.logical, size, strict=True):
            text = axis.expanded or axis.extent
            if _SYMBOL.fullmatch(text):
                self.known.setdefault(text, extent)

    def size(self, tensor: Tensor) -> tuple[int, ...]:
        """Return its size; raise Uncovered if it can't be known."""
        found = []
        for axis in tensor.logical:
            text = axis.expanded or axis.extent
            value = number_of(text, self.known)
            if value is None:
                for symbol in dict.fromkeys(_SYMBOL.findall(text)):
                    if symbol not in self.known:
                        self.known[symbol] = _DEFAULT
                        self._built.notes.append(f"the size {symbol} isn't said: {_DEFAULT}")
                value = number_of(text, self.known)
            if value is None:
                raise Uncovered(f"input T{tensor.number}: its size {text} is not known")
            found.append(int(value))
        return tuple(found)

    def define(self, tensor: Tensor) -> str:
        """Return the arguments of its `define_tensor`: the script's own for an input of the whole fusion."""
        if tensor.number in self._defined:
            return self._defined[tensor.number]
        domain = self._domains.get(tensor.number)
        shape, contiguity = [], []
        for place, axis in enumerate(tensor.logical):
            fixed = axis.extent == "1" and not axis.expanded
            shape.append(1 if fixed else -1)
            contiguity.append(None if axis.kind == "b" else _flag(domain, tensor, place))
        order = self._order(tensor, domain)
        more = f", stride_order={order}" if order else ""
        return f"shape={shape}, contiguity={contiguity}, dtype=DataType.{_bindings(tensor.dtype)}, is_cpu=False{more}"

    def make(self, tensor: Tensor) -> str:
        known = self._sources.get(tensor.number)
        if known is not None:
            return known.source
        size = self.size(tensor)
        dtype = DTYPES.get(tensor.dtype)
        if dtype is None or not dtype.torch:
            raise Uncovered(f"input T{tensor.number}: torch has no type for {tensor.dtype or 'what is not said'}")
        about = f"dtype=torch.{dtype.torch}, device='cuda:0'"
        plain = f"torch.testing.make_tensor({size}, {about})"
        stride = self._stride(tensor, size)
        if stride is None:
            return plain
        span = 0 if 0 in size else 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        return f"torch.testing.make_tensor(({span},), {about}).as_strided({size}, {stride})"

    def _stride(self, tensor: Tensor, size: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return its strides if unusual: memory in another order, or an expanded broadcast."""
        domain = self._domains.get(tensor.number)
        order = self._order(tensor, domain)
        if not order and not any(axis.expanded for axis in tensor.logical):
            return None
        ranks = order or list(range(len(size) - 1, -1, -1))
        stride = [0] * len(size)
        step = 1
        for rank in sorted(ranks):
            place = ranks.index(rank)
            if not tensor.logical[place].expanded:
                stride[place] = step
                step *= size[place]
        return tuple(stride)

    def _order(self, tensor: Tensor, domain: Domain | None) -> list[int]:
        """Return the bindings' `stride_order`: for each axis its position in memory, 0 the innermost; or []."""
        if domain is None or not domain.allocation or domain.allocation == domain.logical:
            return []
        memory = [axis for axis in domain.allocation if axis[0] != "r"]
        axes = [axis for axis in domain.logical if axis[0] != "r"]
        if sorted(memory) != sorted(axes) or len(axes) != len(tensor.logical):
            return []
        return [len(axes) - 1 - memory.index(axis) for axis in axes]

    def scalar(self, name: str, dtype: str) -> str:
        value = self.known.get(name)
        if value is None:
            kind = DTYPES[dtype].kind if dtype in DTYPES else "float"
            value = {"int": 1, "bool": True}.get(kind, 1.0)
            self._built.notes.append(f"the value of {name} isn't said: {value}")
        return literal(value)


def _flag(domain: Domain | None, tensor: Tensor, place: int) -> bool:
    """Return whether an axis is contiguous with the next one, as far as printed."""
    if domain is None or len(domain.contiguity) != len(domain.allocation or domain.logical):
        return True
    axes = [axis for axis in domain.logical if axis[0] != "r"]
    memory = domain.allocation or domain.logical
    if len(axes) != len(tensor.logical) or axes[place] not in memory:
        return True
    return domain.contiguity[memory.index(axes[place])] != "f"


def _launched(said: Arguments | None) -> list[tuple[tuple[int, ...], str]]:
    """Return (size, type) of the tensors of a launch."""
    found = []
    for line in said.inputs if said is not None else ():
        match = _SHAPE.search(line)
        if match is not None:
            size = tuple(int(word) for word in match[1].replace(" ", "").split(",") if 0 < len(word) < 19)
            found.append((size, TORCH_TYPES.get(match[2], match[2])))
    return found


def _bindings(dtype: str) -> str:
    if dtype not in DTYPES:
        raise Uncovered(f"the type {dtype or 'of an input'} is not known")
    return DTYPES[dtype].bindings
