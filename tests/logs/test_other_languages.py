"""Ends of programs in other languages, and lines that look like one and are none."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from livedbg.signatures.blocks import BLOCKS
from tests.logs.reading import verdict

STEPS = "".join(f"epoch {n} of 90, loss 0.{n}\n" for n in range(10, 40))

SAID = [
    (
        "thread 'main' panicked at 'no tank', /home/u/.cargo/registry/src/x/pool-0.3.1/src/open.rs:7:5\n"
        "stack backtrace:\n"
        "   0:     0x55d496561aec - std::panicking::default_hook::hecc34e3f729e213c\n"
        "                               at src/libstd/panicking.rs:217\n"
        "   1:     0x55d496558a19 - pool::open::h54b82f26f8605773\n"
        "             at /home/u/.cargo/registry/src/x/pool-0.3.1/src/open.rs:7\n"
        "   2:     0x55d496558a29 - plant::fill::h64b82f26f8605773\n             at ./src/fill.rs:61:9\n",
        "Crashed in plant::fill (fill.rs:61): Rust panicked: no tank.",
    ),
    (
        "forrtl: severe (174): SIGSEGV, segmentation fault occurred\n"
        "Image              PC                Routine            Line        Source\n"
        "plant              000000000117F4D4  Unknown               Unknown  Unknown\n"
        "libpthread-2.17.s  00007FCBC1A9A5E0  Unknown               Unknown  Unknown\n"
        "plant              0000000000779E2B  flow_mp_fill_             536  flow_fill.F90\n"
        "plant              00000000007C1EE0  MAIN__                    507  plant.F90\n",
        "Crashed in flow_mp_fill_ (flow_fill.F90:536): forrtl: severe (174): SIGSEGV, segmentation fault occurred.",
    ),
    (
        "level 3\n\nerror: 'tank' undefined\nerror: called from\n    fill>open at line 294 column 14\n"
        "    plant at line 66 column 8\n",
        "Crashed in fill>open (fill.m:294): Octave: 'tank' undefined.",
    ),
    (
        "panic: no tank\n\ngoroutine 1 [running]:\ngithub.com/x/pool.(*Pool).Open(0x40000f8a00)\n"
        "\tgithub.com/x/pool@v1.8.1/open.go:261 +0x4cc\nmain.main()\n\tgithub.com/y/plant/main.go:36 +0x20\n",
        "Crashed in main.main (main.go:36): Go panicked: no tank.",
    ),
    (
        "thread 'main' panicked at src/model.rs:88:14:\ncalled `Result::unwrap()` on an `Err` value: NoDevice\n"
        "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
        "Crashed in main (model.rs:88): Rust panicked: called `Result::unwrap()` on an `Err` value: NoDevice.",
    ),
    (
        "thread 'main' panicked at 'no device', src/model.rs:88:14\nnote: run with `RUST_BACKTRACE=1`\n",
        "Crashed in main (model.rs:88): Rust panicked: no device.",
    ),
    (
        "panic: runtime error: index out of range [3] with length 2\n\ngoroutine 1 [running]:\nmain.main()\n"
        "\t/src/job/main.go:12 +0x1d\nexit status 2\n",
        "Crashed in main.main (main.go:12): Go panicked: runtime error: index out of range [3] with length 2.",
    ),
    (
        "fatal error: all goroutines are asleep - deadlock!\n\ngoroutine 1 [chan receive]:\n",
        "Crashed: Go panicked: all goroutines are asleep - deadlock!",
    ),
    (
        "\nProgram received signal SIGSEGV: Segmentation fault - invalid memory reference.\n\nBacktrace for this "
        "error:\n#0  0x7f3c in ???\n#1  0x401136 in solve_\n",
        "Crashed: SIGSEGV: Segmentation fault - invalid memory reference.",
    ),
    (
        "At line 212 of file solver.f90 (unit = 11, file = 'in.dat')\nFortran runtime error: End of file\n",
        "Crashed in solver.f90:212: Fortran runtime error: End of file.",
    ),
    (
        "At line 88 of file wall.f90\nFortran runtime error: End of file\n\nError termination. Backtrace:\n"
        "#0  0x7f3c in ???\n#1  0x4011 in __wall_MOD_heat\n\tat ../src/wall.f90:88\n#2  0x4021 in main\n"
        "\tat fds.f90:9\n",
        "Crashed in heat (wall.f90:88): Fortran runtime error: End of file.",
    ),
    (
        "Program received signal SIGFPE: Floating-point exception.\n\nBacktrace for this error:\n#0  0x7f4d in ???\n"
        "#1  0x400c in count_\n        at /w/count.f90:17\n",
        "Crashed in count_ (count.f90:17): SIGFPE: Floating-point exception.",
    ),
    (
        "[521] signal (11.1): Segmentation fault\nin expression starting at /w/store.jl:1\n_ZNK3ray at /w/lib.so "
        "(unknown line)\nData at /home/u/.julia/packages/CxxWrap/aXN/src/CxxWrap.jl:624\njl_apply at /b/src/gf.c:29\n",
        "Crashed in store.jl:1: SIGSEGV: Segmentation fault.",
    ),
    (
        "ERROR: LoadError: no method matching step(::Nothing)\nStacktrace:\n [1] run!(m::Model)\n   @ Main "
        "/w/run.jl:17\n [2] top-level scope\n   @ /w/run.jl:31\nin expression starting at /w/run.jl:31\n",
        "Crashed in run! (run.jl:17): Julia: no method matching step(::Nothing).",
    ),
    (
        "fatal error: all goroutines are asleep - deadlock!\n\ngoroutine 1 [chan send, 1 minutes]:\n"
        "example.org/u/hound/pool.(*Pool).Submit(...)\n        /w/pool/pool.go:77\nmain.main()\n"
        "        /w/main.go:10 +0xf\n",
        "Crashed in pool.(*Pool).Submit (pool.go:77): Go panicked: all goroutines are asleep - deadlock!",
    ),
    (
        "forrtl: severe (174): SIGSEGV, segmentation fault occurred\nImage              PC                Routine\n",
        "Crashed: forrtl: severe (174): SIGSEGV, segmentation fault occurred.",
    ),
    (
        'Exception in thread "main" java.lang.IllegalStateException: device lost\n\tat org.x.Run.step(Run.java:168)\n',
        "Crashed in org.x.Run.step (Run.java:168): java.lang.IllegalStateException: device lost.",
    ),
    (
        "Unhandled exception. System.NullReferenceException: Object reference not set.\n   at Demo.Trainer.Run("
        "String[] a) in /src/Trainer.cs:line 33\n   at Demo.Program.Main(String[] a) in /src/Program.cs:line 9\n",
        "Crashed in Demo.Trainer.Run (Trainer.cs:33): System.NullReferenceException: Object reference not set.",
    ),
    (
        'Thread 1 "python" received signal SIGSEGV, Segmentation fault.\n0x000055 in step (x=0x0) at /src/a.cpp:12\n',
        "Crashed in step (a.cpp:12): SIGSEGV: Segmentation fault.",
    ),
    (
        'Thread 3 "solve" received signal SIGSEGV, Segmentation fault.\n[Switching to Thread 0x7f (LWP 2)]\n'
        "fft::run (this=0x7f, n=4,\n    pos=1) at src/fft.cpp:14\n14        if (!x) {\n(gdb) bt\n",
        "Crashed in fft::run (fft.cpp:14): SIGSEGV: Segmentation fault.",
    ),
    (
        "Program received signal SIGBUS, Bus error.\n0x00007f in fft::plan() const () from /opt/lib/libfft.so.3\n",
        "Crashed: SIGBUS: Bus error, in fft::plan() const of libfft.so.3.",
    ),
    (
        '(gdb) run\n\nThread 1 "python3" received signal SIGSEGV, Segmentation fault.\n0x07f in __dynamic_cast () from '
        "/lib/libstdc++.so.6\n(gdb) bt\n#0  0x07f in __dynamic_cast () from /lib/libstdc++.so.6\n#1  0x08f in "
        "passes::run(Graph*) () from /opt/libpasses.so\n#2  0x09f in main () from /opt/libpasses.so\n(gdb) quit\n",
        "Crashed: SIGSEGV: Segmentation fault, in __dynamic_cast of libstdc++.so.6, called by passes::run(Graph*).",
    ),
    (
        "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n\n"
        'Thread 1 "solve" received signal SIGABRT, Aborted.\n__pthread_kill_implementation (no_tid=0) at '
        "./nptl/pthread_kill.c:44\n44\t./nptl/pthread_kill.c: No such file.\n(gdb) where\n"
        "#0  __pthread_kill_implementation (no_tid=0) at ./nptl/pthread_kill.c:44\n"
        "#1  0x07f in __GI_raise (sig=6) at ../sysdeps/posix/raise.c:26\n#2  0x08f in ?? () from /lib/libstdc++.so.6\n"
        "#3  0x09f in __cxa_throw () from /lib/libstdc++.so.6\n#4  0x0af in app::Plan::grow (n=4) at /w/plan.cpp:61\n"
        "(gdb)\n",
        "Crashed in app::Plan::grow (plan.cpp:61): std::bad_alloc.",
    ),
    (
        "(lldb) r\nProcess 41 stopped\n* thread #1, name = 'solve', stop reason = signal SIGSEGV: invalid address "
        "(fault "
        "address: 0x30)\n    frame #0: 0x07fb libplan.so`app::Plan::step(this=0x0, n=4) const at plan.cpp:61:10\n"
        "(lldb) bt\n* thread #1, name = 'solve', stop reason = signal SIGSEGV: invalid address (fault address: 0x30)\n"
        "  * frame #0: 0x07fb libplan.so`app::Plan::step(this=0x0, n=4) const at plan.cpp:61:10\n(lldb) q\n",
        "Crashed in app::Plan::step (plan.cpp:61): SIGSEGV: Segmentation fault: invalid address.",
    ),
    (
        "Program terminated with signal SIGABRT, Aborted.\n#0  0x000055 in step (x=0x0) at /src/a.cpp:12\n",
        "Crashed in step (a.cpp:12): SIGABRT: Aborted.",
    ),
    (
        "Assertion failed: (n > 0), function run, file a.c, line 12.\n",
        "Crashed in run (a.c:12): assert: Assertion failed: (n > 0).",
    ),
    (
        "Assertion failed: n > 0, file C:\\src\\a.cpp, line 12\n",
        "Crashed: assert: a.cpp:12: Assertion failed: n > 0.",
    ),
    ("zsh: segmentation fault  ./run --n 4\n", "Crashed: SIGSEGV: segmentation fault."),
    (
        "Windows fatal exception: access violation\n\nCurrent thread 0x00001a2c (most recent call first):\n"
        '  File "C:\\w\\m.py", line 8 in run\n',
        "Crashed in run (m.py:8): Windows fatal exception: access violation.",
    ),
    (
        "2026-03-04 10:00:00.123456: F x/gpu_executable.cc:120] Check failed: x == y (1 vs. 2)\n",
        "Crashed: check failed at x/gpu_executable.cc:120: x == y (1 vs. 2).",
    ),
    (
        "[n1:37:0:38] Caught signal 11 (Segmentation fault: address not mapped)\n==== backtrace (tid: 38) ====\n"
        " 0 0x0000000000042520 __sigaction()  ???:0\n 1 0x0000000000127022 app::load()  /w/load.cpp:9\n"
        "=================================\n",
        "Crashed in app::load (load.cpp:9): SIGSEGV: Segmentation fault.",
    ),
    (
        '{"levelname": "ERROR", "exc_info": "Traceback (most recent call last):\\n  File \\"/w/t.py\\", line 31, in '
        "c\\n    return b['x']\\nKeyError: 'x'\"}\n",
        "Crashed in c (t.py:31): KeyError: 'x', in `return b['x']`.",
    ),
    (
        "==1234== Memcheck, a memory error detector\n==1234== Process terminating with default action of signal 11 "
        "(SIGSEGV)\n",
        "SIGSEGV ended the program, as valgrind saw.",
    ),
    (
        "Caught panic:\n\nno tank\n\nRestoring terminal...\n\ngoroutine 9 [running]:\nruntime/debug.Stack()\n"
        "\t/usr/local/go/src/runtime/debug/stack.go:26 +0x5e\nexample.org/u/screen.(*Loop).recover(0xc0)\n"
        "\t/w/screen/loop.go:73 +0x8b\npanic({0x79?, 0x8e?})\n\t/usr/local/go/src/runtime/panic.go:792 +0x132\n"
        "strings.Repeat({0x8e?, 0x7c?}, 0xc0?)\n\t/usr/local/go/src/strings/strings.go:624 +0x585\n"
        "example.org/u/plant/gauge.Draw(0xff, 0x30)\n\t/w/plant/gauge/draw.go:14 +0x46\n",
        "Crashed in gauge.Draw (draw.go:14): Go panicked: no tank.",
    ),
    (
        "panic: test timed out after 5m0s\nrunning tests:\n        TestFill (5m0s)\n        TestFill/slow (4m58s)\n\n"
        "goroutine 4 [running]:\ntesting.(*M).startAlarm.func1()\n        /usr/local/go/src/testing/testing.go:2 +0x3\n"
        "\ngoroutine 1 [chan receive]:\nmain.main()\n        _testmain.go:47 +0x16c\n",
        "Crashed: Go panicked: test timed out after 5m0s in TestFill/slow.",
    ),
    (
        "pumpd[4711]: *** buffer overflow detected ***: terminated\n",
        "Crashed: SIGABRT: pumpd: *** buffer overflow detected ***: terminated.",
    ),
    (
        "\n *** caught segfault ***\naddress (nil), cause 'memory not mapped'\n\nTraceback:\n 1: fill.tank(level)\n"
        " 2: run(3)\nAn irrecoverable exception occurred. R is aborting now ...\nSegmentation fault (core dumped)\n",
        "Crashed: SIGSEGV: segfault: memory not mapped, in fill.tank.",
    ),
    (
        "ERROR: the level is negative\nStacktrace:\n  [1] error(s::String)\n    @ Base .\\error.jl:35\n"
        "  [2] fill(n::Int64)\n    @ Plant D:\\w\\src\\fill.jl:59\n  [3] logged\n    @ .\\logging.jl:627\n",
        "Crashed in fill (fill.jl:59): Julia: the level is negative.",
    ),
    (  # two threads at once
        "Program received signal SIGSEGV: Segmentation fault - invalid memory reference.\n\nBacktrace for this error:"
        "\n\nProgram received signal SIGSEGV: Segmentation fault - invalid memory reference.\n\nBacktrace for this "
        "error:\n"
        "#0  0x7f4 in ???\n#0  0x7f4 in ???\n#1  0x40e in flow\n#1  0x40f in heat\n        at /w/flow.f90:28\n"
        "        at /w/heat.f90:9\n",
        "Crashed in flow (flow.f90:28): SIGSEGV: Segmentation fault - invalid memory reference.",
    ),
    (
        "Exception on rank 2 on processing:\nstd::bad_alloc\nAborting!\n--------------------------------------------\n",
        "An exception ended rank 2: std::bad_alloc.",
    ),
    (
        "Error during fill: (pumps.ValveError) no way in: it is shut\n(Background on this error at: https://x/e/20/e3q8)\n",
        "The log ends with an error, at 0.log:2: Error during fill: (pumps.ValveError) no way in: it is shut.",
    ),
]

NONE = [
    "thread 'tokio-runtime-worker' panicked at src/io.rs:8:1:\nconnection reset\n",
    "http: panic serving 10.0.0.1:4000: runtime error\n",
    "don't panic: all is well\n",
    "Caught panic: the pump was stopped\n",
    "Waiting for changelog lock....\nSuccessfully acquired change log lock\nlevel 3\n",
    "Exception on processing: none so far\n",
    "a note on *** caught segfault *** in R\n",
    "k.cc:1:10: note: a fatal error: is one that ends the compiler\n",
    'Exception in thread "pool-1-thread-2" java.io.IOException: reset\n\tat org.x.Pool.run(Pool.java:3)\n',
    "Program received signal SIGUSR1 and wrote its state\n",
    "==1234== ERROR SUMMARY: 0 errors from 0 contexts (suppressed: 0 from 0)\n",
]


@pytest.mark.parametrize(("text", "said"), SAID)
def test_each_form(text: str, said: str) -> None:
    judged = verdict("step 3 loss 0.1\n" + text)
    assert (judged.state, judged.sentence) == (VerdictState.CRASHED, said)


THROWN = (
    'Thread 1 "solve" hit Catchpoint 1 (exception thrown), 0x07f in __cxa_throw () from /lib/libstdc++.so.6\n(gdb) bt\n'
    "#0  0x07f in __cxa_throw () from /lib/libstdc++.so.6\n"
    '#1  0x05f in app::checkFail (func=0x55 "grow", msg="no tile") at /w/check.cpp:23\n'
    "#2  0x06f in app::Plan::grow (this=0x7ff) at /w/plan.cpp:61\n#3  0x07a in main () at /w/main.cpp:9\n"
)


@pytest.mark.invariant("blocks.J2")
@pytest.mark.parametrize(
    ("after", "state"),
    [
        ("(gdb) kill\n", VerdictState.UNKNOWN),
        ("(gdb) c\nContinuing.\nTraining finished\n[Inferior 1 (process 4) exited normally]\n", VerdictState.EXITED),
    ],
)
def test_an_exception_that_a_debugger_stopped_at(after: str, state: VerdictState) -> None:
    judged = verdict(f"(gdb) catch throw\nCatchpoint 1 (throw)\n(gdb) run\n\n{THROWN}{after}")
    assert judged.state is state
    said = 'An exception "no tile" was thrown in app::Plan::grow (plan.cpp:61), under main'
    assert (said in judged.sentence) is (state is VerdictState.UNKNOWN)


@pytest.mark.invariant("blocks.J2")
def test_a_frame_without_its_place_may_be_the_last_one() -> None:
    session = (
        'Thread 1 "plan" hit Catchpoint 1 (exception thrown), 0x7f in __cxa_throw () from /lib/libstdc++.so\n(gdb) bt\n'
        "#0  0x00007f97c1 in __cxa_throw () from /lib/libstdc++.so.6\n"
        "#1  0x00007f6f41 in c10::detail::torchInternalAssertFail(char const*, char const*) () from /opt/libc10.so\n"
        "#2  0x00007fd4d9 in c10::detail::torchCheckFail(char const*, int) [clone .cold.73] () from /opt/libc10.so\n"
        "#3  0x00007ff9f9 in app::cuda::fill(app::cuda::Plan*, app::Sizes const&) ()\n"
    )
    said = "An exception was thrown in app::cuda::fill(app::cuda::Plan*, app::Sizes const&)"
    assert verdict(session).sentence.startswith(f"{said}; the debugger's session ends there")
    below = f"{session}   from /opt/libplan.so\n#4  0x00007fab in main () at /w/main.cpp:9\n"
    assert verdict(below).sentence.startswith(f"{said} of libplan.so, under main; the")


THROWS = "opening valve 3\nOVVterminate called after throwing an instance of 'plant::no_answer'\n"
SAYS = "  what():  ValveError: the valve did not answer\n"


@pytest.mark.invariant("crashes.D5")
@pytest.mark.parametrize(
    "between",
    [
        "",
        "[12746.728959] audit: type=1701 audit(1738862989.543:15): auid=4294967295 pid=1080 sig=6 res=1\n",
        "2026-03-02 10:00:01 INFO valve 4 is shut\n",
        "[INFO] valve 4 is shut\n[INFO] valve 5 is shut\n",
    ],
)
def test_D5_what_an_exception_says_behind_lines_of_others(between: str) -> None:
    said = "Crashed: plant::no_answer: ValveError: the valve did not answer"
    assert verdict(f"{THROWS}{between}{SAYS}Aborted\n").sentence.startswith(said)
    far = "[INFO] valve 5 is shut\n" * 4
    assert "did not answer" not in verdict(f"{THROWS}{between}{far}{SAYS}").sentence
    assert verdict(f"{between}{SAYS}").state is VerdictState.UNKNOWN
    thrown = "terminate called after throwing an instance of 'plant::no_answer'"
    assert "did not answer" not in verdict(f"[rank1]: {thrown}\n{between}[rank0]: {SAYS}").sentence


CHECKED = "/w/lid.h:77: TANK_ASSERT(level(2) > 0) failed\n"
OF_A_CHILD = (
    "[New LWP 4713]\n[New LWP 4714]\nptrace: Operation not permitted.\nNo stack.\nThe program is not being run.\n"
    "[Thread debugging using libthread_db enabled]\n0x00007fa9 in ?? () from /lib/libc.so.6\n"
    "#0  0x00007f01 in ?? () from /lib/libc.so.6\n#1  0x00007f02 in wait4 () from /lib/libc.so.6\n"
    "#2  0x00007f03 in tank_abort () from /w/libtank.so\n"
    "#3  0x00007f04 in void (anonymous namespace)::Lid<8, 2>::shut<(anonymous namespace)::Rim<8> >((anonymous "
    "namespace)::Rim<8> const&, int) const [clone .part.0] () from /w/libtank.so\n"
    "#4  0x00007f05 in tank_run () from /w/libtank.so\n[Inferior 1 (process 4712) detached]\n"
)


@pytest.mark.invariant("blocks.J3")
def test_an_assertion_whose_abort_started_a_debugger() -> None:
    log = f"filling tank 3\n{CHECKED}{OF_A_CHILD}"
    for end in ("", "Aborted\n"):
        judged = verdict(log + end)
        assert judged.state is VerdictState.CRASHED
        failed = "Crashed: assert: lid.h:77: TANK_ASSERT(level(2) > 0) failed"
        assert judged.sentence.startswith(f"{failed}, in Lid::shut (libtank.so)")
    assert verdict(log + STEPS).state is not VerdictState.CRASHED


WAITS = (
    "#0  0x00007f02 in wait4 () from /lib/libc.so.6\n#1  0x00007f04 in tank_fill () from /w/libtank.so\n"
    "#2  0x00007f05 in tank_abort () from /w/libtank.so\n"
)


@pytest.mark.invariant("blocks.J3")
def test_a_printed_stack_of_what_aborts_is_that_of_its_caller() -> None:
    aborts, waits = (BLOCKS["printed"](text, 0) for text in (OF_A_CHILD[OF_A_CHILD.index("#0") :], WAITS))
    assert aborts is not None
    assert aborts.values["frame"].startswith("void (anonymous namespace)::Lid<8, 2>::shut<")
    assert waits is not None
    assert waits.values["frame"] == "wait4"


@pytest.mark.invariant("crashes.D1")
@pytest.mark.parametrize("text", NONE)
def test_L1_what_is_no_end(text: str) -> None:
    assert verdict(text).state is VerdictState.UNKNOWN


@pytest.mark.parametrize("number", range(len(SAID)))
def test_a_log_that_goes_on_is_no_crash(number: int) -> None:
    assert verdict(SAID[number][0] + STEPS).state is not VerdictState.CRASHED
