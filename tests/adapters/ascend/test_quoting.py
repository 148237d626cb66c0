"""Lines of programs that a compile error names: quoted from programs only, and of tables a bounded part is kept."""

from __future__ import annotations

from pathlib import Path

from livedbg.adapters.ascend import passes
from livedbg.adapters.ascend.compile_reader import CompileReader
from livedbg.adapters.ascend.passes import Place, quoted


def test_only_lines_of_programs_are_quoted(tmp_path: Path) -> None:
    (tmp_path / "k.pto").write_text('first\nadd %1, %2 loc("model.py":14:5)\n')
    (tmp_path / "shadow").write_text("root:secret\n")
    assert quoted(Place("k.pto", 2, 1), [tmp_path]) == ("add %1, %2", Place("model.py", 14, 5))
    assert quoted(Place(str(tmp_path / "k.pto"), 1, 1), [Path("/")]) == ("first", None)
    assert quoted(Place(str(tmp_path / "shadow"), 1, 1), [tmp_path]) == ("", None)
    assert quoted(Place("/etc/passwd", 1, 1), [tmp_path]) == ("", None)
    with (tmp_path / "huge.pto").open("wb") as file:
        file.truncate(passes._SOURCE_LIMIT + 1)
    assert quoted(Place("huge.pto", 1, 1), [tmp_path]) == ("", None)


def test_a_table_without_an_end_is_not_kept_whole() -> None:
    reader = CompileReader()
    reader.take("RuntimeError: 4 function(s) failed to compile:", ("err.txt", 1), None)
    reader.take("  Function | Error", ("err.txt", 2), None)
    reader.take("  kernel   | it failed", ("err.txt", 3), None)
    for number in range(10_000):
        reader.take("           | and more of it", ("err.txt", number), None)
    reader.take("done", ("err.txt", 9), None)
    (error,) = reader.errors.values()
    assert error.function == "kernel" and error.message.startswith("it failed and more of it")
    assert len(error.message) < 2_000
