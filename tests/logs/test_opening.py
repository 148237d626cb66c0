# ruff: noqa: E501 (lines of real logs)
"""What the first lines show: lines broken by a terminal, entities, tabs, prefixes of all; and what looks like them."""

from __future__ import annotations

import html
import textwrap

import pytest

from livedbg.logs.wrapping.opening import broken_at, shown_by
from tests.logs.test_wrapping import TRACEBACK, read

FRAMES = "".join(
    f'  File "/usr/local/lib/python3.11/dist-packages/{name}/nn/modules/module.py", line {n}, in _call_{name}_impl\n'
    f"    return self._call_impl(*args, **kwargs)\n"
    for n, name in enumerate(["torch", "accelerate", "transformers"], 1530)
)
LONG = f"loading\nTraceback (most recent call last):\n{FRAMES}RuntimeError: a message that is somewhat longer than a terminal of usual width is: {'x' * 30} ends\ndone\n"


def broken(text: str, width: int) -> str:
    return "".join(
        f"{line[at : at + width]}\n" for line in text.splitlines() for at in range(0, max(len(line), 1), width)
    )


@pytest.mark.parametrize("width", [80, 100, 77])
def test_broken_lines_are_joined(width: int) -> None:
    assert [record.text for record in read(broken(LONG, width))] == [record.text for record in read(LONG)]


@pytest.mark.parametrize("width", [80, 100])
def test_broken_lines_with_a_wrapping_are_joined_first(width: int) -> None:
    tagged = "".join(f"[rank3]: {line}\n" for line in LONG.splitlines())
    records = read(broken(tagged, width))
    assert [record.text for record in records] == [record.text for record in read(LONG)]
    assert {record.rank for record in records} == {3}


HEADED = """\
(Pump pid=41)   File "/opt/plant/lib/python3.12/site-packages/plant/v1/valves.py", line 217, in _reserve_enough_tank_rooms
(Pump pid=41)     self._fill(
(Pump pid=41)   File "/opt/plant/lib/python3.12/site-packages/plant/v1/tanks.py", line 1305, in _check_enough_room_for_it
(Pump pid=41)     raise ValueError(
(Pump pid=41) ValueError: a fill of 31 needs 4.26 GiB of room in the tank, which is more than the 4.25 GiB that is left there
"""


def test_broken_lines_whose_head_stands_only_before_their_first_part_are_joined() -> None:
    assert [record.text for record in read(broken(HEADED, 112))] == [record.text for record in read(HEADED)]
    others = "".join(f"(Plant pid=7) step {n} of 9 is done\n" for n in range(9))
    assert [record.text for record in read(broken(HEADED + others, 112))] == [
        record.text for record in read(HEADED + others)
    ]


def test_a_single_frame_that_is_the_widest_line_swallows_no_word_below_it() -> None:
    lines = HEADED.splitlines()[2:4]
    text = "".join(f"{line}\n" for line in ("(Pump pid=41) go", "(Pump pid=41) on", lines[0], "done", *lines[1:]))
    assert broken_at(text.split("\n")) == 0


def test_a_line_that_is_just_as_wide_does_not_swallow_a_line_that_begins_something() -> None:
    text = LONG.replace("loading", "y" * 80, 1)
    assert [record.text for record in read(broken(text, 80))][:1] == ["y" * 80]


@pytest.mark.parametrize("width", [80, 100, 77])
def test_broken_lines_that_were_filled_with_blanks_are_joined(width: int) -> None:
    padded = "".join(f"{line:<{width}}\n" for line in broken(LONG, width).splitlines())
    assert [record.text for record in read(padded)] == [record.text for record in read(LONG)]


