"""The crash decoder on what real programs write when they die."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from livedbg.logs.clock import SourceClock
from livedbg.logs.lines import LineCutter
from livedbg.logs.records import RecordAssembler
from livedbg.model import ExceptionHit, LogSource
from livedbg.model.events import ExceptionSeen, Stamper
from livedbg.session.filereaders import known_log_formats
from livedbg.signatures.crashes import CrashDecoder, crash_in
from tests.logs.reading import verdict


def hits(data: bytes) -> list[ExceptionHit]:
    """What the decoder makes of a log."""
    decoder = CrashDecoder()
    decoder.opened(LogSource(id="log:box/x", name="x", process="process:box/7"))
    assembler, cutter = RecordAssembler("log:box/x", SourceClock(), known_log_formats()), LineCutter()
    records = [*assembler.feed(cutter.feed(data)), *assembler.feed(cutter.flush()), *assembler.flush()]
    found = []
    for record in records:
        assert not decoder.feed(record, Stamper("box")())[0] or any(t.decode() in record.text for t in decoder.triggers)
    decoder = CrashDecoder()
    decoder.opened(LogSource(id="log:box/x", name="x", process="process:box/7"))
    for record in records:
        for event in decoder.feed(record, Stamper("box")())[0]:
            assert isinstance(event, ExceptionSeen)
            found.append(event.hit)
    return found


def stderr_of(code: str, *flags: str) -> bytes:
    return subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, timeout=60, check=False).stderr


def test_an_uncaught_python_exception() -> None:
    (hit,) = hits(stderr_of("def f():\n  raise ValueError('bad shape\\nsecond line')\nf()"))
    assert (hit.type, hit.message, hit.process) == ("ValueError", "bad shape", "process:box/7")
    assert [(frame.function, frame.line, frame.language) for frame in hit.stack] == [
        ("f", 2, "python"),
        ("<module>", 3, "python"),
    ]
    assert hit.catchpoint == "log: traceback"


def test_an_exception_without_message_and_one_in_a_package() -> None:
    assert [hit.type for hit in hits(stderr_of("raise KeyboardInterrupt"))] == ["KeyboardInterrupt"]
    (hit,) = hits(stderr_of("import json\njson.loads('{')"))
    assert hit.type == "json.decoder.JSONDecodeError"


def test_logged_exceptions_count_as_severe_as_they_were_logged() -> None:
    code = "import logging\ntry:\n  1/0\nexcept Exception as e:\n  logging.{}('x failed', exc_info=True)"
    assert [hit.type for hit in hits(stderr_of(code.format("error")))] == ["ZeroDivisionError"]
    assert hits(stderr_of(code.format("warning"))) == []


def test_ranks_that_die_at_once() -> None:
    text = stderr_of("raise ValueError('x')").decode()
    mixed = "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines() for rank in (0, 1))
    assert [(hit.type, hit.message) for hit in hits(mixed.encode())] == [("ValueError", "x")] * 2


@pytest.mark.parametrize("said", ["", "Engine failed: ", "step 3 (ETA: 0:10): ", "File a.py is missing: "])
def test_a_logger_that_repeats_its_header_on_each_line(said: str) -> None:
    first, *rest = stderr_of("def f():\n  raise ValueError('x')\nf()").decode().splitlines()
    head = "ERROR 04-16 11:53:49 [core.py:387] "
    (hit,) = hits("".join(f"{head}{line}\n" for line in [said + first, *rest]).encode())
    assert (hit.type, hit.message, [frame.line for frame in hit.stack]) == ("ValueError", "x", [2, 3])


def test_faulthandler() -> None:
    hit = hits(stderr_of("import ctypes\ndef f():\n  ctypes.string_at(0)\nf()", "-X", "faulthandler"))[0]
    assert hit.type == "Segmentation fault"
    assert "f" in [frame.function for frame in hit.stack]


THREADS = """Epoch 0: |      | 4540/? [07:57<00:00,  9.51it/s]Fatal Python error: Segmentation fault

Thread 0x00007f57168aa700 (most recent call first):
  <no Python frame>

Thread 0x00007f5741fff700 (most recent call first):
  File "/w/env/lib/python3.10/threading.py", line 324 in wait

