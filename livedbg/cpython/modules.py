"""Variables of imported modules in another process's interpreters."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from livedbg.cpython.heap import HeapReader

_MOST_MODULES: Final = 50_000
_DICT_AT: Final = 16  # PyModuleObject.md_dict (Objects/moduleobject.c)


def module_variables(heap: HeapReader, interpreter: int, module: str, wanted: Set[str]) -> dict[str, int]:
    """Addresses of the values of some variables of a module; {} where nobody has imported it.

    Args:
        heap: reads its process.
        interpreter: address of the interpreter's state.
        module: its name in `sys.modules`, ASCII.
        wanted: the variables' names.

    Raises:
        OSError: not readable, or it changes too fast.
    """
    (modules,) = heap.words(interpreter + heap.objects.layout.modules, 1)
    if heap.type_name(modules) != "dict":
        return {}
    items = heap.dict_items(modules, _MOST_MODULES)
    found = heap.among([key for key, _ in items], {module})
    return next((variables_of(heap, value, wanted) for key, value in items if key in found), {})


def variables_of(heap: HeapReader, module: int, wanted: Set[str]) -> dict[str, int]:
    """Addresses of the values of some variables of the module at an address; {} where there is none.

    Raises:
        OSError: not readable, or it changes too fast.
    """
    if not wanted or heap.type_name(module) != "module":
        return {}
    (own,) = heap.words(module + _DICT_AT, 1)
    if heap.type_name(own) != "dict":
        return {}
    return {name: value for key, value in heap.dict_items(own) if (name := heap.name(key)) in wanted}
