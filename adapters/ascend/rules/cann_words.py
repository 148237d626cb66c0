"""What a report of CANN says, in words: who, what failed where, why; and what to do next."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from livedbg.adapters.ascend.cann_codes import KNOWN, CannCode
from livedbg.adapters.ascend.cann_reports.report import Kind
from livedbg.model import Diagnostic
from livedbg.text.quantities import byte_size
from livedbg.text.wording import sentence_case

__all__ = ["details_of", "headline_of", "kind_of", "steps_of", "who_of"]

_RANK: Final = re.compile(r"\brank ?[=:]? ?(\d{1,6})\b|\[(?:rank|default)(\d{1,6})\]|^(\d{1,6})$", re.IGNORECASE)
_WORKER: Final = re.compile(r"\((?P<name>[\w .:-]{1,60}?),? {0,100}pid=(?P<pid>\d{1,10})[^)]{0,2000}\)")
_LONGEST: Final = 220  # characters of a text that is quoted
_OPERATION: Final = re.compile(
    r"(?:Hcom|hcom_?)?(?P<name>All-?Reduce|AllGather\w*|ReduceScatter\w*|Broadcast|AllToAll\w*|Send|Recv\w*|Reduce|Scatter|Gather|Barrier|BatchSendRecv)",
    re.IGNORECASE,
)
_HCCL: Final = {
    3: "no memory",
    4: "an internal error",
    5: "it is not supported",
    6: "a resource was not found",
    7: "a resource is not available",
    8: "a system call failed",
    9: "a time-out",
    11: "a TCP connection failed",
    12: "a RoCE connection failed",
    13: "a TCP transfer failed",
    14: "a RoCE transfer failed",
    15: "a call of the runtime failed",
    16: "a call of the driver failed",
    19: "the network failed",
    21: "a remote error",
}
"""HcclResult, of CANN's hccl/hccl_types.h."""

_BLOCKING: Final = (
    "livedbg launch --recipe ascend-blocking -- COMMAND   (the call that fails then raises at its own line)"
)
_CONNECT: Final = (
    "check whether that rank started, and when: HCCL_CONNECT_TIMEOUT (120 s) must be longer than ranks start apart"
)

_ALL_RANKS: Final = (
    "read the logs of all ranks: livedbg report --logs DIR   (the one that failed earlier, or reports nothing, is the "
    "cause)"
)


def kind_of(report: Diagnostic) -> Kind:
    """What failed."""
    return Kind(report.attributes.get("kind", Kind.OTHER.value))


def who_of(report: Diagnostic) -> str:
    """`rank 1`, `VllmWorker TP1 (pid 961)`, `process 4711`; "" if the log does not say."""
    fields = report.attributes
    owner = fields.get("owner", "")
    rank, worker = _RANK.search(owner), _WORKER.search(owner)
    if "rank" in fields:
        return f"rank {fields['rank']}"
    if rank is not None:
        return f"rank {next(one for one in rank.groups() if one)}"
    if worker is not None:
        return f"{worker['name'].strip()} (pid {worker['pid']})"
    pid = fields.get("pid") or owner.removeprefix("pid ")
    return f"process {pid}" if pid.isdecimal() else ""


def headline_of(report: Diagnostic) -> str:
    """What failed, where and why, without its full stop."""
    said = _HEADLINES.get(kind_of(report), _other)(report.attributes)
    who = who_of(report)
    return sentence_case(f"{who}: {said}" if who else said)


