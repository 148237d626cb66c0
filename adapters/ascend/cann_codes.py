"""The return codes of CANN's runtime: what each means, and whether it is a cause or only masks one.

Source: CANN's acl/error_codes/rt_error_codes.h (8.5), for the names; simpler docs/troubleshooting/device-error-codes.md
and torch_npu's words for them, for what they hide. Codes of acl itself and of graph engines (100xxx, 145xxx, 500xxx,
561xxx) are known by their ranges only.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

__all__ = ["KNOWN", "CannCode", "Group"]


class Group(StrEnum):
    """What kind of thing a code reports."""

    HARDWARE = "hardware"  # memory, links or the chip itself
    FAULT = "fault"  # a kernel did something that the device refuses
    MEMORY = "memory"  # none left
    SETUP = "setup"  # the device could not be opened
    TIMEOUT = "timeout"  # something took longer than its limit
    USAGE = "usage"  # a call was wrong
    RESOURCE = "resource"  # streams, events, notifies used up
    MASK = "mask"  # only that something failed


class CannCode(Struct, frozen=True):
    """One return code of CANN's runtime.

    Attributes:
        meaning: half a sentence, what it says.
        mask: it only says that something failed: the cause is written elsewhere.
        advice: what to do about it; "" for a mask (`cann.device_log` says where to look).
    """

    number: int
    name: str
    meaning: str
    mask: bool = True
    advice: str = ""
    group: Group = Group.MASK


_MEMORY: Final = "use less memory on the device, or look (npu-smi info) who else holds memory there"
_KERNEL: Final = "find the kernel that failed in the device log (instruction error, errcode, fault kernel_name)"
_HARDWARE: Final = "npu-smi info -t ecc -i DEVICE; npu-smi info -t health -i DEVICE   (errors of the hardware)"
_DEVICE: Final = "compare the device's number with ASCEND_RT_VISIBLE_DEVICES and npu-smi info; who else uses it?"
_CALL: Final = "check the arguments of the call that failed"

_USAGE: Final = (
    (107000, "PARAM_INVALID", "a parameter of the call is invalid"),
    (107001, "INVALID_DEVICEID", "there is no device of that number"),
    (107002, "CONTEXT_NULL", "the thread has no context (no device was set)"),
    (107003, "STREAM_CONTEXT", "the stream is not of the current context"),
    (107004, "MODEL_CONTEXT", "the model is not of the current context"),
    (107005, "STREAM_MODEL", "the stream is not of the model"),
    (107006, "EVENT_TIMESTAMP_INVALID", "an event has no valid time stamp"),
    (107007, "EVENT_TIMESTAMP_REVERSAL", "time stamps of events are in the wrong order"),
    (107008, "ADDR_UNALIGNED", "a memory address is not aligned"),
    (107009, "FILE_OPEN", "a file could not be opened"),
    (107010, "FILE_WRITE", "a file could not be written"),
    (107011, "STREAM_SUBSCRIBE", "a stream could not be subscribed to"),
    (107012, "THREAD_SUBSCRIBE", "a thread could not be subscribed"),
    (107013, "GROUP_NOT_SET", "no group is set"),
    (107014, "GROUP_NOT_CREATE", "the group was not created"),
    (107015, "STREAM_NO_CB_REG", "no callback is registered for the stream"),
    (107016, "INVALID_MEMORY_TYPE", "the type of memory is invalid"),
    (107017, "INVALID_HANDLE", "a handle is invalid"),
    (107018, "INVALID_MALLOC_TYPE", "the type of allocation is invalid"),
    (107021, "SYSPARAMOPT_NOT_SET", "a system parameter is not set"),
    (107024, "CAPTURE_DEPENDENCY", "a captured graph has a dependency that it may not have"),
    (107025, "STREAM_UNJOINED", "a stream was not joined before the capture of a graph ended"),
    (107026, "MODEL_CAPTURED", "the graph is being captured"),
    (107027, "STREAM_CAPTURED", "the stream is being captured"),
    (107028, "EVENT_CAPTURED", "the event is being captured"),
    (107029, "STREAM_NOT_CAPTURED", "the stream is not being captured"),
    (107030, "CAPTURE_MODE_NOT_SUPPORT", "a call was made that the capture of a graph does not allow"),
    (107031, "STREAM_CAPTURE_IMPLICIT", "the default stream made a dependency that a captured graph may not have"),
    (107036, "STREAM_CAPTURE_UNMATCHED", "the capture was not begun on this stream"),
    (107037, "MODEL_RUNNING", "the graph is still running"),
    (107038, "STREAM_CAPTURE_WRONG_THREAD", "the capture was begun by another thread"),
    (207000, "FEATURE_NOT_SUPPORT", "this device or driver does not have that feature"),
    (207006, "NO_PERMISSION", "the process may not use the device"),
    (207012, "OVER_LIMIT", "a limit of the runtime is exceeded"),
    (207015, "REPEATED_INIT", "it was initialised twice"),
    (207019, "FEATURE_NOT_SUPPORT_UPDATE_OP", "this operator can't be updated in a captured graph"),
    (507008, "SOC_VERSION", "the program was built for another chip (soc version)"),
    (507009, "TASK_TYPE_NOT_SUPPORT", "the device does not know that kind of task"),
    (507027, "KERNEL_LOOKUP", "the kernel is not in the loaded binary"),
    (507028, "KERNEL_DUPLICATE", "the kernel is registered twice"),
    (507031, "LABEL_CONTEXT", "a label is not of the current context"),
    (507032, "PROGRAM_USE_OUT", "too many programs are registered"),
    (507038, "DIE_MODE_CHANGE_ERROR", "the mode of the dies can't be changed"),
    (507039, "DIE_SET_ERROR", "a die can't be set in this mode"),
    (507040, "INVALID_DIEID", "there is no die of that number"),
    (507041, "DIE_MODE_NOT_SET", "the mode of the dies is not set"),
    (507903, "STREAM_CAPTURE_INVALIDATED", "the capture of a graph was ended by an earlier error"),
)
_RESOURCE: Final = (
    (207005, "RESOURCE_ALLOC_FAIL", "a resource of the device could not be had"),
    (207007, "NO_EVENT_RESOURCE", "no events are left on the device"),
    (207008, "NO_STREAM_RESOURCE", "no streams are left on the device"),
    (207009, "NO_NOTIFY_RESOURCE", "no notifies are left on the device"),
    (207010, "NO_MODEL_RESOURCE", "no models (captured graphs) are left on the device"),
    (207011, "NO_CDQ_RESOURCE", "no command queues are left on the device"),
    (207013, "QUEUE_EMPTY", "a queue is empty"),
    (207014, "QUEUE_FULL", "a queue is full"),
    (507002, "STREAM_TASK_FULL", "the stream holds as many tasks as it can"),
)
_MEMORY_CODES: Final = (
    (207001, "MEMORY_ALLOCATION", "memory on the device could not be had"),
    (207018, "DEVICE_OOM", "a task on the device ran out of memory"),
)
_SETUP: Final = (
    (207004, "NO_DEVICE", "there is no usable device"),
    (507033, "DEV_SETUP_ERROR", "the device could not be started for this process"),
)
_TIMEOUTS: Final = (
    (107019, "WAIT_TIMEOUT", "a wait ran out of time"),
    (107020, "TASK_TIMEOUT", "a task ran out of time"),
    (507012, "REPORT_TIMEOUT", "the device did not report in time"),
    (507014, "AICORE_TIMEOUT", "a kernel on an AI core ran longer than its limit"),
    (507017, "AICPU_TIMEOUT", "the AICPU's task ran longer than its limit"),
    (507034, "VECTOR_CORE_TIMEOUT", "a kernel on a vector core ran longer than its limit"),
    (507046, "STREAM_SYNC_TIMEOUT", "the host waited for the device and had no answer in time"),
    (507047, "EVENT_SYNC_TIMEOUT", "the host waited for an event, which did not come in time"),
    (507048, "FFTS_PLUS_TIMEOUT", "a task of the device, mostly a wait of a collective operation, ran out of time"),
)
_FAULTS: Final = (
    (207003, "AICORE_OVER_FLOW", "a result on an AI core overflowed"),
    (207016, "AIVEC_OVER_FLOW", "a result on a vector core overflowed"),
    (207017, "OVER_FLOW", "a result overflowed"),
    (507015, "AICORE_EXCEPTION", "a kernel on an AI core failed"),
    (507016, "AICORE_TRAP_EXCEPTION", "a kernel on an AI core trapped (an assertion, or an illegal access)"),
    (507035, "VECTOR_CORE_EXCEPTION", "a kernel on a vector core failed"),
    (507036, "VECTOR_CORE_TRAP_EXCEPTION", "a kernel on a vector core trapped (an assertion, or an illegal access)"),
    (507042, "AICORE_TRAP_READ_OVERFLOW", "a kernel on an AI core read beyond its memory"),
    (507043, "AICORE_TRAP_WRITE_OVERFLOW", "a kernel on an AI core wrote beyond its memory"),
    (507044, "VECTOR_CORE_TRAP_READ_OVERFLOW", "a kernel on a vector core read beyond its memory"),
    (507045, "VECTOR_CORE_TRAP_WRITE_OVERFLOW", "a kernel on a vector core wrote beyond its memory"),
    (507049, "FFTS_PLUS_EXCEPTION", "a task of the device failed"),
    (507050, "FFTS_PLUS_TRAP_EXCEPTION", "a task of the device trapped"),
)
_HARDWARE_CODES: Final = (
    (507053, "DEVICE_MEM_ERROR", "the device's memory has an error"),
    (507054, "HBM_MULTI_BIT_ECC_ERROR", "the device's memory has an error of several bits (HBM ECC)"),
    (507055, "SUSPECT_DEVICE_MEM_ERROR", "the device's memory probably has an error"),
    (507056, "LINK_ERROR", "a link between devices failed"),
    (507010, "LOST_HEARTBEAT", "the device's task scheduler does not answer any more"),
)
_MASKS: Final = (
    (107022, "DEVICE_TASK_ABORT", "the task was aborted, mostly because another one failed first"),
    (107023, "STREAM_ABORT", "the stream was aborted, mostly because a task failed first"),
    (107035, "TASK_ABORT_STOP", "the task was stopped by an abort of the device"),
    (207002, "MEMORY_FREE", "memory could not be freed"),
    (507000, "INTERNAL_ERROR", "an internal error; on a5 an AICPU time-out comes as this"),
    (507001, "TS_ERROR", "the device's task scheduler reported an error"),
    (507003, "STREAM_TASK_EMPTY", "the stream holds no task"),
    (507004, "STREAM_NOT_COMPLETE", "the stream has not completed"),
    (507005, "END_OF_SEQUENCE", "the data queue has ended"),
    (507006, "EVENT_NOT_COMPLETE", "the event has not completed"),
    (507007, "CONTEXT_RELEASE_ERROR", "the context could not be released"),
    (507011, "MODEL_EXECUTE", "a graph failed: a task in it did"),
    (507013, "SYS_DMA", "a copy by DMA failed"),
    (507018, "AICPU_EXCEPTION", "the AICPU's task failed, for one of several causes"),
    (507019, "AICPU_DATADUMP_RSP_ERR", "the AICPU did not answer a dump"),
    (507020, "AICPU_MODEL_RSP_ERR", "the AICPU did not answer an operation on a graph"),
    (507021, "PROFILING_ERROR", "the profiler failed"),
    (507022, "IPC_ERROR", "sharing memory between processes failed"),
    (507023, "MODEL_ABORT_NORMAL", "the graph was aborted on request"),
    (507024, "KERNEL_UNREGISTERING", "the kernel is being unloaded"),
    (507025, "RINGBUFFER_NOT_INIT", "the ring buffer of errors is not there"),
    (507026, "RINGBUFFER_NO_DATA", "the ring buffer of errors is empty"),
    (507029, "DEBUG_REGISTER_FAIL", "the debug mode could not be switched on"),
    (507030, "DEBUG_UNREGISTER_FAIL", "the debug mode could not be switched off"),
    (507037, "CDQ_BATCH_ABNORMAL", "a command queue is in a wrong state"),
    (507051, "SEND_MSG", "a message to the device could not be sent"),
    (507052, "COPY_DATA", "a copy failed"),
    (507057, "SUSPECT_REMOTE_ERROR", "another device or process probably failed: a copy from it had an error"),
    (507899, "DRV_INTERNAL_ERROR", "the driver refuses every call since an earlier failure on that device"),
    (507900, "AICPU_INTERNAL_ERROR", "an internal error of the AICPU"),
    (507901, "SOCKET_CLOSE", "the connection of host and device was closed (hdc disconnect)"),
    (507902, "AICPU_INFO_LOAD_RSP_ERR", "the AICPU did not answer while it loaded kernels"),
    (507904, "COMM_OP_RETRY_FAIL", "a collective operation failed, and its retry too"),
)


def _codes(rows: tuple[tuple[int, str, str], ...], group: Group, advice: str) -> list[CannCode]:
    mask = group in (Group.MASK, Group.TIMEOUT)
    return [CannCode(number, f"ACL_ERROR_RT_{name}", meaning, mask, advice, group) for number, name, meaning in rows]


KNOWN: Final = {
    code.number: code
    for code in (
        *_codes(_USAGE, Group.USAGE, _CALL),
        *_codes(_RESOURCE, Group.RESOURCE, "find what makes so many of them and does not release them"),
        *_codes(_MEMORY_CODES, Group.MEMORY, _MEMORY),
        *_codes(_SETUP, Group.SETUP, _DEVICE),
        *_codes(_TIMEOUTS, Group.TIMEOUT, ""),
        *_codes(_FAULTS, Group.FAULT, _KERNEL),
        *_codes(_HARDWARE_CODES, Group.HARDWARE, _HARDWARE),
        *_codes(_MASKS, Group.MASK, ""),
    )
}
"""By number."""
