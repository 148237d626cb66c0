"""Parse GPU faults in the output of the driver, device code and cuda-gdb: asserts, core dumps, exceptions, its log.

Sources: the assert of CUDA's device code (crt/common_functions.h prints
`FILE:LINE: FUNCTION: block: [x,y,z], thread: [x,y,z] Assertion `TEXT` failed.`); PyTorch
c10/cuda/CUDADeviceAssertionHost.cpp (`GPU assertion failure message = …`); the driver's progress of a GPU core dump
(CUDA_COREDUMP_SHOW_PROGRESS, `[06:43:15.209195] coredump: …`) and cuda-gdb's words, both from the cuda-gdb manual.
CUDA exceptions (CUDA_EXCEPTION_N): cuda-gdb manual, "GPU Error Reporting"; gdb/cuda/cuda-exceptions.c in cuda-gdb's
source. Exceptions of old versions have numbers of their own.

The driver's error log (CUDA 12.9 and later, environment variable CUDA_LOG_FILE): CUDA C++ Programming Guide, "Error Log
Management": `[TIME][THREAD][CUDA][LEVEL] MESSAGE`; the guides of 13.0 and 13.1 have the function in a fifth bracket.
The cause is in a line of its own, before `Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuLaunchKernel` of the same
thread.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, Final, NamedTuple

from livedbg.adapters.cuda.statement import DEVICE, Point, Statement, by_name, by_number, kernel_name, place_of
from livedbg.model import Frame, Severity
from livedbg.text.demangling import demangled_symbol
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

_MOST: Final = 1 << 16
_LONGEST_LINE: Final = 4_096  # characters of a line; in a longer one a failed search takes too long
_NUMBERED: Final = lazy_re(r"CUDA_EXCEPTION_(\d{1,18})")
_NAMED: Final = lazy_re(r"(?:^CUDA Exception: |received signal CUDA_EXCEPTION_\d{1,18}, )([^\n]+?)\.?$", re.MULTILINE)
_ASSERTED: Final = lazy_re(r"^Assertion failed\.$", re.MULTILINE)
_ORIGIN: Final = lazy_re(
    r"The exception was triggered at PC (0x[0-9a-f]{1,16})(?:  ([^\n(][^\n]{0,2000}?))?"
    r"(?:\s{1,100}\(([^():\n]{1,2000}):(\d{1,18})[^\n]{0,2000}\))?$",
    re.MULTILINE,
)


MEMCHECK: Final = (
    "livedbg launch --recipe compute-sanitizer=memcheck -- COMMAND   (names the access and the allocation beside it)"
)
_STACK: Final = "look for deep recursion and large local arrays; cudaDeviceSetLimit(cudaLimitStackSize) gives more"
_CODE: Final = "look for overwritten function pointers, and for a driver that is older than the toolkit"
_BARRIER: Final = "compare arrivals and expected bytes at each mbarrier with what it was initialised to"
_CLUSTER: Final = "check the ranks given to map_shared_rank(), and that no block of the cluster ends early"


class Fault(NamedTuple):
    """Meaning of a device exception: N of CUDA_EXCEPTION_N, or None for an unknown name."""

    code: int | None
    meaning: str
    remedy: str


FAULTS: Final[Mapping[str, Fault]] = {
    "Device Unknown Exception": Fault(0, "The device reports an error without saying which.", MEMCHECK),
    "Lane Illegal Address": Fault(1, "A thread accessed an illegal global address.", MEMCHECK),
    "Lane User Stack Overflow": Fault(2, "A thread used more stack than it has.", _STACK),
    "Device Hardware Stack Overflow": Fault(3, "The device's own call stack overflowed.", _STACK),
    "Warp Illegal Instruction": Fault(4, "A thread executed an illegal instruction.", _CODE),
    "Warp Out of range Address": Fault(5, "A thread accessed local or shared memory outside of its range.", MEMCHECK),
    "Warp Misaligned Address": Fault(6, "A thread accessed an address that is not aligned for its size.", MEMCHECK),
    "Warp Invalid Address Space": Fault(7, "A thread accessed a memory space that its instruction may not.", MEMCHECK),
    "Warp Invalid PC": Fault(8, "A thread jumped to where no code can be.", _CODE),
    "Warp Hardware Stack Overflow": Fault(9, "A thread overflowed the hardware's call stack.", _STACK),
    "Device Illegal Address": Fault(10, "A thread accessed an illegal global address.", MEMCHECK),
    "Lane Misaligned Address": Fault(11, "A thread accessed an address that is not aligned for its size.", MEMCHECK),
    "Warp Assert": Fault(12, "A device-side assert failed.", "standard error has the assertion, its file and line"),
    "Lane Syscall Error": Fault(
        13, "A call of the device runtime (malloc, free, a launch) failed in a thread.", MEMCHECK
    ),
    "Warp Illegal Address": Fault(14, "A thread accessed an illegal global, local or shared address.", MEMCHECK),
    "Invalid Managed Memory Access": Fault(
        15,
        "The host touched managed memory that the device was using.",
        "call cudaDeviceSynchronize() before the host touches it",
    ),
    "Cluster target block not present": Fault(17, "A block accessed a block that is not in its cluster.", _CLUSTER),
    "Cluster out of range address": Fault(
        18, "A block accessed shared memory of its cluster outside of its range.", _CLUSTER
    ),
    "Warp Stack Canary": Fault(
        19, "Something wrote over the end of a local array: the stack canary has changed.", MEMCHECK
    ),
    "Warp Tensor Memory Access Check": Fault(20, "An access to tensor memory failed its check.", MEMCHECK),
    "Warp Tensor Memory Leak": Fault(
        21, "A kernel ended with tensor memory that it had not freed.", "pair each tcgen05.alloc with a tcgen05.dealloc"
    ),
    "Warp Call Requires Newer Driver": Fault(
        22, "The code needs a newer driver.", "update the driver, or build with an older toolkit"
    ),
    "Warp Misaligned PC": Fault(23, "A thread jumped to an address where no instruction begins.", _CODE),
    "Warp PC Overflow": Fault(24, "A thread ran beyond the address space.", _CODE),
    "Warp Misaligned Register": Fault(25, "An instruction used a register pair that is not aligned.", _CODE),
    "Warp Illegal Instruction Encoding": Fault(26, "A thread executed something that is no instruction.", _CODE),
    "Warp Illegal Instruction Parameter": Fault(27, "An instruction had an illegal parameter.", _CODE),
    "Warp Out of range Register": Fault(28, "An instruction used a register that the kernel doesn't have.", _CODE),
    "Warp Illegal Constant Address Access": Fault(29, "A thread accessed an illegal constant address.", MEMCHECK),
    "Warp MMU Fault": Fault(
        30, "The memory unit refused an access: the page is not mapped, or not for that.", MEMCHECK
    ),
    "Warp Barrier Arrival Mismatch": Fault(
        31, "An mbarrier got more arrivals than it expects, or is locked.", _BARRIER
    ),
    "Warp Shared Memory Issue": Fault(
        32, "An access within the cluster hit an error that can't be corrected.", "nvidia-smi -q -d ECC"
    ),
    "Warp API Stack Error": Fault(33, "A thread exceeded the stack of the device runtime.", _STACK),
    "Warp Block Not Present": Fault(34, "A block was needed (by its cluster, at a barrier) that is gone.", _CLUSTER),
    "Warp User Stack Overflow": Fault(35, "A thread used more stack than it has.", _STACK),
}
"""The debugger's name -> what it means."""

