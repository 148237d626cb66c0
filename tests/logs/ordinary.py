"""What big logs of jobs in good health look like, one shape each: nothing in them is of interest to a decoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

__all__ = ["SHAPES", "block", "write"]

_DAY: Final = "2026-03-04"


def _clock(number: int) -> str:
    return f"{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}"


def _bars(number: int) -> str:
    return (
        f"step {number} | loss {2.5 - number % 9999 / 9999:.4f} | lr 1.0e-4 | grad norm 0.{number % 997:03} "
        f"| {411 + number % 7}.2 ms | 9.1 GB\n"
    )


def _commas(number: int) -> str:
    return f"step {number}, loss {2.5 - number % 9999 / 9999:.4f}, lr 1.0e-4, 411.{number % 9} ms, 9.1 GB\n"


def _trainer(number: int) -> str:
    loss, epoch = 2.5 - number % 9999 / 9999, number / 5000
    return f"{{'loss': {loss:.4f}, 'grad_norm': 1.{number % 9973}, 'learning_rate': 4.9e-05, 'epoch': {epoch:.2f}}}\n"


def _tqdm(number: int) -> str:
    redraws = "".join(
        f"\rEpoch {number % 90}: {part * 10:3}%|{'#' * part:<10}| {part * 100}/1000 [00:{part:02}<00:09, 98.3it/s, "
        f"loss=2.{number % 997:03}]"
        for part in range(11)
    )
    return f"{redraws}\n"


def _lightning(number: int) -> str:
    return (
        f"Epoch {number // 100}: {number % 100:3}%|{'█' * (number % 10)}| {number % 100}/100 [00:12<00:31, 2.31it/s, "
        f"v_num=3, train_loss=0.{number % 997:03}, error: 0.{number % 89:02}]\n"
    )


def _megatron(number: int) -> str:
    return (
        f" [{_DAY} {_clock(number)}] iteration {number:8}/ 500000 | consumed samples: {number * 256:12} | elapsed time "
        f"per iteration (ms): 1432.{number % 9} | learning rate: 1.500000E-04 | global batch size:   256 | "
        f"lm loss: 6.{number % 9973:04}E+00 | loss scale: 1.0 | grad norm: 1.{number % 997:03} | number of skipped "
        f"iterations:   0 | number of nan iterations:   0 |\n"
    )


def _deepspeed(number: int) -> str:
    if number % 3:
        return (
            f"[{_DAY} {_clock(number)},{number % 1000:03}] [INFO] [timer.py:260:stop] epoch=0/micro_step={number}"
            f"/global_step={number}, RunningAvgSamplesPerSec=311.{number % 97}, CurrSamplesPerSec=309.8, "
            f"MemAllocated=9.21GB, MaxMemAllocated=31.0GB\n"
        )
    return (
        f"[{_DAY} {_clock(number)},{number % 1000:03}] [INFO] [logging.py:128:log_dist] [Rank 0] step={number}, "
        f"skipped=0, lr=[9.9e-05], mom=[(0.9, 0.95)]\n"
    )


def _vllm(number: int) -> str:
    if number % 4 == 0:
        return (
            f"INFO 03-04 {_clock(number)} [loggers.py:118] Engine 0: Avg prompt throughput: 31{number % 10}.1 t/s, "
            f"Avg generation throughput: 902.7 tokens/s, Running: {number % 64} reqs, Waiting: 0 reqs, "
            f"GPU KV cache usage: 11.{number % 10}%, Prefix cache hit rate: 41.0%\n"
        )
    return f'INFO:     10.0.3.{number % 250}:5{number % 9973:04} - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'


def _ranks(number: int) -> str:
    rank = number % 8
    return f"[rank{rank}]: step {number // 8} | loss {2.5 - number % 9999 / 9999:.4f} | tokens/s 18{number % 997:03}\n"


def _docker(number: int) -> str:
    said = f"step {number} | loss {2.5 - number % 9999 / 9999:.4f} | error: 0.{number % 97:02}"
    return f'{{"log":"{said}\\n","stream":"stdout","time":"{_DAY}T{_clock(number)}.{number % 1000:03}123456Z"}}\n'


def _logging(number: int) -> str:
    head = f"{_DAY} {_clock(number)},{number % 1000:03}"
    if number % 2:
        return f"{head} - trainer.loop - INFO - validation done: error: 0.{number % 97:02}, failed: 0, retried: 0\n"
    return f"{head} - trainer.data - INFO - shard {number} read, 4096 samples, 0 errors, Error: None\n"


def _plog(number: int) -> str:
    head = f"{_DAY}-{_clock(number)}.{number % 1000:03}.{number % 997:03}"
    kinds = (
        f"[INFO] RUNTIME(4127,python3):{head} [stream.cc:{number % 900}]4127 Setup: stream_id={number % 64}\n",
        f"[INFO] HCCL(4127,python3):{head} [op_base.cc:1207] [4127]Entry-HcclAllReduce: tag[AllReduce_{number}]\n",
        f"[WARNING] GE(4127,python3):{head} [op_desc.cc:311]4127 GetAttr: attr _x{number % 97} is not set, default.\n",
        f"[INFO] ASCENDCL(4127,python3):{head} [memory.cpp:88]4127 aclrtMalloc: size = {number * 512}, success\n",
    )
    return kinds[number % len(kinds)]


def _nccl(number: int) -> str:
    rank = number % 8
    kinds = (
        f"node-3:4{rank}27:4{rank}99 [{rank}] NCCL INFO Channel {number % 32:02}/0 : {rank}[{rank}] -> 1[1] via P2P\n",
        f"node-3:4{rank}27:4{rank}99 [{rank}] NCCL INFO Reduce: opCount {number:x} sendbuff 0x7f{number % 65536:04x}00 "
        f"recvbuff 0x7f1d count 1048576 datatype 7 op 0 root 0 comm 0x55d1 [nranks=8] stream 0x55c2\n",
        f"node-3:4{rank}27:4{rank}99 [{rank}] NCCL INFO NET/IB : Using [0]mlx5_{number % 8}:1/IB [RO]\n",
    )
    return kinds[number % len(kinds)]


def _mlir(number: int) -> str:
    kinds = (
        f'    %{number} = "arith.addf"(%{number - 1}, %arg{number % 9}) : (tensor<4x{number % 512}xf32>, f32) '
        f"-> tensor<4xf32> loc(#loc{number % 997})\n",
        f"    ^bb{number % 40}(%in: f32, %out: f32):\n",
        f"    %c{number % 64}_{number} = arith.constant {number % 64} : index\n",
        f"      linalg.yield %{number} : f32\n",
        "// -----// IR Dump After Canonicalizer (canonicalize) //----- //\n" if number % 50 == 4 else "    }\n",
    )
    return kinds[number % len(kinds)]


def _nvfuser(number: int) -> str:
    kinds = (
        f"T{number}_l_float[iS{number % 97}{{i0}}, iS{number % 89}{{i1}}] = T{number - 1}_g_float[iS1{{i0}}, iS2] "
        f"+ T2_l_float[ bS3{{1}}, iS4{{i1}} ];\n",
        f"   = broadcast( T{number}_l_float[iS5{{i1}}], flags = {{true, false}} )\n",
        f"i{number} = ceilDiv(i{number - 1}, 128);\n",
        f"      T{number % 99}[i{number % 9}] = T{number % 77}[((blockDim.x * i{number % 9}) + 3)] * T1[0LL];\n",
    )
    return kinds[number % len(kinds)]


def _kernel(number: int) -> str:
    head = f"Mar  4 {_clock(number)} node-3 kernel: [{number}.{number % 997:03}421]"
    kinds = (
        f"{head} nvidia-uvm: Loaded the UVM driver, major device number {number % 512}.\n",
        f"{head} mlx5_core 0000:{number % 90:02}:00.0 eth0: Link up\n",
        f'{head} audit: type=1400 audit({number}.123:{number}): apparmor="ALLOWED" pid={number % 32768}\n',
        f"{head} IPv6: ADDRCONF(NETDEV_CHANGE): veth{number:x}: link becomes ready\n",
    )
    return kinds[number % len(kinds)]


def _scheduler(number: int) -> str:
    return (
        f"[mono_ns={5_279_698_738_179 + number}][T0x7f0e6166bb80][INFO] poll_queue: [queue.cpp:88] depth={number % 7} "
        f"spins={number}\n"
    )


def _kubernetes(number: int) -> str:
    return f"{_DAY}T{_clock(number)}.{number % 1000:03}421337Z stdout F {_megatron(number)}"


def _table(number: int) -> str:
    kinds = (
        f"| {number:6} | layer.{number % 96}.attention.query | [4096, 4096] | 16,777,216 | 0.{number % 97:02} |\n",
        "|--------|--------------------------|--------------|------------|------|\n",
        f"  [{number % 64}] encoder.layer.{number % 96}: 16.8 M parameters\n",
        f"   [{number % 12:4}/   12]  blk.{number % 96}.ffn_up.weight - [ 4096, 11008,     1,     1], type =    f16\n",
    )
    return kinds[number % len(kinds)]


def _pytest(number: int) -> str:
    return f"tests/unit/test_shapes_{number % 97}.py::test_case[{number}-float32] PASSED [ {number % 100}%]\n"


def _loguru(number: int) -> str:
    return (
        f"{_DAY} {_clock(number)}.{number % 1000:03} | INFO     | trainer.loop:train:{number % 400} - step {number}, "
        f"loss=2.{number % 997:03}\n"
    )


def _json(number: int) -> str:
    return (
        f'{{"time": "{_DAY}T{_clock(number)}Z", "level": "info", "msg": "step done", "step": {number}, "error": null, '
        f'"loss": 2.{number % 997:03}}}\n'
    )


def _mixed(number: int) -> str:
    kinds = (
        f"route add src=10.0.{number % 250}.3 dst=10.1.0.0 via eth{number % 4}, rc=0\n",
        "=" * (40 + number % 40) + "\n",
        f"Progress: {number % 100}.0% of cluster node-{number % 9} done, time left 00:12\n",
        f"ptxas info    : Used {number % 255} registers, used 1 barriers, {number % 4096} bytes smem\n",
        f'level=info ts={_DAY}T{_clock(number)}Z msg="flushed" status: ok error: None took={number % 97}ms\n',
    )
    return kinds[number % len(kinds)]


SHAPES: Final[dict[str, Callable[[int], str]]] = {
    "fields between bars": _bars,
    "fields between commas": _commas,
    "Trainer's dictionaries": _trainer,
    "tqdm, redrawn": _tqdm,
    "Lightning's bars": _lightning,
    "Megatron": _megatron,
    "DeepSpeed": _deepspeed,
    "vLLM": _vllm,
    "torchrun's ranks": _ranks,
    "docker's JSON": _docker,
    "Python's logging": _logging,
    "loguru": _loguru,
    "JSON lines": _json,
    "Kubernetes, Megatron": _kubernetes,
    "CANN's plog": _plog,
    "NCCL INFO": _nccl,
    "MLIR": _mlir,
    "nvFuser": _nvfuser,
    "kernel": _kernel,
    "simpler's scheduler": _scheduler,
    "tables": _table,
    "pytest -v": _pytest,
    "routes, rules, progress, ptxas": _mixed,
}
"""Line number to line, by what it is a log of."""


def block(shape: str, lines: int, first: int = 0) -> str:
    """Lines of a log."""
    make = SHAPES[shape]
    return "".join(make(number) for number in range(first, first + lines))


def _blocks(shape: str) -> Iterator[bytes]:
    number = 0
    while True:
        yield block(shape, 4096, number).encode()
        number += 4096


def write(shape: str, path: Path, size: int) -> int:
    """Write a log of so many bytes, and a little more; gives how many lines it has."""
    lines = 0
    with path.open("wb") as file:
        for part in _blocks(shape):
            file.write(part)
            lines += 4096
            if file.tell() >= size:
                return lines
    raise AssertionError("unreachable")
