"""The line of the user's own code in a stack.

A frame is the user's unless it is inside libc, the C++ library, a language's runtime (CPython and its standard library
included), a lock or a framework: told by its ELF file, its source file and its function's name. Systems name their
frameworks (`System.framework`).

Also the blocking call of C++ and Rust code, in the user's words: `std::future::get`, `Mutex::lock`.

Invariants:
    user_code.U1. The place of a stack depends on that stack only: equal stacks have the same place, whenever they were
        taken and whatever was queried before.
    user_code.U2. A frame of the user's with a source line is preferred; else a function of a program without debug
        information; else the innermost frame of a package, of a framework, of the standard library, in this order. A
        frame of libc, of the C++ library, of an interpreter, or without a name, is never the place. One that passes on
        what another frame did (livedbg.logs.passed_on) counts as one of the standard library.
    user_code.U3. In a thread that runs Python, a native frame is preferred only if its source line is known and the
        user's: else it is inside an extension that the user's Python code called.
    user_code.U4. What raised an exception deep inside a package is said beside the user's place; of a framework, whose
        inner functions tell its users nothing, and of a package that the place calls almost directly, it is not,
        unless the message alone does not tell what it is about.
    user_code.U5. The line of a function's decorator, where a library calls that function, tells nothing of what it
        does: the user's line that called it is preferred.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import lru_cache
from itertools import zip_longest
from typing import Final

from msgspec import Struct

from livedbg.analysis.place_names import Placed, plain_name, rust_name
from livedbg.analysis.python_calls import full_call, python_call
from livedbg.model import Frame, Stack
from livedbg.text.patterns import lazy_re

_HEADER: Final = lazy_re(
    r"/include/c\+\+/(?:v1|[\d.]+)/(barrier|condition_variable|future|latch|mutex|semaphore|shared_mutex|thread)$"
)
"""Headers of the C++ library that wait, each with the class of its name; a name from debug information has no class."""

_LIBRARY: Final = lazy_re(r"(?:std|boost|tbb|folly|absl)::(?:\w+::)*[a-z]\w*")
_RUST: Final = lazy_re(r"/rustc/[^/]+/library/|^library/|/rustlib/src/")


def native_call(frames: Sequence[Placed], user: int) -> str:
    """Return the name of the library function that a native frame called.

    Args:
        user: index of the caller among them.

    Returns:
        The name without parameters, for the C++ library, Boost, oneTBB, Folly, Abseil and Rust's library; "" for
            callers in another language, for functions inside of a library, and if not known.
    """
    if not user or frames[user].language != "native":
        return ""
    callee = frames[user - 1]
    file = callee.file or ""
    if _RUST.search(file):
        parts = plain_name(rust_name(callee.function)).split("::")
        return "::".join(parts[-2:]) if len(parts) > 1 and all(part.isidentifier() for part in parts[-2:]) else ""
    header = _HEADER.search(file)
    name = plain_name(callee.function)
    if header is not None and "::" not in name:
        name = f"std::{header[1]}::{name}"
    name = name.replace("std::__cxx11::", "std::").replace("std::__1::", "std::")
    return name if _LIBRARY.fullmatch(name) and "::_" not in name else ""


class Framework(Struct, frozen=True, kw_only=True):
    """Regular expressions that recognise frames of a framework.

    Attributes:
        modules: at the beginning of the base name of its ELF files.
        files: anywhere in the path of its sources.
        functions: at the beginning of the names of its functions, without return types.
        workers: Python functions that take a job, do it, and take the next one: end of the file, and name.
    """

    modules: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    workers: tuple[tuple[str, str], ...] = ()


class Inside(IntEnum):
    """The kind of code that a frame is inside of, the user's own first."""

    USER = 0
    UNLINED = 1
    PACKAGE = 2
    FRAMEWORK = 3
    LIBRARY = 4
    NEVER = 5


