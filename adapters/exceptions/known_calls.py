"""What calls of known functions mean, in words instead of registers: of the C library, and those of systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Final

from livedbg.probes.launch_calls import Describe, failure, source_line
from livedbg.session.systems import declared, note_problem


def _assertion(numbers: Sequence[int], texts: Sequence[str]) -> str:
    """__assert_fail(assertion, file, line, function): assert.h."""
    return failure("", texts[0], ", ".join(filter(None, (source_line(texts[1], numbers[2]), texts[3]))))


_C_LIBRARY: Final[Mapping[str, Describe]] = {"__assert_fail": _assertion, "abort": lambda _numbers, _texts: ""}


@cache
def known_calls() -> Mapping[str, Describe]:
    """What a call of each known function means, by its name."""
    found = dict(_C_LIBRARY)
    for system, own in declared(lambda system: system.known_calls):
        for name, describe in own.items():
            if name in found:
                note_problem(system.name, f"there is another description of calls of {name}", None)
            else:
                found[name] = describe
    return MappingProxyType(found)
