"""Runs inside gdb (its Python, 3.4 or later): describes the type of a variable of a file that isn't running.

Not imported by livedbg; the layout reader has gdb `source` it. Prints nothing; its function returns a value for
`json.dumps`. A type is described by a list: `["i", size]` signed, `["u", size]` unsigned,
`["e", size, {name: value}]` an enumeration, `["s", name, size]` a structure, `["p", type or None]` a pointer,
`["a", count, type]` an array, `["d", type]` an offset from the field itself to its target
(simpler src/common/host_build_graph/self_relative_ptr.h).
"""

import gdb

_WRAPPED = ("_M_i", "_M_b", "_M_p", "_M_base", "__a_", "__a_value")  # inside std::atomic of libstdc++ and libc++


def livedbg_layout(variable, wanted):
    """Return the layout of a variable: {"address", "type", "types": {name: {field: [offset, type]}}}.

    Only the wanted fields are followed into other structures.
    """
    symbol = gdb.lookup_static_symbol(variable) or gdb.lookup_global_symbol(variable)
    if symbol is None:
        return None
    value = symbol.value()
    types = {}
    return {
        "address": int(value.address),
        "type": _described(value.type, types, frozenset(wanted)),
        "types": types,
    }


def _described(kind, types, wanted):
    kind = kind.strip_typedefs().unqualified()
    if kind.code == gdb.TYPE_CODE_ARRAY:
        low, high = kind.range()
        return ["a", high - low + 1, _described(kind.target(), types, wanted)]
    if kind.code == gdb.TYPE_CODE_PTR:
        target = kind.target().strip_typedefs().unqualified()
        followed = target.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_INT, gdb.TYPE_CODE_PTR)
        return ["p", _described(target, types, wanted) if followed else None]
    if kind.code == gdb.TYPE_CODE_ENUM:
        return ["e", kind.sizeof, {field.name.rpartition("::")[2]: field.enumval for field in kind.fields()}]
    if kind.code != gdb.TYPE_CODE_STRUCT:
        return ["i" if kind.code == gdb.TYPE_CODE_INT and kind.is_signed else "u", kind.sizeof]
    inner = _unwrapped(kind)
    if inner is not None:
        return _described(inner, types, wanted)
    name = kind.name or str(kind)
    if "SelfRelativePtr<" in name:
        return ["d", _described(kind.template_argument(0), types, wanted)]
    if name not in types:
        types[name] = found = {}
        for offset, field in _fields(kind, 0):
            if field.name in wanted:
                found[field.name] = [offset, _described(field.type, types, wanted)]
    return ["s", name, kind.sizeof]


def _fields(kind, base):
    """Yield the fields with their offsets, including base classes."""
    for field in kind.fields():
        if not hasattr(field, "bitpos"):
            continue  # a static member has no place
        offset = base + field.bitpos // 8
        if field.is_base_class:
            yield from _fields(field.type.strip_typedefs(), offset)
        elif field.name and not field.bitsize:
            yield offset, field


def _unwrapped(kind):
    """Return the type inside a std::atomic; None for other types."""
    if not (kind.name or "").startswith("std::"):
        return None
    while kind.code == gdb.TYPE_CODE_STRUCT:
        fields = list(_fields(kind, 0))
        if len(fields) != 1 or fields[0][0] != 0 or fields[0][1].name not in _WRAPPED:
            return None
        kind = fields[0][1].type.strip_typedefs().unqualified()
    return kind
