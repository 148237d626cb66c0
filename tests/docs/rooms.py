"""The list of docs/architecture.md that is made from the tree: its packages."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from livedbg.session.systems import systems

__all__ = ["architecture"]

ROOT = Path(__file__).parents[2]
_LINKS = ("adapters", "panels", "themes")


def architecture() -> str:
    """The page with its list made anew."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    begin, end = "<!-- packages: made by `make docs` -->", "<!-- end of packages -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    assert pattern.search(text), f"docs/architecture.md has no block {begin}"
    return pattern.sub(lambda _: f"{begin}\n{_packages()}\n{end}", text)


def _packages() -> str:
    folders = [path for path in sorted((ROOT / "livedbg").iterdir()) if (path / "__init__.py").exists()]
    rows = [f"| `livedbg/{path.name}/` | {_about(path / '__init__.py')} |" for path in folders if not path.is_symlink()]
    rooms = {system.name for system in systems()}
    sources = [path for path in sorted((ROOT / "adapters").iterdir()) if (path / "__init__.py").exists()]
    rows += [
        f"| `adapters/{path.name}/` | {_about(path / '__init__.py')} |" for path in sources if path.name not in rooms
    ]
    rows += [f"| `{name}/` | {_about(ROOT / name / '__init__.py')} |" for name in _LINKS[1:]]
    return "\n".join(["| where | what it owns |", "| --- | --- |", *rows])


def _about(path: Path) -> str:
    """The first paragraph of a module's docstring, as far as its first sentence."""
    text = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n\n")[0].replace("\n", " ")
    sentence = re.match(r".*?[.:](?= [A-Z]|$)", text)
    return (sentence[0] if sentence else text).replace("|", "\\|")
