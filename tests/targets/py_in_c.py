"""Python that calls C (qsort of libc), which calls Python back, which then waits in C."""

import ctypes
import os

libc = ctypes.CDLL(None)
quiet = os.pipe()[0]


def on_compare(left: object, right: object) -> int:
    print("READY", flush=True)
    os.read(quiet, 1)
    return 0


def sort_in_c() -> None:
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    libc.qsort((ctypes.c_int * 2)(2, 1), 2, 4, kind(on_compare))


sort_in_c()
