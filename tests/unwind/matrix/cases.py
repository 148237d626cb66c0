"""Binaries whose stacks are compared: how each is built, started and changed while it runs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["CASES", "PROGRAMS", "Case"]

PROGRAMS: Final = Path(__file__).with_name("programs")


@dataclass(frozen=True, slots=True)
class Case:
    """A program that waits.

    Attributes:
        name: of the row.
        build: shell script, run in a folder of the case's own; `$P` is the folder of the programs' sources.
        argv: the command line, run in that folder by the shell.
        needs: programs that must be installed.
        then: shell script that is run once the program waits.
        chain: functions that its main thread is in, innermost first; where gdb itself may lose its way, frames are
            compared with these. Parts of names; others may lie between.
        undo: shell script that is run when all is over.
    """

    name: str
    build: str
    argv: str = "./a.out"
    needs: tuple[str, ...] = ("gcc",)
    then: str = ""
    chain: tuple[str, ...] = ()
    undo: str = ""


_ENGINE: Final = ("app::Session::Session", "main")
_PLAIN: Final = ("read", "innermost", "outer", "main")
_LOADS: Final = ("read", "waits", "library_calls", "main")
_RUST: Final = ("read", "engine::run", "main")


def _engine(name: str, flags: str, compiler: str = "g++", more: str = "", **also: object) -> Case:
    build = f"{compiler} {flags} -pthread $P/engine.cpp -o a.out && {more or 'true'}"
    return Case(f"C++ {name}", build, needs=(compiler,), chain=("read", *_ENGINE), **also)  # type: ignore[arg-type]


def _plain(name: str, flags: str, compiler: str = "gcc", more: str = "", **also: object) -> Case:
    build = f"{compiler} {flags} -pthread $P/plain.c -o a.out && {more or 'true'}"
    chain = also.pop("chain", _PLAIN)
    return Case(f"C {name}", build, needs=(compiler,), chain=chain, **also)  # type: ignore[arg-type]


_BY_ID: Final = (
    "ID=$(readelf -n a.out | sed -n 's/.*Build ID: //p') && D=/usr/lib/debug/.build-id/${ID:0:2} && mkdir -p $D && "
    "objcopy --only-keep-debug a.out $D/${ID:2}.debug && strip a.out && echo $D/${ID:2}.debug > undo"
)
_LINKED: Final = (
    "objcopy --only-keep-debug a.out a.out.debug && strip a.out && objcopy --add-gnu-debuglink=a.out.debug a.out"
)
_SYSTEM_LINKED: Final = (
    "objcopy --only-keep-debug a.out a.out.debug && strip a.out && objcopy --add-gnu-debuglink=a.out.debug a.out && "
    "D=/usr/lib/debug$PWD && mkdir -p $D && mv a.out.debug $D/ && echo $D > undo"
)
_MINI: Final = (
    "nm -D a.out --format=posix --defined-only | awk '{print $1}' | sort > dyn && "
    "nm a.out --format=posix --defined-only | awk '$2 ~ /[TtD]/ {print $1}' | sort > all && "
    "comm -13 dyn all > keep && objcopy --only-keep-debug a.out debug && "
    "objcopy -S --remove-section .gdb_index --remove-section .comment --keep-symbols=keep debug mini && strip a.out && "
    "xz -f mini && objcopy --add-section .gnu_debugdata=mini.xz a.out"
)
_SPLIT5: Final = "g++ -gdwarf-5 -gsplit-dwarf -O2 -c -pthread $P/engine.cpp -o e.o && g++ e.o -pthread -o a.out"
_LIBRARY: Final = (
    "gcc -g -O2 -fPIC -shared $P/library.c -o liblibrary.so && "
    "gcc -g -O2 $P/loads.c -L. -llibrary -Wl,-rpath,$PWD -o a.out"
)
_CHROOT: Final = (
    "gcc -g -O2 -pthread $P/plain.c -o a.out && mkdir -p new/app new/lib64 new/lib/x86_64-linux-gnu && "
    "cp a.out new/app/ && cp /lib64/ld-linux-x86-64.so.2 new/lib64/ && cp /lib/x86_64-linux-gnu/libc.so.6 "
    "new/lib/x86_64-linux-gnu/"
)

CASES: Final = (
    _plain("gcc -O0 -g", "-O0 -g"),
    _plain("gcc -O2 -g", "-O2 -g"),
    _plain("gcc -O2 -g1", "-O2 -g1"),
    _plain("gcc -O2 -gdwarf-4", "-O2 -gdwarf-4"),
    _plain("gcc -O2 -gdwarf-3", "-O2 -gdwarf-3"),
    _plain("gcc -O2 -gdwarf-2", "-O2 -gdwarf-2"),
    _plain("gcc -O2, no -g", "-O2"),
    _plain("gcc -O2 -g, stripped", "-O2 -g", more="strip a.out", chain=("read",)),
    _plain("gcc -O2 -g, strip --strip-debug", "-O2 -g", more="strip --strip-debug a.out"),
    _plain("gcc -O2 -g -static", "-O2 -g -static"),
    _plain("gcc -O2 -g -static-pie", "-O2 -g -static-pie"),
    _plain("gcc -O2 -static, stripped", "-O2 -static -s", chain=()),
    _plain("gcc -O2 -g -no-pie", "-O2 -g -no-pie"),
    _plain("gcc -O2 -g, no .eh_frame", "-O2 -g -fno-asynchronous-unwind-tables -fno-unwind-tables"),
    _plain("gcc -O0 no -g, no .eh_frame", "-O0 -fno-asynchronous-unwind-tables -fno-unwind-tables"),
    _plain(
        "gcc -O2 frame pointers, no -g, no .eh_frame",
        "-O2 -fno-omit-frame-pointer -fno-asynchronous-unwind-tables -fno-unwind-tables",
    ),
    _plain("gcc -O2 -g -Wl,--gc-sections", "-O2 -g -ffunction-sections -Wl,--gc-sections"),
    _plain("gcc -O2 -g -Wl,-z,noseparate-code", "-O2 -g -Wl,-z,noseparate-code"),
    _plain("gcc -O2 -g, no build id", "-O2 -g -Wl,--build-id=none"),
    _plain("gcc -O2 -g, .gnu_debugdata", "-O2 -g", more=_MINI),
    _plain("gcc -O2 -g, dwz", "-O2 -g", more="dwz a.out"),
    _plain("gcc -O2 -g, dwz -m", "-O2 -g", more="cp a.out b.out && dwz -m common.debug a.out b.out"),
    _plain("clang -O2 -g", "-O2 -g", "clang"),
    _plain("clang -O2 -g -fuse-ld=lld", "-O2 -g -fuse-ld=lld", "clang"),
    _plain("clang -O2 -gline-tables-only", "-O2 -gline-tables-only", "clang"),
    _plain("musl -O0 -g", "-O0 -g", "musl-gcc"),
    _plain("musl -O2 -g", "-O2 -g", "musl-gcc"),
    _plain("musl -O2 -g -static", "-O2 -g -static", "musl-gcc"),
    _plain("musl -O2 -static, stripped", "-O2 -static -s", "musl-gcc", chain=()),
    _engine("g++ -O0 -g", "-O0 -g"),
    _engine("g++ -O2 -g", "-O2 -g"),
    _engine("g++ -O2 -gdwarf-4", "-O2 -gdwarf-4"),
    _engine("g++ -O3 -flto -fomit-frame-pointer -g", "-O3 -flto -fomit-frame-pointer -g"),
    _engine("g++ -O2, no -g", "-O2"),
    _engine("g++ -O2 -g, stripped", "-O2 -g", more="strip a.out"),
    _engine("g++ -O2 -g -gz=zlib", "-O2 -g -gz=zlib"),
    _engine("g++ -O2 -g -gz=zlib-gnu", "-O2 -g -gz=zlib-gnu"),
    _engine("g++ -O2 -g, zstd", "-O2 -g", more="objcopy --compress-debug-sections=zstd a.out"),
    _engine("g++ -O2 -g, type units", "-O2 -g -fdebug-types-section"),
    _engine("g++ -O2 -gdwarf-4 -gsplit-dwarf", "-O2 -gdwarf-4 -gsplit-dwarf"),
    Case("C++ g++ -O2 -gdwarf-5 -gsplit-dwarf (.dwo)", _SPLIT5, chain=("read", *_ENGINE), needs=("g++",)),
    Case(
        "C++ g++ -O2 -gdwarf-5 -gsplit-dwarf (.dwp)",
        f"{_SPLIT5} && dwp -e a.out -o a.out.dwp && rm e.dwo",
        chain=("read", *_ENGINE),
        needs=("g++", "dwp"),
    ),
    Case(
        "C++ g++ -O2 -gsplit-dwarf, .dwo gone",
        f"{_SPLIT5} && rm e.dwo",
        chain=("read", *_ENGINE),
        needs=("g++",),
    ),
    _engine("clang++ -O2 -gdwarf-5 -gsplit-dwarf", "-O2 -gdwarf-5 -gsplit-dwarf", "clang++"),
    _engine("g++ -O2 -g, debug file by build id", "-O2 -g", more=_BY_ID),
    _engine("g++ -O2 -g, debug file by .gnu_debuglink beside it", "-O2 -g", more=_LINKED),
    _engine("g++ -O2 -g, debug file by .gnu_debuglink in /usr/lib/debug", "-O2 -g", more=_SYSTEM_LINKED),
    _engine("g++ -O2 -g -static", "-O2 -g -static"),
    _engine("g++ -O2 -g -static-pie", "-O2 -g -static-pie"),
    _engine("clang++ -O0 -g", "-O0 -g", "clang++"),
    _engine("clang++ -O2 -g", "-O2 -g", "clang++"),
    _engine("clang++ -O2 -gdwarf-4", "-O2 -gdwarf-4", "clang++"),
    _engine("clang++ -O2 -g -flto -fuse-ld=lld", "-O2 -g -flto -fuse-ld=lld", "clang++"),
    _engine("clang++ -O2 -g libc++", "-O2 -g -stdlib=libc++", "clang++"),
    _engine("clang++ -O2 -gsimple-template-names", "-O2 -g -gsimple-template-names", "clang++"),
    Case("C library", _LIBRARY, chain=_LOADS),
    Case("C program replaced on disk", _LIBRARY, then="cp /bin/true b && mv b a.out", chain=_LOADS),
    Case(
        "C program replaced by a build with other lines",
        "gcc -g -O2 -pthread $P/plain.c -o a.out",
        then="(yes // | head -9; cat $P/plain.c) > p.c && gcc -g -O0 -pthread p.c -o b && mv b a.out",
        chain=_PLAIN,
    ),
    Case(
        "C library replaced on disk",
        _LIBRARY,
        then="gcc -g -O0 -fPIC -shared $P/library.c -o b && mv b liblibrary.so",
        chain=_LOADS,
    ),
    Case("C library deleted", _LIBRARY, then="rm liblibrary.so", chain=_LOADS),
    Case("C stripped library, no -g program", f"{_LIBRARY} && strip liblibrary.so", chain=_LOADS),
    Case("code without symbols (JIT)", "gcc -g -O2 $P/generated.c -o a.out", chain=("read", "waits", "calls", "main")),
    Case(
        "C in another mount namespace",
        "gcc -g -O2 -pthread $P/plain.c -o b.out && mkdir place",
        argv="unshare -m sh -c 'mount -t tmpfs none place && cp b.out place/a.out && exec place/a.out'",
        chain=_PLAIN,
    ),
    Case("C in a chroot", _CHROOT, argv="chroot new /app/a.out", chain=_PLAIN),
    Case(
        "C in a chroot with its debug file",
        f"{_CHROOT} && cd new && ID=$(readelf -n app/a.out | sed -n 's/.*Build ID: //p') && "
        "D=usr/lib/debug/.build-id/${ID:0:2} && mkdir -p $D && objcopy --only-keep-debug app/a.out $D/${ID:2}.debug && "
        "strip app/a.out",
        argv="chroot new /app/a.out",
        chain=_PLAIN,
    ),
    Case("Go", "go build -o a.out $P/waits.go", chain=("syscall.Read", "main.outer", "main.main"), needs=("go",)),
    Case(
        "Go -ldflags '-s -w'",
        "go build -ldflags '-s -w' -o a.out $P/waits.go",
        chain=("syscall.Read", "main.outer", "main.main"),
        needs=("go",),
    ),
    Case("Rust debug", "rustc -g $P/waits.rs -o a.out", needs=("rustc",), chain=_RUST),
    Case("Rust -O -g", "rustc -O -g $P/waits.rs -o a.out", needs=("rustc",), chain=_RUST),
    Case(
        "Rust -O -g v0",
        "rustc -O -g -C symbol-mangling-version=v0 $P/waits.rs -o a.out",
        needs=("rustc",),
        chain=_RUST,
    ),
    Case(
        "Rust -O v0, no -g",
        "rustc -O -C symbol-mangling-version=v0 $P/waits.rs -o a.out",
        needs=("rustc",),
        chain=_RUST,
    ),
    Case(
        "Rust -O legacy, no -g",
        "rustc -O -C symbol-mangling-version=legacy -Z unstable-options $P/waits.rs -o a.out",
        needs=("rustc",),
        chain=_RUST,
    ),
    Case(
        "Rust -O panic=abort, stripped",
        "rustc -O -C panic=abort -C strip=symbols $P/waits.rs -o a.out",
        needs=("rustc",),
    ),
    Case(
        "Debian's CPython",
        "true",
        argv="/usr/bin/python3 -c 'import os; print(\"READY\", os.getpid(), flush=True); os.read(0, 1)'",
        needs=("/usr/bin/python3",),
    ),
    Case(
        "this Python",
        "true",
        argv=f"{sys.executable} -c 'import os; print(\"READY\", os.getpid(), flush=True); os.read(0, 1)'",
        needs=(sys.executable,),
    ),
    Case(
        "libtorch, 2 threads",
        "true",
        argv=f"{sys.executable} -c 'import os, torch; torch.set_num_threads(2); a = torch.rand(999, 999); a @ a; "
        'print("READY", os.getpid(), flush=True); os.read(0, 1)\'',
        needs=(sys.executable,),
    ),
)