_NAMES: Final = "|".join(sorted(sys.stdlib_module_names))
_MODULES: Final = (
    (
        Inside.NEVER,
        lazy_re(
            r"(?:lib(?:c|m|rt|dl|pthread|util|resolv|nsl|anl|musl-\w{1,40}|stdc\+\+|c\+\+(?:abi)?|supc\+\+|gcc_s|unwind|ffi|atomic"
            r"|(?:a|t|l|m|ub|hwa)san|clang_rt\.[\w-]{1,60})|ld(?:-linux[\w-]{0,40}|-musl[\w-]{0,40}|-[\d.]{1,20})?|libc-[\d.]{1,20}"
            r"|libpthread-[\d.]{1,20}|linux-vdso|linux-gate)(?:[.-]so\b|[.-]\d|$)|\[vdso\]|linux-vdso|ld-linux"
            r"|(?i:ntdll|kernel(?:32|base)|ucrtbase\w{0,4}|msvc[pr]\w{1,20}|vcruntime\w{1,20}|win32u|ws2_32)\.dll$"
            r"|libpython\d|python\d?(?:\.\d+)?[a-z]?$"
        ),
    ),
    (Inside.LIBRARY, lazy_re(rf"(?:{_NAMES})\.(?:cpython-|abi3\.|so$)")),
    (
        Inside.LIBRARY,
        lazy_re(
            r"lib(?:gomp|omp|iomp5|mpi\w{0,40}|open-(?:pal|rte)|pmix|prrte|uc[mpst]|fabric|ibverbs|rdmacm|mlx\d|numa|hwloc|event\w{0,40}"
            r"|uv|ev|zmq|ssl|crypto|curl|z|zstd|lz4|glib-2|gio-2|gobject-2|tbb\w{0,40}|stdbuf|jemalloc|tcmalloc\w{0,40}|mimalloc"
            r"|boost_\w{1,60}|absl_\w{1,60}|grpc\w{0,40}|protobuf"
            r"|(?:scipy_)?openblas\w{0,40}|mkl_\w{1,40}|blis\w{0,20}|onnxruntime\w{0,40}|tensorflow\w{0,40}|arrow\w{0,40}"
            r"|rdkafka\w{0,20}|rocksdb|opencv_\w{1,40})[.-]|(?:cygrpc|xla_extension|_raylet|cv2)\.(?:cpython-|abi3\.|so$)"
        ),
    ),
)
_FILES: Final = (
    (
        Inside.PACKAGE,  # Cython's sources have paths within their package
        lazy_re(
            r"/(?:site|dist)-packages/|/\.cargo/registry/|/go/pkg/mod/|/vendor/[\w-]{1,60}\.[a-z]{2,6}/[^\s:]{1,300}\.go$|^[\w.-]{1,80}/[^\s@]{1,200}@v\d|/\.julia/(?:packages|dev)/|^/_/|^[\w.]{1,80}/[\w./]{1,200}\.p(?:yx|xi)$"
            r"|(?:^|/)(?:deps|_deps|third[_-]?party|3rd[_-]?party|node_modules|subprojects)/[^\s:]{1,300}\.(?:c|cc|cpp|cxx|h|hh|hpp|hxx|inl)$"
        ),
    ),
    (
        Inside.LIBRARY,
        lazy_re(
            r"/lib(?:64)?/(?:python|pypy)\d[^/]{0,100}/|/python\d{1,9}\.zip/|/cpython[^/]{0,200}/Lib/|/[Pp]ython\w{0,20}/Lib/(?!site-)"
            r"|^<(?:frozen |attrs generated|__array_function__|decorator-gen|eval_with_key)"
            r"|/rustc/[^/]{1,100}/library/|^library/(?:std|core|alloc|test|panic_\w{1,40})/src/|^src/lib(?:std|core|alloc|test)/|/rustlib/src/"
            r"|/(?:llvm/ADT|Eigen/src/\w{1,40}|absl/(?:container|types|strings)(?:/internal)?)/\w{1,80}\.h$|/llvm/Support/Casting\.h$"
            r"|/share/julia/|^\./[\w/]{1,60}\.jl$|/julia[\w-]{0,40}/src/"
            r"|/go(?:-[\d.]{1,20})?/src/(?:runtime|sync|internal|os|net|syscall|io|time|strings|bytes|bufio|fmt|errors|encoding"
            r"|reflect|sort|slices|maps|strconv|context|testing|regexp|math|log|text|html|crypto|database|compress|container"
            r"|unicode|path)/"
        ),
    ),
    (
        Inside.NEVER,
        lazy_re(
            r"/include/c\+\+/|^/usr/(?:local/)?include/|^/usr/lib/gcc/|^/usr/src/(?:debug|gdb-python|python\d?|glibc|gcc)[^/]{0,200}/"
            r"|^(?:\.{1,2}/)+(?:sysdeps|nptl|io|socket|misc|stdlib|csu|posix|string|time|signal|elf|malloc|debug|libio|dlfcn)/"
            r"|/glibc-[\d.]{1,20}[^/]{0,100}/|/libstdc\+\+-v3/|(?:^|/)(?:libsanitizer|compiler-rt|libgcc|sysdeps|csu)/"
            r"|(?:^(?:\./)?|/c?[Pp]ython[\w.-]{0,40}/(?:work/)?)(?:Modules|Python|Objects|Parser|Programs)/[\w/]+\.[ch]$"
        ),
    ),
)
_JVM: Final = (
    (Inside.LIBRARY, lazy_re(r"(?:javax?|jdk|sun|com\.sun|scala|kotlinx?|groovy|clojure)\.")),
    (
        Inside.PACKAGE,
        lazy_re(r"(?:org\.(?:apache|springframework|junit|eclipse|hibernate|slf4j)|io\.(?:netty|grpc)|akka)\."),
    ),
)
"""Beginnings of the names of Java's functions."""
_INTERPRETERS: Final = lazy_re(
    r"(?:lib)?(?:perl|ruby|lua|luajit|tcl|tclsh|php|bash|dash|zsh|ksh|busybox|R|julia)(?:-?[\d.])*(?:\.so[\d.]*)?$"
)
"""Programs and libraries that run scripts; a function is the user's only where its source line is known."""

