"""Reads reproduction scripts of nvFuser from output, with and without the imports above them."""

from __future__ import annotations

import re
from typing import Final

from livedbg.adapters.nvfuser.dumps.statements import Definition, Script, Statement
from livedbg.text.sanitize import clean_line

__all__ = ["ScriptBlock"]

_SCRIPT_LINES: Final = 200_000
_IMPORT: Final = re.compile(r"^from (nvfuser(?:_direct)?) import ")
_CODE: Final = re.compile(r"^(?:#|import |from |def |with |inputs = \[|\]|fd\.|    |\t|$)")
_FOLLOWS: Final = re.compile(r"^(?:$|with FusionDefinition\(|inputs = \[|\]|fd\.)")
"""What of a script comes below a definition that has no imports above it."""
_WHOLE: Final = re.compile(r"^(?:with FusionDefinition\(|inputs = \[|fd\.execute\()", re.MULTILINE)
_TORCH: Final = re.compile(r"\btorch\.")
_IMPORTS_TORCH: Final = re.compile(r"^import torch\b", re.MULTILINE)
_LEGACY: Final = re.compile(r"^def nvfuser_fusion_id\d")
_END: Final = re.compile(r"^fd\.execute\(inputs\)")
_VERSION: Final = re.compile(r"^# (torch|cuda|nvfuser) version: (.*)$")
_DEVICE: Final = re.compile(r"^#\s+\d{1,18}: (.*)$")


class ScriptBlock:
    """A reproduction script, or a definition alone.

    Args:
        number: line of its beginning.
        group: the segment that it defines, where the line above said so.
    """

    def __init__(self, number: int | None, group: int | None = None) -> None:
        self._line = number
        self._group = group
        self._lines: list[str] = []
        self._over = False

    def feed(self, line: str, number: int | None) -> bool:
        """See Block."""
        if self._over or len(self._lines) > _SCRIPT_LINES or line.startswith("```") or not _CODE.match(line):
            return False
        alone = self._lines and self._lines[0].startswith("def ")
        if alone and not (line[:1].isspace() or _FOLLOWS.match(line)):
            return False
        self._lines.append(line.rstrip("\r"))
        self._over = bool(_END.match(line))
        return True

    def end(self) -> Statement | None:
        """See Block."""
        text = "\n".join(self._lines).strip("\n") + "\n"
        generation = next((match[1] for line in self._lines if (match := _IMPORT.match(line))), "")
        if not generation and text.startswith("def ") and _WHOLE.search(text) is not None:
            generation = "nvfuser" if _LEGACY.match(text) is not None else "nvfuser_direct"
            text = f"import torch\nfrom {generation} import FusionDefinition, DataType\n\n{text}"
        if not generation:
            has = text.startswith("def ")
            return Definition(text, self._group, self._line) if has else None
        if _TORCH.search(text) is not None and _IMPORTS_TORCH.search(text) is None:
            text = f"import torch\n{text}"  # that line has nothing by which it is found in a log
        versions = {match[1]: clean_line(match[2]) for line in self._lines if (match := _VERSION.match(line))}
        devices = tuple(clean_line(match[1]) for line in self._lines if (match := _DEVICE.match(line)))
        return Script(text, generation, versions, devices, self._line, self._over)
