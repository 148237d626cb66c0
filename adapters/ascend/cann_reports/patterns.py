"""The lines of error reports of CANN and of what is built on it: one table of shapes, one function to apply it.

Sources of the texts: CANN runtime (device_error_core_proc.cc, davinci_kernel_task.cc, stream.cc,
error_message_manage.cc), HCCL (error_code_msg.json, task_exception_handler.cc, hccl_socket_manager.cc, heartbeat.cc),
torch_npu (NPUException.h, NPUCachingAllocator.cpp, NPUStream.cpp), MindSpore (kernel_actor.cc,
ascend_kernel_runtime.cc, ascend_hal_manager.cc), all of 2022 to 2026.

A group's name is the field of `Report` that it fills; a digit behind it is dropped.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

__all__ = ["WEAK", "Fact", "facts"]


class Fact(NamedTuple):
    """What one line says.

    Attributes:
        kind: which shape it has (a name of `_SHAPES`).
        fields: what the shape's groups matched.
    """

    kind: str
    fields: dict[str, str]


_DATE: Final = r"\d{4}-\d\d-\d\d-[\d:.]{8,20}"
_SIZE: Final = r"[\d.]{1,12} [KMGT]?i?B"
_NAME: Final = r"[\w./:<>~-]{1,300}"

# (kind, keyword that must stand in the line, shape)
_SHAPES: Final[tuple[tuple[str, str, str], ...]] = (
    # torch_npu
    (
        "torch",
        "RankID:",
        r"\(PID:(?P<pid>\d{1,10}), Device:(?P<device>-?\d{1,5}), RankID:(?P<rank>-?\d{1,6})\) ERR(?P<torch>\d{5})",
    ),
    ("says", "[Error]: ", r"\[Error\]: (?P<said>[A-Z][^\n\[\\]{3,200})"),
    (
        "call",
        "function error: ",
        r"\b(?:NPU|OPS|HCCL|DIST|PTA|GRAPH|PROF) function error: (?:call )?(?P<api>[A-Za-z_][\w:.]{1,120}\w)",
    ),
    (
        "hccl",
        "function error: ",
        r"function error: (?P<api>[Hh]ccl\w{1,80})[^\n]{0,200}?, error code is (?P<hccl>\d{1,2})\b",
    ),
    ("hccl", "HCCL error in", r"HCCL error in: ?(?P<place>[\w./:-]{1,200})"),
    ("operator", "aclnn", r"call (?P<op>aclnn\w{1,80}) failed"),
    (
        "operator",
        "operator name is ",
        r"process exits for this inner error, and the current working operator name is (?P<op>\w{1,100})",
    ),
    ("operator", "launch failed for", r"launch failed for (?P<op>\w{1,100}), errno:(?P<code>\d{6})"),
    ("operator", "any binary", r"Op (?P<op>\w{1,100}) does not has? any binary"),
    ("operator", "Kernel Run failed", r"Kernel Run failed\. opType: \d{1,9}, (?P<op>\w{1,100})"),
    (
        "memory",
        "out of memory. Tried",
        rf"NPU out of memory\. Tried to allocate (?P<tried>{_SIZE})(?: \(NPU (?P<device>\d{{1,5}}); "
        rf"(?P<total>{_SIZE}) total capacity; (?P<allocated>{_SIZE}) already allocated; "
        rf"(?:{_SIZE} current active; )?(?P<free>{_SIZE}) free; (?P<reserved>{_SIZE}) reserved)?",
    ),
    (
        "memory",
        "rtMalloc fail",
        r"Call rtMalloc fail,.{0,100}?size:(?P<bytes>\d{1,18})(?:, device_id:(?P<device>\d{1,5}))?",
    ),
    ("memory", "bytes of NPU memory", r"Failed to allocate \[?(?P<bytes>\d{1,18})\]? bytes of NPU memory"),
    (
        "memory",
        "memory isn't enough",
        r"Device\(id:(?P<device>\d{1,5})\) memory isn't enough(?: and alloc failed, kernel name: "
        r"(?P<op>[^,\n]{1,200}), alloc size: (?P<bytes>\d{1,18}))?",
    ),
    # codes, wherever they stand
    ("code", "error code", r"error code(?: is|:| \[)? ?:?\[?(?P<code>[1-5]\d{5})\b"),
    ("code", "failed: ", r"\b(?:aclrt|acl|rt)\w{0,80}(?:\([^)\n]{0,200}\))? failed: (?P<code>[125]\d{5})\b"),
    ("code", "runtime result = ", r"runtime result = (?P<code>[1-5]\d{5})\b"),
    ("code", "NPU error code is", r"NPU error code is:(?P<code>[1-5]\d{5})\b"),
    ("code", "507", r"(?<![\w.,:/-])(?P<code>507\d{3})(?![\w.])"),
    ("code", "retcode: ", r"retcode: (?P<code>[1-5]\d{5})\b"),
    # CANN
    (
        "core",
        "The error from device",
        r"The error from device\((?:chipId:(?P<chip>\d{1,5}), dieId:(?P<die>\d{1,3})|(?P<chip2>\d{1,5}))\), serial "
        r"number is (?P<serial>\d{1,10}), there is (?:an? )?(?P<what>[\w +-]{4,60}?), core ?id ?is (?P<core>\d{1,5}), "
        r"error code = (?P<error_code>\w{1,20})(?:, dump info: pc start: (?P<pc_start>\w{1,20}), "
        r"current: (?P<pc>\w{1,20}))?",
    ),
    (
        "aicpu",
        "during AICPU execution",
        r"device\(chipId:(?P<chip>\d{1,5}), dieId:(?P<die>\d{1,3})\).{0,80}?exception occurred during AICPU execution, "
        r"stream_id:(?P<stream>\d{1,9}), task_id:(?P<task>\d{1,9}), errcode:(?P<aicpu>\d{1,9}), "
        r"msg:(?P<words>[^.\[\n]{1,200})",
    ),
    (
        "words",
        "errcode:(",
        r"errcode:\((?P<errcode>[^)\n]{0,60})\),? (?:errorStr: )?(?P<words>[A-Za-z][^\n\[]{3,300}?)"
        r"(?=\.? (?:fixp_error\d|subErrType)|\.?\[FUNC|\.?$|\. [A-Z])",
    ),
    (
        "kernel",
        "kernel execute failed, device_id",
        r"(?P<unit>Aicore|AICORE|Aicpu|Aivec) kernel execute failed, device_id=(?P<device>\d{1,5}), "
        r"stream_id=(?P<stream>\d{1,9}),\s?(?:report_stream_id=\d{1,9}, )?task_id=(?P<task>\d{1,9})",
    ),
    ("kernel", "fault kernel_name=", r"fault kernel_name=\[?(?P<kernel>[^\],\s\[]{1,300})"),
    ("kernel", "fault op_name=", r"fault op_name=(?P<op>[\w/.-]{1,300})"),
    ("kernel", "node_name:", r"\[AIC_INFO\] node_name:(?P<op>[\w/.-]{1,300}), node_type:(?P<optype>\w{1,100})"),
    (
        "reason",
        "failed, reason=",
        r"(?P<api>rt[A-Z]\w{1,60}) execut(?:e|ion) failed, reason=\[?(?P<reason>[^\]\[\n]{3,120})",
    ),
    (
        "driver",
        "[drv api]",
        r"\[drv api\] (?P<driver_call>\w{1,60}) failed[.,:]? ?(?:(?:drv )?dev(?:ice)?_?[iI]d=(?P<device>\d{1,5}), ?)?"
        r"(?:[^\n\[]{0,60}?drvRetCode=(?P<driver>\d{1,5}))?",
    ),
    ("setup", "Failed to open device", r"Failed to open device, retCode=\w+, deviceId=(?P<device>\d{1,5})"),
    (
        "setup",
        "runtime initialization failed",
        r"kernel runtime initialization failed(?:, device id: (?P<device>\d{1,5}))?",
    ),
    ("reason", "Kernel task happen error", r"Kernel task happen error, retCode=\w+, \[(?P<reason>[^\]\n]{3,80})\]"),
    ("setup", "tsd client wait", r"tsd client wait response fail(?P<tsd>)"),
    ("hardware", "lost heartbeat", r"(?P<words>Device ?\[(?P<device>\d{1,5})\] lost heartbeat)"),
    ("hardware", "ECC", r"(?P<words>(?:HBM|DDR|hbm)[^\n\[]{0,60}(?:ECC|ecc) (?:error|ERROR)[^\n\[]{0,60})"),
    (
        "titled",
        "): ",
        rf"\[PID: ?(?P<pid>\d{{1,10}})\] {_DATE} (?P<title>[A-Z][\w/]{{3,80}})\((?P<block>E[0-9A-Z]\d{{4}})\): "
        r"(?P<text>[^\n\[]{3,400})",
    ),
    (
        "block",
        ": ",
        r"(?<![\w.])(?P<block>E[0-9A-Z]\d{4})(?:\[PID: ?(?P<pid>\d{1,10})\] \S{10,40} \(E[0-9A-Z]\d{4}\))?: {1,3}"
        rf"(?:\[PID: ?(?P<pid2>\d{{1,10}})\] )?(?:{_DATE} {{1,3}})?(?P<text>(?!\[PID)[\[A-Za-z][^\n]{{3,600}})",
    ),
    (
        "logged",
        "[ERROR] ",
        r"\[ERROR\] (?P<module>(?!AICPU|CCECPU)[A-Z_]{2,12})\(\d{1,10},[^)\n]{0,100}\): ?"
        rf"{_DATE} ?\[[^\]\n]{{1,200}}\] ?(?:\[?\d{{1,10}}\]?)?(?P<first_error>[^\n]{{3,400}})",
    ),
    # HCCL
    (
        "notify",
        "hccl fftsplus task timeout",
        r"device\(chipId:(?P<chip>\d{1,5}), dieId:(?P<die>\d{1,3})\).{0,60}hccl fftsplus task timeout occurred during "
        r"task execution, stream_id:(?P<stream>\d{1,9}),.{0,40}? task_id:(?P<task>\d{1,9}), stuck notify "
        r"num:(?P<notifies>\d{1,9}), timeout:(?P<waited>[^.\[\n]{1,40})",
    ),
    ("notify", "Notify register", r"Notify record from remote rank:? ?\[(?P<remote>[^\]\n]{0,40})"),
    ("tag", "tag[", r"\btag\[(?P<tag>[^\]\n]{1,200})\]"),
    ("group", "rankSize[", r"rankSize\[(?P<size>\d{1,7})\], ?rankId\[(?P<member>\d{1,7})\]"),
    ("group", "group:[", r"\bgroup: ?\[(?:group:\[)?(?P<group>[^\]\n]{1,200})\]"),
    (
        "lost",
        "Cluster Exception Location",
        r"Cluster Exception Location\[IP/ID\]:\[(?P<lost>[^\]\n]{1,80})\], Arrival Time:\[(?P<lost_at>[^\]\n]{1,60})"
        r"\], Discoverer:\[(?P<finder>[^\]\n]{1,80})\], ExceptionType:\[(?P<lost_how>[^\]\n]{1,80})\]",
    ),
    (
        "lost",
        "Heartbeat Lost",
        r"serverId\[(?P<server>[^\]\n]{1,80})\], deviceId\[(?P<lost>\d{1,5})\], (?P<lost_how>Heartbeat Lost)",
    ),
    ("socket", "Getting socket times out", r"Getting socket times out\. Reason: (?P<socket>[^\n]{3,200}?)(?:$|\. )"),
    (
        "socket",
        "socket establish timeout",
        r"wait socket establish timeout, role\[(?P<role>\d)\] rank\[(?P<remote>\d{1,7})\] timeout\[(?P<limit>\d{1,7})",
    ),
    (
        "link",
        "createLink para",
        r"createLink para: ?rank\[(?P<member>\d{1,7})\].{0,300}?dst_rank\[(?P<remote>\d{1,7})\]",
    ),
    (
        "port",
        "specific port[",
        r"listen on ip\[(?P<address>[^\]\n]{1,80})\] and specific port\[(?P<port>\d{1,5})\] fail",
    ),
    # MindSpore
    ("mindspore", "Launch kernel failed", rf"Launch kernel failed(?:, name| kernel)?: ?(?P<op>{_NAME})"),
    ("mindspore", "Call ascend api", r"Call ascend api <(?P<api>\w{1,80})> in <(?P<inside>\w{1,80})>"),
    (
        "mindspore",
        "Task fail infos",
        r"Task fail infos task_id: (?P<task>\d{1,9}), stream_id: (?P<stream>\d{1,9}), tid: \d{1,19}, "
        r"device_id: (?P<device>\d{1,5})",
    ),
    ("mindspore", "Dump node (", r"Dump node \((?P<op>[^)\n]{1,300})\) task error"),
    ("mindspore", "Run task for graph", r"Run task for graph: ?(?P<graph>\w{1,100}) error"),
    ("mindspore", "Ascend error occurred", r"Ascend error occurred(?P<occurred>)"),
)

WEAK: Final = frozenset({"code", "tag", "group", "says"})
"""Kinds of facts that begin no report: such words stand in lines of anybody."""

_KEYWORDS: Final = tuple(dict.fromkeys(keyword for _, keyword, _ in _SHAPES))


@cache
def _with(keyword: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((kind, re.compile(shape)) for kind, key, shape in _SHAPES if key == keyword)


def facts(line: str) -> list[Fact]:
    """All that a line says, in the order of the table's keywords in it."""
    found = []
    for keyword in (key for key in _KEYWORDS if key in line):
        for kind, shape in _with(keyword):
            match = shape.search(line)
            if match is not None:
                fields = {
                    name.rstrip("0123456789"): text for name, text in match.groupdict().items() if text is not None
                }
                found.append(Fact(kind, fields))
    return found