_BY_NAME: Final = {name.lower(): fault for name, fault in FAULTS.items()}
_UNKNOWN: Final = Fault(None, "The device reports an error that livedbg doesn't know.", MEMCHECK)


class Announced(NamedTuple):
    """An exception announced by the debugger, with the instruction's address if the device reports it."""

    name: str
    address: int | None
    function: str
    file: str | None
    line: int | None


def fault_named(name: str) -> Fault:
    """Return the meaning of an exception, by the debugger's name or by `CUDA_EXCEPTION_N`."""
    signal = _NUMBERED.search(name)
    if signal is not None:
        code = int(signal[1])
        return next((fault for fault in FAULTS.values() if fault.code == code), _UNKNOWN._replace(code=code))
    return _BY_NAME.get(name.strip().lower(), _UNKNOWN)


def title_of(name: str, fault: Fault) -> str:
    """Return `CUDA exception 14, Warp Illegal Address`."""
    return f"CUDA exception{f' {fault.code}' if fault.code is not None else ''}, {name}"


def announced_exception(text: str) -> Announced | None:
    """Return the exception that the debugger announces when it opens a core dump or attaches, or None."""
    text = "\n".join(line[:_LONGEST_LINE] for line in text[:_MOST].split("\n"))
    named = _NAMED.search(text)
    name = clean_line(named[1], 100) if named else "Warp Assert" if _ASSERTED.search(text) else ""
    if not name:
        return None
    origin = _ORIGIN.search(text)
    if origin is None:
        return Announced(name, None, "", None, None)
    file, line = origin[3], origin[4]
    function = clean_line(origin[2] or "", 500).strip()
    return Announced(
        name, int(origin[1], 16), function, clean_line(file, 1000) if file else None, int(line) if line else None
    )


