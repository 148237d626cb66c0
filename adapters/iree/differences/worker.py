"""Runs one compiled module with a debug sink, in a Python of its own that has `iree.runtime`; imports nothing of ours.

    python worker.py devices DRIVER        prints the devices of a driver, a JSON object a line
    python worker.py functions MODULE      prints the exported functions of a module, a JSON object a line
    python worker.py run REQUEST.json      runs a function; writes tensors and `calls.jsonl` into a folder

The request: {"module", "before": [module…], "parameters": ["SCOPE=FILE"…], "device", "function", "inputs": [spec…],
"folder", "runs", "seed", "flags", "print"}; the modules of "before" are loaded before it. worker_inputs.py says what a
spec is; without any, inputs of the declared types are drawn from a seeded generator.
Each line of `calls.jsonl` is written as soon as it is known, so that a run that hangs or dies leaves what came before:
{"call": "EXE::FUNCTION", "io": "inputs"|"outputs", "run": 0, "tensors": [{"file", "shape", "type"}…]}, and at the end
of a run {"returned": run, "tensors": […]}. With "print", dispatches and the first values of their tensors are also
printed, as a module with traces does in iree-run-module.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

_KINDS = {"b": "i", "u": "ui"}
_PRINTED = 1024  # values of a tensor


def _devices(driver):
    import iree.runtime as rt

    for device in rt.get_driver(driver).query_available_devices():
        print(json.dumps({key: str(value) for key, value in dict(device).items()}))


def _functions(path):
    import iree.runtime as rt

    module = rt.VmModule.mmap(rt.VmInstance(), path)
    for name in module.function_names:
        if not name.startswith("__"):
            reflection = module.lookup_function(name).reflection
            print(json.dumps({"name": name, "declaration": reflection.get("iree.abi.declaration", "")}))


class _Files:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.calls = (self.folder / "calls.jsonl").open("w", buffering=1)
        self.count = 0

    def line(self, **what):
        self.calls.write(json.dumps(what) + "\n")

    def save(self, array):
        import numpy as np

        array = np.asarray(array)
        name = f"{self.count:06}.npy"
        self.count += 1
        kind = str(array.dtype)
        if array.dtype.kind not in "fiub":  # bfloat16 and the like: their bits
            array = array.view({1: np.uint8, 2: np.uint16}.get(array.dtype.itemsize, np.uint8))
        np.save(self.folder / name, array, allow_pickle=False)
        return {"file": name, "shape": list(array.shape), "type": kind}


def _print(call, io, arrays):
    print(f"=== {call} {io} ===")
    for array in arrays:
        kind = f"{_KINDS.get(array.dtype.kind, array.dtype.kind)}{array.dtype.itemsize * 8}"
        shape = "".join(f"{size}x" for size in array.shape)
        values = " ".join(f"{value:g}" for value in array.ravel()[:_PRINTED].tolist())
        print(f"{shape}{kind}={values}{' ...' if array.size > _PRINTED else ''}")
    print("", flush=True)


def _staged(device, view):
    """Return the values of a buffer that the host can't map, through a staging buffer."""
    import iree.runtime as rt

    source = view.get_buffer()
    staging = device.allocator.allocate_buffer(
        memory_type=int(rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE),
        allowed_usage=int(rt.BufferUsage.TRANSFER_TARGET | rt.BufferUsage.MAPPING_SCOPED),
        allocation_size=source.byte_length(),
    )
    semaphore = device.create_semaphore(0)
    device.queue_copy(
        source,
        staging,
        wait_semaphores=rt.HalFence.create_at(semaphore, 0),
        signal_semaphores=rt.HalFence.create_at(semaphore, 1),
    )
    rt.HalFence.create_at(semaphore, 1).wait()
    return staging.map().asarray(view.shape, rt.HalElementType.map_to_dtype(view.element_type))


def _values(device, view):
    import iree.runtime as rt

    try:
        return rt.DeviceArray(device, view).to_host()
    except ValueError:  # Vulkan's allocator refuses memory of numpy's (3.13)
        return _staged(device, view)


def _parameters(instance, words):
    """Return the module that provides parameters from files; several files of a scope are one index."""
    import iree.runtime as rt

    scopes = {}
    for word in words:
        scope, _, path = word.partition("=") if "=" in word else ("", "", word)
        scopes.setdefault(scope, rt.ParameterIndex()).load(path)
    providers = [index.create_provider(scope=scope) for scope, index in scopes.items()]
    return [rt.create_io_parameters_module(instance, *providers)] if providers else []


def _has_flag(flag):
    """Return whether the runtime has a flag: the wheel's programs have more."""
    import iree.runtime as rt

    try:
        rt.flags.parse_flags(flag)
    except ValueError as error:
        if "not recognized" not in str(error):
            raise
        return False
    return True


def _run(path):
    request = json.loads(Path(path).read_text())
    import iree.runtime as rt
    from worker_inputs import inputs_of  # type: ignore[import-not-found]  # beside this file

    files, at = _Files(request["folder"]), {"run": 0}
    refused = [flag for flag in request.get("flags", ()) if not _has_flag(flag)]
    if refused:
        files.line(refused=refused)
    device = rt.get_device(request["device"])
    instance = rt.VmInstance()

    read = []

    def tensor(view):
        try:
            array = _values(device, view)
            read.append(array)
            return files.save(array)
        except Exception as error:
            return {"file": "", "shape": list(view.shape), "type": "", "problem": f"{type(error).__name__}: {error}"}

    def traced(key, views):
        call, _, io = key.rpartition(" ")
        files.line(call=call, io=io, run=at["run"], tensors=[tensor(view) for view in views])
        if request.get("print"):
            _print(call, io, [array for array in read if array.dtype.kind in "fiub"])
        read.clear()

    def result(one):
        return tensor(one._buffer_view) if isinstance(one, rt.DeviceArray) else {"problem": f"the number {one!r}"}

    sink = rt.HalModuleDebugSink(traced)
    hal = rt.create_hal_module(instance, device, debug_sink=sink)
    module = rt.VmModule.mmap(instance, request["module"])
    before = [rt.VmModule.mmap(instance, path) for path in request.get("before", ())]
    context = rt.VmContext(instance, [hal, *_parameters(instance, request.get("parameters", ())), *before, module])
    there = [name for name in module.function_names if not name.startswith("__")]
    if request["function"] not in there:
        raise ValueError(f"the module has no function {request['function']}, but: {', '.join(there)}")
    function = module.lookup_function(request["function"])
    inputs = inputs_of(request["inputs"], function.reflection.get("iree.abi.declaration", ""), request["seed"])
    files.line(inputs=[files.save(array) for array in inputs])
    invoke = rt.FunctionInvoker(context, device, function)
    for run in range(request["runs"]):
        at["run"] = run
        try:
            results = invoke(*inputs)
        except ValueError as error:
            if "input list and function mismatch" in str(error) and not request["inputs"]:
                files.line(uncalled=True)
                raise ValueError(f"inputs have to be given: {request['function']} does not declare them") from None
            raise
        results = results if isinstance(results, (tuple, list)) else [results]
        tensors = [
            tensor(one._buffer_view) if isinstance(one, rt.DeviceArray) else {"value": repr(one)} for one in results
        ]
        files.line(returned=run, tensors=tensors)


if __name__ == "__main__":
    try:
        {"devices": _devices, "functions": _functions, "run": _run}[sys.argv[1]](sys.argv[2])
    except Exception as error:
        print(f"{type(error).__name__}: {error}".replace("\n", " | "), file=sys.stderr, flush=True)
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)  # the bindings print what they leak as the interpreter ends
