"""Configuration files, and the check before every touch that they don't forbid it.

    # /etc/livedbg/config.toml (for everybody on this box), ~/.config/livedbg/config.toml (one user's own)
    read_only = true

Invariants:
    config.C1. Every touch asks `refuse_touch` first; a session's request is read-only from its start where a file says
        so.
    config.C2. Files and options add up: what one forbids, no other allows.
    config.C3. A file that is there and can't be understood forbids: a slip of the pen lifts no ban.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from livedbg.model.errors import TouchRefused
from livedbg.model.request import Request
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

SYSTEM_FILE: Path = Path("/etc/livedbg/config.toml")
"""What holds for everybody on this box."""

_KEY: Final = "read_only"
_LINE: Final = lazy_re(rf"""^\s*["']?{_KEY}["']?\s*=""")


class Ban(NamedTuple):
    """A ban on touches; `by` is the beginning of `… forbids that`."""

    by: str
    remedy: str


def files() -> tuple[Path, Path]:
    """Return the configuration files of this host and of the user (XDG Base Directory Specification)."""
    from platformdirs import user_config_path

    return SYSTEM_FILE, user_config_path("livedbg") / "config.toml"


def ban_of(request: Request | None = None) -> Ban | None:
    """Return the setting that forbids intrusive actions now, or None. The files are read anew each time."""
    system, own = files()
    by = _forbidden_by(system)
    if by:
        return Ban(by, f"ask the owner of {system}: no option and no file of yours overrides it")
    by = _forbidden_by(own)
    if by:
        return Ban(by, f"change {own}")
    if request is not None and request.read_only:
        return Ban(request.read_only_by or "--read-only", "start again without it")
    return None


def restricted(request: Request) -> Request:
    """Return the request, read-only if a file says so."""
    ban = ban_of(request)
    return request if ban is None else replace(request, read_only=True, read_only_by=ban.by)


def refuse_touch(request: Request | None, what: str) -> None:
    """Raise if a touch is forbidden; called before every touch.

    Args:
        request: of the session; None if there is none: then only the files decide.
        what: the intrusive action, as a sentence without its full stop.

    Raises:
        TouchRefused: it is forbidden.
    """
    ban = ban_of(request)
    if ban is not None:
        raise TouchRefused(f"{what}, which {ban.by} forbids.", ban.remedy, "read-only")


def _forbidden_by(path: Path) -> str:
    try:
        text = path.read_text("utf-8")
        import tomllib  # 15 ms; most hosts have no such file

        said = tomllib.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return _unclear(path, f"it can't be read: {error.strerror}")
    except (ValueError, RecursionError) as error:  # not UTF-8, not TOML, or nested without end
        return _unclear(path, str(error))
    value = said.pop(_KEY, False)
    if said:
        return _unclear(path, f"unknown key `{next(iter(said))}`; the only key is `{_KEY}`")
    if not isinstance(value, bool):
        return _unclear(path, f"`{_KEY}` must be true or false")
    number = next((place for place, line in enumerate(text.splitlines(), 1) if _LINE.match(line)), 1)
    return f"`{_KEY} = true` in line {number} of {path}" if value else ""


def _unclear(path: Path, why: str) -> str:
    return clean_line(f"{path}, which can't be parsed ({why}),")