_LONGEST: Final = 8_000  # characters of a frame; in a longer line a failed search takes too long
_ASSERT: Final = lazy_re(
    r"(?<![^\s:\[\]])(?P<file>(?:[A-Za-z]:)?[^\s:\[\]]+):(?P<line>\d{1,9}): "
    r"(?:(?:unknown|(?P<function>.{1,2000}?)): )?block: "
    r"\[(?P<block>\d+,\d+,\d+)\], thread: \[(?P<thread>\d+,\d+,\d+)\] Assertion [`'](?P<text>.{0,500})[`'] failed"
)
_TORCH: Final = lazy_re(r"^ {0,100}(?P<name>[\w -]{1,400}?) = (?P<value>.{0,4000})$", re.MULTILINE)
_COREDUMP: Final = lazy_re(r"\bcoredump: +(?P<text>.*)")
_DETECTED: Final = lazy_re(r"Detected an exception of type (?:CUDBG_EXCEPTION_)?(?P<name>\w+) \((?P<number>\d{1,4})\)")
_TITLES: Final = {name.upper().replace(" ", "_"): name for name in FAULTS}  # the driver's name -> cuda-gdb's
_DETAIL: Final = lazy_re(r"- (?P<name>Device|SM|Warp|PC):? ?(?P<value>.*)")
_DUMP_FRAME: Final = lazy_re(r"#\d+\s+0x(?P<address>[0-9a-fA-F]{1,16})\s+(?P<function>\S+)")
_WRITES: Final = lazy_re(r"(?:Writing ELF file to|Generating core dump(?: file)?(?: to)?:?) +(?P<path>\S+)")
_SIGNAL: Final = lazy_re(r"received signal CUDA_EXCEPTION_(?P<number>\d{1,3}), (?P<name>[^.\n]+)")
_EXCEPTION: Final = lazy_re(r"CUDA Exception: (?P<name>.+)")
_FOCUS: Final = lazy_re(
    r"\[(?:Switching|Current) focus (?:set )?to CUDA kernel \d+, grid \d+, block \((?P<block>\d+,\d+,\d+)\), "
    r"thread \((?P<thread>\d+,\d+,\d+)\), device (?P<device>\d+), sm (?P<sm>\d+), "
    r"warp (?P<warp>\d+), lane (?P<lane>\d+)"
)
_TRIGGERED: Final = lazy_re(
    r"The exception was triggered at PC 0x[0-9a-f]{1,16} {1,4}(?P<function>[A-Za-z_].{0,2000}?)?(?<= )\(?"
    r"(?P<file>[\w./+-]{1,400}):(?P<line>\d{1,9})\)?"
)
_STOP_FRAME: Final = lazy_re(
    r"(?:#0 {1,100})?(?:0x(?P<address>[0-9a-fA-F]{1,16}) in )?(?P<function>.{1,4000}?)"
    r"<<<\((?P<grid>[\d,]{1,400})\),\((?P<blockdim>[\d,]{1,400})\)>>>(?: \(.{0,4000}?\))?"
    r"(?: at (?P<file>\S{1,1000}):(?P<line>\d{1,9}))?\s{0,100}$"
)


def _point(text: str) -> Point:
    x, y, z = (int(word[:12]) for word in text.split(","))
    return x, y, z