_SCRIPT: Final = lazy_re(r"^/.*/bin/[^/.]+$")
"""The program of a package: a file of a few lines that its installer wrote."""

_FUNCTIONS: Final = lazy_re(
    r"__interceptor_|___interceptor_|__(?:a|t|m|l|ub)san|__sanitizer|__libc_start|_start$|_dl_|clone3?$|start_thread$"
    r"|(?:std|__gnu_cxx|__sanitizer|absl|boost|folly|tbb)::|<null>$|__restore_rt$|_?_?pthread_\w+$"
    r"|_{1,3}(?:GI_+)?(?:lll|futex|pthread|libc|nptl)_|__GI_"
    r"|_?Py(?:Eval|Object|Thread|Run|Function)_\w+$"
)
_OPERATORS: Final = lazy_re(r"operator (?:new|delete)\b")
_LIBC: Final = lazy_re(
    r"_*(?:lll_lock_wait(?:_private)?|(?:clock_)?nanosleep|syscall|p?poll|epoll_p?wait2?|p?select|p?read(?:64|v)?|p?write(?:64|v)?"
    r"|recv(?:from|msg)?|send(?:to|msg)?|wait(?:pid|4|id)?|accept4?|connect|ioctl|pause|u?sleep|sem_(?:timed)?wait|flock"
    r"|malloc|calloc|realloc|free|posix_memalign|aligned_alloc|abort|raise|futex_\w+"
    r"|(?:mem|str|wcs|wmem)(?:n?(?:cpy|cat|cmp|len|dup)|move|set|r?chr|str|casecmp|tol))$"
)
"""Functions of a libc that is linked into the program; the user's where they have a source line of the user's."""

_ADDRESS: Final = lazy_re(r"0x[0-9a-f]+$|\?+$|$")
_NEAR: Final = 3
"""Frames of a library within which a call of it is what failed."""
_MOST: Final = 65_536
"""Frames and stacks that are remembered."""

_Key = tuple[str, str | None, str | None, str, bool]


