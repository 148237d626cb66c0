"""Which words may be names of hosts."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["may_be_host"]

_NO_HOST: Final = re.compile(
    r"(?i:[gnx]pu|device|dev|rank|layer|epoch|step|core|cpu|thread|worker|stage|batch|gcc|g|clang|python|iter|phase|part"
    r"|section|case|run|trial|model|task|round|fold|test|line|block|group|node_?|hip|mlx5_|eth|ib|loss|top)[-_.]?[\d.]*$"
    r"|.*(?:[Ee]rror|[Ee]xception|[Ww]arning|\.py|\.c|\.cc|\.cpp|\.cu|\.h|\.so[.\d]*)$"
)
_NODE: Final = re.compile(r"node_?-?\d+")


def may_be_host(name: str) -> bool:
    """Whether a word with a number may name a host, and is no device, place in a program, file or kind of error."""
    if not any(map(str.isdecimal, name)):
        return False
    return _NO_HOST.match(name) is None or _NODE.fullmatch(name) is not None
