"""The functions that signatures name, for what no pattern can say. All of them are here.

A function takes the match; it gives further values for the templates, or None where the text is no failure after all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from livedbg.text.wording import listing

__all__ = ["FUNCTIONS", "Function"]

Function = Callable[[re.Match[str]], Mapping[str, str] | None]

_NAME: Final = r"^ {2}(?P<name>[\w.-]{1,100}):\s*$"
_RUNS: Final = r"\bState:\s+Running\b|\"running\"\s*:\s*\{"
_CODES: Final = r"exit codes? of the workers? (?:are|is) \{(?P<codes>[^}\n]{1,200})\}"
_DEF: Final = r"^\s{0,100}def (?P<kernel>\w{1,200})\s{0,100}\("
_PASS: Final = r"`(?P<pass>[^`\n]{1,300})` on '(?P<op>[^'\n]{1,100})' operation(?:: @(?P<name>[^\s,\]]{1,300}))?"


def _container(match: re.Match[str]) -> Mapping[str, str]:
    """`container`: the last heading above, in a description of kubectl; `again`, where a container runs now."""
    names = re.findall(_NAME, match.string[: match.start()], re.MULTILINE)
    again = re.search(_RUNS, match.string) is not None
    return {"container": names[-1] if names else "", "again": "yes" if again else ""}


def _missing_ranks(match: re.Match[str]) -> Mapping[str, str]:
    """`ranks` and `tensors` of a list that has a rank and its tensors in each line."""
    rows = re.findall(r"^(\d{1,6}): \[([^\]\n]{1,400})", match["rows"], re.MULTILINE)
    ranks = listing(rank for rank, _ in rows)
    return {"ranks": f"{'ranks' if len(rows) > 1 else 'rank'} {ranks}", "tensors": rows[0][1] if rows else ""}


def _worker_codes(match: re.Match[str]) -> Mapping[str, str]:
    """`codes`: how the workers ended, which is said somewhere below."""
    found = re.search(_CODES, match.string[match.end() :])
    return {"codes": found["codes"].strip()} if found is not None else {}


def _triton_excerpt(match: re.Match[str]) -> Mapping[str, str]:
    """`kernel` and `code` of the source that Triton quotes, as far as its caret."""
    source = match["source"] or ""
    kernel = re.search(_DEF, source, re.MULTILINE)
    lines = [line.strip() for line in source.split("\n") if line.strip()]
    code = lines[-1] if lines and match["caret"] is not None and not lines[-1].startswith("def ") else ""
    return {"kernel": kernel["kernel"] if kernel is not None else "", "code": code}


def _mlir_passes(match: re.Match[str]) -> Mapping[str, str] | None:
    """`pass` and `function` of a list of passes: the last one failed."""
    passes = list(re.finditer(_PASS, match["passes"]))
    if not passes:
        return None
    named = [one["name"] for one in passes if one["name"]]
    return {"pass": passes[-1]["pass"].rpartition("::")[2], "of": named[0] if named else ""}


FUNCTIONS: Final[Mapping[str, Function]] = MappingProxyType(
    {
        "container": _container,
        "missing-ranks": _missing_ranks,
        "worker-codes": _worker_codes,
        "triton-excerpt": _triton_excerpt,
        "mlir-passes": _mlir_passes,
    }
)
"""By the name that a signature gives."""
