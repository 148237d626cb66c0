"""Lines of the kernel's log about GPUs and NVSwitches, as statements."""

from __future__ import annotations

from livedbg.adapters.cuda.statement import Statement
from livedbg.adapters.cuda.xid import XidKind, meaning_of, parse_switch_xid, parse_xid
from livedbg.model import Severity

__all__ = ["xid_statement"]


def xid_statement(line: str) -> Statement | None:
    """The Xid or SXid that a line of the kernel's log tells of, in words."""
    xid = parse_xid(line)
    if xid is None:
        return _switch_xid(line)
    kind, words, steps = meaning_of(xid.number)
    severity = {XidKind.NOTICE: Severity.INFO, XidKind.AFTERMATH: Severity.WARNING}.get(kind, Severity.CRITICAL)
    fault = f": {xid.fault}" if xid.fault else ""
    attributes = {
        "xid": str(xid.number),
        "kind": kind.value,
        "gpu": xid.gpu,
        "pid": str(xid.pid) if xid.pid is not None else "",
        "name": xid.name,
        "fault": xid.fault,
        "rest": xid.rest[:500],
        "next": "\n".join(steps),
    }
    return Statement(
        "xid",
        f"Xid {xid.number} of GPU {xid.gpu}: {words}{fault}",
        severity,
        key=(str(xid.pid),),
        attributes={name: value for name, value in attributes.items() if value},
    )


def _switch_xid(line: str) -> Statement | None:
    xid = parse_switch_xid(line)
    if xid is None:
        return None
    how, kind = ("a fatal error", XidKind.GPU) if xid.fatal else ("an error that is not fatal", XidKind.NOTICE)
    attributes = {
        "xid": f"S{xid.number}",
        "kind": kind.value,
        "gpu": xid.switch,
        "rest": xid.rest[:500],
        "next": "nvidia-smi nvlink --status; nvidia-smi nvlink --errorcounters",
    }
    what = f"SXid {xid.number} of NVSwitch {xid.switch}: {how}: {xid.rest[:200]}".rstrip(": ")
    return Statement("xid", what, Severity.CRITICAL if xid.fatal else Severity.WARNING, attributes=attributes)
