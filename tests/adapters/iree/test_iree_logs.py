"""IREE's status lines and Vulkan's errors in logs; and lines that are none."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.adapters.iree.conftest import tool
from tests.cli.zygote import run_livedbg
from tests.logs.reading import found, verdict

CRASHED = VerdictState.CRASHED
OLD_MODULE: Final = Path(__file__).parents[2] / "fixtures" / "iree" / "net_3_10.vmfb"
VERSION_AT: Final = 118  # in the module's flatbuffer: u32 major << 16 | minor

EXHAUSTED = (
    "iree/runtime/src/iree/hal/drivers/hip/memory_pools.c:236: RESOURCE_EXHAUSTED; HIP driver error "
    "'hipErrorOutOfMemory' "
    "(2): out of memory; while invoking native function hal.device.queue.alloca; while calling import;\n[ 1] bytecode "
    "module.net$async:14710 [\n    model.mlir:192:12,\n    model.mlir:1510:13\n  ]\n[ 0] bytecode module.net:66 "
    "model.mlir:2:3; invoking function 'net'\n"
)
LOST = (
    "/b/iree/runtime/src/iree/hal/drivers/vulkan/direct_command_queue.cc:178: INTERNAL; VkResult=-4; "
    "VK_ERROR_DEVICE_LOST; while invoking native function hal.fence.await; while calling import;\n[1] bytecode "
    "module@1:2030 -\n"
)
VALIDATION = (
    "Validation Error: [ VUID-vkFreeCommandBuffers-pCommandBuffers-00047 ] | MessageID = 0x1ab902fc\n"
    "vkFreeCommandBuffers(): pCommandBuffers[0] (VkCommandBuffer 0x81058ca0a0) is in use.\nThe Vulkan spec states: All "
    "elements of pCommandBuffers must not be in the pending state\nObjects: 2\n    [0] VkCommandBuffer 0x81058ca0a0\n"
)


def test_a_status_in_an_exception_is_one_finding() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/w/run.py", line 7, in main\n    f(x)\nRuntimeError: Error '
        "invoking "
        "function: " + EXHAUSTED
    )
    assert found("crash", text) == []
    assert verdict(text).sentence.endswith(", at main (run.py:7).")


def test_what_the_validation_says_after_a_lost_device_follows_from_it() -> None:
    said = verdict(LOST + VALIDATION)
    assert said.state is CRASHED and "device was lost" in said.sentence
    (one,) = found("vulkan-error", LOST + VALIDATION)
    assert one.state is None and "VUID-vkFreeCommandBuffers" in one.sentence


@pytest.mark.iree
@pytest.mark.parametrize("older", ["compiler", "runtime"])
def test_a_runtime_refuses_a_module_of_another_version_and_what_to_install_is_said(older: str, tmp_path: Path) -> None:
    """`net_3_10.vmfb` is of iree-compile 3.10.0: bytecode 16.0; with another number the module is newer."""
    made = bytearray(OLD_MODULE.read_bytes())
    assert made[VERSION_AT] == 16
    if older == "runtime":
        made[VERSION_AT] = 99
    module = tmp_path / "net.vmfb"
    module.write_bytes(made)
    line = [tool("iree-run-module"), f"--module={module}", "--device=local-sync", "--function=main", "--input=4xf32=1"]
    with (tmp_path / "run.err").open("wb") as errors:
        assert subprocess.run(line, stderr=errors, check=False, timeout=100).returncode
    done = run_livedbg(["report", "--logs", tmp_path / "run.err", "--json"], 100)
    said = json.loads(done.stdout)
    assert said["verdict"]["state"] == "crashed" and "bytecode version mismatch" in said["verdict"]["sentence"]
    steps = " ".join(step for finding in said["findings"] for step in finding["next"])
    assert f"pip install -U iree-base-{older}==" in steps


def test_an_exception_of_python_code_that_a_host_called_is_the_cause() -> None:
    text = (
        "pump/iree_helpers.h:316: UNKNOWN; Unhandled exception: Traceback (most recent call last):\n"
        '  File "/w/pump.py", line 7, in fill\nRuntimeError: no lid\n'
    )
    said = verdict(text)
    assert (said.state, said.sentence) == (VerdictState.CRASHED, "Crashed in fill (pump.py:7): RuntimeError: no lid.")
