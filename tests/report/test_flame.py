"""Flame graphs and folded stacks."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from livedbg.model import Frame
from livedbg.model.launches import SampledStack
from livedbg.report.flame import flame_svg, folded

SVG = "{http://www.w3.org/2000/svg}"


def stack(*names: str, samples: int = 1) -> SampledStack:
    return SampledStack(tuple(Frame(name, module="m") for name in names), 10 * samples, samples)


def boxes(svg: str) -> dict[str, tuple[float, float, float]]:
    """What each box says -> its x, y and width."""
    found = {}
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        title, box = group.find(f"{SVG}title"), group.find(f"{SVG}rect")
        assert title is not None and title.text and box is not None
        found[title.text] = float(box.get("x", "")), float(box.get("y", "")), float(box.get("width", ""))
    return found


def test_folded_lines_are_those_of_flamegraph_pl() -> None:
    stacks = [stack("b", "a", samples=12), stack("c", "a"), stack("b", "a", samples=3)]
    assert list(folded(stacks)) == ["a;b 15", "a;c 1"]
    python = SampledStack((Frame("step", "/x/train.py", 3, language="python"),), 1)
    assert list(folded([python, stack("operator; x")], "12 main;t")) == [
        "12 main:t;operator: x 1",
        "12 main:t;step (train.py) 1",
    ]
    assert list(folded([SampledStack((Frame("0x12", module="libx.so"),), 1)])) == ["[libx.so] 1"]


def test_a_flame_graph_has_a_box_a_function_as_wide_as_its_share_above_its_caller() -> None:
    svg = flame_svg([("", [stack("f", "main", samples=3), stack("g", "main", samples=1)])], "job", "4 samples")
    found = boxes(svg)
    main, f, g = (
        found["main in m: 4 samples, 100.0 %"],
        found["f in m: 3 samples, 75.0 %"],
        found["g in m: 1 sample, 25.0 %"],
    )
    assert abs(f[2] / main[2] - 0.75) < 0.01 and abs(g[2] / main[2] - 0.25) < 0.01
    assert f[1] == g[1] < main[1] and g[0] >= f[0] + f[2]
    assert "<script" not in svg


def test_names_are_escaped_and_no_control_character_is_left() -> None:
    evil = 'operator<<(std::ostream&, "\x1b[31m")'
    svg = flame_svg([("7 <b>\x00", [stack(evil)])], "a & b <script>", "x")
    assert any(name.startswith("operator<<(std::ostream&") for name in boxes(svg))
    assert "\x1b" not in svg and "\x00" not in svg and "<script>" not in svg and "<b>" not in svg


def test_without_samples_and_with_deep_stacks_it_is_still_a_picture() -> None:
    assert boxes(flame_svg([], "nothing", "0 samples")) == {}
    deep = stack(*(f"f{n}" for n in range(2000)))
    assert len(boxes(flame_svg([("", [deep])], "deep", ""))) == 2001


def test_colours_are_those_that_any_reader_of_svg_knows() -> None:
    svg = flame_svg([("", [stack("f", "main")])], "job", "1 sample")
    fills = {rect.get("fill") or "" for rect in ElementTree.fromstring(svg).iter(f"{SVG}rect")}
    assert len(fills) > 2 and all(re.fullmatch(r"#[0-9a-f]{6}", fill) for fill in fills)