BUILD = (
    "compiling\nsrc/ring.cu(12): error: no instance matches\n"
    "Traceback (most recent call last):\n"
    '  File "/tmp/build/setup.py", line 12, in run\n    self.build()\n'
    "RuntimeError: the build of ring failed\ndone\n"
)
INSTALLERS = {
    "pip": (
        "  error: subprocess-exited-with-error\n  \u2502 exit code: 1\n  \u2570\u2500> [6 lines of output]\n",
        "      ",
    ),
    "pip, in ASCII": ("error: subprocess-exited-with-error\n+-> [6 lines of output]\n", "    "),
    "uv": (
        "  \u00d7 Failed to build `ring==2.1`\n  \u2570\u2500\u25b6 Call to `meta.build_wheel` failed (exit status: 1)\n\n",
        "      ",
    ),
}


@pytest.mark.parametrize("quote", ["", "> ", "#11 4.024 "])
@pytest.mark.parametrize("kind", INSTALLERS)
def test_the_output_of_a_build_is_read_as_if_it_stood_alone(kind: str, quote: str) -> None:
    head, blanks = INSTALLERS[kind]
    text = head + "".join(f"{blanks}{line}\n" for line in BUILD.splitlines()) + "ERROR: Failed to build ring\n"
    records = [record.text for record in read("".join(f"{quote}{line}\n" for line in text.splitlines()))]
    alone = [record.text for record in read(BUILD)]
    assert records[-len(alone) - 1 : -1] == alone


STEP = "step {n:05} | loss {x:.6f} | lr 1.00e-04 | grad norm {x:.4f} | tokens/s 12345 | mem 41.2G"
LOOK_ALIKES = {
    "steps of one width": "".join(STEP.format(n=n, x=n / 7) + "\n" for n in range(40)),
    "steps and others": "".join(STEP.format(n=n, x=n / 7) + f"\nepoch {n} of 9\n" for n in range(9)),
    "prose": textwrap.fill("It was the best of times, it was the worst of times, it was the age of wisdom. " * 20, 80),
    "prose with quotes": textwrap.fill('He said "it was the best of times", she "the worst of (all) times". ' * 20, 80),
    "justified prose": "It  was the best  of times, it was the  worst of  times, it was the age of\n"
    "wisdom, it  was the age  of foolishness, it  was the epoch  of belief, and\n"
    "(in)  the  other  it was the epoch of incredulity, it was the  season of a\n"
    "light,  it was the  season of  Darkness, it was the spring  of hope, it is\n"
    "Now  the winter  of despair, we  had everything  before us, we had nothing\n"
    "before  us,  we  were all  going  direct  to  Heaven,  we  were  all going\n",
    "a table": "".join(f"| {'name':<20} | {n:>20} | {'x' * (n % 9):<20} |\n" for n in range(20)),
    "rules": f"{'=' * 80}\nResults\n{'=' * 80}\nall is well\n{'-' * 80}\n" * 4,
    "an array": "[[0.12345678 0.23456789 0.34567891 0.45678912 0.56789123 0.67891234 0.7891]\n"
    " [0.12345678 0.23456789 0.34567891 0.45678912 0.56789123 0.67891234 0.7891]]\n" * 4,
    "tensors": "tensor([[0.1234, 0.2345, 0.3456, 0.4567, 0.5678, 0.6789, 0.7891, 0.8912, 0.9123,\n"
    "         0.1234, 0.2345],\n" * 4,
    "keys": f"-----BEGIN KEY-----\n{'MIIEpAIBAAKCAQEA7x' * 4}\n{'gJx0aZ3FhQ92bTnqLw' * 4}\n{'Zq81mPx3RtV6kYb2Hs' * 4}\nx9\n",
    "lines that a program cut": "".join(
        f"sample {n}: {'the quick brown fox jumps over the lazy dog and (then) some more'[n:]:.<70}"[:80] + "\nstep 3\n" for n in range(9)
    ),
    "hexdump": "".join(f"{n:08x}  " + " ".join(f"{(n * k) % 256:02x}" for k in range(16)) + "  |................|\n" for n in range(9)),
    "bars": "".join(f"{n:3}%|{'#' * 30:<60}| {n}/100 [00:01<00:02,  1.0it/s]\n" for n in range(20)),
    "a table filled up": "".join(f"{name:<30}{n:>8}{'x' * (n % 30):>34}{'  ' * (n % 2):<8}\n" for n, name in enumerate("abcdefghi")),
    "indented text": "".join(f"      item {n} of the plan, with an arrow \u2570\u2500> that says [3 parts]\n" for n in range(9)),
    "a compiler": "/srv/a/very/long/path/to/some/source/file/of/a/project/kernel.cu(31): error: ident\n/srv/b/x.cu(3): error: y\n" * 3,
}  # fmt: skip