Current thread 0x00007f5a3dc0b740 (most recent call first):
{}
Extension modules: numpy.core._multiarray_umath (total: 1)
"""


@pytest.mark.parametrize(
    ("frames", "function"),
    [
        ('  File "/w/ops.py", line 240 in rasterize\n  File "/w/train.py", line 3 in step\n', ["rasterize", "step"]),
        ("  <no Python frame>\n", []),
    ],
)
def test_of_a_faulthandler_s_threads_it_is_the_current_one(frames: str, function: list[str]) -> None:
    (hit,) = hits(THREADS.format(frames).encode())
    assert (hit.type, hit.message) == ("Segmentation fault", "Fatal Python error: Segmentation fault")
    assert [frame.function for frame in hit.stack] == function


def test_where_a_thread_without_python_code_aborts_no_other_one_is_its_place() -> None:
    (hit,) = hits(THREADS.partition("Current thread")[0].replace("Segmentation fault", "Aborted").encode())
    assert (hit.type, hit.stack) == ("Aborted", ())


MAIN = '  File "/w/lib/python3.10/queue.py", line 9 in get\n  File "/w/pump.py", line 31 in fill\n'


@pytest.mark.invariant("tracebacks.T10")
@pytest.mark.parametrize(
    ("threads", "message"),
    [
        (
            f'Thread 0x00007f5a3dc0b740 (most recent call first):\n{MAIN}  File "/w/pump.py", line 80 in <module>\n',
            True,
        ),
        (f"Thread 0x00007f5a3dc0b740 (most recent call first):\n{MAIN}", False),  # cut off: the current one may follow
        ("Thread 0x00007f5a3dc0b740 (most recent call first):\n  <no Python frame>\n", False),
    ],
)
def test_T10_a_fault_in_a_native_thread_is_told_with_what_python_did(threads: str, message: bool) -> None:
    (hit,) = hits(f"Fatal Python error: Segmentation fault\n\n{threads}\nExtension modules: a.b (total: 1)\n".encode())
    more = ", in a native thread, while fill (pump.py:31) ran" if message else ""
    assert (hit.message, hit.stack) == (f"Fatal Python error: Segmentation fault{more}", ())
    assert hit.type == "Segmentation fault"
    assert verdict(f"Fatal Python error: Segmentation fault\n\n{threads}").sentence.startswith(
        f"Crashed: Fatal Python error: Segmentation fault{more}"
    )


@pytest.mark.parametrize("left_out", ["...", "[...]", "\u2026", ""])
def test_what_was_left_out_of_a_dump_does_not_end_it(left_out: str) -> None:
    text = (
        f"Fatal Python error: Segmentation fault\n{left_out}\nCurrent thread 0x00007f5a3d (most recent call first):\n"
    )
    assert verdict(f'{text}  File "/w/pump.py", line 31 in fill\n').sentence == (
        "Crashed in fill (pump.py:31): Fatal Python error: Segmentation fault."
    )


def test_the_same_crash_again_is_counted() -> None:
    text = stderr_of("raise ValueError('x')")
    assert [hit.count for hit in hits(text + b"---\n" + text)] == [1, 2]
    assert len({hit.id for hit in hits(text + b"---\n" + text)}) == 1


@pytest.fixture(scope="module")
def cpp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that dies in the way that its argument names."""
    folder = tmp_path_factory.mktemp("crash")
    source = folder / "die.cpp"
    source.write_text(
        "#include <cassert>\n#include <cstdlib>\n#include <cstring>\n#include <stdexcept>\n#include <thread>\n"
        "namespace app { struct EngineError : std::runtime_error { using std::runtime_error::runtime_error; }; }\n"
        "int main(int, char** argv) {\n"
        '  if (!strcmp(argv[1], "throw")) throw app::EngineError("segment 3 failed");\n'
        '  if (!strcmp(argv[1], "thread")) { std::thread t([] {}); }\n'
        '  if (!strcmp(argv[1], "assert")) assert(argv[0] == nullptr);\n'
        '  if (!strcmp(argv[1], "free")) { char* volatile p = (char*)malloc(99); free(p); free(p); }\n'
        "}\n"
    )
    compiler = shutil.which("g++")
    assert compiler is not None, "the tests need g++ (apt install g++)"
    subprocess.run([compiler, "-w", str(source), "-o", str(folder / "die")], check=True, timeout=100)
    return folder / "die"


