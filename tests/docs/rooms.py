"""The lists of docs/architecture.md that are made from the tree: the core's packages, and each system's room."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from livedbg.session.systems import systems

__all__ = ["architecture"]

ROOT = Path(__file__).parents[2]
_LINKS = ("adapters", "panels", "themes")
_BLOCK = "<!-- {name}: made by `make docs` -->"


def architecture() -> str:
    """The page with its lists made anew."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    for name, made in (("packages", _packages()), ("rooms", _rooms())):
        begin, end = _BLOCK.format(name=name), f"<!-- end of {name} -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        assert pattern.search(text), f"docs/architecture.md has no block {begin}"
        text = pattern.sub(lambda _, begin=begin, made=made, end=end: f"{begin}\n{made}\n{end}", text)
    return text


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


def _rooms() -> str:
    parts = []
    for system in systems():
        folder = ROOT / "adapters" / system.name
        if not folder.is_dir():
            continue
        files = [path for path in sorted(folder.rglob("*.py")) if path.name != "__init__.py" or path.parent != folder]
        rows = [f"| `{path.relative_to(folder)}` | {_about(path)} |" for path in files]
        title = f"### {system.title}: `adapters/{system.name}/`"
        parts.append(
            "\n".join([title, "", f"{_about(folder / '__init__.py')}", "", "| file | |", "| --- | --- |", *rows])
        )
    return "\n\n".join(parts)


def _about(path: Path) -> str:
    """The first paragraph of a module's docstring, as far as its first sentence."""
    text = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n\n")[0].replace("\n", " ")
    sentence = re.match(r".*?[.:](?= [A-Z]|$)", text)
    return (sentence[0] if sentence else text).replace("|", "\\|")