@pytest.mark.invariant("opening.K1", "opening.O1")
@pytest.mark.parametrize("kind", LOOK_ALIKES)
def test_K1_O1_lines_of_one_width_are_left_alone(kind: str) -> None:
    text = LOOK_ALIKES[kind]
    assert broken_at(text.split("\n")) == 0
    assert "\n".join(record.text for record in read(text)).split() == text.split()


def test_a_page_is_read_as_what_it_shows() -> None:
    for quote in (True, False):
        page = "".join(f"{html.escape(line, quote=quote)}\n" for line in f'a > b && c\n{TRACEBACK}\n"x"'.split("\n"))
        assert [record.text for record in read(page)] == ["a > b && c", TRACEBACK, '"x"']


def test_colours_without_their_escape_are_taken_off() -> None:
    lines = [f"[36m(Trainer pid=42)[0m {line}" for line in TRACEBACK.split("\n")]
    lines += ["[2026-11-21 12:00:00] all [1;31mfailed[0m, after [5m, 3 s]"]
    records = read("".join(f"{line}\n" for line in lines))
    assert [(record.text, record.pid) for record in records] == [
        (TRACEBACK, 42),
        ("[2026-11-21 12:00:00] all failed, after [5m, 3 s]", None),
    ]


PAGES = {
    "lengths in metres": "from [30m, 40m]\nto [31m and [39, 40m]\n",
    "a program's HTML": "<p>a &amp; b &lt; c</p>\n<b>3</b>\n",
    "some escaped": "got &lt;s&gt; from the tokenizer\nargs: <s> </s>\n",
    "an address": "GET /x?a=1&lt;b=2&c=3\nGET /y?a=1&b=2\n",
    "no entity": "AT&T; R&D\nx && y\n",
    "shell": "a & b &amp; c\n",
}


@pytest.mark.invariant("opening.O1")
@pytest.mark.parametrize("kind", PAGES)
def test_O1_what_has_both_is_no_page(kind: str) -> None:
    assert shown_by(PAGES[kind].split("\n")) == []
    assert "\n".join(record.text for record in read(PAGES[kind])) == PAGES[kind].rstrip("\n")


def test_a_table_of_three_columns_is_no_log_of_a_workflow() -> None:
    rows = "name\tstep\t2026-03-04T10:00:00.1234567Z\n" + "".join(f"a\t{n}\tx\n" for n in range(20))
    assert shown_by(rows.split("\n")) == []


TABLES = {
    "values": "name\tvalue\n" + "".join(f"key{n}\t{n}\n" for n in range(20)),
    "devices": "".join(f"gpu{n % 2}\t{n}\t41.2\n" for n in range(20)),
    "words": "".join(f"train\t{n}\t0.5\n" for n in range(20)),
    "some lines": "".join(f"node07\t{n}\nplain {n}\n" for n in range(20)),
}


@pytest.mark.invariant("opening.O1")
@pytest.mark.parametrize("kind", TABLES)
def test_O1_a_table_with_tabs_is_left_as_it_is(kind: str) -> None:
    assert shown_by(TABLES[kind].split("\n")) == []


