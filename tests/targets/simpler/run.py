"""Runs a small task graph on the simulator of `simpler`: run.py SCENARIO RUNTIME [ROUNDS]; READY before the first run.

Scenarios: healthy, slow (a kernel of KERNEL_S seconds, or 3), hang (a kernel that never ends), tensor_wait (the
orchestrator reads what that kernel should write), async (a completion that nobody signals), loop (the orchestrator
loops in user code), many (MANY tasks, each with that hung kernel), many_healthy (the same, healthy), crash (a kernel
that dies by a signal), assert (one whose assertion fails). Needs simpler, torch, and its compiler on the PATH.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import ClassVar

import torch
from simpler.task_interface import ArgDirection, CallConfig
from simpler.worker import Worker
from simpler_setup import SceneTestCase, TaskArgsBuilder, TensorArg, scene_test

HERE = Path(__file__).parent
RUNTIMES = {"ringbuffer": "tensormap_and_ringbuffer", "host": "host_build_graph"}
SECOND = {
    "slow": "k_mul_slow3",
    "hang": "k_mul_hang",
    "tensor_wait": "k_mul_hang",
    "async": "k_async_never",
    "many": "k_mul_hang",
    "crash": "k_mul_crash",
    "assert": "k_mul_assert",
}
GRAPH = {"tensor_wait": "tensorwait", "async": "async", "loop": "loop", "many": "many", "many_healthy": "many"}
NAMES = {0: "ADD", 1: "ADD_SCALAR", 2: "MUL"}

scenario, runtime, rounds = sys.argv[1], RUNTIMES[sys.argv[2]], int((*sys.argv, "1")[3])
logging.getLogger("simpler").setLevel(os.environ.get("LEVEL", "DEBUG"))
print(f"[runner] names={json.dumps(NAMES)}", file=sys.stderr, flush=True)
kernels = {0: "k_add", 1: "k_add_scalar", 2: SECOND.get(scenario, "k_mul")}
IN, OUT = ArgDirection.IN, ArgDirection.OUT


@scene_test(level=2, runtime=runtime)
class Graph(SceneTestCase):
    """f = (a + b + 1) * (a + b + 2) + (a + b)."""

    CALLABLE: ClassVar = {
        "orchestration": {
            "source": str(HERE / f"{GRAPH.get(scenario, 'vec')}.cpp"),
            "function_name": "aicpu_orchestration_entry",
            "signature": [IN, IN, OUT],
        },
        "incores": [
            {
                "func_id": func,
                "source": str(HERE / f"{name}.cpp"),
                "core_type": "aiv",
                "extra_include_dirs": [str(HERE)],
                "signature": [IN, OUT] if name == "k_add_scalar" else [IN, IN, OUT],
            }
            for func, name in kernels.items()
        ],
    }
    CASES: ClassVar = [{"name": "default", "platforms": ["a2a3sim"], "params": {}}]

    def generate_args(self, params: object) -> TaskArgsBuilder:
        size = 128 * 128
        tensors = {"a": torch.full((size,), 2.0), "b": torch.full((size,), 3.0), "f": torch.zeros(size)}
        return TaskArgsBuilder(*(TensorArg(name, tensor) for name, tensor in tensors.items()))

    def compute_golden(self, args: object, params: object) -> None:
        """Nothing is compared."""


chip = Graph().build_callable("a2a3sim")
worker = Worker(level=2, device_id=0, platform="a2a3sim", runtime=runtime)
worker.init()
handle = worker.register(chip)
arguments = Graph().generate_args({})
built, _ = sys.modules["simpler_setup.scene_test"]._build_l2_ref_args(arguments, [IN, IN, OUT], worker)
print("READY", flush=True)
for _ in range(rounds):
    worker.run(handle, built, CallConfig())
print(f"DONE {float(arguments.f[0])}", flush=True)
worker.close()
