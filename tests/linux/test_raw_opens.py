"""Only livedbg.linux.target_files opens what a target may have named: every other opening is listed here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_READ_FROM: Final = frozenset(("file", "stream"))  # what is open already
_FUNCTIONS: Final = frozenset(
    (
        "open", "os.open", "os.walk", "os.scandir", "os.listdir", "io.open", "glob", "glob.glob", "iglob", "glob.iglob",
        "np.load", "np.fromfile", "np.memmap", "numpy.load", "torch.load", "zipfile.ZipFile", "ZipFile", "tarfile.open",
        "gzip.open", "sqlite3.connect", "linecache.getline", "linecache.getlines", "shutil.copy", "shutil.copyfile",
    )
)  # fmt: skip
_METHODS: Final = frozenset(("read_text", "read_bytes", "iterdir", "glob", "rglob"))
_MODE: Final = frozenset("rwaxbt+")
_OURS: Final = ("target_files.", "files(", "self.", "memory.")

ALLOWED: Final[dict[str, tuple[str, ...]]] = {
    "it is the one that opens": ("livedbg/linux/beneath.py", "livedbg/linux/target_files.py"),
    "of /proc, /sys, /dev, /usr or the kernel, by names of ours": (
        "adapters/cuda/adapter.py",
        "adapters/cuda/checks.py",
        "adapters/iree/checks.py",
        "adapters/logfiles/catalogue.py",
        "livedbg/linux/descriptors.py",
        "livedbg/linux/procfs.py",
        "livedbg/probes/tracefs.py",
        "livedbg/touch/gdb_inspect.py",
        "livedbg/touch/guard.py",
    ),
    "the user of livedbg names it, or it is of livedbg's own environment": (
        "adapters/iree/commands/diff_run.py",
        "adapters/iree/checks.py",
        "adapters/logfiles/adapter.py",
        "adapters/python/pyspy.py",
        "livedbg/cli/graph.py",
        "livedbg/cli/signatures.py",
        "livedbg/logs/paths.py",
        "livedbg/model/entry_points.py",
        "livedbg/recipes/model.py",
        "livedbg/recording/file.py",
        "livedbg/session/signatures.py",
        "livedbg/touch/config.py",
    ),
    "livedbg, or a program that it ran, wrote it": (
        "adapters/ascend/demo/player.py",
        "adapters/ascend/live/layout.py",
        "adapters/iree/differences/toolchain.py",
        "adapters/iree/differences/whole.py",
        "adapters/iree/differences/ir_worker.py",
        "adapters/iree/differences/trace.py",
        "adapters/iree/differences/worker.py",
        "adapters/iree/differences/worker_inputs.py",
        "adapters/iree/flow/as_given.py",
        "adapters/iree/flow/sanity.py",
        "adapters/iree/flow/steps.py",
        "adapters/iree/flow/ground.py",
        "adapters/iree/flow/steps.py",
        "adapters/iree/sanitized.py",
        "adapters/nvfuser/dumps/script_run.py",
        "livedbg/commands/output.py",
        "livedbg/recipes/effects.py",
        "livedbg/recipes/plan.py",
        "livedbg/recipes/watching.py",
        "livedbg/repeats/marking.py",
        "livedbg/session/launch.py",
        "livedbg/text/private_files.py",
        "livedbg/unwind/wire.py",
        "livedbg/unwind/copies.py",
        "livedbg/unwind/unwinder.py",
        "livedbg/values/tensor_files.py",
    ),
    "the pipe that asks a driver for a dump, through the descriptor of the process that reads it": (
        "adapters/cuda/cudagdb/dump_request.py",
    ),
}
"""Why a raw opening is none of a path that a target named -> the modules that do it."""


def modules() -> Iterator[tuple[str, ast.AST]]:
    """All modules of the product, by their paths."""
    for top in ("livedbg", "adapters", "panels"):
        for path in sorted((ROOT / top).rglob("*.py")):
            if not any(above.is_symlink() for above in path.parents):
                yield str(path.relative_to(ROOT)), ast.parse(path.read_text("utf-8"))


def test_only_target_files_opens_what_a_target_may_have_named() -> None:
    """target_files.T1, T2: a new raw opening is either made through it, or listed with its reason."""
    allowed = {module for listed in ALLOWED.values() for module in listed}
    found = {module: texts for module, tree in modules() if (texts := list(opened(tree)))}
    assert {module: texts for module, texts in found.items() if module not in allowed} == {}
    assert allowed - set(found) == set()


def test_a_raw_opening_is_seen() -> None:
    """The test above would see these."""
    raw = ("open(p)", "os.open(p, 0)", "p.open('rb')", "p.open(encoding='utf-8')", "p.read_bytes()", "os.walk(p)")
    for text in (*raw, "p.parent.glob('*')", "np.load(p)", "zipfile.ZipFile(p)", "open(f'/proc/{pid}/root{p}')"):
        assert list(opened(ast.parse(text))) == [text]
    for text in ("open(f'/proc/{pid}/maps')", "target_files.open_binary(p)", "layer.open(text, clock)"):
        assert list(opened(ast.parse(text))) == []


def opened(tree: ast.AST) -> Iterator[str]:
    """The raw openings of a module, as text, but for those of /proc and /sys."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        method = isinstance(node.func, ast.Attribute) and (
            node.func.attr in _METHODS or (node.func.attr == "open" and _is_path_open(node))
        )
        name = ast.unparse(node.func)
        if name not in _FUNCTIONS and not method:
            continue
        if isinstance(node.func, ast.Attribute) and name.startswith(_OURS):
            continue
        if node.args and ast.unparse(node.args[0]) in _READ_FROM:
            continue
        text = ast.unparse(node)
        if not _of_the_kernel(text):
            yield text


def _is_path_open(node: ast.Call) -> bool:
    modes = [one.value for one in node.args[:1] if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    named = [word.arg for word in node.keywords]
    return any(mode and set(mode) <= _MODE for mode in modes) or "encoding" in named or "buffering" in named


def _of_the_kernel(text: str) -> bool:
    return ("'/proc/" in text or "'/sys/" in text) and "/root" not in text and "/cwd" not in text