@pytest.mark.parametrize("label", ["node07", "job"])
def test_the_tag_of_parallel_is_taken_off(label: str) -> None:
    (record,) = read("".join(f"{label}\t{line}\n" for line in TRACEBACK.split("\n")))
    assert (record.text, record.writer) == (TRACEBACK, label)


PREFIXES = {
    "docker service logs": lambda n: "train_worker.1.k3j2h4g5f6d7@node07    | ",
    "Cloud Build": lambda n: 'Step #4 - "train": ',
    "aws logs tail": lambda n: f"2026-11-21T12:00:{n:02}.500000+00:00 job-7/algo-1-17726 ",
    "honcho": lambda n: f"12:00:{n:02} train.1   | ",
    "kubetail": lambda n: "[train-7f9c4-x2x4z worker] ",
    "a box": lambda n: "      train \u2502 ",
    "rsyslog without a colon": lambda n: f"2026-11-21T12:00:{n:02}.500000+00:00 node07 train[4242] ",
}


@pytest.mark.parametrize("kind", PREFIXES)
def test_a_prefix_of_all_lines_is_taken_off(kind: str) -> None:
    lines = ["loading", "", *TRACEBACK.split("\n"), "done"]
    records = read("".join(f"{PREFIXES[kind](n)}{line}".rstrip() + "\n" for n, line in enumerate(lines)))
    assert [record.text for record in records] == ["loading", TRACEBACK, "done"]
    assert [record.line for record in records] == [1, 3, len(lines)]
    assert len({record.writer for record in records}) == 1 and all(record.writer for record in records)


def test_writers_of_an_unknown_prefix_are_taken_apart() -> None:
    lines = TRACEBACK.split("\n")
    text = "".join(f"train_worker.{rank}.k3j2h4g5f6d7@node0{rank} | {line}\n" for line in lines for rank in (1, 2))
    assert [record.text for record in read(text)] == [TRACEBACK] * 2


OWN = {
    "steps of ranks": "".join(f"step {n // 4} [rank{n % 4}]: loss {n}\n" for n in range(40)),
    "steps": "".join(f"step {n} [rank0]: loss {n}\n" for n in range(40)),
    "labels of ranks": "".join(f"{n % 2}: {line}\n" for n, line in enumerate(TRACEBACK.split("\n") * 2)),
    "messages of one kind": "".join(f"epoch {n} of 9 begins\n" for n in range(9)),
    "a logger": "".join(f"2026-11-21 12:00:{n:02},000 INFO train: step {n}\n" for n in range(9)),
    "a logger and its error": "".join(f"12:00:{n:02} ERROR train: step {n}\n" for n in range(9)) + TRACEBACK,
    "the kernel": "".join(f"Nov 21 12:00:{n:02} node3 kernel: [ {n}.123456] usb 1-{n}\n" for n in range(9)),
    "a clock before a rank": "".join(f"Nov 21 12:00:{n:02} [{n % 2}] cell {n}\n" for n in range(9)),
    "another line": "".join(f"run {n}: Traceback (most recent call last):\n" for n in range(9)) + "and so on\nand on\n",
    "frames": "".join(f'  File "/srv/a.py", line {n}, in f\n' for n in range(9)),
    "a table": "".join(f"step {n} | [rank0]: {n}\n" for n in range(9)) + "x\ny\n",
}


@pytest.mark.invariant("opening.C1")
@pytest.mark.parametrize("kind", OWN)
def test_C1_what_a_program_writes_before_its_lines_stays(kind: str) -> None:
    assert shown_by(OWN[kind].split("\n")) == []


@pytest.mark.invariant("opening.C1")
def test_C1_lines_that_the_journal_stamped_for_a_program_have_no_other_prefix() -> None:
    said = ("E       app.PumpError: no water", "E       Last error:", "E       valve 4 is shut")
    lines = [f"Wed 2026-03-04 10:00:00 UTC node07 train@1.service[4242]: {line}" for line in said]
    assert shown_by(lines) == []
    assert {(record.writer, record.pid) for record in read("\n".join(lines) + "\n")} == {
        ("train@1.service[4242]", 4242)
    }


