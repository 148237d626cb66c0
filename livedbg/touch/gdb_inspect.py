"""Runs inside gdb (its Python, 3.4 or later): inspects one stopped thread.

Not imported by livedbg, which has gdb `source` it after gdb_walk.py. Prints nothing; its functions return what
`json.dumps` takes. Values are formatted by gdb; of printers written in Python only libstdc++'s own are used, from the
folder where the system's compiler keeps them, never one that a target names.
"""

import sys
import time
from pathlib import Path

import gdb

_ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", "rip")
_MASK = (1 << 64) - 1
_TEXT = 400
_VARIABLES = 40


def livedbg_printers():
    """Load the printers of libstdc++; return whether there are any."""
    for folder in sorted(map(str, Path("/usr/share").glob("gcc*/python")), reverse=True):
        try:
            sys.path.insert(0, folder)
            from libstdcxx.v6.printers import register_libstdcxx_printers

            register_libstdcxx_printers(None)
            return True
        except Exception:
            sys.path.remove(folder)
    return False


def livedbg_registers(number):
    """Return [tid, first four arguments, program counter] of a thread by gdb's number; None unless it is stopped."""
    for thread in gdb.selected_inferior().threads():
        if thread.num == number and thread.is_stopped():
            thread.switch()
            frame = gdb.newest_frame()
            return [thread.ptid[1]] + [int(frame.read_register(name)) & _MASK for name in _ARGUMENTS]
    return None


def livedbg_variables(tid, depth, seconds):
    """Return for each frame, innermost first: [path of its source file, ["name=value", ...]].

    Ends early when its time is over: frames that are missing were not inspected.
    """
    end = time.time() + seconds
    found = []
    for thread in gdb.selected_inferior().threads():
        if thread.ptid[1] == tid and thread.is_stopped():
            thread.switch()
            frame = gdb.newest_frame()
            while frame is not None and len(found) < depth and time.time() < end:
                found.append([_source(frame), _variables(frame, end)])
                try:
                    frame = frame.older()
                except gdb.error:
                    break
    return found


def _source(frame):
    try:
        place = frame.find_sal()
        return place.symtab.fullname() if place.symtab is not None else None
    except gdb.error:
        return None


def _variables(frame, end):
    texts = []
    names = set()
    try:
        block = frame.block()
    except (RuntimeError, gdb.error):
        return texts
    while block is not None and not block.is_global and not block.is_static:
        for symbol in block:
            if not (symbol.is_variable or symbol.is_argument) or symbol.name in names:
                continue
            if len(texts) == _VARIABLES or time.time() > end:
                return texts
            names.add(symbol.name)
            texts.append(symbol.name + "=" + _value(symbol, frame))
        if block.function is not None:
            break
        block = block.superblock
    return texts


def _value(symbol, frame):
    try:
        value = symbol.value(frame)
        if value.is_optimized_out:
            return "(optimised out)"
        if value.type.strip_typedefs().code == gdb.TYPE_CODE_REF:
            value = value.referenced_value()
        try:
            text = value.format_string(max_elements=40, repeat_threshold=8, max_depth=3)
        except TypeError:
            text = value.format_string(max_elements=40, repeat_threshold=8)
    except Exception as error:
        text = "(can't be read: " + str(error) + ")"
    return text if len(text) <= _TEXT else text[:_TEXT] + "..."