def device_assert(line: str) -> Statement | None:
    """Return a failed assert of device code, or None."""
    match = _ASSERT.search(line)
    if match is None:
        return None
    where = place_of(match["file"].replace("\\", "/"), match["line"])
    function = match["function"] or ""
    return Statement(
        "device-assert",
        f"Assertion `{match['text']}` failed on the GPU",
        Severity.CRITICAL,
        key=(where, function),
        kernel=kernel_name(function) if function else "",
        block=_point(match["block"]),
        thread=_point(match["thread"]),
        where=where,
        frames=(Frame(function=function or "?", file=match["file"], line=int(match["line"]), module=DEVICE),),
        hit="device-side assert",
        attributes={"assertion": match["text"]},
    )


def torch_asserts(text: str) -> list[Statement]:
    """Return the asserts that PyTorch lists when built with TORCH_USE_CUDA_DSA."""
    found = []
    for part in text.split("Assertion failure ")[1:]:
        fields = {match["name"].strip(): match["value"] for match in _TORCH.finditer(part)}
        message = fields.get("GPU assertion failure message")
        if message is None:
            continue
        file, _, line = fields.get("File containing assertion", "").rpartition(":")
        launch = fields.get("File containing kernel launch", "")
        launched = (
            f"{fields.get('Function containing kernel launch', '?')} at {launch.rpartition('/')[2]}" if launch else ""
        )
        statement = Statement(
            "device-assert",
            f"Assertion `{message}` failed on the GPU",
            Severity.CRITICAL,
            kernel=fields.get("Name of kernel launched that led to failure", "")
            or fields.get("Device function containing assertion", ""),
            where=place_of(file, line) if file else "",
            host=launched,
            hit="device-side assert",
            attributes={"assertion": message},
        )
        for name, words in (("block", "Block ID that failed assertion"), ("thread", "Thread ID that failed assertion")):
            point = fields.get(words, "").strip("[]")
            if re.fullmatch(r"\d+,\d+,\d+", point):
                setattr(statement, name, _point(point))
        statement.key = (statement.where, statement.kernel)
        found.append(statement)
    return found


class DeviceException:
    """A device exception spread over several consecutive lines."""

    def __init__(self) -> None:
        self._open: Statement | None = None

    @property
    def opened(self) -> bool:
        """Return whether an exception has begun and not ended."""
        return self._open is not None

    def end(self) -> list[Statement]:
        """End and return the open exception."""
        done, self._open = self._open, None
        if done is None:
            return []
        done.key = (done.kernel, done.where or done.attributes.get("device", ""))
        return [done]


class CoreDump(DeviceException):
    """The driver's output while it writes a GPU core dump, line by line."""

    def line(self, line: str) -> list[Statement]:
        """Process a line; return completed statements."""
        match = _COREDUMP.search(line)
        text = match["text"].strip() if match is not None else line.strip()
        detected = _DETECTED.search(text)
        if detected is not None:
            done = self.end()
            name = _TITLES.get(detected["name"], detected["name"])
            self._open = Statement("device-exception", name, Severity.CRITICAL, hit=name)
            self._open.attributes = {"number": detected["number"]}
            return done
        writes = _WRITES.search(text)
        if writes is not None:
            path = clean_line(writes["path"], 1000)
            notice = Statement("coredump", f"A GPU core dump is written to {path}", Severity.WARNING, key=(path,))
            notice.attributes = {"file": path}
            return [*self.end(), notice]
        if self._open is not None:
            self._more(self._open, text)
        return []

    def _more(self, statement: Statement, text: str) -> None:
        detail, frame = _DETAIL.match(text), _DUMP_FRAME.match(text)
        if detail is not None:
            statement.attributes[detail["name"].lower()] = detail["value"].strip(" :")
        elif frame is not None and len(statement.frames) < 100:
            function = demangled_symbol(frame["function"])
            statement.frames = (*statement.frames, Frame(function, module=DEVICE, address=int(frame["address"], 16)))
            statement.kernel = kernel_name(function)  # the outermost one is the kernel


