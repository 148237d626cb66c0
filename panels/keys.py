"""How a panel declares its keys: once, for the bindings, the help screen and the documentation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from textual.binding import Binding, BindingType


@dataclass(frozen=True, slots=True)
class Key:
    """One thing that a panel or the app can do by a key.

    Attributes:
        keys: as Textual spells them, comma separated: `slash`, `ctrl+d`, `s,o`.
        shown: as a user reads them: `/`, `^d`, `s`.
        action: the action that it runs.
        help: what it does, a few words.
        name: stable name for keymaps; made from the action when empty.
    """

    keys: str
    shown: str
    action: str
    help: str
    name: str = ""

    @property
    def id(self) -> str:
        """Stable name of the binding."""
        return self.name or self.action.replace("('", "-").replace("')", "").replace("_", "-")


def bindings(scope: str, keys: Iterable[Key], *, priority: bool = False) -> list[BindingType]:
    """Textual's bindings for declared keys; `scope` makes their names unique."""
    return [
        Binding(key.keys, key.action, key.help, show=False, priority=priority, id=f"{scope}.{key.id}") for key in keys
    ]