def _short(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip(" .")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _code(fields: Mapping[str, str]) -> CannCode | None:
    """The code that says most: the first one that is no mask, else the first that is known."""
    known = [KNOWN[int(code)] for code in fields.get("codes", "").split() if int(code) in KNOWN]
    return next((code for code in known if not code.mask), known[0] if known else None)


def _npu(fields: Mapping[str, str]) -> str:
    if "device" in fields:
        return f"NPU {fields['device']}"
    return f"chip {fields['chip']}" if "chip" in fields else ""


def _kernel(fields: Mapping[str, str]) -> str:
    return fields.get("kernel") or fields.get("op", "")


def _core(fields: Mapping[str, str]) -> str:
    """` on vector core 49 of NPU 0`."""
    npu = _npu(fields)
    of = f" of {npu}" if npu else ""
    if "core" in fields:
        unit = "vector core" if "aiv" in fields.get("what", "") else "AI core"
        return f" on {unit} {fields['core']}{of}"
    return f" on {npu}" if npu else ""


def _why(fields: Mapping[str, str]) -> str:
    words = fields.get("words") or fields.get("reason", "")
    code = _code(fields)
    return _short(words or (code.meaning if code is not None else fields.get("said", fields.get("text", ""))))


def _fault(fields: Mapping[str, str]) -> str:
    kernel, aicpu = _kernel(fields), "aicpu" in fields or fields.get("unit") == "Aicpu"
    unit = "AICPU kernel" if aicpu else "kernel"
    subject = f"{unit} {kernel} failed" if kernel else f"{'an' if aicpu else 'a'} {unit} failed"
    why = _why(fields)
    return f"{subject}{_core(fields)}" + (f": {why}" if why else "")


def _hardware(fields: Mapping[str, str]) -> str:
    if _kernel(fields) or "core" in fields:
        return _fault(fields)
    return f"{_npu(fields) or 'the NPU'} failed: {_why(fields)}"


def _timeout(fields: Mapping[str, str]) -> str:
    kernel = _kernel(fields)
    code = _code(fields)
    meaning = code.meaning if code is not None else _why(fields)
    return (
        f"kernel {kernel} did not end in time{_core(fields)}: " if kernel else ""
    ) + f"{meaning}{'' if kernel else _core(fields)}"


def _memory(fields: Mapping[str, str]) -> str:
    npu = _npu(fields) or "the NPU"
    tried = fields.get("tried") or (byte_size(int(fields["bytes"])) if "bytes" in fields else "")
    parts = [
        f"{tried} were requested" if tried else "",
        f"{fields['free']} of {fields.get('total', '?')} are free" if "free" in fields else "",
        f"{fields['allocated']} are in use by PyTorch" if "allocated" in fields else "",
    ]
    detail = ", ".join(part for part in parts if part) or _short(fields.get("text", ""))
    return f"{npu} is out of memory" + (f": {detail}" if detail else "")


def _setup(fields: Mapping[str, str]) -> str:
    npu = _npu(fields) or "the NPU"
    text = _short(fields.get("text", "") or fields.get("said", ""))
    return f"{npu} could not be started for the process" + (f": {text}" if text else "")


def _driver(fields: Mapping[str, str]) -> str:
    code = f" with {fields['driver']}" if "driver" in fields else ""
    npu = _npu(fields)
    text = _short(fields.get("said", "")) or _why(fields)
    call = fields.get("driver_call", "a call")
    return f"the driver's {call} failed{code}{f' on {npu}' if npu else ''}" + (f": {text}" if text else "")


def _logged(fields: Mapping[str, str]) -> str:
    return f"the first error line of CANN's {fields.get('module', 'log')} is: {_short(fields.get('first_error', ''))}"


def _operator(fields: Mapping[str, str]) -> str:
    text = _short(fields.get("text", "")) or _why(fields)
    subject = (
        f"operator {fields['op']}" if "op" in fields else f"the call {fields['api']}" if "api" in fields else "a call"
    )
    npu = _npu(fields)
    return f"{subject} failed{f' on {npu}' if npu else ''}" + (f": {text}" if text else "")


def _collective(fields: Mapping[str, str]) -> str:
    operation = _OPERATION.search(fields.get("tag", ""))
    name = operation["name"] if operation is not None else "a collective operation"
    remote = fields.get("remote", "")
    whom = f"rank {remote}" if remote.isdecimal() else "another rank (HCCL does not know which)"
    blocks = fields.get("blocks", "").split()
    if "port" in fields:
        return f"HCCL can't listen on port {fields['port']}: another process uses it, or another job still runs"
    if "waited" in fields:
        npu = _npu(fields)
        return f"{name} waited for a notify of another rank for {fields['waited']}{f' on {npu}' if npu else ''}"
    if "EI0002" in blocks or "tag" in fields:
        return f"{name} waited for {whom} until the time-out (HCCL_EXEC_TIMEOUT)"
    if {"socket", "role", "remote"} & fields.keys() or "EI0006" in blocks:
        limit = f" within {fields['limit']} s" if "limit" in fields else " in time"
        return f"HCCL could not connect to {whom}{limit} (HCCL_CONNECT_TIMEOUT)"
    text = _short(fields.get("text", ""))
    code = fields.get("hccl", "")
    if not text and code:
        text = f"{fields.get('api', 'a call')} returned {code} ({_HCCL.get(int(code), 'HCCL knows no words for it')})"
    return "HCCL failed" + (f": {text}" if text else "")


def _masked(fields: Mapping[str, str]) -> str:
    code, codes = _code(fields), fields.get("codes", "").split()
    call = f"{fields['api']} failed" if "api" in fields else "a call failed"
    if code is not None:
        return f"{call} with {code.number}: {code.meaning}"
    return f"{call}" + (f" with {codes[0]}" if codes else "") + (f": {_why(fields)}" if _why(fields) else "")


def _other(fields: Mapping[str, str]) -> str:
    text = _short(fields.get("text", "") or fields.get("said", ""))
    block = fields.get("text_of") or next(iter(fields.get("blocks", "").split()), "")
    return f"CANN reports {block or 'an error'}" + (f": {text}" if text else "")


def _exit(fields: Mapping[str, str]) -> str:
    return "the process ended with an exception (torch_npu: ERR99999)"


_HEADLINES: Final = {
    Kind.HARDWARE: _hardware,
    Kind.FAULT: _fault,
    Kind.MEMORY: _memory,
    Kind.SETUP: _setup,
    Kind.OPERATOR: _operator,
    Kind.DRIVER: _driver,
    Kind.LOGGED: _logged,
    Kind.TIMEOUT: _timeout,
    Kind.COLLECTIVE: _collective,
    Kind.MASKED: _masked,
    Kind.EXIT: _exit,
}


def details_of(report: Diagnostic) -> str:
    """More sentences: the code, the place in the kernel, the stream and task, who was lost."""
    fields = report.attributes
    parts = []
    start, now = fields.get("pc_start", ""), fields.get("pc", "")
    if "error_code" in fields:
        offset = ""
        if start.startswith("0x") and now.startswith("0x") and int(now, 16) >= int(start, 16):
            offset = f", {int(now, 16) - int(start, 16):#x} bytes into its code"
        parts.append(f"Error code {fields['error_code']}{offset}.")
    if "stream" in fields and "task" in fields:
        parts.append(f"Stream {fields['stream']}, task {fields['task']}.")
    if "lost" in fields:
        parts.append(_lost(fields))
    if "member" in fields and "size" in fields:
        parts.append(f"It is rank {fields['member']} of {fields['size']} in its group.")
    codes = fields.get("codes", "").split()
    if codes:
        parts.append(f"Returned: {', '.join(codes[:4])}.")
    return "".join(f" {part}" for part in parts)


def _lost(fields: Mapping[str, str]) -> str:
    address, _, device = fields["lost"].rpartition("/")
    address = address or fields.get("server", "")
    where = f"Device {device}{f' of {address}' if address else ''}"
    how = (
        "lost its heartbeat (its process ended, or the network failed)"
        if "Heartbeat" in fields.get("lost_how", "")
        else f"was reported: {fields.get('lost_how', '')}"
    )
    at = f" at {fields['lost_at']}" if "lost_at" in fields else ""
    return f"{where} {how}{at}."


def steps_of(report: Diagnostic) -> tuple[str, ...]:
    """What to do next."""
    fields, kind = report.attributes, kind_of(report)
    pid = fields.get("pid") or fields.get("owner", "").removeprefix("pid ")
    plog = f"$ASCEND_PROCESS_LOG_PATH/debug/plog/plog-{pid if pid.isdecimal() else 'PID'}_*.log"
    read = f"read the plog of that process too: livedbg report --logs DIR, with the directory of {plog}"
    steps: dict[Kind, tuple[str, ...]] = {
        Kind.HARDWARE: (
            "npu-smi info -t ecc -i DEVICE   (errors of its memory); npu-smi info -t health -i DEVICE",
            read,
        ),
        Kind.FAULT: (
            f"check the sizes, indices and addresses that {_kernel(fields) or 'the kernel'} was called with",
            _BLOCKING,
            read,
        ),
        Kind.MEMORY: (
            "use a smaller batch, sequence or cache (vLLM: --gpu-memory-utilization, --max-model-len)",
            "npu-smi info   (who else holds memory on that NPU)",
            "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True   (if much is reserved but not allocated)",
        ),
        Kind.SETUP: (
            "npu-smi info   (is the NPU healthy, and does another process hold it?)",
            "compare ASCEND_RT_VISIBLE_DEVICES with the device's number",
            read,
        ),
        Kind.OPERATOR: ("check the shapes, data types and formats of its inputs", _BLOCKING, read),
        Kind.TIMEOUT: (
            f"check {_kernel(fields) or 'the kernel'} for an endless loop, or a wait that nobody ends",
            _BLOCKING,
            read,
        ),
        Kind.COLLECTIVE: (
            _CONNECT if "socket" in fields or "EI0006" in fields.get("blocks", "") else _ALL_RANKS,
            read,
        ),
    }
    return steps.get(kind, (read, _BLOCKING))
