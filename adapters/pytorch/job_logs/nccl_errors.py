"""Errors of NCCL as PyTorch throws them: the code, NCCL's last error in words, and what to do.

Sources: torch/csrc/distributed/c10d/NCCLUtils.{hpp,cpp} (`NCCL error in: FILE:LINE, TEXT, NCCL version V` and the
sentence of each code, then `Last error:`); NCCL src/misc/{socket,ibvwrap,shmutils}.cc, src/transport/net_ib.cc,
src/init.cc.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.logs.said import Form, Said
from livedbg.model import CauseClass

__all__ = ["CODE", "FORMS", "advice"]

CODE: Final = "nccl-error"

_ERROR = re.compile(
    r"NCCL error(?: in: (?P<file>\S{1,300}?):(?P<line>\d{1,9}),|:) (?P<text>[^\n]{1,200}?)"
    r"(?: ?\(run with NCCL_DEBUG=\w+ for details\))?(?:, NCCL [Vv]ersion (?P<version>[\d.]{1,20}))?[ .]*"
    r"(?:\n(?P<code>nccl\w{1,40}): (?P<about>[^\n]{1,300}))?(?:\n *Last error: *\n?(?P<last>[^\n]{1,400}))?$",
    re.MULTILINE,
)
_NAMES: Final = {
    "unhandled cuda error": "ncclUnhandledCudaError",
    "unhandled system error": "ncclSystemError",
    "internal error": "ncclInternalError",
    "invalid argument": "ncclInvalidArgument",
    "invalid usage": "ncclInvalidUsage",
    "remote process exited": "ncclRemoteError",
}
_ADVICE: Final = (
    (r"Duplicate GPU", "give each rank its own GPU: torch.cuda.set_device(int(os.environ['LOCAL_RANK']))"),
    (r"out of memory", "NCCL needs memory of the GPU too: let the job use less of it (nvidia-smi)"),
    (
        r"/dev/shm|shared memory|posix_fallocate|No space left",
        "df -h /dev/shm   (docker run --shm-size=16g, or --ipc=host)",
    ),
    (
        r"ibv_|NET/IB|status=\d+|vendor err",
        "ibstat; ibv_devinfo; ulimit -l   (NCCL_IB_DISABLE=1 shows whether it is InfiniBand)",
    ),
    (
        r"[Cc]onnect|socket|closed by remote|refused|No route|unreachable",
        "set NCCL_SOCKET_IFNAME to the interface that reaches the other hosts; check that the peer lives",
    ),
    (r"[Mm]ismatched|version", "let all nodes run the same NCCL: torch.cuda.nccl.version()"),
    (r"no kernel image|insufficient|invalid device function", "use a PyTorch that is built for this GPU and driver"),
)
_PROCESS_ERRORS: Final = ("Duplicate GPU", "out of memory", "no kernel image", "insufficient driver")
"""Last errors that are no peer's fault."""
_MORE: Final = "NCCL_DEBUG=INFO   (NCCL then logs what it tried; livedbg reads it)"


def advice(text: str) -> tuple[str, ...]:
    """What to do about NCCL's words."""
    return tuple(step for pattern, step in _ADVICE if re.search(pattern, text) is not None)[:2]


def _thrown(match: re.Match[str]) -> Said:
    words = match["text"].strip(" ,.")
    name = match["code"] or next((name for text, name in _NAMES.items() if text in words), "")
    last = (match["last"] or "").strip(" .")
    said = f"NCCL failed: {last or words}" + (f" ({name})" if name else "")
    file = (match["file"] or "").rpartition("/")[2]
    return Said(
        code=CODE,
        key=f"{name} {last} {file}:{match['line']}",
        sentence=said,
        cause=CauseClass.PROCESS if any(word in said for word in _PROCESS_ERRORS) else CauseClass.PEER,
        steps=(*advice(last or words), _MORE),
        attributes={"nccl": name, "last": last, "version": match["version"] or ""},
    )


FORMS: Final = (Form(("NCCL error in: ", "NCCL error: "), _ERROR, _thrown),)
