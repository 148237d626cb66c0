# ruff: noqa: E501 (lines of real logs)
"""The same text in every wrapping, and texts that only look wrapped.

The wrappings are written as their programs write them: docker's json-file driver, Kubernetes' CRI logs, kubectl,
compose, journalctl, syslog, srun, mpirun, pdsh, torchelastic, Ray, vLLM, tqdm.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable

import pytest

from livedbg.logs.clock import SourceClock
from livedbg.logs.lines import LineCutter
from livedbg.logs.records import RecordAssembler
from livedbg.logs.search import with_escaped
from livedbg.logs.wrapping.certain import CERTAIN
from livedbg.logs.wrapping.guesses import GUESSES
from livedbg.model import LogRecord, Severity
from livedbg.session.filereaders import known_log_formats
from tests.logs.reading import verdict

NOON = 1_795_262_400  # 2026-11-21 12:00:00 UTC
TRACEBACK = """Traceback (most recent call last):
  File "/srv/train.py", line 31, in <module>
    main("a<b>&c")
  File "/srv/train.py", line 12, in main
    step()
RuntimeError: CUDA error: an illegal memory access was encountered
CUDA kernel errors might be asynchronously reported at some other API call."""
TEXT = f"""loading the data
epoch 1 begins

{TRACEBACK}
cleaning up – done"""


def read(data: str | bytes, size: int = 1 << 20) -> list[LogRecord]:
    data = data.encode() if isinstance(data, str) else data
    assembler = RecordAssembler("log:box/x", SourceClock((NOON + 3600) * 10**9), known_log_formats())
    cutter = LineCutter()
    records: list[LogRecord] = []
    for begin in range(0, len(data), size):
        records += assembler.feed(cutter.feed(data[begin : begin + size]))
    return [*records, *assembler.feed(cutter.flush()), *assembler.flush()]


def _stamp(number: int, digits: int = 9) -> str:
    return f"2026-11-21T12:00:{number:02}" + f".{'5'.ljust(digits, '0')}"


def _docker(line: str, number: int) -> str:
    text = json.dumps(line + "\n", ensure_ascii=False).translate({60: "\\u003c", 62: "\\u003e", 38: "\\u0026"})
    return f'{{"log":{text},"stream":"stderr","time":"{_stamp(number)}Z"}}'


def _journal_json(line: str, number: int) -> str:
    fields = {
        "__CURSOR": f"s=1;i={number}", "_PID": "4711", "_HOSTNAME": "node3", "SYSLOG_IDENTIFIER": "train", "PRIORITY": "6",
        "_TRANSPORT": "stdout", "MESSAGE": line, "__REALTIME_TIMESTAMP": str((NOON + number) * 10**6),
    }  # fmt: skip
    return json.dumps(fields)


WRAPPINGS: dict[str, Callable[[str, int], str]] = {
    "bare": lambda line, n: line,
    "docker json-file": _docker,
    "cri": lambda line, n: f"{_stamp(n)}Z stderr F {line}",
    "cri with an offset": lambda line, n: f"{_stamp(n)}+00:00 stderr F {line}",
    "kubectl --prefix": lambda line, n: f"[pod/train-7f9c/worker] {line}",
    "kubectl --prefix --timestamps": lambda line, n: f"[pod/train-7f9c/worker] {_stamp(n)}Z {line}",
    "kubectl --timestamps": lambda line, n: f"{_stamp(n)}Z {line}",
    "compose": lambda line, n: f"trainer-1  | {line}",
    "compose in two widths": lambda line, n: f"trainer-1         | {line}",
    "journald json": _journal_json,
    "journald short": lambda line, n: f"Nov 21 12:00:{n:02} node3 train[4711]: {line}",
    "journald short-precise": lambda line, n: f"Nov 21 12:00:{n:02}.500000 node3 train[4711]: {line}",
    "journald short-iso": lambda line, n: f"2026-11-21T12:00:{n:02}+0000 node3 train[4711]: {line}",
    "rfc 3164 with PRI": lambda line, n: f"<14>Nov 21 12:00:{n:02} node3 train[4711]: {line}",
    "rfc 5424": lambda line, n: f"<14>1 {_stamp(n, 6)}Z node3 train 4711 - - {line}",
    "rfc 5424 with data": lambda line, n: f'<14>1 {_stamp(n, 3)}Z node3 train 4711 ID47 [a@3 b="x\\]y"][c@4] {line}',
    "ts": lambda line, n: f"2026-11-21 12:00:{n:02} {line}",
    "ts in brackets": lambda line, n: f"[2026-11-21 12:00:{n:02}.123] {line}",
    "torchrun": lambda line, n: f"[default3]:{line}",
    "exception hook": lambda line, n: f"[rank3]: {line}",
    "srun -l": lambda line, n: f"3: {line}",
    "srun -l of many": lambda line, n: f"003: {line}",
    "mpirun --tag-output": lambda line, n: f"[1,3]<stderr>:{line}",
    "mpirun of PRRTE": lambda line, n: f"[prterun-node3-812@1,3]<stderr>: {line}",
    "mpirun --timestamp-output --tag-output": lambda line, n: f"Sat Nov 21 12:00:{n:02} 2026[1,3]<stderr>:{line}",
    "mpirun --timestamp-output": lambda line, n: f"Sat Nov 21 12:00:{n:02} 2026<stderr>:{line}",
    "mpiexec -prepend-rank": lambda line, n: f"[3] {line}",
    "pdsh": lambda line, n: f"node12: {line}",
    "ray": lambda line, n: f"(RayTrainWorker pid=302, ip=10.1.0.7) {line}",
    "ray with colours": lambda line, n: f"\x1b[36m(train_fn pid=302)\x1b[0m {line}",
    "vllm": lambda line, n: f"(VllmWorker rank=3 pid=302) {line}",
    "vllm engine": lambda line, n: f"(EngineCore_0 pid=302) {line}",
    "vllm engine of several": lambda line, n: f"(EngineCore_DP1 pid=302) {line}",
    "a host without its name around [rank3]:": lambda line, n: f": [rank3]: {line}",
    "vllm worker": lambda line, n: f"(Worker_TP3 pid=302) {line}",
    "sglang": lambda line, n: f"[2026-11-21 12:00:{n:02} TP3 EP3] {line}",
    "sglang with many": lambda line, n: f"[2026-11-21 12:00:{n:02} DP0 PP1 TP3] {line}",
    "quote": lambda line, n: f"> {line}" if line else ">",
    "quote in a quote": lambda line, n: f"> > {line}",
    "pasted as code": lambda line, n: f"    {line}" if line else "",
    "pasted with a tab": lambda line, n: f"\t{line}",
    "crlf": lambda line, n: f"{line}\r",
    "colours": lambda line, n: f"\x1b[31m{line}\x1b[0m",
    "behind a redrawn bar": lambda line, n: f" 33%|███▎      | 1/3 [00:01<00:02,  1.00it/s]\r{line}" if line else "",
    "glued to a bar": lambda line, n: f"100%|██████████| 3/3 [00:01<00:00,  2.76it/s]{line}" if line[:1] == "T" else line,
    "github actions": lambda line, n: f"{_stamp(n, 7)}Z {line}",
    "docker json around [rank3]:": lambda line, n: _docker(f"[rank3]: {line}", n),
    "cri around a python bar": lambda line, n: f"{_stamp(n)}Z stderr F \r  3%|▎  | 3/99 [00:01<00:32, 3.0it/s]\r{line or chr(27) + chr(91) + chr(109)}",
    "compose around json around srun": lambda line, n: f"a-1  | {_docker(f'3: {line}', n)}",
    "srun around torchrun": lambda line, n: f"1: [default3]:{line}",
    "kubectl around ray": lambda line, n: f"[pod/a/b] (W pid=302, ip=10.1.0.7) {line}",
    "colours around vllm": lambda line, n: f"\x1b[1;36m(EngineCore_0 pid=302)\x1b[0;0m {line}",
    "a logger's head": lambda line, n: f"2026-11-21 12:00:{n:02},{n:03} - launcher - INFO - {line}",
    "a logger's head, level first": lambda line, n: f"2026-11-21 12:00:{n:02},{n:03} INFO launcher: {line}",
    "a logger's head in brackets": lambda line, n: f"[2026-11-21 12:00:{n:02},{n:03}][launcher][INFO] - {line}",
    "loguru's head": lambda line, n: f"2026-11-21 12:00:{n:02}.{n:03} | INFO     | launcher:pump:41 - {line}",
    "a logger around [rank3]:": lambda line, n: f"2026-11-21 12:00:{n:02},{n:03} - launcher - INFO - [rank3]: {line}",
    "docker json around a logger": lambda line, n: _docker(f"2026-11-21 12:00:{n:02},{n:03} - launcher - INFO - {line}", n),
    "quote around [rank3]:": lambda line, n: f"> [rank3]: {line}",
    "pasted as code around [rank3]:": lambda line, n: f"    [rank3]: {line}",
    "loki jsonl": lambda line, n: json.dumps({"labels": {"pod": "train-7f9c", "container": "w"}, "line": line, "timestamp": f"{_stamp(n)}Z"}),
    "grafana": lambda line, n: json.dumps({"line": line, "timestamp": f"{NOON + n}500000000", "fields": {"pod": "train-7f9c"}}),
    "cloud logging": lambda line, n: json.dumps({"insertId": f"x{n}", "textPayload": line, "timestamp": f"{_stamp(n)}Z", "severity": "ERROR"}),
    "cloudwatch": lambda line, n: json.dumps({"timestamp": (NOON + n) * 1000, "message": line, "ingestionTime": (NOON + n) * 1000}),
    "fluent bit": lambda line, n: json.dumps({"date": NOON + n + 0.5, "log": line + "\n", "stream": "stderr"}),
    "filebeat": lambda line, n: json.dumps({"@timestamp": f"{_stamp(n, 3)}Z", "message": line, "log": {"file": {"path": "/x"}}, "agent": {}}),
    "vector": lambda line, n: json.dumps({"file": "/x", "message": line, "source_type": "file", "timestamp": f"{_stamp(n)}Z"}),
    "gitlab": lambda line, n: f"{_stamp(n, 6)}Z 01E {line}",
    "jenkins": lambda line, n: f"[{_stamp(n, 3)}Z] {line}",
    "compose --timestamps": lambda line, n: f"trainer-1  | {_stamp(n)}Z {line}",
    "stern": lambda line, n: f"train-7f9c4-x2x4z worker {line}",
    "ts of moreutils": lambda line, n: f"Nov 21 12:00:{n:02} {line}",
    "ts -s": lambda line, n: f"00:00:{n:02} {line}",
    "lightning": lambda line, n: f"[rank: 3] {line}",
    "journald short-full": lambda line, n: f"Sat 2026-11-21 12:00:{n:02} UTC node3 train[4711]: {line}",
    "srun around the exception hook": lambda line, n: f"0: [rank0]: {line}",
    "docker json of torchrun of a logger": lambda line, n: _docker(f"[default3]:2026-11-21 12:00:{n:02},{n:03} - launcher - INFO - {line}", n),
    "sagemaker": lambda line, n: f"[1,mpirank:3,algo-2]<stderr>:{line}",
    "skypilot": lambda line, n: f"(worker1, rank=3, pid=302, ip=10.1.0.7) {line}",
    "determined": lambda line, n: f"[{_stamp(n, 6)}Z] 5c902731 [rank=3] || {line}",
    "vertex": lambda line, n: f"ERROR\t2026-11-21 12:00:{n:02} +0000\tworkerpool0-1\t{line}",
    "vertex with blanks": lambda line, n: f"INFO    2026-11-21 12:00:{n:02} +0000       workerpool0-1   {line}",
    "teamcity": lambda line, n: f"[12:00:{n:02}]W:\t [Step 1/5] {line}",
    "buildkite": lambda line, n: f"\x1b_bk;t={(NOON + n) * 1000}\x07{line}",
    "buildkit's error": lambda line, n: f"{n // 4}.{n // 4 * 25:03} {line}".rstrip(),
    "buildkit": lambda line, n: f"#8 {n // 4}.{n % 4 * 250:03} {line}".rstrip(),
    "dmesg -T": lambda line, n: f"[Sat Nov 21 12:00:{n:02} 2026] {line}",
    "journald short-unix": lambda line, n: f"{NOON + n}.500000 node3 train[4711]: {line}",
    "journald no-hostname": lambda line, n: f"2026-03-04T10:00:{n % 60:02}Z train[4711]: {line}",
    "journald short-monotonic": lambda line, n: f"[{812 + n:5}.500000] node3 train[4711]: {line}",
    "journald short-delta": lambda line, n: f"[{812 + n:5}.500000 <    1.000000 >] node3 train[4711]: {line}",
    "journald with-unit": lambda line, n: f"Sat 2026-11-21 12:00:{n:02} UTC node3 train@1.service[4711]: {line}",
    "a head of spark": lambda line, n: f"26/11/21 12:00:{n:02} INFO TorchDistributor: {line}",
    "colab": lambda line, n: json.dumps({"pid": 7, "type": "jupyter", "level": 40, "msg": line, "time": f"{_stamp(n)}Z", "v": 0}),
    "a payload of cloud logging": lambda line, n: json.dumps({"insertId": f"x{n}", "jsonPayload": {"message": line}, "timestamp": f"{_stamp(n)}Z"}),
    "journald around srun": lambda line, n: f"Nov 21 12:00:{n:02} node3 train[4711]: 3: {line}",
}  # fmt: skip


def wrapped(text: str, kind: str) -> str:
    return "".join(f"{WRAPPINGS[kind](line, number)}\n" for number, line in enumerate(text.split("\n")))


BARE = [(record.text, record.severity, record.line) for record in read(TEXT)]


@pytest.mark.invariant("door.D1")
@pytest.mark.parametrize("kind", WRAPPINGS)
@pytest.mark.parametrize("size", [1 << 20, 7])
def test_D1_a_text_is_read_alike_in_every_wrapping(kind: str, size: int) -> None:
    data = wrapped(TEXT, kind).encode()
    records = read(data, size)
    said = [(record.text, record.severity, record.line) for record in records]
    assert said == BARE
    offsets = list(
        itertools.accumulate((len(line) for line in data.split(b"\n")), lambda sum, size: sum + size + 1, initial=0)
    )
    assert [record.offset for record in records] == [offsets[(record.line or 0) - 1] for record in records]


@pytest.mark.parametrize("kind", [kind for kind in WRAPPINGS if kind != "glued to a bar"])
def test_a_lone_traceback_is_read_alike_in_every_wrapping(kind: str) -> None:
    (record,) = read(wrapped(TRACEBACK, kind))
    assert record.text == TRACEBACK


@pytest.mark.invariant("door.D2")
@pytest.mark.parametrize("kind", [kind for kind in WRAPPINGS if not kind.startswith("pasted")])
def test_D2_a_wrapping_that_begins_late_is_found(kind: str) -> None:
    banner = "".join(f"job {n % 7} is waiting for resources\n" for n in range(50))
    records = read(banner + wrapped(TRACEBACK, kind))
    assert [record.text for record in records[50:]] == [TRACEBACK]
    assert records[50].line == 51


FIELDS = {
    "docker json-file": {"stream": "stderr", "wall_ns": (NOON + 3) * 10**9 + 500_000_000},
    "cri": {"stream": "stderr", "wall_ns": (NOON + 3) * 10**9 + 500_000_000},
    "kubectl --prefix": {"host": "train-7f9c", "container": "worker"},
    "kubectl --timestamps": {"wall_ns": (NOON + 3) * 10**9 + 500_000_000},
    "compose": {"container": "trainer-1"},
    "journald json": {"host": "node3", "pid": 4711, "wall_ns": (NOON + 3) * 10**9},
    "journald short-iso": {"host": "node3", "pid": 4711, "wall_ns": (NOON + 3) * 10**9},
    "rfc 5424": {"host": "node3", "pid": 4711, "wall_ns": (NOON + 3) * 10**9 + 500_000_000},
    "torchrun": {"rank": 3, "writer": "rank 3"},
    "exception hook": {"rank": 3, "writer": "rank 3"},
    "srun -l of many": {"rank": 3, "writer": "rank 3"},
    "mpirun --tag-output": {"rank": 3, "stream": "stderr"},
    "mpirun of PRRTE": {"rank": 3, "stream": "stderr"},
    "pdsh": {"host": "node12", "writer": "node12"},
    "ray": {"host": "10.1.0.7", "pid": 302, "writer": "pid 302"},
    "vllm": {"rank": 3, "pid": 302, "writer": "rank 3"},
    "a host without its name around [rank3]:": {"rank": 3, "writer": "rank 3"},
    "vllm worker": {"writer": "worker TP3", "pid": 302},
    "vllm engine of several": {"writer": "engine core DP1", "pid": 302},
    "sglang": {"rank": 3, "writer": "rank 3", "wall_ns": (NOON + 3) * 10**9},
    "sglang with many": {"rank": None, "writer": "worker DP0 PP1 TP3"},
    "docker json around [rank3]:": {"rank": 3, "stream": "stderr", "writer": "rank 3"},
    "srun around torchrun": {"rank": 3},
    "sagemaker": {"rank": 3, "host": "algo-2", "stream": "stderr", "writer": "rank 3"},
    "skypilot": {"rank": 3, "host": "10.1.0.7", "pid": 302},
    "determined": {"rank": 3, "wall_ns": (NOON + 3) * 10**9 + 500_000_000},
    "vertex": {"host": "workerpool0-1", "wall_ns": (NOON + 3) * 10**9},
    "buildkite": {"wall_ns": (NOON + 3) * 10**9},
    "dmesg -T": {"wall_ns": (NOON + 3) * 10**9},
    "journald short-unix": {"host": "node3", "pid": 4711, "wall_ns": (NOON + 3) * 10**9 + 500_000_000},
    "journald short-monotonic": {"host": "node3", "pid": 4711, "wall_ns": None},
    "a head of spark": {"wall_ns": (NOON + 3) * 10**9},
}


@pytest.mark.parametrize("kind", FIELDS)
def test_what_a_wrapping_says_becomes_fields(kind: str) -> None:
    record = next(record for record in read(wrapped(TEXT, kind)) if record.text.startswith("Traceback"))
    assert {name: getattr(record, name) for name in FIELDS[kind]} == FIELDS[kind]


@pytest.mark.parametrize(
    "tag",
    ["[rank{}]: ", "[default{}]:", "{}: ", "[1,{}]<stderr>:", "node{}: ", "w-{}  | ", "(W pid=7{}) ", "[pod/a/c{}] "],
)
def test_writers_that_share_a_log_are_taken_apart(tag: str) -> None:
    lines = TRACEBACK.split("\n")
    records = read("".join(f"{tag.format(n)}{line}\n" for line in lines for n in (3, 1, 2)))
    assert [record.text for record in records] == [TRACEBACK] * 3
    assert len({record.writer for record in records}) == 3


def test_the_streams_of_a_container_are_taken_apart() -> None:
    lines = TRACEBACK.split("\n")
    out = [f"{_stamp(n)}Z stdout F step {n}" for n in range(len(lines))]
    err = [f"{_stamp(n)}Z stderr F {line}" for n, line in enumerate(lines)]
    records = read("\n".join(line for both in zip(out, err, strict=True) for line in both))
    assert [record.text for record in records if record.stream == "stderr"] == [TRACEBACK]


@pytest.mark.invariant("door.D3")
def test_D3_parts_of_a_line_are_put_together() -> None:
    """The json-file driver cuts lines at 16 KiB, and so does the CRI, which says so."""
    cri = read(
        f"{_stamp(1)}Z stderr P Runtime\n{_stamp(1)}Z stdout F other\n{_stamp(1)}Z stderr P Error: \n{_stamp(2)}Z stderr F bad\n"
    )
    assert sorted((record.text, record.line) for record in cri) == [("RuntimeError: bad", 1), ("other", 2)]
    first, rest = ('{"log":"Runtime","stream":"stderr","time":"2026-11-21T12:00:01Z"}', _docker("Error: bad", 2))
    assert [(record.text, record.line) for record in read(f"{first}\n{rest}\n")] == [("RuntimeError: bad", 1)]
    assert [record.text for record in read(first)] == ["Runtime"]


def test_the_further_lines_of_a_message_of_the_journal_are_indented_so_far_as_its_head() -> None:
    head = "Nov 21 12:00:03 node3 train[4711]: "
    lines = TRACEBACK.split("\n")
    blanks = " " * len(head)
    records = read("".join(f"{head}step {n}\n" for n in range(4)) + head + f"\n{blanks}".join(lines) + "\n")
    assert records[-1].text == TRACEBACK


def test_what_a_bar_drew_over_is_kept_if_it_was_a_message() -> None:
    data = "  1%|  | 1/99 [00:01<01:32, 1.0it/s]\rRuntimeError: bad\r  2%|  | 2/99 [00:01<01:32, 1.0it/s]\r"
    assert [record.text for record in read(data)] == ["RuntimeError: bad"]
    assert [record.text for record in read("reading 1\rreading 2\r\n")] == ["reading 2"]
    bar = "Epoch 3:  50%|█████     | 5/10 [00:05<00:05,  1.00it/s, loss=0.3]"
    assert [record.text for record in read(bar)] == [bar]


LOOK_ALIKES = {
    "grep -n": "12: def step():\n13:   File \"a\", line 3\n14: return\n15: end\n16: more\n",
    "a numbered traceback": "\n".join(f"{n}: {line}" for n, line in enumerate(TRACEBACK.split("\n"), 1)),
    "a numbered list": "".join(f"{n}: item\n" for n in range(1, 30)),
    "one label": "state\n3: not a rank\nmore\n",
    "a table": "".join(f"{name} | {n} | {n * 7}\n" for n, name in enumerate(["name", "alpha", "beta", "gamma", "delta"] * 4)),
    "a table of two columns": "".join(f"key{n:02}  | value {n}\n" for n in range(20)),
    "psql": " name | size\n------+-----\n a    | 1\n b    | 2\n",
    "gcc's quotes": "a.c:3:1: error: x\n    3 | int y;\n      | ^~~\n    4 | int z;\n      | ^~~\n",
    "a diff": "3,5c3,5\n< one\n---\n> two\n> three\n",
    "a session of python": ">>> import torch\n>>> torch.ones(3)\ntensor([1., 1., 1.])\n",
    "pytest": ">       assert x == 3\nE       assert 2 == 3\n",
    "exceptions of one kind": "KeyError: 3\nKeyError: 4\nKeyError: 5\n",
    "metrics": "".join(f"gpu{n % 2}: {n} %\n" for n in range(20)),
    "layers": "".join(f"layer{n % 3}: {n}\n" for n in range(20)),
    "a compiler": "gcc-12: error: a.o: No such file\ngcc-12: fatal error: no input files\n" * 8,
    "footnotes": "[1] first\n[2] second\n[3] third\n",
    "jobs of a shell": "[1] 12345\n[1]+  Done\n",
    "json": '{"log": 3, "time": 4}\n{"level":7,"msg":"x"}\n{"log":"x"}\n',
    "parentheses": "(pid=abc) x\n(see pid=3 below, twice) y\n",
    "an array": "[rank] x\n[1,2] y\n[1,2]<stdlib> z\n",
    "json of programs": '{"message":"x","severity":3,"timestamp":"2026-11-21T12:00:00Z"}\n{"line":3,"labels":{}}\n{"log":"a","level":"x"}\n',
    "marks": "## [error] x\n# a\n##[other]b\n",
    "times": "".join(f"12:00:{n:02} step {n}\n" for n in range(40)),
    "times of another kind": "".join(f"Now 21 12:00:{n:02} all is well\n" for n in range(40)),
    "words": "".join(f"pre-train-{n % 2} stage-1 begins {n}\n" for n in range(40)),
    "angles": "<module> x\n<3> y\n<14>x\n",
    "indented pieces": "config:\n  lr: 1\n  wd: 2\n",
    "logging": "".join(f"2026-11-21 12:00:{n:02},000 INFO train: step {n}\n" for n in range(40)),
    "a logger's tables": "".join(
        f"2026-11-21 12:00:{n:02},000 INFO train: {line}\n"
        for n, line in enumerate(["***** Running training *****", "  Num examples = 3", "  Num Epochs = 9", "step 1"] * 8)
    ),
    "a logger's rule": "".join(
        f"2026-11-21 12:00:{n:02},000 INFO train: {line}\n" for n, line in enumerate(["=" * 40, "epoch", "=" * 40, *"abcdefghij"])
    ),
    "loggers": "".join(f"2026-11-21 12:00:{n:02},000 {level} train: step\n" for n, level in enumerate(["INFO", "DEBUG"] * 20)),
    "bars": "".join(f"{n:3}%|#   | {n}/100 [00:01<00:02,  1.00it/s]\n" for n in range(40)) + "  what(): x\n",
    "lists of numbers": "".join(f"[{n}.123456] is the value of {n}\n" for n in range(20)),
    "numbers": "".join(f"{1700000000 + n}.123456 0.5 0.25\n" for n in range(20)),
    "levels and tabs": "".join(f"INFO\t2026-11-21 12:00:{n:02}\ttrain\tstep {n}\n" for n in range(20)),
    "parentheses of a tuple": "(a, b, pid=x) y\n(head, rank=0) z\n",
    "places of a contest": "".join(f"#{n} 0.{n:03} model of {n}\n" for n in range(20)),
    "times that fall": "".join(f"#1 {40 - n}.250 s are left of {n}\n" for n in range(20)),
    "marks in order": "".join(f"{n // 4}.25 model of {n}\n" for n in range(40)),
    "two bars": "[rank=3] | x\n[step=3] || y\n",
    "a system's log": "".join(f"Nov 21 12:00:{n:02} node3 sshd[{n}]: error: kex_exchange_identification\n" for n in range(20)),
    "a kernel's log": "".join(f"Nov 21 12:00:{n:02} node3 kernel: usb 1-{n}: new device\n" for n in range(20)),
}  # fmt: skip


@pytest.mark.invariant("guesses.U1")
@pytest.mark.parametrize("kind", LOOK_ALIKES)
def test_U1_what_only_looks_wrapped_is_left_as_it_is(kind: str) -> None:
    text = LOOK_ALIKES[kind]
    said = "\n".join(record.text for record in read(text))
    assert said == "\n".join(line for line in text.split("\n") if line.strip())
    assert {(record.rank, record.host, record.container) for record in read(text)} == {(None, "", "")}


def test_a_line_of_the_kernel_behind_a_time_has_no_host() -> None:
    said = [f"kernel: NVRM: Xid (PCI:0000:{n:02}:00): 45, pid=7, Ch 1" for n in range(3)]
    records = read("".join(f"2026-11-21T12:00:{n:02}Z {line}\n" for n, line in enumerate(said)))
    assert [(record.text, record.writer, record.host) for record in records] == [(line, "", "") for line in said]


def test_a_wrapping_does_not_hide_a_level() -> None:
    records = read(wrapped("2026-11-21 03:11:22,333 - train - WARNING - lr is nan\nsecond line\nthird line", "cri"))
    assert records[0].severity is Severity.WARNING


@pytest.mark.parametrize(
    "head",
    [
        "2026-11-21 12:00:{n:02},{n:03} INFO train: ",
        "2026-11-21 12:00:{n:02},{n:03} - train - INFO - ",
        "12:00:{n:02} trainer/7 > ",
        "node3:train:{n}:stderr> ",
    ],
)
def test_a_traceback_behind_the_head_of_a_logger_is_one_record(head: str) -> None:
    lines = ["loading", "epoch 1", *TRACEBACK.split("\n"), "cleaning up"]
    records = read("".join(f"{head.format(n=n)}{line}\n" for n, line in enumerate(lines)))
    assert [record.text for record in records[2:]] == [TRACEBACK, "cleaning up"]
    assert (records[2].line, records[2].severity) == (3, Severity.ERROR)


@pytest.mark.invariant("heads.H2")
@pytest.mark.parametrize(("level", "known"), [("INFO", True), ("ERROR", True), ("WARNING", False), ("DEBUG", False)])
def test_H2_a_head_of_a_warning_before_each_line_is_the_loggers_own(level: str, known: bool) -> None:
    head = f"[2026-11-21 12:00:01,450] plant.pump: [{level}] "
    records = read("".join(f"{head}{line}\n" for line in ("no lid fits", *TRACEBACK.splitlines(), "it goes on", "so")))
    assert any(record.text == TRACEBACK for record in records) is known
    assert known or all(record.severity.rank <= Severity.WARNING.rank for record in records)


@pytest.mark.invariant("heads.H1")
def test_H1_a_loggers_own_lines_keep_their_heads_and_levels() -> None:
    """Behind the head are messages; a traceback below one of them has no head."""
    lines = [f"2026-11-21 12:00:{n:02},000 - train - {'ERROR' if n == 9 else 'INFO'} - step {n}" for n in range(20)]
    records = read("\n".join([*lines[:10], TRACEBACK, *lines[10:]]))
    assert [record.text.partition("\n")[0] for record in records] == lines
    assert [record.severity for record in records].count(Severity.ERROR) == 1


def test_a_head_that_shows_what_it_is_only_late_is_taken_off_from_then_on() -> None:
    head = "2026-11-21 12:00:01,000 - launcher - INFO - "
    steps = "".join(f"{head}step {n} loss 0.5\n" for n in range(500))
    report = "==77==ERROR: AddressSanitizer: heap-use-after-free on address 0x602\n    #0 0x4c7 in main /a.c:3\n"
    records = read(steps + "".join(f"{head}{line}\n" for line in report.splitlines()))
    assert records[-1].text == report.rstrip("\n")
    assert records[-1].line == 501


def test_lines_of_a_record_have_their_own_numbers_where_others_stand_between_them() -> None:
    lines = TRACEBACK.split("\n")
    records = read("".join(f"[rank0]: step {n}\n[rank3]: {line}\n" for n, line in enumerate(lines)))
    (record,) = [record for record in records if record.rank == 3]
    assert record.text == TRACEBACK
    assert [record.line_at(number) for number in range(len(lines))] == [2 * number + 2 for number in range(len(lines))]
    assert record.last_line == 2 * len(lines)
    assert record.place("run.log", 1) == "run.log:4"


@pytest.mark.parametrize("tag", ["[rank3]: ", "[2026-11-21 12:00:01 TP3] "])
@pytest.mark.parametrize("said", ["", "Scheduler hit an exception: "])
def test_a_traceback_of_which_only_the_first_line_is_tagged_is_one_record(tag: str, said: str) -> None:
    before = "[2026-11-21 12:00:00] INFO:     Started\n"
    records = read(f"{before}{tag}{said}{TRACEBACK}\n{before}{tag}step 2\n")
    (record,) = [record for record in records if "Traceback" in record.text]
    assert record.rank == 3 and record.text.endswith(TRACEBACK[TRACEBACK.index("\n") :])


@pytest.mark.invariant("door.D2")
def test_D2_lines_of_other_ranks_do_not_hide_how_those_of_one_are_wrapped() -> None:
    lines = [f"trainer-1  | {line}" for line in TRACEBACK.split("\n")]
    records = read("".join(f"[rank0]: step {n}\n[rank3]: {line}\n" for n, line in enumerate(lines)))
    assert [record.text for record in records if record.rank == 3] == [TRACEBACK]


def test_a_bar_before_the_first_line_does_not_hide_an_indentation() -> None:
    bar = "  0%|          | 0/327 [00:00<?, ?it/s]"
    text = f"{bar}loading\n{TRACEBACK}"
    records = read("".join(f"    {line}\n" for line in text.split("\n")))
    assert [record.text for record in records] == ["loading", TRACEBACK]


def test_a_bar_before_the_tag_of_the_first_line_does_not_part_it_from_the_others() -> None:
    bar = "  0%|          | 0/327 [00:00<?, ?it/s]"
    (record,) = read(bar + "".join(f"[rank3]: {line}\n" for line in TRACEBACK.split("\n")))
    assert (record.text, record.rank) == (TRACEBACK, 3)


@pytest.mark.parametrize("kind", ["compose", "pdsh", "srun -l", "quote", "journald short"])
def test_a_log_of_one_line_is_unwrapped_if_a_line_stands_in_it(kind: str) -> None:
    line = "May 09 21:14:03 desk kernel: usb 1-1: new device"
    assert [record.text for record in read(wrapped(line, kind))] == [line]
    assert [record.text for record in read(wrapped("a word", kind))] == [wrapped("a word", kind).strip()]


def test_indented_lines_after_a_text_that_was_pasted_as_code_stay_indented() -> None:
    pasted = "".join(f"    line {n}\n" for n in range(20))
    records = read(f"{pasted}and then\n{TRACEBACK}\n")
    assert [record.text for record in records[:20]] == [f"line {n}" for n in range(20)]
    assert records[-1].text == TRACEBACK


@pytest.mark.parametrize("kind", WRAPPINGS)
def test_the_quick_look_overlooks_no_wrapping(kind: str) -> None:
    clock = SourceClock((NOON + 3600) * 10**9)
    for number, text in enumerate(TEXT.split("\n")):
        line = WRAPPINGS[kind](text, number)
        for one in (*CERTAIN, *GUESSES):
            if line and line[0] in one.first and one.open(line, clock) is not None:
                assert re.match(one.likely, line, re.DOTALL), (line, one)


def test_what_is_searched_for_is_found_in_the_strings_of_a_container() -> None:
    words = (b'at <module> "x" & y', b"\nE1", "ü".encode())
    found = with_escaped(words)
    line = _docker('E1121 at <module> "x" & y ü', 1).encode()
    assert set(words) <= set(found)
    assert sum(word in line for word in found) >= 3
    assert b'{"log":"E1' in found


def test_what_ray_says_of_copies_is_taken_off() -> None:
    repeated = "\x1b[32m [repeated 17x across cluster]\x1b[0m"
    first = f"{repeated[:-4]} (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0 to disable.)\x1b[0m"
    lines = [line + (first if number == 0 else repeated) for number, line in enumerate(TRACEBACK.splitlines())]
    text = "".join(f"\x1b[36m(Worker pid=57)\x1b[0m {line}\n" for line in lines)
    (record,) = read(text)
    assert (record.text, record.pid) == (TRACEBACK, 57)


def test_what_merely_speaks_of_copies_is_kept() -> None:
    said = "(Worker pid=57) step 3 [repeated 17x across cluster] as asked"
    (record,) = read(said + "\n")
    assert record.text == said.removeprefix("(Worker pid=57) ")


@pytest.mark.invariant("peeling.P1")
def test_P1_a_process_that_has_named_its_rank_is_that_rank() -> None:
    lines = [
        "(Trainer pid=42) begins",
        "(Trainer pid=42) [rank3]: step 1",
        "(Trainer pid=42, ip=10.0.0.8) another host's",
        "(Trainer pid=43) another one",
        "(Trainer pid=42) ends",
    ]
    records = read("".join(f"{line}\n" for line in lines))
    ordered = sorted(records, key=lambda record: record.line or 0)
    assert [(record.text.strip(), record.writer) for record in ordered] == [
        ("begins", "pid 42"),
        ("step 1", "rank 3"),
        ("another host's", "pid 42"),
        ("another one", "pid 43"),
        ("ends", "rank 3"),
    ]


@pytest.mark.parametrize("dated", ["2024-11-20 03:11:29,872 ready", "a plan of 2024-11-21 03:11:29"])
def test_a_stamp_without_a_year_is_of_the_year_that_its_log_gives_that_day(dated: str) -> None:
    (first, _) = read(f"E1121 03:11:22.333000 5 a.cc:1] lost\n{dated}\n")
    (alone,) = read("E1121 03:11:22.333000 5 a.cc:1] lost\n")
    assert first.wall_ns is not None and alone.wall_ns is not None
    year_ns = 365 * 86_400 * 10**9
    assert alone.wall_ns - first.wall_ns == (2 * year_ns if "1121" in dated.replace("-", "") else 0)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ["open 3", "panic: no tank", "", "goroutine 1 [running]:", "main.main()", "\t/src/job/main.go:12 +0x1d"],
            "crashed in main.main (main.go:12): Go panicked: no tank.",
        ),
        (
            ["open 3", "terminate called after throwing an instance of 'std::runtime_error'", "  what():  no tank"],
            "crashed: std::runtime_error: no tank.",
        ),
        (
            [
                "open 3",
                'Exception in thread "main" java.lang.IllegalStateException: no tank',
                "\tat org.x.Run.step(Run.java:9)",
            ],
            "crashed in org.x.Run.step (Run.java:9): java.lang.IllegalStateException: no tank.",
        ),
    ],
)
def test_an_unknown_prefix_is_learned_from_the_stack_of_any_language(lines: list[str], said: str) -> None:
    assert verdict("".join(f"plant-7(load)~ {line}\n" for line in lines)).sentence.lower().endswith(said.lower())


@pytest.mark.parametrize("counter", ["[11/40]", "[7/8]", "[1/1935]:"])
def test_the_total_of_a_counter_is_no_rank(counter: str) -> None:
    lines = [f"{counter} fill_bf16: {word}\n" for word in ("begun", "FAIL - no memory")]
    assert all(record.rank is None and record.text.startswith(counter) for record in read("".join(lines)))
