"""Merged stacks for other tools: folded lines, and a flame graph as one SVG file without scripts."""

from __future__ import annotations

import colorsys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

from livedbg.analysis.profile import UNNAMED
from livedbg.model import Frame
from livedbg.model.launches import SampledStack
from livedbg.text.sanitize import clean_line
from livedbg.text.wording import many

_WIDTH: Final = 1200
_MARGIN: Final = 10
_ROW: Final = 17
_LETTER: Final = 6.6  # width of a letter, pixels
_LEAST: Final = 0.3  # pixels: what is narrower is left out
_HUES: Final = {"python": (95, 150), "native": (15, 50)}  # Python green, native code red to yellow
_OTHER: Final = (200, 230)

_HEAD: Final = """<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" version="1.1" width="{width}" height="{height}" viewBox="0 0 {width} {height}" \
font-family="monospace" font-size="11">
<title>{title}</title>
<style>rect:hover {{ stroke: #000; }} text {{ pointer-events: none; }}</style>
<rect width="100%" height="100%" fill="#fdfdf6"/>
<text x="{middle}" y="24" text-anchor="middle" font-size="16">{title}</text>
<text x="{middle}" y="42" text-anchor="middle" fill="#666">{about}</text>
"""
_TOP: Final = 58


@dataclass(slots=True)
class _Node:
    """A function below its callers; `shown` is its first frame."""

    name: str
    shown: Frame | None
    samples: int = 0
    inner: dict[tuple[str, str], _Node] = field(default_factory=dict)


def folded(stacks: Iterable[SampledStack], root: str = "") -> Iterator[str]:
    """Yield lines `root;outermost;…;innermost COUNT`, for flamegraph.pl, speedscope and others; equal stacks are
    merged.
    """
    counts: dict[str, int] = {}
    for stack in stacks:
        names = [_folded_name(frame) for frame in reversed(stack.frames)]
        line = ";".join([root.replace(";", ":"), *names] if root else names)
        counts[line] = counts.get(line, 0) + stack.samples
    for line in sorted(counts):
        yield f"{line} {counts[line]}"


def flame_svg(groups: Sequence[tuple[str, Sequence[SampledStack]]], title: str, about: str) -> str:
    """Return a flame graph: a box for each function on top of its caller, as wide as its share of the samples.

    Each group is a name, such as that of a thread, and its stacks; one group without a name is for all threads
    together.
    """
    root = _Node("all", None)
    for name, stacks in groups:
        below = root
        if name:
            below = root.inner.setdefault((name, ""), _Node(name, None))
        for stack in stacks:
            root.samples += stack.samples
            if below is not root:
                below.samples += stack.samples
            node = below
            for frame in reversed(stack.frames):
                key = _name(frame), frame.language
                node = node.inner.setdefault(key, _Node(_name(frame), frame))
                node.samples += stack.samples
    depth = _depth(root)
    height = _TOP + depth * _ROW + _MARGIN
    parts = [_HEAD.format(width=_WIDTH, height=height, middle=_WIDTH // 2, title=_text(title), about=_text(about))]
    if root.samples:
        scale = (_WIDTH - 2 * _MARGIN) / root.samples
        parts += _boxes(root, _MARGIN, height - _MARGIN - _ROW, scale, root.samples)
    return "".join([*parts, "</svg>\n"])


def _depth(root: _Node) -> int:
    depth, level = 0, [root]
    while level:
        depth, level = depth + 1, [inner for node in level for inner in node.inner.values()]
    return depth


def _boxes(root: _Node, left: float, bottom: float, scale: float, whole: int) -> Iterator[str]:
    todo = [(root, left, bottom)]
    while todo:
        node, x, y = todo.pop()
        width = node.samples * scale
        if width < _LEAST:
            continue
        yield _box(node, x, y, width, whole)
        for inner in sorted(node.inner.values(), key=lambda one: one.name):
            todo.append((inner, x, y - _ROW))
            x += inner.samples * scale


def _box(node: _Node, x: float, y: float, width: float, whole: int) -> str:
    frame, share = node.shown, 100 * node.samples / whole
    where = f" at {frame.file}:{frame.line}" if frame and frame.file and frame.line else ""
    if not where and frame is not None and frame.module:
        where = f" in {frame.module}"
    letters = int((width - 4) / _LETTER)
    shown = node.name if len(node.name) <= letters else node.name[: letters - 1] + "…" if letters > 2 else ""
    text = f'<text x="{x + 3:.1f}" y="{y + 12:.1f}">{_text(shown)}</text>' if shown else ""
    return (
        f"<g><title>{_text(node.name + where)}: {many(node.samples, 'sample')}, {share:.1f} %</title>"
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0.1, width - 0.3):.1f}" height="{_ROW - 1}" rx="1" '
        f'fill="{_colour(node)}"/>{text}</g>\n'
    )


def _colour(node: _Node) -> str:
    low, high = _HUES.get(node.shown.language, _OTHER) if node.shown is not None else _OTHER
    number = zlib.crc32(node.name.encode("utf-8", "replace"))
    hue, light, saturation = low + number % (high - low), 66 + number // 31 % 12, 60 + number // 97 % 25
    rgb = colorsys.hls_to_rgb(hue / 360, light / 100, saturation / 100)
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgb)  # SVG has no hsl(): only browsers read it


def _name(frame: Frame) -> str:
    if frame.function.startswith("0x"):
        return f"[{frame.module}]" if frame.module else UNNAMED
    return frame.function


def _folded_name(frame: Frame) -> str:
    where = ""
    if frame.language == "python" and frame.file:
        where = f" ({frame.file.rpartition('/')[2]})"
    return clean_line(_name(frame) + where).replace(";", ":")


def _text(text: str) -> str:
    return escape(clean_line(text))