@pytest.mark.parametrize(
    ("how", "type_name", "message"),
    [
        ("throw", "app::EngineError", "segment 3 failed"),
        ("thread", "std::terminate", "terminate called without an active exception"),
        ("assert", "assert", "Assertion `argv[0] == nullptr' failed."),
        ("free", "SIGABRT", "free(): double free detected in tcache 2 (the heap is corrupt, as glibc found in free)"),
    ],
)
def test_cpp_programs_that_die(cpp: Path, how: str, type_name: str, message: str) -> None:
    done = subprocess.run([str(cpp), how], capture_output=True, timeout=60, check=False)
    (hit,) = hits(done.stderr)
    assert hit.type == type_name
    assert hit.message.endswith(message)


def test_what_the_shell_says_of_a_signal() -> None:
    assert [hit.type for hit in hits(b"bash: line 1: 4711 Segmentation fault      (core dumped) ./a\n")] == ["SIGSEGV"]
    assert [hit.type for hit in hits(b"Aborted (core dumped)\n")] == ["SIGABRT"]
    ucx = b"[box:4711:0:4712] Caught signal 11 (Segmentation fault: address not mapped to object at address (nil))\n"
    assert [hit.type for hit in hits(ucx)] == ["SIGSEGV"]


def test_a_pytorch_error_with_its_native_frames() -> None:
    text = b"""Traceback (most recent call last):
  File "a.py", line 1, in f
torch.AcceleratorError: CUDA error: device-side assert triggered
Search for `cudaErrorAssert' in the documentation.
CUDA kernel errors might be asynchronously reported at some other API call.
Exception raised from c10_cuda_check_implementation at /pytorch/c10/cuda/CUDAException.cpp:42 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x98 (0x7f1234567890 in /lib/libc10.so)
frame #1: <unknown function> + 0x1c (0x7f12 in /lib/libtorch.so)
"""
    (hit,) = hits(text)
    assert hit.type == "torch.AcceleratorError"
    assert hit.message.startswith("CUDA error: device-side assert triggered")
    assert [(f.function[:17], f.module, f.language) for f in hit.stack] == [
        ("f", None, "python"),
        ("c10::Error::Error", "libc10.so", "native"),
        ("<unknown function", "libtorch.so", "native"),
    ]


def test_what_only_speaks_of_crashes_is_none() -> None:
    harmless = b"""README: err.txt ends with "terminate called after throwing..."; rc 134
we handle Segmentation fault later
"""
    assert hits(harmless) == []
    assert hits(b"INFO:root:no terminate called here\n") == []


_HANDLER = """\
*** SIGABRT (@0x3e80000a31c) received by PID 41756 (TID 0x7ff3f0a3d740) from PID 41756; stack trace: ***
    @     0x7ff3ef3379fc pthread_kill
    @     0x7ff3ef2c97f3 abort
    @     0x559ff0d0c3a1 pool::Arena::release()"""


@pytest.mark.invariant("crashes.D1")
def test_D1_the_stack_of_python_is_that_of_the_assertion_right_above() -> None:
    *_, hit = hits(b"""python: /b/Cast.h:566: To& cast(From&): Assertion `is<To>(v)' failed.
Fatal Python error: Aborted

Current thread 0x00007f24cd1ff740 (most recent call first):
  File "/w/attention.py", line 112 in forward
""")
    assert (hit.type, hit.message) == ("assert", "Cast.h:566: Assertion `is<To>(v)' failed.")
    assert [(frame.function, frame.line) for frame in hit.stack] == [("To& cast(From&)", 566), ("forward", 112)]


@pytest.mark.invariant("crashes.D1")
@pytest.mark.parametrize(
    ("before", "kind", "says"),
    [
        (
            "free(): double free detected in tcache 2",
            "SIGABRT",
            "free(): double free detected in tcache 2 (the heap is corrupt, as glibc found in free)",
        ),
        ("a.out: p.cc:7: void f(): Assertion `n' failed.", "assert", "p.cc:7: Assertion `n' failed."),
        ("a word of something else", "SIGABRT", "Aborted, in pool::Arena::release()"),
    ],
)
def test_D1_of_an_abort_it_is_said_why_the_program_aborted_and_where(before: str, kind: str, says: str) -> None:
    found = crash_in(f"{before}\n{_HANDLER}")
    assert found is not None
    said, _ = found
    assert (said.exception, said.sentence.strip()) == (kind, says)
    assert said.stack[-1].function == "pool::Arena::release()"


