"""Regular expressions that are compiled on first use: importing a module compiles none."""

from __future__ import annotations

import re
from typing import AnyStr, Final, Generic, cast

_ATTRIBUTES: Final = (
    *("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split"),
    *("flags", "groups", "groupindex"),
)


class LazyPattern(Generic[AnyStr]):
    """A regular expression, and from its first use on the methods of its compiled form."""

    def __init__(self, pattern: AnyStr, flags: int) -> None:
        self.pattern: AnyStr = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        if name not in _ATTRIBUTES:
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self._flags)
        self.__dict__.update((each, getattr(compiled, each)) for each in _ATTRIBUTES)
        return self.__dict__[name]


def lazy_re(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return `re.compile(pattern, flags)`, compiled on first use.

    An invalid expression raises `re.error` only then; `tests/patterns` compiles all of them.
    """
    return cast("re.Pattern[AnyStr]", LazyPattern(pattern, flags))
