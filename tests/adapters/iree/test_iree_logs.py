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

CRASHED, UNKNOWN = VerdictState.CRASHED, VerdictState.UNKNOWN
OLD_MODULE: Final = Path(__file__).parents[2] / "fixtures" / "iree" / "net_3_10.vmfb"
VERSION_AT: Final = 118  # in the module's flatbuffer: u32 major << 16 | minor
STEPS = "".join(f"epoch {n} of 90, loss 0.{n}\n" for n in range(10, 40))

SHARED = (
    "iree/runtime/src/iree/hal/drivers/cuda/native_executable.c:133: INTERNAL; CUDA driver error: Requested shared "
    "memory "
    "size of 819200 larger than allowed size of 166912; while invoking native function hal.executable.create; while "
    "calling import; \n[ 1]   native hal.executable.create:0 -\n[ 0] bytecode module.__init:238 fail.mlir:9:10\n    "
    "  at "
    "fail.mlir:4:3\n"
)
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


@pytest.mark.parametrize(
    ("text", "begins", "names"),
    [
        (
            SHARED,
            "IREE failed with INTERNAL: CUDA driver error: Requested shared memory size of 819200",
            "hal.executable.create",
        ),
        (EXHAUSTED, "IREE failed with RESOURCE_EXHAUSTED: HIP driver error 'hipErrorOutOfMemory'", "model.mlir"),
        (LOST, "IREE failed with INTERNAL: the Vulkan device was lost (VkResult=-4; VK_ERROR_DEVICE_LOST)", "fence"),
    ],
)
def test_a_status_line(text: str, begins: str, names: str) -> None:
    said = verdict(text)
    assert said.state is CRASHED and said.sentence.startswith(begins) and names in said.sentence
    assert verdict(text + STEPS).state is not CRASHED


LOADING = "loading modules and dependencies; creating run context\n"


@pytest.mark.parametrize(
    ("text", "sentence", "step"),
    [
        (
            "<vm>:0: FAILED_PRECONDITION; mismatched size for broadcast; ; invoking function 'main'; `sync func`\n",
            "A check of the program failed with FAILED_PRECONDITION: mismatched size for broadcast.",
            "",
        ),
        (
            '<vm>:0: INCOMPATIBLE; HAL device `__device_0` not found or unavailable: #hal.device.target<"vulkan", '
            '[#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb", {a = "b"}>]>; ; creating run context\n',
            "IREE failed with INCOMPATIBLE: HAL device `__device_0` not found or unavailable: the module is compiled "
            "for vulkan (vulkan-spirv).",
            "compile for that device",
        ),
        (
            f"c/io/file.c:373: NOT_FOUND; failed to open file 'm.vmfb'; loading bytecode module at 'm.vmfb'; {LOADING}",
            "IREE failed with NOT_FOUND: failed to open file 'm.vmfb', loading bytecode module at 'm.vmfb'.",
            "the path is relative",
        ),
        (
            "c/module.c:130: NOT_FOUND; no provider registered that handles scopes like 'model'; while invoking native "
            "function io_parameters.load; while calling import; \n[ 0] bytecode module@2:2524 -; creating context\n",
            "IREE failed with NOT_FOUND: no provider registered that handles scopes like 'model', calling "
            "io_parameters.load in module@2.",
            "--parameters=model=FILE.irpa",
        ),
        (
            "c/vulkan/device.c:441: UNAVAILABLE; [vkCreateInstance] VK_ERROR_INCOMPATIBLE_DRIVER; creating device "
            "'vulkan'; creating run context\n",
            "IREE failed with UNAVAILABLE: [vkCreateInstance] VK_ERROR_INCOMPATIBLE_DRIVER, creating device 'vulkan'.",
            "Vulkan found no driver",
        ),
        (
            "iree-compile: Unknown command line argument '--iree-x'.  Try: '/b/iree-compile --help'\n",
            "iree-compile has no flag --iree-x.",
            "--help-list-hidden",
        ),
        (
            "error opening input file: cannot open input file 'm.mlir': No such file or directory\n",
            "IREE's compiler: cannot open input file 'm.mlir': No such file or directory.",
            "the path is relative",
        ),
        (
            "Unknown CPU for target architecture x86_64.\nList of accepted CPUs: nocona, core2\n",
            "IREE's compiler does not know the processor that it is to compile for (architecture x86_64).",
            "target-cpu=host",
        ),
    ],
)
def test_what_the_programs_of_iree_fail_with(text: str, sentence: str, step: str) -> None:
    """As the wheels 3.13 print it; paths are shortened."""
    said = verdict(text)
    assert (said.state, said.sentence) == (CRASHED, sentence)
    steps = [one for finding in (*found("iree-status", text), *found("iree-tool", text)) for one in finding.next]
    assert any(step in one for one in steps) or not step
    assert "compile for that device" not in " ".join(steps) or step == "compile for that device"