WINDOWS = (
    "Assertion failed: n < level(), file D:\\w\\third_party\\llvm\\include\\llvm/ADT/SmallVector.h, line 31\n{}"
    "[Inline Frame] pump.exe!llvm::SmallVectorBase<tank>::operator[](unsigned __int64) Line 31 "
    "(d:\\w\\third_party\\llvm\\include\\llvm\\ADT\\SmallVector.h:31)\n"
    "pump.exe!plant::fill(tank * lid) Line 200 (d:\\w\\plant\\fill.cpp:200)\n"
)


@pytest.mark.parametrize("between", ["\n", ""])
def test_the_place_of_an_assertion_of_windows_is_that_of_the_stack_below_it(between: str) -> None:
    said = verdict(WINDOWS.format(between)).sentence
    assert said == "Crashed in plant::fill (fill.cpp:200): assert: SmallVector.h:31: Assertion failed: n < level()."


SHELL = "[1]    2696 segmentation fault (core dumped)  ./plant --n=4\n"
GDB = (
    'Thread 10 "pump" received signal SIGSEGV, Segmentation fault.\n'
    "fill_tank (n=4) at /w/plant/fill.c:47\n47        return tank->level;\n"
)


def test_a_shell_s_word_and_a_debugger_s_are_of_one_crash() -> None:
    said = verdict(SHELL, GDB)
    assert said.sentence.startswith("Crashed in fill_tank (fill.c:47): SIGSEGV: Segmentation fault.")
    assert "not known" not in said.sentence
    assert "not known" in verdict(SHELL.replace("segmentation fault", "bus error"), GDB).sentence
    assert "not known" in verdict(SHELL, GDB, GDB.replace("fill", "drain")).sentence


def test_two_processes_whose_dumps_stand_in_one_log_are_both_told() -> None:
    head = "Fatal Python error: Bus error\n\nCurrent thread 0x00007f5a3d (most recent call first):\n"
    dump = head + '  File "/w/{0}.py", line 9 in {0}\n'
    said = verdict(dump.format("fill") + dump.format("drain")).sentence
    assert said.startswith("Crashed in fill (fill.py:9): Fatal Python error: Bus error.")
    assert "Another process crashed, too, in drain (drain.py:9): Fatal Python error: Bus error." in said
    assert "Another" not in verdict(dump.format("fill")).sentence


_GDB = "Program received signal SIGSEGV, Segmentation fault.\n0x000055 in fill () at a.c:3\n(gdb) c\nContinuing.\n"
_LLDB = (
    "* thread #1, stop reason = EXC_BAD_ACCESS (code=1, address=0x0)\n"
    "    frame #0: 0x0000000100003f50 a.out`fill at a.c:3\n(lldb) c\nProcess 12 resuming\n"
)
_PAUSED = 'Exception has occurred: ValueError\nno lid\n  File "/w/a.py", line 7, in fill\n    raise ValueError(lid)\n'


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (f"{_GDB}[Inferior 1 (process 12) exited normally]\n", "exited"),
        (f"{_GDB}Program terminated with signal SIGSEGV, Segmentation fault.\n", "crashed"),
        (f"{_LLDB}Process 12 exited with status = 0 (0x00000000)\n", "exited"),
        (f"{_LLDB}Process 12 exited with status = 9 (0x00000009)\n", "crashed"),
        (f"{_PAUSED}ValueError: no lid\n", "crashed"),
        (f"{_PAUSED}ValueError: no lid\n" + "".join(f"filled tank {n}\n" for n in range(6)), "unknown"),
    ],
)
def test_a_stop_in_a_debugger_after_which_the_program_went_on_is_no_crash(text: str, state: str) -> None:
    seen = verdict(f"filling\n{text}")
    assert seen.state == state, seen.sentence