class DeviceStops(DeviceException):
    """cuda-gdb's output when it stops at a device exception, line by line."""

    def line(self, line: str) -> list[Statement]:
        """Process a line; return completed statements."""
        signal, exception = _SIGNAL.search(line), _EXCEPTION.search(line)
        if exception is not None or signal is not None:
            name = (exception or signal or {"name": ""})["name"].strip(" .")
            done = []
            if self._open is None or self._open.what != name:
                done = self.end()
                self._open = Statement("device-exception", name, Severity.CRITICAL, hit=name)
            if signal is not None:
                self._open.attributes["number"] = signal["number"]
            return done
        if self._open is None:
            return []
        focus, frame = _FOCUS.search(line), _STOP_FRAME.match(line) if len(line) <= _LONGEST else None
        triggered = _TRIGGERED.match(line[:_LONGEST])
        if triggered is not None:
            self._open.where = place_of(triggered["file"], triggered["line"])
            self._open.kernel = kernel_name((triggered["function"] or "").strip())
        elif focus is not None:
            self._open.block, self._open.thread = _point(focus["block"]), _point(focus["thread"])
            self._open.attributes.update({name: focus[name] for name in ("device", "sm", "warp", "lane")})
        elif frame is not None:
            # that of the counter first: the frame's may be inlined into it
            self._open.kernel = self._open.kernel or kernel_name(frame["function"].strip())
            self._open.attributes.update({"grid": frame["grid"], "block_size": frame["blockdim"]})
            if frame["file"]:
                self._open.where = place_of(frame["file"], frame["line"])
            address = int(frame["address"], 16) if frame["address"] else None
            where = int(frame["line"]) if frame["line"] else None
            if frame["function"].strip():  # else the debugger wrapped the line before its dimensions
                self._open.frames = (Frame(frame["function"], frame["file"], where, DEVICE, address=address),)
            return self.end()
        return []


_DRIVER_LINE: Final = lazy_re(
    r"\[[\d:.]+\]\[(?P<thread>\d{1,20})\]\[CUDA\]\[(?P<level>[A-Z])\](?:\[(?P<function>\w+)\])? ?(?P<text>.*)"
)
_RETURNING: Final = lazy_re(r"Returning (?P<number>\d{1,9}) \((?P<name>\w+)\) from (?P<call>\w+)")
_NUMBERS: Final = lazy_re(r"0x[0-9a-fA-F]+|\d+")
_THREADS: Final = 1_000  # whose last words are kept


class DriverLog:
    """The lines of one driver log, in order."""

    opened: ClassVar[bool] = False  # what is open has no place of its own

    def __init__(self) -> None:
        self._said: dict[str, str] = {}  # by thread: what is wrong, before the call returns

    def line(self, line: str) -> list[Statement]:
        """Process a line; return completed statements."""
        match = _DRIVER_LINE.search(line)
        if match is None or match["level"] not in "EW":
            return []
        thread, text = match["thread"], match["text"].strip()
        returning = _RETURNING.match(text)
        if returning is None:
            if match["function"]:
                return [_error(None, "", match["function"], text)]
            done = self._of_thread(thread)
            if len(self._said) < _THREADS:
                self._said[thread] = text
            return done
        said = self._said.pop(thread, "")
        return [_error(int(returning["number"]), returning["name"], returning["call"], said)]

    def end(self) -> list[Statement]:
        """Return causes without a following return line."""
        return [statement for thread in tuple(self._said) for statement in self._of_thread(thread)]

    def _of_thread(self, thread: str) -> list[Statement]:
        said = self._said.pop(thread, "")
        return [_error(None, "", "", said)] if said else []


def _error(number: int | None, name: str, call: str, said: str) -> Statement:
    code = (by_number(number) if number is not None else None) or by_name(name)
    words = code.text if code is not None else name
    returned = (
        f"{call} returned {name} ({number}, {words})"
        if name
        else f"The driver has a complaint{f' about {call}' if call else ''}"
    )
    attributes = {
        "error": code.name if code is not None else name,
        "number": str(number) if number is not None else "",
        "call": call,
        "said": said[:1_000],
        "text": words,
        "sticky": code is not None and code.sticky,
        "of_kernel": code is not None and code.of_kernel,
    }
    severity = Severity.ERROR if name else Severity.WARNING
    return Statement(
        "api-error",
        returned,
        severity,
        key=(_NUMBERS.sub("#", said),),
        attributes={key: value for key, value in attributes.items() if value},
    )
