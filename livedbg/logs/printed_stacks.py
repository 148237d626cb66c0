"""Stacks of threads that somebody printed: with py-spy, faulthandler, gdb, pstack, lldb or Visual Studio."""

from __future__ import annotations

import sys
from typing import Final

from msgspec.structs import replace

from livedbg.logs.stack_listings import listed
from livedbg.model import Frame
from livedbg.text.patterns import lazy_re

_WRAPPED: Final = lazy_re(r"\n {4,20}(?=\S)(?!frame #)")
"A frame of gdb goes on in the next line."
_ARGUMENTS: Final = lazy_re(r" \((?!anonymous namespace\))")
_INLINED: Final = lazy_re(r"^.{0,400}\[inlined\] ")
_FORMS: Final = ("faulthandler", "py-spy", "visual-studio")
_PACKAGES: Final = lazy_re(
    r"(?:accelerate|aiohttp|anyio|click|dask|datasets|deepspeed|distributed|fastapi|flax|fsspec|gevent"
    r"|grpc|grpcio|gunicorn|httpcore|httpx|huggingface_hub|jax|jaxlib|joblib|keras|lightning|numpy"
    r"|pandas|peft|pyarrow|ray|requests|scipy|sklearn|starlette|tensorflow"
    r"|tokenizers|tornado|tqdm|transformers|triton|trl|typer|urllib3|uvicorn|uvloop"
    r"|wandb|zmq)$"
)
"""The best-known packages: what a user writes has other names."""


def printed_frames(text: str) -> tuple[Frame, ...]:
    """Return the frames of one printed stack, innermost first."""
    frames = listed("lldb", text) or listed("native", _WRAPPED.sub(" ", text))
    frames = frames or next(filter(None, (listed(form, text) for form in _FORMS)), ())
    script = frames[-1].file or "" if frames and frames[-1].function == "<module>" else ""
    folder = "" if script.startswith(("/", "<", "bin/")) else script.rpartition("/")[0].partition("/")[0]
    return tuple(_plain(frame, folder) for frame in frames)


def _plain(frame: Frame, folder: str) -> Frame:
    """Return a frame without its arguments, with its library where it has no line, and its whole path if cut.

    `folder` is that of the script, if known.
    """
    file, module = frame.file, frame.module
    if file and frame.line is None:
        module, file = file.rpartition("/")[2], None
    python = frame.language == "python" and (file or "").endswith((".py", ">"))
    return replace(
        frame,
        function=_ARGUMENTS.split(_INLINED.sub("", frame.function), maxsplit=1)[0],
        file=_whole_path(file, folder) if file and python else file,
        module=module,
        language="native" if frame.language == "python" and not python else frame.language,
    )


def _whole_path(file: str, folder: str) -> str:
    """Return a path with the folder of sys.path that py-spy leaves out, as far as its name tells it.

    Where the script is in a folder, other ones are those of packages; else only the best-known packages are.
    """
    top, _, below = file.partition("/")
    if top.removesuffix(".py") in sys.stdlib_module_names:
        return f"/lib/python3/{file}"
    if not top or not below or file.startswith("<"):
        return file
    package = _PACKAGES.match(top) is not None or (folder and top != folder)
    return f"/lib/python3/site-packages/{file}" if package else f"/{file}"
