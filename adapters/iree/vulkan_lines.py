"""What Vulkan's validation layer and its drivers print.

Sources: Vulkan-ValidationLayers' message format (`Validation Error: [ VUID-… ] …`, `vkX(): …`, `The Vulkan spec states:
…`), the Vulkan specification's result codes.

Invariants:
    vulkan_lines.V1. A warning of the validation layer, or of its performance checks, is none.
    vulkan_lines.V2. What the layer calls a bug of its own, or says of its own set-up, is no wrong call.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.logs.said import Form, Said
from livedbg.model import CauseClass

__all__ = ["FORMS", "LOST", "RESULT", "VALIDATION"]

VALIDATION: Final = "vulkan-validation"
LOST: Final = "vulkan-device-lost"
RESULT: Final = "vulkan-result"

_VALIDATION = re.compile(
    r"(?:Validation Error: \[ (?P<id>[\w-]{1,200}) \]|\[ERROR\][^\n]{0,60}?(?P<vuid>VUID-[\w-]{1,200}))"
    r"(?P<rest>[^\n]{0,2000})"
    r"(?:\n(?P<next>[^\n]{1,1000}))?"
)
_CALL = re.compile(r"(?P<call>vk[A-Z]\w{1,80})\(\):? ?(?P<what>[^\n]{0,400})")
_RESULT = re.compile(r"\b(?P<name>VK_ERROR_[A-Z_]{1,60})\b")
_FAILS = re.compile(r"fail|error|lost|return|result|exception|abort|crash", re.IGNORECASE)

_HUNG: Final = "dmesg -T | grep -iE 'xid|amdgpu|i915|reset'   (a hang or reset of the GPU at that time)"
_SMALL: Final = "a smaller dispatch: a kernel that runs too long is ended by the driver's watchdog"


_OWN: Final = re.compile(r"most likely a validation bug|Setup Error|UNASSIGNED-VkSemaphore-state-timeout")


def _validation(match: re.Match[str]) -> Said | None:
    name = match["id"] or match["vuid"]
    if _OWN.search(f"{name} {match['rest']}") is not None:
        return None
    text = f"{match['rest']}\n{match['next'] or ''}"
    call = _CALL.search(text)
    what = call["what"].strip(" .")[:120] if call is not None else ""
    who = call["call"] if call is not None else name.split("-")[1] if name.count("-") > 1 else name
    return Said(
        code=VALIDATION,
        key=f"{name} {who}",
        sentence=f"Vulkan's validation: {who} was called wrongly{f': {what}' if what else ''} ({name})",
        cause=CauseClass.PROCESS,
        steps=(f"the rule is {name} of the Vulkan specification",),
        attributes={"vuid": name},
    )


def _result(match: re.Match[str]) -> Said | None:
    name = match["name"]
    begin = match.string.rfind("\n", 0, match.start()) + 1
    end = match.string.find("\n", match.end())
    line = match.string[begin : end if end >= 0 else len(match.string)]
    if _FAILS.search(line.replace(name, "")) is None and line.strip() != name and "VkResult" not in line:
        return None  # a list of codes, or a text about one
    if name == "VK_ERROR_DEVICE_LOST":
        said = "The Vulkan device was lost (VK_ERROR_DEVICE_LOST)"
        return Said(code=LOST, key=name, sentence=said, cause=CauseClass.DEVICE, steps=(_HUNG, _SMALL))
    return Said(code=RESULT, key=name, sentence=f"A Vulkan call returned {name}", cause=CauseClass.PROCESS)


FORMS: Final = (
    Form(("Validation Error: [ ", "[ERROR]"), _VALIDATION, _validation),
    Form(("VK_ERROR_",), _RESULT, _result),
)
