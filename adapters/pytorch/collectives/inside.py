"""Classify stacks: inside torch.distributed, a backward pass, a training step."""

from __future__ import annotations

import re
from typing import Final

from livedbg.model import Frame, Stack
from livedbg.text.patterns import lazy_re

_INNERMOST: Final = 40
_NATIVE: Final = lazy_re(r"c10d::|gloo::|nccl", re.IGNORECASE)
_C10D: Final = "/torch/distributed/distributed_c10d.py"
_PYTHON: Final = lazy_re(r"/torch/distributed/")
_FRAMEWORK: Final = lazy_re(r"/torch/|^<")
_BACKWARD: Final = lazy_re(r"/torch/autograd/(?:graph|__init__)\.py$")
_OPTIMIZER: Final = lazy_re(r"/torch/(?:distributed/)?optim/")
_FORWARD: Final = lazy_re(r"/torch/nn/(?:modules/module|parallel/distributed)\.py$")


def waits_in_collective(stack: Stack | None) -> bool:
    """Return whether c10d's native frames or Python functions are the innermost code, below any user line."""
    for frame in stack.frames[:_INNERMOST] if stack is not None else ():
        if frame.language == "python":
            if _PYTHON.search(frame.file or ""):
                return True
            if not _FRAMEWORK.search(frame.file or ""):
                return False
        elif _NATIVE.match(frame.function):
            return True
    return False


def in_backward(stack: Stack | None) -> bool:
    """Return whether a stack is in a backward pass itself, as in DistributedDataParallel, not in user code in it."""
    frames = _python(stack)
    return bool(frames) and _BACKWARD.search(frames[0].file or "") is not None


def in_reduce_scatter(stack: Stack | None) -> bool:
    """Return whether a stack is in reduce_scatter, which gloo does (and records) as an all_reduce."""
    called = (frame.function for frame in _python(stack)[:1] if (frame.file or "").endswith(_C10D))
    return any(function.startswith("reduce_scatter") for function in called)


def _python(stack: Stack | None) -> list[Frame]:
    return [frame for frame in stack.frames if frame.language == "python"] if stack is not None else []


def in_step(stack: Stack | None) -> bool:
    """Return whether a stack is in a module's forward or backward pass, or an optimizer, at any depth."""
    files = [frame.file or "" for frame in _python(stack)]
    return any(_BACKWARD.search(file) or _FORWARD.search(file) or _OPTIMIZER.search(file) for file in files)
