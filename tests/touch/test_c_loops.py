"""Which loops of C and C++ wait for nothing, by their source."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.model import LoopWay
from livedbg.touch.c_loops import CSources

ENDLESS, ENDS, POLLS, NOTHING = LoopWay.RESTS, LoopWay.ENDS, LoopWay.POLLS, LoopWay.UNKNOWN
DECLARED = "static volatile sig_atomic_t g_stop;\nstd::vector<int> running_;\nstd::atomic<bool> quit_{false};\n"

Way = Callable[..., LoopWay | None]


@pytest.fixture
def way(tmp_path: Path) -> Way:
    def of(body: str, before: str = "") -> LoopWay | None:
        file = tmp_path / "job.cpp"
        text = DECLARED + before + "void Job::run(Queue &q) {\n" + body + "\n}\n"
        file.write_text(text)
        os.utime(file, (1, 1))
        line = next(number for number, one in enumerate(text.splitlines(), 1) if "HERE" in one)
        return CSources(os.getpid()).way(str(file), line)

    return of


@pytest.mark.invariant("c_loops.K1")
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("HERE;", None),
        ("while (true) {\n HERE;\n}", ENDLESS),
        ("for (;;) {\n HERE;\n}", ENDLESS),
        ("do {\n HERE;\n} while (1);", ENDLESS),
        ("for (auto &x : xs) {\n HERE;\n}", ENDS),
        ("for (int i = 0; i < n; ++i) {\n HERE;\n}", ENDS),
        ("for (int i = 0; i < n; ++i) {\n HERE;\n if (ready()) break;\n}", POLLS),
        ("for (int i = 0; i < n; ++i) {\n HERE;\n if (ready()) return;\n}", POLLS),
        ("for (int i = 0; i < n; ++i) {\n HERE;\n switch (i) { case 1: break; }\n}", ENDS),
        ("for (int i = 0; i < n; i = done()) {\n HERE;\n}", POLLS),
        ("for (int i = 0; i < n; ++i) {\n HERE;\n count(&i);\n}", POLLS),
        ("for (int i = 0; i < done(); ++i) {\n HERE;\n}", POLLS),
        ("for (size_t i = 0; i < xs.size(); ++i) {\n HERE;\n}", ENDS),
        ("for (size_t i = 1; i + 1 < xs.size(); ++i) {\n HERE;\n}", ENDS),
        ("for (int i = n; i - step > 0; i -= step) {\n HERE;\n}", ENDS),
        ("while (head + 1 < tail) {\n HERE;\n}", POLLS),
        ("while (done < n) {\n if (HERE) ++done;\n}", POLLS),
        ("for (int i = 0; i < n;) {\n HERE;\n if (!ready(i)) continue;\n ++i;\n}", POLLS),
        ("for (int i = 0; i < n; ++i) {\n HERE;\n if (!ready(i)) continue;\n}", ENDS),
        ("int i = 0; while (i < n) {\n HERE;\n i += 2;\n}", ENDS),
        ("int i = 0; while (i < n) {\n HERE;\n ready(i) && ++i;\n}", POLLS),
        ("for (int i = 0, j = 9; i < j; ++i, --j) {\n HERE;\n}", ENDS),
        ("while (xs.size() < n) {\n HERE;\n}", POLLS),
        ("double e = 1; while (e > 1e-9) {\n e *= 0.9;\n HERE;\n}", ENDS),
        ("double e = 1; while (e > 1e-9) {\n e = step();\n HERE;\n}", POLLS),
        ("while (!ready) {\n HERE;\n}", POLLS),
        ("while (!ready.load()) {\n HERE;\n}", POLLS),
        ("while (!g_stop) {\n HERE;\n}", ENDLESS),
        ("while (!stop) {\n HERE;\n}", POLLS),  # not seen to be a flag
        ("while (!stop_.load(std::memory_order_relaxed)) {\n HERE;\n}", ENDLESS),
        ("while (!this->stop_.load()) {\n HERE;\n}", ENDLESS),
        ("while (!job.stop.load()) {\n HERE;\n}", POLLS),
        ("while (!token.stop_requested()) {\n HERE;\n}", ENDLESS),
        ("while (running_) {\n HERE;\n}", POLLS),
        ("while (true) {\n if (quit_) break;\n HERE;\n}", ENDLESS),
        ("while (true) {\n if (g_stop) { log(); return; }\n HERE;\n}", ENDLESS),
        ("while (true) {\n if (!g_stop) HERE; else break;\n}", POLLS),
        ("while (q.pop(x)) {\n HERE;\n}", ENDLESS),
        ("while (clock::now() < end) {\n HERE;\n}", ENDS),
        ("for (int i = 0; clock::now() - start < std::chrono::seconds(9); i++) {\n HERE;\n}", ENDS),
        ("while (time(NULL) < end && !g_stop) {\n HERE;\n}", ENDLESS),
        ("while (time(NULL) < end && !ready) {\n HERE;\n}", POLLS),
        ("while (time(NULL) < end) {\n if (ready) break;\n HERE;\n}", POLLS),
        ("while (job.now() < end && left(job) > 0) {\n HERE;\n}", POLLS),
        ("while (now() < ask()) {\n HERE;\n}", POLLS),
        ("while (auto x = q.pop()) {\n HERE;\n}", ENDLESS),
        ("while (auto x = find()) {\n HERE;\n}", POLLS),
        ("while (q.pop()) {\n HERE;\n}", POLLS),
        ("while (!q.pop(x)) {\n HERE;\n}", POLLS),
        ("while (q.try_pop(x)) {\n HERE;\n}", POLLS),
        ("while (busy.get()) {\n HERE;\n}", POLLS),
        ("while (states.get(job)) {\n HERE;\n}", POLLS),
        ("while (busy.take()) {\n HERE;\n}", POLLS),
        ("while (true) {\n if (!q.pop(x)) break;\n HERE;\n}", ENDLESS),
        ("while (true) {\n if (g_stop && left()) break;\n HERE;\n}", ENDLESS),
        ("while (true) {\n if (g_stop || left()) break;\n HERE;\n}", POLLS),
        ("while (true) {\n n = read(fd, x, 9);\n if (n <= 0) break;\n HERE;\n}", ENDLESS),
        ("while (true) {\n n = ask(fd);\n if (n <= 0) break;\n HERE;\n}", POLLS),
        ("while (true) {\n n = read(fd, x, 9);\n if (n == 7) break;\n HERE;\n}", POLLS),
        ("while (true) {\n n = read(fd, x, 9);\n if (n > 0) break;\n HERE;\n}", POLLS),
        ("while (true) {\n n = read(fd, x, 1);\n if (n == 1) break;\n HERE;\n}", POLLS),
        ("while (true) {\n n = read(fd, x, 9);\n if (n != 0) break;\n HERE;\n}", POLLS),
        ("while (true) {\n if (q.pop(x)) break;\n HERE;\n}", POLLS),
        ("while (true) {\n HERE;\n if (ready()) std::exit(0);\n}", NOTHING),
        ("while (true) {\n HERE;\n goto out;\n}", POLLS),
        ("while (!ready) {\n while (true) {\n HERE;\n }\n}", POLLS),
        ("while (!ready) {\n run([&] { while (true) {\n HERE;\n } });\n}", ENDLESS),
    ],
)
def test_K1_what_a_loop_waits_for(body: str, expected: LoopWay | None, way: Way) -> None:
    assert way(body) is expected


@pytest.mark.invariant("c_loops.K2")
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("while (true) {\n {\n HERE;\n }\n}", ENDLESS),
        ("while (true) {\n for (auto &x : xs) {\n HERE;\n }\n}", ENDLESS),
        ("while (true) {\n try {\n HERE;\n } catch (...) {}\n}", ENDLESS),
        ("while (true) {\n try { f(); } catch (...) {\n HERE;\n }\n}", NOTHING),
        ("while (true) {\n if (f()) {\n HERE;\n }\n}", NOTHING),
        ("while (true) {\n switch (f()) { case 1:\n HERE;\n }\n}", NOTHING),
        ("while (true)\n HERE;", ENDLESS),
        ("for (int i = HERE; i < n; ++i)\n {\n if (f())\n work();\n}", ENDS),
        ("while (!ready(HERE)) {\n work();\n}", POLLS),
        ("for (int i = 0; i < n; ++i) {\n if (f())\n while (!ready(HERE)) work();\n}", POLLS),
    ],
)
def test_K2_a_line_that_each_round_comes_to(body: str, expected: LoopWay, way: Way) -> None:
    assert way(body) is expected


@pytest.mark.invariant("c_loops.K3")
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("while (nanosleep(&t, &t) == -1 && errno == EINTR) HERE;", None),
        ("for (;;) {\n while (clock_nanosleep(c, 0, &t, &t) == EINTR) HERE;\n}", ENDLESS),
        ("while (!ready) {\n while (nanosleep(&t, &t)) HERE;\n}", POLLS),
    ],
)
def test_K3_a_sleep_that_goes_on_after_a_signal(body: str, expected: LoopWay | None, way: Way) -> None:
    assert way(body) is expected


def test_only_sources_as_they_were_built_are_read(tmp_path: Path) -> None:
    file = tmp_path / "job.c"
    file.write_text("void f(void) {\n for (;;) {\n  nap();\n }\n}\n")
    assert CSources(os.getpid()).way(str(file), 3) is LoopWay.UNKNOWN  # changed since this process began
    os.utime(file, (1, 1))
    assert CSources(os.getpid()).way(str(file), 3) is ENDLESS
    other = file.rename(tmp_path / "job.txt")
    assert CSources(os.getpid()).way(str(other), 3) is LoopWay.UNKNOWN
    assert CSources(os.getpid()).way("/nowhere/job.c", 3) is LoopWay.UNKNOWN


WAITS = "while (true) {\n cv.wait(l, [&] { return x || !q.empty(); });\n if (q.empty()) return;\n q.pop_front();\n}"


@pytest.mark.invariant("c_loops.K3", "c_loops.K4")
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (WAITS.replace("cv.wait", "HERE.wait"), LoopWay.WORKS),
        (WAITS.replace("q.empty()) return", "running_ && q.empty()) return").replace("cv.wait", "HERE.wait"), POLLS),
        (WAITS.replace("q.empty()) return", "q.empty() && left()) return").replace("cv.wait", "HERE.wait"), POLLS),
        (WAITS.replace("\n}", "\n cv.wait(HERE);\n}"), ENDLESS),  # a wait in the job
        ("while (true) {\n while (q.empty()) pthread_cond_wait(&HERE, &m);\n q.pop();\n}", LoopWay.WORKS),
        ("while (!ready) {\n pthread_cond_wait(&HERE, &m);\n}", None),
        ("for (;;) {\n Job j = spool_.take(HERE);\n if (j.size == 0) break;\n}", LoopWay.WORKS),
        ("for (;;) {\n Job j = spool_.take(HERE);\n if (j.state == READY) break;\n}", POLLS),
        ("for (;;) {\n sleep(HERE);\n if (q.empty()) return;\n q.pop_front();\n}", POLLS),  # it asks again and again
        ("for (;;) {\n while (sem_wait(HERE) != 0) {\n }\n q.pop();\n}", LoopWay.WORKS),
        ("while (!g_stop) {\n HERE.wait_for(l, t);\n}", LoopWay.PAUSES),
        ("for (;;) {\n cv.wait(HERE, [&] { return quit_ || many(); });\n if (quit_) return;\n f();\n}", LoopWay.WORKS),
        ("for (;;) {\n std::unique_lock l(m);\n cv.wait(HERE);\n if (quit_) return;\n f();\n}", LoopWay.WORKS),
        ("for (;;) {\n ask();\n cv.wait(HERE, [&] { return quit_ || many(); });\n if (quit_) return;\n}", ENDLESS),
        ("for (;;) {\n cv.wait(HERE);\n if (many()) return;\n f();\n}", POLLS),
        ("for (;;) {\n if (quit_) cv.wait(HERE);\n f();\n}", NOTHING),
        ("while (!g_stop) {\n if (HERE.wait_until(l, t) == late) fire();\n}", LoopWay.PAUSES),
        ("while (!ready) {\n HERE.wait_for(l, t);\n f();\n}", POLLS),
    ],
)
def test_K4_who_takes_from_a_queue_works(body: str, expected: LoopWay | None, way: Way) -> None:
    assert way(body) is expected


OF_THIS_FILE = """
static bool read_line(int fd) { char c; while (read(fd, &c, 1) == 1) { if (c == 10) return true; } return false; }
static int say(int fd) { return write(fd, "x", 1); }
static bool still_busy(void) { return jobs > 0; }
static int read_state(void) { char c = 1; pread(fd, &c, 1, 0); read(fd, &c, 1); return c; }
static bool answered(int fd) { char c; return read(fd, &c, 1) == 1; }
"""


@pytest.mark.invariant("c_loops.K5")
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("while (true) {\n if (!read_line(fd)) break;\n HERE;\n}", ENDLESS),
        ("while (true) {\n if (read_line(fd)) break;\n HERE;\n}", POLLS),
        ("while (true) {\n if (!still_busy()) break;\n HERE;\n}", POLLS),
        ("while (true) {\n if (!read_state()) break;\n HERE;\n}", POLLS),
        ("while (true) {\n if (read_state() == 0) break;\n HERE;\n}", POLLS),
        ("while (true) {\n if (!answered(fd)) break;\n HERE;\n}", POLLS),
        ("while (true) {\n if (!unknown(fd)) break;\n HERE;\n}", POLLS),
        ("while (true) {\n if (say(fd) != 1) return 1;\n HERE;\n}", ENDLESS),
        ("while (true) {\n if (still_busy() != 1) return 1;\n HERE;\n}", POLLS),
        ("while (true) {\n if (write(fd, x, 2) != 2) _exit(1);\n HERE;\n}", ENDLESS),
        ("while (true) {\n if (ready()) _exit(1);\n HERE;\n}", NOTHING),
        ("while (true) {\n if (write(fd, x, 2) != 2 || ready()) break;\n HERE;\n}", POLLS),
        ("while (true) {\n n = poll(p, 1, 9);\n if (n < 0 && errno != EINTR) break;\n HERE;\n}", ENDLESS),
        ("while (true) {\n n = poll(p, 1, 9);\n if (n > 0) break;\n HERE;\n}", POLLS),
        ("while (true) {\n if (read(fd, x, 9) <= 0) break;\n HERE;\n}", ENDLESS),
        ("while (true) {\n if (read(fd, x, 9) > 0) break;\n HERE;\n}", POLLS),
        ("while (true) {\n if (read(fd, x, 9) != 0) break;\n HERE;\n}", POLLS),
    ],
)
def test_K5_what_could_not_be_read_or_written_is_no_news(body: str, expected: LoopWay, way: Way) -> None:
    assert way(body, OF_THIS_FILE) is expected


@pytest.mark.parametrize(
    "text", ["(" * 100_000, "while (1) {" * 20_000, "for (;;) { f(" * 9_000, "\0\xff", "while (", ""]
)
def test_no_text_ends_the_look(text: str, tmp_path: Path) -> None:
    file = tmp_path / "job.c"
    file.write_text(f"void f(void) {{\n while (!{text}\n", encoding="latin-1")
    os.utime(file, (1, 1))
    assert CSources(os.getpid()).way(str(file), 2) in (None, *LoopWay)
