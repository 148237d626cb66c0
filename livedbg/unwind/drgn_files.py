"""Gives files to drgn, with the place that they have: it looks for none by itself, and asks no server."""

from __future__ import annotations

import os
from typing import Final

import drgn

from livedbg.linux import target_files
from livedbg.linux.elf import ElfError, ElfFile
from livedbg.unwind.debug_files import add_debug_file
from livedbg.unwind.modules import Module
from livedbg.unwind.unwind_tables import readable_tables

__all__ = ["add_file", "new_program"]

_FINDERS: Final = ("standard",)  # not debuginfod
_PAGE: Final = 4096


def new_program(platform: drgn.Platform | None = None) -> drgn.Program:
    """A program of drgn's that makes no request to the network."""
    program = drgn.Program(platform)
    program.set_enabled_debug_info_finders(_FINDERS)
    return program


def add_file(
    program: drgn.Program, module: Module, bias: int, *, debug: bool, unwinds: bool = False
) -> drgn.Module | None:
    """Have a file in a program; None where drgn can't read it.

    Args:
        program: the program.
        module: the file.
        bias: what is added to its addresses.
        debug: use its debug information, its own or in a separate file of this host or of the process's container.
        unwinds: use its unwind tables.
    """
    try:
        with ElfFile(module.file) as elf:
            segments = elf.segments()
        if not segments:
            return None
        tables = readable_tables(module.file) if unwinds else -1
    except (OSError, ElfError):
        return None
    low = min(segment.address for segment in segments)
    high = max(segment.address + segment.memory_size for segment in segments)
    try:
        return _added(program, module, bias, (low, high), tables, debug=debug)
    except OSError:
        return None
    finally:
        if tables >= 0:
            os.close(tables)


def _added(
    program: drgn.Program, module: Module, bias: int, span: tuple[int, int], tables: int, *, debug: bool
) -> drgn.Module | None:
    low, high = span
    for number, start in enumerate(dict.fromkeys((low, low & -_PAGE))):
        made = program.extra_module(f"{module.file}#{number}", bias, create=True)
        made.address_range = (bias + start, bias + high)
        if not debug:
            made.debug_file_status = drgn.ModuleFileStatus.DONT_WANT
        if tables >= 0:  # drgn closes it
            made.try_file(str(module.file), fd=os.dup(tables))
        made.try_file(str(module.file), fd=target_files.open_fd(module.file))
        if made.loaded_file_bias == bias:
            if debug and made.debug_file_status is not drgn.ModuleFileStatus.HAVE:
                add_debug_file(made, module)
            return made
        made.address_ranges = ()  # for drgn it begins elsewhere
    return None
