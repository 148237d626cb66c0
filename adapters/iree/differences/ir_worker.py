"""Reads the dispatches of a module in the flow phase, by IREE's own parser; imports nothing of ours.

    python ir_worker.py FLOW.mlir                 prints a JSON object a call, in the order of the program
    python ir_worker.py FLOW.mlir CALL OUT        also writes a module that makes that call alone

FLOW.mlir comes from `iree-compile --compile-to=flow --mlir-print-debuginfo`. A call has {"call", "function",
"operations": [{"name", "file", "line", "column"}…], "reason", "body", "made_of"}: `reason` says why it can't stand
alone, or is empty; `body` is a digest of the dispatch's text without its names; `made_of` its types, its arithmetic
and the places of its operations in the source, or empty where these are not known.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path

from iree.compiler import ir

_PLACE = re.compile(r'"([^"\n]+)":(\d+):(\d+)')
_STRUCTURED = ("linalg.", "iree_linalg_ext.")
_OTHER = ("tensor.", "arith.", "math.")
_TRIVIAL = ("linalg.yield", "iree_linalg_ext.yield", "linalg.index", "linalg.fill", "tensor.empty", "arith.constant")


def _walk(operation):
    for region in operation.regions:
        for block in region.blocks:
            for one in block.operations:
                yield one.operation
                yield from _walk(one.operation)


def _place(operation):
    match = _PLACE.search(str(operation.location))
    return {"file": match[1], "line": int(match[2]), "column": int(match[3])} if match else {}


def _chosen(executable):
    inside = [one for one in _walk(executable) if one.name not in _TRIVIAL]
    chosen = [one for one in inside if one.name.startswith(_STRUCTURED)]
    return chosen or [one for one in inside if one.name.startswith(_OTHER)]


def _digest(executable):
    """Return a digest of its computation: equal if two compilations made the same from the same."""
    names = [_name(one.attributes["sym_name"]) for one in _walk(executable) if "sym_name" in one.attributes]
    text = _asm(executable)
    for name in sorted({_name(executable.attributes["sym_name"]), *names}, key=len, reverse=True):
        text = re.sub(rf"@{re.escape(name)}\b", "@_", text)
    return hashlib.sha256(text.encode()).hexdigest()


def _made_of(executable, dispatch):
    """Return its tensors' types, arithmetic, and source places; "" if there are no places."""
    within = [one for each in _chosen(executable) for one in (each, *_walk(each)) if one.name not in _TRIVIAL]
    places = sorted({match for one in within for match in _PLACE.findall(str(one.location))})
    kinds = [str(value.type) for value in (*dispatch.operands, *dispatch.results) if "tensor<" in str(value.type)]
    arithmetic = sorted(one.name for one in within if one.name.startswith(("arith.", "math.")))
    return json.dumps([kinds, arithmetic, places]) if places else ""


def _name(attribute):
    return str(attribute).replace("@", "").strip('"')


def _entry(dispatch):
    points = str(dispatch.attributes["entry_points"]).strip("[]").split(", ")
    return points[0].replace("@", "")


def _tied(dispatch):
    """Return which results are written into an operand, by index."""
    if "tied_operands" not in dispatch.attributes:
        return {}
    operands = [int(word) for word in re.findall(r"-?\d{1,40}(?= : index)", str(dispatch.attributes["tied_operands"]))]
    return {number: operand for number, operand in enumerate(operands) if operand >= 0}


def _constant(value):
    owner = value.owner
    return owner if isinstance(owner, ir.Operation) and owner.name == "arith.constant" else None


def _reason(dispatch):
    for value in dispatch.operands:
        kind = str(value.type)
        if not kind.startswith("tensor<") and _constant(value) is None:
            return f"it takes a {kind} that is only known as the program runs"
        if "?" in kind:
            return f"it takes a tensor whose size is only known as the program runs ({kind})"
    for number, operand in _tied(dispatch).items():
        if dispatch.operands[operand].type != dispatch.results[number].type:
            return "it writes a result into an input of another shape"
    if any(not str(value.type).startswith("tensor<") or "?" in str(value.type) for value in dispatch.results):
        return "it gives a tensor whose size is only known as the program runs"
    return ""