class UserCode:
    """Finds the user's line in stacks; results are cached by stack and by frame."""

    def __init__(self, frameworks: Iterable[Framework] = ()) -> None:
        known = tuple(frameworks)
        self.workers = frozenset(one for framework in known for one in framework.workers)
        self._modules = _any(r"\A(?:{})", tuple(one for framework in known for one in framework.modules))
        self._files = _any("{}", tuple(one for framework in known for one in framework.files))
        self._functions = _any(r"\A(?:{})", tuple(one for framework in known for one in framework.functions))
        self._frames: dict[_Key, Inside] = {}
        self._stacks: dict[str, tuple[Stack, Frame | None]] = {}

    def frame(self, stack: Stack | None) -> Frame | None:
        """Return the frame to name for a stack (U2), or None."""
        if stack is None:
            return None
        known = self._stacks.get(stack.thread)
        if known is not None and known[0] is stack:
            return known[1]
        found = self.frame_of(stack.frames)
        if len(self._stacks) >= _MOST:
            self._stacks.clear()
        self._stacks[stack.thread] = (stack, found)
        return found

    def call(self, stack: Stack | None, *, full: bool = False) -> str:
        """Return the call of the user's code in the frame that is named for a stack: `Queue.get`; "" if not known.

        With `full`, a Python function has its module: `subprocess.run`.
        """
        place = self.frame(stack)
        if stack is None or place is None or self.inside(place) is not Inside.USER:
            return ""
        at = next(at for at, frame in enumerate(stack.frames) if frame is place)
        if place.language != "python":
            return native_call(stack.frames, at)
        return (full_call if full else python_call)(stack.frames, at)

    def frame_of(self, frames: Sequence[Frame]) -> Frame | None:
        """Return the frame to name for frames, innermost first, or None."""
        runs_python = any(frame.language == "python" for frame in frames)
        best, least = None, Inside.NEVER
        for frame, caller in zip_longest(frames, frames[1:]):
            inside = self.inside(frame)
            if inside is Inside.USER and caller is not None and self._is_wrapped(frame, caller):
                inside = Inside.UNLINED  # U5
            elif inside is Inside.UNLINED and runs_python:
                inside = Inside.PACKAGE  # U3
            if inside < Inside.LIBRARY and _passes_on(frame):
                inside = Inside.LIBRARY
            if inside < least:
                best, least = frame, inside
                if inside is Inside.USER:
                    break
        return best

    def _is_wrapped(self, frame: Frame, caller: Frame) -> bool:
        """Return whether a frame is at a decorator of a function that a library calls (U5)."""
        at_head = frame.function != "<module>" and "".join(frame.source[:1]).startswith("@")
        return at_head and frame.source_from == frame.line and self.inside(caller) is not Inside.USER

    def raised_in(self, frames: Sequence[Frame], *, bare: bool = False) -> Frame | None:
        """Return the frame of a package that raised what the user's frame far outside of it did not name (U4).

        Args:
            bare: whether the message has no subject: a framework's frame counts, however near it is.
        """
        place = self.frame_of(frames)
        if place is None or place.language != "python" or self.inside(place) is not Inside.USER:
            return None
        deeper = [frame for frame in frames[: frames.index(place)] if frame.language == "python"]
        raised = next((one for one in deeper if self.inside(one) < Inside.LIBRARY and not _passes_on(one)), None)
        far = bare or len(deeper) > _NEAR or place.function == "<module>"
        told = (Inside.PACKAGE, Inside.FRAMEWORK) if bare else (Inside.PACKAGE,)
        return raised if far and raised is not None and self.inside(raised) in told else None

    def inside(self, frame: Placed) -> Inside:
        """Return the kind of code that a frame is inside of."""
        lined = frame.line is not None and frame.file is not None
        key = (frame.function, frame.file, frame.module, frame.language, lined)
        found = self._frames.get(key)
        if found is None:
            if len(self._frames) >= _MOST:
                self._frames.clear()
            found = self._frames[key] = self._python(frame) if frame.language == "python" else self._native(frame)
        return found

    def of_library(self, frame: Placed) -> bool:
        """Return whether a frame is in the file of a library or a framework; its function may have no name."""
        module = frame.module or ""
        named = next((inside for inside, modules in _MODULES if modules.match(module)), Inside.USER)
        return named is Inside.LIBRARY or _found(self._modules, module)

    def _python(self, frame: Placed) -> Inside:
        file = frame.file or ""
        if not file:
            return Inside.LIBRARY
        if _found(self._files, file):
            return Inside.FRAMEWORK
        found = next((inside for inside, files in _FILES if inside is not Inside.NEVER and files.search(file)), None)
        return found or (Inside.PACKAGE if _SCRIPT.match(file) else Inside.USER)

    def _native(self, frame: Placed) -> Inside:
        function, module, file = frame.function, frame.module or "", frame.file or ""
        if frame.language == "java":
            own = Inside.USER if frame.line is not None else Inside.UNLINED
            return next((inside for inside, names in _JVM if names.match(function)), own)
        named = next((inside for inside, modules in _MODULES if modules.match(module)), None)
        if named is not None:
            return Inside.NEVER if _ADDRESS.match(function) else named
        sourced = next((inside for inside, files in _FILES if files.search(file)), None) if file else None
        plain = plain_name(function)
        runtime = _FUNCTIONS.match(plain) or _OPERATORS.match(function) or (not file and _LIBC.match(plain))
        if sourced is Inside.NEVER or _ADDRESS.match(function) or runtime:
            return Inside.NEVER
        if _found(self._modules, module) or _found(self._files, file) or _found(self._functions, plain):
            return Inside.FRAMEWORK
        if sourced is None and not (file and frame.line):
            return Inside.NEVER if _INTERPRETERS.match(module) else Inside.UNLINED
        return sourced or Inside.USER


@lru_cache(maxsize=16)
def _passes_on(frame: Frame) -> bool:
    from livedbg.logs.passed_on import passes_on  # what reads tracebacks, which a report of no Python does without

    return passes_on(frame)


def _any(form: str, expressions: tuple[str, ...]) -> re.Pattern[str] | None:
    found = "|".join(f"(?:{one})" for one in expressions)
    return re.compile(form.format(found)) if found else None


def _found(pattern: re.Pattern[str] | None, text: str) -> bool:
    return pattern is not None and pattern.search(text) is not None


NO_FRAMEWORKS: Final = UserCode()
"""Where no system has said anything."""
