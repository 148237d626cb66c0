"""The difference of the last two dumps of a compilation that failed, near what its error is about."""

from __future__ import annotations

from pathlib import Path

from livedbg.adapters.ascend.passes import change_of, find_dumps
from tests.adapters.ascend.test_compile_errors import COMPILED, report


def dumps(folder: Path, *texts: str) -> list[Path]:
    paths = []
    for number, text in enumerate(texts):
        path = folder / f"{number:02}_after_P{number}.py"
        path.write_text(text)
        paths.append(path)
    return paths


PROGRAM = "".join(f"line {number}\n" for number in range(40))


def test_a_report_shows_what_the_last_pass_changed() -> None:
    _, _, finding = report(COMPILED / "memory")
    shown = next(proof for proof in finding["evidence"] if proof["kind"] == "file")
    assert shown["source"] == "31_after_MaterializeTensorStrides.py → 32_after_InitMemRef.py"
    assert "+        mem_vec_2: pl.Ptr = pl.tile.alloc(pl.Mem.Vec, 192512)" in shown["text"]
    assert "more lines that differ" in shown["text"]
    assert any(step.startswith("all that differs: diff -u ") for step in finding["next"])


def test_passes_that_changed_nothing_are_gone_back_over(tmp_path: Path) -> None:
    files = dumps(tmp_path, "a = 1\n", "a = 2\n", "a = 2\n", "a = 2\n")
    change = change_of(files, "a is wrong")
    assert change is not None and (change.before, change.after) == ("00_after_P0.py", "01_after_P1.py")
    assert change.lines == ("-a = 1", "+a = 2") and change.more == 0
    assert change_of(files[1:], "a is wrong") is None
    assert change_of(files[:1], "a is wrong") is None


def test_the_part_that_the_error_names_is_shown(tmp_path: Path) -> None:
    after = PROGRAM.replace("line 3\n", "first = 1\n").replace("line 30\n", "buffer_7 = alloc(4096)\n")
    change = change_of(dumps(tmp_path, PROGRAM, after), "buffer_7 exceeds the limit: 4096 bytes")
    assert change is not None and "+buffer_7 = alloc(4096)" in change.lines and change.more == 2


def test_a_pass_whose_result_is_wrong_is_compared_with_the_one_before_it(tmp_path: Path) -> None:
    folder = tmp_path / "passes_dump"
    folder.mkdir()
    dumps(folder, "a = 1\n", "a = 2\n", "a = 3\n")
    (dump,) = find_dumps([tmp_path])
    assert [path.name for path in dump.files("P1")] == ["00_after_P0.py", "01_after_P1.py"]
    assert len(dump.files()) == len(dump.files("nobody")) == 3


def test_a_dump_that_is_gone_or_no_text(tmp_path: Path) -> None:
    files = dumps(tmp_path, "a = 1\n", "a = 2\n")
    (tmp_path / "01_after_P1.py").write_bytes(b"\xff\xfe\x00a\x1b[31m\n")
    change = change_of(files, "")
    assert change is not None and not any("\x1b" in line for line in change.lines)
    files[0].unlink()
    assert change_of(files, "") is None
