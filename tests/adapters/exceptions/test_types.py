"""Names of types, which are data of the target."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from livedbg.text.demangling import demangled_type
from livedbg.text.sanitize import clean_line

_PIECES = [
    "N",
    "E",
    "St",
    "S_",
    "S0_",
    "T_",
    "I",
    "J",
    "P",
    "K",
    "F",
    "A",
    "Lb1",
    "X",
    "Z",
    "Dp",
    "DT",
    "i",
    "v",
    "*",
    "13runtime_error",
    "7nvfuser",
    "8nvfError",
    "3std",
    "99x",
    "0",
    ".",
    "_",
]
_NAMES = st.lists(st.sampled_from(_PIECES), max_size=12).map("".join)


@given(_NAMES | st.text(max_size=20))
def test_any_name_gives_a_line(name: str) -> None:
    said = demangled_type(name)
    assert said == clean_line(said)
    assert bool(said) == bool(name.removeprefix("*"))
