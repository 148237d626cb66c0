"""Asynchronous calls of a module: CASE DEVICE MODULE. Prints READY when all is submitted.

never    one call waits for a value that nobody signals, and the main thread for the call
late     the same, but another thread signals it when a line comes on stdin
limit    the same as never, but the main thread waits for two minutes at most
alone    the same as never, but nobody waits for the call: the main thread reads stdin
open     two calls wait for each other, and a thread for each; the main thread reads stdin
circle   two calls wait for each other, and a thread for each
chain    four calls, each after the one before; nobody signals the first value
busy     one call after another, for ever
again    one call after another, each with semaphores of its own, which another thread signals when a line comes on
         stdin; that thread never rests
"""

import select
import sys
import threading

import iree.runtime as rt
import numpy as np

case, name, module = sys.argv[1:4]
device = rt.get_device(name)
config = rt.Config(device=device)
context = rt.SystemContext(config=config)
loaded = rt.VmModule.mmap(config.vm_instance, module)
context.add_vm_module(loaded)
main = loaded.lookup_function("main")


def value(array):
    return rt.asdevicearray(device, array)._buffer_view


x, w = value(np.ones((32, 32), np.float32)), value(np.full((32, 32), 0.01, np.float32))


def call(wait, signal):
    arguments, results = rt.VmVariantList(4), rt.VmVariantList(1)
    for one in (x, w, wait, signal):
        arguments.push_ref(one)
    context.vm_context.invoke(main, arguments, results)
    return results


def ready():
    print("READY", flush=True)


at = rt.HalFence.create_at
first, second = device.create_semaphore(0), device.create_semaphore(0)
kept = []
if case in ("never", "late", "alone", "limit"):
    kept.append(call(at(first, 5), at(second, 1)))
    if case == "late":

        def signal_later():
            sys.stdin.readline()
            first.signal(5)

        threading.Thread(target=signal_later, name="signaller").start()
    ready()
    if case == "alone":
        sys.stdin.readline()
    elif case == "limit":
        second.wait(1, timeout=120_000_000_000)
    else:
        at(second, 1).wait()
        print("DONE", flush=True)
elif case in ("circle", "open"):
    kept += [call(at(second, 1), at(first, 1)), call(at(first, 1), at(second, 1))]
    threads = [threading.Thread(target=at(one, 1).wait) for one in (first, second)]
    for thread in threads:
        thread.start()
    ready()
    if case == "open":
        sys.stdin.readline()
        first.signal(1)
    for thread in threads:
        thread.join()
elif case == "chain":
    kept += [call(at(first, number), at(first, number + 1)) for number in range(1, 5)]
    ready()
    first.wait(5)
elif case == "busy":
    number = 0
    ready()
    while True:
        number += 1
        kept[:] = [call(at(first, number - 1), at(first, number))]
        first.wait(number)
elif case == "again":
    del first, second

    def signal(semaphore):
        while not select.select([sys.stdin], [], [], 0.001)[0]:
            pass
        sys.stdin.readline()
        semaphore.signal(1)

    while True:
        first, second = device.create_semaphore(0), device.create_semaphore(0)
        kept[:] = [call(at(first, 1), at(second, 1))]
        thread = threading.Thread(target=signal, args=(first,))
        thread.start()
        ready()
        second.wait(1)
        thread.join()
        kept.clear()
        del first, second, thread
