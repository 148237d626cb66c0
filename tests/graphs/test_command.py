"""`livedbg graph` as users run it: the recorded runs, hostile names, files that are cut or damaged, large ones."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from livedbg.adapters.ascend.dumps import graphs as depsfile
from livedbg.cli import main
from livedbg.recording.recorder import Recorder
from livedbg.session.adapter import Request
from livedbg.session.live import LiveView
from tests.cli.zygote import patient, run_livedbg
from tests.graphs.dot import read_dot
from tests.waiting import WALL_S

ASCEND = Path(__file__).parents[1] / "fixtures" / "ascend"
LOST, GOOD = ASCEND / "09_dep_lost", ASCEND / "09_dep_good"


@dataclass(frozen=True)
class Said:
    """What a command line printed and how it ended."""

    returncode: int
    stdout: str
    stderr: str


def livedbg(*words: str | Path) -> Said:
    """Run `livedbg WORDS` to its edge, in this process: the same as the program, without its start."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words])
    return Said(code, out.getvalue(), err.getvalue())


def program(*words: str | Path, memory: int = 0) -> Said:
    """Run the program itself, with at most `memory` bytes of its own; it must never show a traceback."""
    if not memory:
        done = run_livedbg(words, text=True)
    else:  # in an interpreter of its own
        done = subprocess.run(
            [sys.executable, "-m", "livedbg", *patient(map(str, words))],
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (memory, memory)),
            env={**os.environ, "PYTHONUTF8": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
    assert "Traceback" not in done.stderr, done.stderr
    return Said(done.returncode, done.stdout, done.stderr)


def test_what_a_user_reads() -> None:
    done = program("graph", LOST)
    assert done.returncode == 12
    said = " ".join(done.stdout.split())
    for words in ("2 tasks, 0 edges, 1 missing", "!! r0t0 → r0t1", "1,024 bytes from offset 0, 256 FLOAT32"):
        assert words in said
    for words in ("r0t1 INC overwrites", "SLOW_ADD", "write after write", "add_inout()", "after r0t0 (edge missing!)"):
        assert words in said


@pytest.mark.parametrize(
    ("folder", "edges"),
    [("01_healthy_trb", 6), ("01_healthy_hbg", 6), ("09_dep_good", 1), ("12_june2026_v0_era/healthy_debug", 6)],
)
def test_healthy_runs_lack_nothing(folder: str, edges: int) -> None:
    done = livedbg("graph", ASCEND / folder, "--format", "json")
    assert done.returncode == 0, done.stdout
    drawn = json.loads(done.stdout)
    assert len(drawn["edges"]) == edges and not drawn["remarks"] and not drawn["notes"]
    assert {edge["state"] for edge in drawn["edges"]} == {"declared"}


@pytest.mark.parametrize(("one", "other", "kind"), [(LOST, GOOD, "only-there"), (GOOD, LOST, "only-here")])
def test_two_runs(one: Path, other: Path, kind: str) -> None:
    done = livedbg("graph", one, "--against", other, "--format", "json")
    assert done.returncode == 12
    (remark,) = [found for found in json.loads(done.stdout)["remarks"] if found["kind"] == kind]
    assert (remark["from"], remark["to"], remark["source"]) == ("r0t0", "r0t1", "tensormap")
    assert "argument 0, FLOAT32 256 from element 0" in remark["text"]
    assert {"add_output()", "add_inout()"} <= set(re.findall(r"add_\w+\(\)", remark["why"]))


def test_two_runtimes_of_one_program() -> None:
    """Ring 0 only in the one, rings 0 and 1 in the other: matched by kernel and position."""
    done = livedbg("graph", ASCEND / "01_healthy_trb", "--against", ASCEND / "01_healthy_hbg")
    assert done.returncode == 0
    said = " ".join(done.stdout.split())
    assert "kernel and position" in said and "the same edges" in said


def test_what_is_around_a_task() -> None:
    for word in ("r1t2", "4294967298", "task:ascend/r1t2"):
        done = livedbg("graph", ASCEND / "01_healthy_trb", "--task", word, "--hops", "1", "--format", "json")
        assert {node["id"] for node in json.loads(done.stdout)["nodes"]} == {"r1t0", "r1t1", "r1t2", "r1t3"}
    assert livedbg("graph", LOST, "--task", "r9t9").returncode == 2


def test_tasks_of_a_log_and_of_a_recording(tmp_path: Path) -> None:
    done = livedbg("graph", ASCEND / "02_hang_kernel/timeout_debug")
    assert done.returncode == 0
    assert re.search(r"r1t2 MUL +\[running on core:ascend/8\]", done.stdout)
    assert "after r1t2" in done.stdout
    recorder = Recorder(tmp_path / "r.livedbg", "box", "lost")
    view = LiveView(Request(host="box", logs=(str(LOST),), once=True), sink=recorder)
    view.start()
    try:
        assert view.wait_settled(WALL_S)
    finally:
        view.stop()
        recorder.close()
    done = livedbg("graph", tmp_path / "r.livedbg")
    assert done.returncode == 12 and "r0t1 INC" in done.stdout and "(edge missing!)" in done.stdout


def test_segments_of_a_fusion() -> None:
    done = livedbg("graph", ASCEND.parent / "nvfuser" / "compile_error.log")
    assert done.returncode == 0 and "3 tasks, 2 edges" in done.stdout
    assert re.search(r"f0/g1 reduction .*\[failed\]  after f0/g0", done.stdout)


def test_boxes_of_a_page_do_not_overlap() -> None:
    done = livedbg("graph", ASCEND / "01_healthy_trb", "--format", "html")
    picture = ElementTree.fromstring(re.findall(r"<svg .*?</svg>", done.stdout, re.DOTALL)[0])
    places = [
        tuple(int(part) for part in re.findall(r"-?\d+", group.attrib["transform"]))
        for group in picture.iter("{http://www.w3.org/2000/svg}g")
        if group.attrib.get("class") == "node"
    ]
    width, height = (int(part) for part in picture.attrib["viewBox"].split()[2:])
    assert len(places) == 5 and len({y for _, y in places}) == 4
    assert all(x >= 0 and x + 150 <= width and y >= 0 and y + 46 <= height for x, y in places)
    assert all(abs(x - x1) >= 150 or abs(y - y1) >= 46 for (x, y), (x1, y1) in itertools.combinations(places, 2))


class _Page(HTMLParser):
    """Elements of a page, and its scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "input"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


_EVIL = "</title><script>alert('1')</script>\"';\\N--><!--&lt;\x1b[31m\u202e"


def _hostile(tmp_path: Path) -> Path:
    """The lost run with names that try to break out of what they are written into."""
    folder = tmp_path / "<script>alert('2')</script>\"".replace("/", "_")
    shutil.copytree(LOST / "dfx", folder)
    text = (folder / "deps.json").read_text()
    text = text.replace("FLOAT32", "</script><b>").replace('"auto"', json.dumps(_EVIL))
    (folder / "deps.json").write_text(text)
    for path in folder.glob("name_map*.json"):
        path.unlink()
    (folder / "name_map_x.json").write_text(json.dumps({"callable_id_to_name": {"2": _EVIL, "3": 'B"->x[label=1];'}}))
    return folder


@pytest.mark.parametrize("hostile", [False, True])
def test_html_loads_nothing_and_runs_nothing_of_the_target(tmp_path: Path, hostile: bool) -> None:
    out = tmp_path / "graph.html"
    done = livedbg("graph", _hostile(tmp_path) if hostile else LOST, "--against", GOOD, "-o", out)
    assert done.returncode == 12
    text = out.read_text()
    page = _Page()
    page.feed(text)
    assert not page.open
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 1 and tags.count("svg") == 1 and "b" in tags
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert not [
        value
        for _, attributes in page.tags
        for name, value in attributes.items()
        if name in {"src", "href"} and not (value or "").startswith("#")
    ]
    assert re.findall(r"https?://[^\"' ]+", text) == ["http://www.w3.org/2000/svg"]
    (csp,) = [attributes["content"] for tag, attributes in page.tags if tag == "meta" and "http-equiv" in attributes]
    assert csp is not None and csp.startswith("default-src 'none'")
    assert "\x1b" not in text and "\u202e" not in text
    missing = [attributes for tag, attributes in page.tags if tag == "path" and attributes.get("class") == "missing"]
    assert len(missing) == 1 and '<text class="missing"' in text and "stroke-dasharray" in text


@pytest.mark.parametrize("hostile", [False, True])
def test_dot_is_dot(tmp_path: Path, hostile: bool) -> None:
    out = tmp_path / "graph.dot"
    assert livedbg("graph", _hostile(tmp_path) if hostile else LOST, "-o", out).returncode == 12
    nodes, edges = read_dot(out.read_text())
    assert list(nodes) == ["r0t0", "r0t1"]
    ((first, second, look),) = edges
    assert (first, second, look["style"], look["label"]) == ("r0t0", "r0t1", "dashed", "missing")
    if shutil.which("dot"):
        drawn = subprocess.run(["dot", "-Tplain", out], capture_output=True, text=True, check=True)
        assert drawn.stdout.count("\nnode ") == 2 and drawn.stdout.count("\nedge ") == 1


def _tasks(count: int) -> str:
    one = (
        '{"task_id":"%d","scope":"auto","early_dispatch":false,"kernel_ids":[-1,%d,-1],"block_num":1,"args":[{"idx":0,'
        '"type":"INOUT","tensor_id":"7","dtype":"FLOAT32","shape":[64],"start_offset":"%d","strides":[1]}]}'
    )
    return '{"tasks":[' + ",".join(one % (raw, raw % 5, raw % 100 * 64) for raw in range(count)) + "]"


def _edges(count: int) -> str:
    one = '{"pred":"%d","succ":"%d","arg":0,"source":"tensormap","flags":["wait"],"tensor_id":"7"}'
    return ',"tensors":[],"edges":[' + ",".join(one % (raw - 100, raw) for raw in range(100, count)) + "]}"


def test_ten_thousand_tasks(tmp_path: Path) -> None:
    (tmp_path / "deps.json").write_text(_tasks(10_000) + _edges(10_000))
    for form in ("text", "html"):
        done = livedbg("graph", tmp_path, "--format", form)
        assert done.returncode == 0
        if form == "text":
            assert "10,000 tasks, 9,900 edges, none missing" in done.stdout
            assert "… and 9,800 more tasks" in done.stdout and len(done.stdout) < 50_000
        if form == "html":
            assert done.stdout.count('<g class="node"') == 10_000


def test_more_than_a_page_holds(tmp_path: Path) -> None:
    (tmp_path / "deps.json").write_text(_tasks(10_100) + _edges(10_100).replace('"succ":"10050"', '"succ":"10051"'))
    done = livedbg("graph", tmp_path, "--format", "html")
    assert done.returncode == 12
    assert "100 tasks are left out" in done.stdout
    assert 'data-id="r0t10050"' in done.stdout  # what is wrong is not left out


@pytest.mark.parametrize("keep", [0.3, 0.99])
def test_cut_files_say_what_was_read(tmp_path: Path, keep: float) -> None:
    whole = _tasks(300) + _edges(300)
    (tmp_path / "deps.json").write_text(whole[: int(len(whole) * keep)])
    done = livedbg("graph", tmp_path)
    assert done.returncode == 0  # nothing is concluded from edges that were cut off
    said = " ".join(done.stdout.split())
    assert "The file is incomplete: the file ends in the middle" in said
    tasks = re.search(r"read: (\d+) tasks, 0 tensors, (\d+) edges", said)
    assert tasks is not None and int(tasks[1]) > 50
    done = livedbg("graph", GOOD, "--against", tmp_path)
    assert done.returncode == 0 and "Not compared" in done.stdout


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[" * 100_000,
        '{"edges":[]',
        "\x00\xff" * 500,
    ],
)
def test_what_is_no_graph(tmp_path: Path, text: str) -> None:
    (tmp_path / "deps.json").write_text(text)
    done = livedbg("graph", tmp_path)
    assert done.returncode == 3
    assert "is no deps.json" in done.stderr and "try: run with dep_gen" in done.stderr
    assert len(done.stderr) < 1_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"tasks":7}', '"tasks" is a whole number, not a list.'),
        ('{"tasks":{"0":{"task_id":1}}}', '"tasks" is an object, not a list.'),
        ('{"nodes":[],"li\\u0007nks":[]}', 'key "tasks" at its top is missing; it has nodes, li'),
        ("{}", 'key "tasks" at its top is missing'),
        ('{"tasks":[{"task_id":"x"}]}', 'key "task_id" of task 0 is text, not a whole number.'),
        ('{"tasks":[7,7,7]}', "none of its 3 tasks is as expected: task 0 is a whole number, not an object."),
        (
            '{"edges":[7],"tasks":[{"id":1,"kernel":3},{"id":2}]}',
            'none of its 2 tasks is as expected: key "task_id" of task 0 is missing; it has id, kernel.',
        ),
        ('{"tasks":[{"task_id":1,"args":[{"idx":0}]}]}', 'key "type" of args[0] of task 0 is missing.'),
        ('{"tasks":[{"task_id":1,"args":[{"type":"INPUT","shape":4}]}]}', 'key "args[0].shape" of task 0 is a whole'),
    ],
)
def test_a_file_of_another_shape_is_told_what_was_expected(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "deps.json").write_text(text)
    done = livedbg("graph", tmp_path)
    assert done.returncode == 3 and said in done.stderr, done.stderr
    assert 'try: what is read: {"tasks":[{"task_id":"0"' in done.stderr and "--enable-dep-gen" in done.stderr
    help_of = done.stderr[done.stderr.index("what is read: ") + 14 : done.stderr.index(", as simpler")]
    (tmp_path / "deps.json").write_text(help_of)
    assert "2 tasks, 1 edge" in livedbg("graph", tmp_path).stdout, "the help is itself a file that is read"


def test_where_another_shape_is_the_verdict_is_not_spoilt(tmp_path: Path) -> None:
    """Beside logs it is a source that says why it is not read, in the same words."""
    shutil.copytree(LOST, tmp_path / "run")
    (tmp_path / "run" / "dfx" / "deps.json").write_text('{"tasks":[{"id":1}]}')
    done = livedbg("report", "--logs", tmp_path / "run")
    said = " ".join(done.stdout.split())
    assert 'json is not read: key "task_id" of task 0 is missing' in said, done.stdout
    assert "says what is read" in said and "The run completed: 2 of 2 tasks" in said


def test_damaged_elements_are_left_out_and_counted(tmp_path: Path) -> None:
    whole = _tasks(50).replace('"task_id":"7"', '"task_id":{}') + _edges(50)
    (tmp_path / "deps.json").write_text(whole)
    done = livedbg("graph", tmp_path)
    assert done.returncode == 0
    assert (
        '1 element is not as it should be (key "task_id" of task 7 is an object, not a whole number); read: 49 tasks'
        in " ".join(done.stdout.split())
    )


def _padded(tmp_path: Path, size: int) -> Path:
    """A file of `size` bytes with two tasks, and one element that never ends."""
    path = tmp_path / "deps.json"
    with path.open("w") as file:
        file.write(_tasks(2)[:-1] + ',{"task_id":"2","x":"')
        for _ in range(size >> 20):
            file.write("x" * (1 << 20))
    return path


def test_a_hundred_megabytes_in_bounded_memory(tmp_path: Path) -> None:
    done = program("graph", _padded(tmp_path, 100 << 20), memory=400 << 20)
    assert done.returncode == 0, done.stderr
    assert "The file is incomplete: it is damaged" in done.stdout and "read: 2 tasks" in done.stdout


def test_usage(tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(LOST / "dfx", tmp_path / name)
    done = livedbg("graph", tmp_path)
    assert done.returncode == 2 and "has 2 deps.json" in done.stderr
    assert livedbg("graph", tmp_path / "none").returncode == 3
    assert livedbg("graph", LOST, "--against", ASCEND / "07_crash_throw").returncode == 2
    assert livedbg("graph", LOST, "-o", tmp_path / "no" / "x.html").returncode == 3


@pytest.mark.invariant("hazards.H2")
def test_writes_after_reads_on_request(tmp_path: Path) -> None:
    def task(raw: int, mode: str) -> dict[str, Any]:
        place = {"shape": [8], "start_offset": "0", "strides": [1]}
        return {"task_id": str(raw), "args": [{"idx": 0, "type": mode, "tensor_id": "1", "dtype": "INT8", **place}]}

    (tmp_path / "deps.json").write_text(json.dumps({"tasks": [task(0, "INPUT"), task(1, "INOUT")], "edges": []}))
    assert "no finding" not in livedbg("graph", tmp_path).stdout
    done = livedbg("graph", tmp_path, "--war")
    assert done.returncode == 0 and "Not tracked by the runtime (no finding): 1" in done.stdout


def test_the_reader_keeps_so_many_elements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depsfile, "WHOLE", 0)
    monkeypatch.setattr(depsfile, "_READ", 100)
    (tmp_path / "deps.json").write_text(_tasks(300) + _edges(300))
    graph = depsfile.read_graph(tmp_path / "deps.json")
    assert (len(graph.tasks), len(graph.dependencies), graph.cut) == (300, 200, "")
    monkeypatch.setattr(depsfile, "_MOST", {"tasks": 300, "tensors": 9, "edges": 150})
    graph = depsfile.read_graph(tmp_path / "deps.json")
    assert (len(graph.tasks), len(graph.dependencies)) == (300, 150)
    assert "it has more than 150 edges" in graph.cut
    monkeypatch.setattr(depsfile, "_LONGEST", 1 << 14)
    graph = depsfile.read_graph(tmp_path / "deps.json")
    assert 10 < len(graph.tasks) < 300 and "it is longer than" in graph.cut


def _without_edges(tmp_path: Path, **changes: str) -> Path:
    """The good run, whose second task reads what the first wrote, without their edge."""
    folder = tmp_path / "run"
    shutil.copytree(GOOD, folder)
    path = folder / "dfx" / "deps.json"
    file = json.loads(path.read_text())
    file["edges"] = []
    file["tasks"][1] |= {name: value for name, value in changes.items() if name == "scope"}
    file["tasks"][1]["args"][0] |= {name: value for name, value in changes.items() if name == "type"}
    path.write_text(json.dumps(file))
    return folder


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"type": "INPUT"}, ["reads what ", "1,024 bytes", "the read may return older data", "manual_dep=true"]),
        ({}, ["reads what ", "1,024 bytes", "(INOUT after ", "manual_dep=true"]),
        ({"type": "INPUT", "scope": "manual"}, ["manual scope", "set_dependencies()"]),
        ({"type": "OUTPUT_EXISTING"}, ["overwrites what ", "1,024 bytes", "add_inout()"]),
    ],
)
def test_the_report_has_it(tmp_path: Path, changes: dict[str, str], words: list[str]) -> None:
    done = program("report", "--logs", _without_edges(tmp_path, **changes))
    said = " ".join(done.stdout.split())
    assert done.returncode == 12 and said.startswith("DIVERGED")
    for word in ["r0t0 → r0t1 is missing", "SLOW_ADD", "INC", "deps.json", *words]:
        assert word in said, (word, said)


def test_the_report_of_a_cut_file(tmp_path: Path) -> None:
    folder = _without_edges(tmp_path)
    path = folder / "dfx" / "deps.json"
    path.write_text(path.read_text()[:-60])
    done = program("report", "--logs", folder)
    assert done.returncode == 0 and "is not whole" in " ".join(done.stdout.split())