def _asm(operation):
    return operation.get_asm(use_local_scope=True)


def _alone(module, executable, dispatch):
    """Return a module whose `main` takes the tensors of one call and returns its results."""
    top = [_asm(one.operation) for one in module.body.operations if one.operation.name == "util.global"]
    text = [one for one in top if "hal.device" in one]  # values of others come as operands
    text.append(_asm(executable))
    taken, names, body = [], [], []
    for value in dispatch.operands:
        constant = _constant(value)
        if constant is None:
            at = len(taken)
            names.append(f"%t{at}")
            body.append(f'%t{at} = hal.tensor.import %a{at} "input{at}" : !hal.buffer_view -> {value.type}')
            taken.append(str(value.type))
        else:
            names.append(f"%c{len(names)}")
            body.append(f"{names[-1]} = arith.constant {constant.attributes['value']}")
    results = [str(value.type) for value in dispatch.results]
    one = len(results) == 1
    operands = ", ".join(str(value.type) for value in dispatch.operands)
    entry = "::".join(f"@{name}" for name in _entry(dispatch).split("::"))
    tied = _tied(dispatch)
    given = [names[tied[n]] if n in tied else kind for n, kind in enumerate(results)]  # `-> %t2`: written in place
    kinds = given[0] if one else f"({', '.join(given)})"
    body.append(
        f"%r{'' if one else f':{len(results)}'} = flow.dispatch {entry}({', '.join(names)}) : ({operands}) -> {kinds}"
    )
    for number, kind in enumerate(results):
        source = "%r" if one else f"%r#{number}"
        body.append(f'%v{number} = hal.tensor.export {source} "output{number}" : {kind} -> !hal.buffer_view')
    views = ", ".join(["!hal.buffer_view"] * len(results))
    body.append(f"util.return {', '.join(f'%v{n}' for n in range(len(results)))} : {views}")
    inputs = ", ".join(f"%input{n}: {kind}" for n, kind in enumerate(taken))
    outputs = ", ".join(f"%output{n}: {kind}" for n, kind in enumerate(results))
    reflection = f'{{iree.abi.declaration = "sync func @main({inputs}) -> ({outputs})"}}'
    arguments = ", ".join(f"%a{n}: !hal.buffer_view" for n in range(len(taken)))
    head = f"util.func public @main({arguments}) -> ({views})"
    text.append(f"{head} attributes {{iree.abi.stub, iree.reflection = {reflection}}} {{")
    text.extend([*body, "}"])
    attributes = module.operation.attributes
    name = "stream.affinity.default"
    affinity = f" attributes {{{name} = {attributes[name]}}}" if name in attributes else ""
    return "\n".join([f"module{affinity} {{", *text, "}", ""])


def main(path, wanted=None, out=None):
    context = ir.Context()
    module = ir.Module.parse(Path(path).read_text(), context)
    top = [one.operation for one in module.body.operations]
    executables = {_name(one.attributes["sym_name"]): one for one in top if one.name == "flow.executable"}
    for one in top:
        function = _name(one.attributes["sym_name"]) if one.name == "util.func" else ""
        for call in _walk(one):
            if call.name != "flow.dispatch":
                continue
            entry = _entry(call)
            executable = executables[entry.split("::")[0]]
            operations = [{"name": each.name, **_place(each)} for each in _chosen(executable)]
            reason = _reason(call)
            if entry == wanted and not reason:
                Path(out).write_text(_alone(module, executable, call))
                wanted = None
            kin = {"body": _digest(executable), "made_of": _made_of(executable, call)}
            print(json.dumps({"call": entry, "function": function, "operations": operations, "reason": reason, **kin}))


if __name__ == "__main__":
    main(*sys.argv[1:])