@pytest.mark.parametrize("head", ["{n} | 15341669531{n:02} | ", "15341669531{n:02} "])
def test_columns_of_numbers_with_a_time_are_taken_off(head: str) -> None:
    lines = ["loading", *TRACEBACK.split("\n")]
    records = read("".join(f"{head.format(n=n)}{line}\n" for n, line in enumerate(lines, 10)))
    assert [record.text for record in records] == ["loading", TRACEBACK] and {record.writer for record in records} == {
        ""
    }


def test_columns_of_numbers_alone_stay() -> None:
    text = "".join(f"15341669531{n:02} {n / 7:.4f} {n}\n" for n in range(10, 40))
    assert [record.text for record in read(text)] == text.splitlines()


STAMPS = {
    "bare": "12:00:{:02} ",
    "in brackets": "[12:00:{:02}] ",
    "a bar": "12:00:{:02}.250 | ",
    "a part": "12:00:{:02},7 ",
}
REPORT = [
    "[ RUN      ] Tank.Fills",
    "unknown file: Failure",
    'C++ exception with description "',
    "",
    "    the tank is dry",
]


@pytest.mark.invariant("opening.T1")
@pytest.mark.parametrize("kind", STAMPS)
def test_T1_a_clock_before_each_line_is_no_part_of_the_message(kind: str) -> None:
    lines = [*REPORT, "", *TRACEBACK.split("\n"), "done"]
    text = "".join(f"{STAMPS[kind].format(n)}{line}".rstrip() + "\n" for n, line in enumerate(lines))
    end = "to reproduce: ./tank\n"  # a line without a stamp: whoever pasted the text wrote it
    bare = [record.text for record in read("".join(f"{line}\n" for line in lines) + end)]
    assert [record.text for record in read(text + end)] == bare


CLOCKS = {
    "steps": "".join(f"12:00:{n:02} step {n}, loss 0.{n}\n" for n in range(20)),
    "a logger": "".join(f"[12:00:{n:02}] INFO train: step {n}\n    in parts\n" for n in range(20)),
    "a logger without parts": "".join(f"12:00:{n:02} | WARNING  | \n" for n in range(20)),
    "checks": "".join(f"[12:00:{n:02}] /srv/tank.cc:{n}: Check failed: it is dry\n" for n in range(20)) + TRACEBACK,
    "few": f"12:00:01 it begins\n12:00:02 \n12:00:03 \n12:00:04 \n{TRACEBACK}\n12:00:09 it ends\n",
}


@pytest.mark.invariant("opening.T1")
@pytest.mark.parametrize("kind", CLOCKS)
def test_T1_a_clock_of_a_program_s_own_messages_stays(kind: str) -> None:
    assert shown_by(CLOCKS[kind].split("\n")) == []


WORDS = (
    "[rank1] Some transfers have failed, and since they run beside it their later parts work on data that is not whole\n"
    "[rank1] To keep the data whole, the pump of this rank is taken down, and so are all of the others that wait for it\n"
)


@pytest.mark.parametrize(("width", "joined"), [(81, True), (92, True), (86, False)])
def test_a_part_that_is_no_word_shows_where_a_line_was_broken(width: int, joined: bool) -> None:
    lines = [record.text for record in read(broken(WORDS, width) + "done\n")]
    assert (len(lines) == 3) is joined


def test_the_same_line_that_was_broken_again_and_again() -> None:
    line = "[rank{n}] pump {n} timed out: Fill(number=4, valve=MAIN, inflow=112, outflow=112, limit=1800) ran for 1,800,010 ms\n"
    text = "".join(line.format(n=n) for n in range(2, 7))
    assert [record.text for record in read(broken(text, 69))] == [record.text for record in read(text)]