@pytest.mark.invariant("iree_tools.T1")
def test_T1_a_result_that_is_not_expected_is_a_wrong_value_and_one_that_is_none() -> None:
    said = verdict(
        "EXEC @main\n[FAILED] result[0]: element at index 0 (126) does not match the expected (7); expected\n"
    )
    assert said.state is VerdictState.DIVERGED
    assert said.sentence.startswith("Result 0 (counted from 0) is not the expected one: element at index 0 (126)")
    for text in (
        "EXEC @main\n[SUCCESS] all function outputs matched their expected values.\n",
        "'znver9' is not a recognized processor for this target (ignoring processor)\n",
        "List of accepted CPUs: nocona, core2\n",
    ):
        assert found("iree-tool", text) == []


def test_a_status_in_an_exception_is_one_finding() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/w/run.py", line 7, in main\n    f(x)\nRuntimeError: Error '
        "invoking "
        "function: " + EXHAUSTED
    )
    assert found("crash", text) == []
    assert verdict(text).sentence.endswith(", at main (run.py:7).")


@pytest.mark.invariant("iree_status.L1")
@pytest.mark.parametrize(
    "text",
    [
        "status.h:12: the codes are OK; INTERNAL; UNKNOWN\n",
        "INTERNAL; something else\n",
        "iree-run-module: EXEC @main\nresult[0]: hal.buffer_view\n4xf32=1 2 3 4\n",
        "gcs.py:31: INTERNAL error of the bucket\n",
    ],
)
def test_L1_no_status_lines(text: str) -> None:
    assert found("iree-status", text) == []


def test_what_the_validation_says_after_a_lost_device_follows_from_it() -> None:
    said = verdict(LOST + VALIDATION)
    assert said.state is CRASHED and "device was lost" in said.sentence
    (one,) = found("vulkan-error", LOST + VALIDATION)
    assert one.state is None and "VUID-vkFreeCommandBuffers" in one.sentence


def test_a_lost_device_without_iree() -> None:
    said = verdict("terminate: vkQueueSubmit failed: VK_ERROR_DEVICE_LOST\n")
    assert said.state is CRASHED and said.sentence == "The Vulkan device was lost (VK_ERROR_DEVICE_LOST)."


def test_a_validation_error_alone_is_unknown() -> None:
    said = verdict(VALIDATION)
    assert said.state is UNKNOWN and said.sentence.startswith("Vulkan's validation: vkFreeCommandBuffers")
    assert verdict(VALIDATION + STEPS).state is not CRASHED


@pytest.mark.invariant("vulkan_lines.V1")
@pytest.mark.parametrize(
    "text",
    [
        "Validation Performance Warning: [ UNASSIGNED-x ] a barrier is not needed\n",
        "Validation Warning: [ VUID-x-y-1 ] x\n",
        "VK_ERROR_DEVICE_LOST = -4,\n",
        "the app handles VK_ERROR_OUT_OF_DATE_KHR by a new swapchain\n",
    ],
)
def test_V1_warnings_and_lists_of_codes(text: str) -> None:
    assert found("vulkan-error", text) == []


@pytest.mark.invariant("vulkan_lines.V2")
@pytest.mark.parametrize(
    "text",
    [
        "Validation Error: [ UNASSIGNED-VkSemaphore-state-timeout ] Object 0: handle = 0x1, type = VK_OBJECT_TYPE_"
        "SEMAPHORE; | MessageID = 0x57e65a33 | Timeout waiting for timeline semaphore state to update. This is most "
        "likely a validation bug. completed_.payload=0 wait_payload=1\n",
        "Validation Error: [ UNASSIGNED-GPU-Assisted-Validation ] Object 0: handle = 0x1, type = VK_OBJECT_TYPE_"
        "DEVICE; | MessageID = 0xea8d5c05 | Setup Error. Detail: (Failure to instrument shader.)\n",
    ],
)
def test_V2_what_the_layer_says_of_itself_is_no_wrong_call(text: str) -> None:
    assert found("vulkan-error", text) == []


def test_a_module_that_was_compiled_for_another_version() -> None:
    """As `iree-run-module` 3.13.0 printed of a module that iree-compile 3.10.0 had made."""
    said = verdict(
        "c/runtime/src/iree/vm/bytecode/verifier.c:184: INVALID_ARGUMENT; bytecode version mismatch; runtime supports "
        "17.0, module has 16.0; loading bytecode module at 'net.vmfb'; loading modules and dependencies; creating run "
        "context\n"
    )
    assert said.state is CRASHED
    assert said.sentence.startswith(
        "IREE failed with INVALID_ARGUMENT: bytecode version mismatch; runtime supports 17.0"
    )


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
