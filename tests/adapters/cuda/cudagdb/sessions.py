"""Sessions of cuda-gdb that the tests play: written after its source, around real texts (tests/fixtures/cuda-gdb).

python -m tests.adapters.cuda.cudagdb.sessions      write those in tests/fixtures/cuda-gdb anew
"""

from __future__ import annotations

from pathlib import Path

from tests.adapters.cuda.cudagdb.tables import Session

FIXTURES = Path(__file__).parents[3] / "fixtures" / "cuda-gdb"
SMS = 132
H100 = (0, "1b:00.0", "NVIDIA H100 80GB HBM3", "GH100-A", "sm_90", SMS, 64, 32, 255)


def mask(numbers: range | list[int], digits: int) -> str:
    """A mask as cuda-gdb prints it."""
    return f"0x{sum(1 << n for n in numbers):0{digits}x}"


def device(sms: range | list[int]) -> tuple[object, ...]:
    """A row of devices: one H100 with these SMs busy."""
    return ("*", *H100, mask(sms, 33))


def hang(blocks: int = 264, *, apart: int = 32, per_sm: int = 2) -> Session:
    """A kernel whose warps spin at one line; the first `apart` warps have lanes that wait for the others elsewhere."""
    sms = range(-(-blocks // per_sm))
    session = Session()
    session.prints(
        "target cudacore *",
        "Opening GPU coredump: /tmp/core\n"
        "[Current focus set to CUDA kernel 0, grid 53, block (0,0,0), thread (0,0,0), device 0, sm 0, warp 0, lane 0]\n"
        f"#0  0x00007f2e6fbff300 in spin<<<({blocks},1,1),(128,1,1)>>> (flag=0x7f2e4e000000) at spin.cu:12",
    )
    session.table("-cuda-info-devices", "InfoCudaDevices", device(sms))
    invocation = "spin(flag=0x7f2e4e000000)"
    kernel = ("*", 0, "-", 0, 53, "Active", mask(sms, 33), f"({blocks},1,1)", "(128,1,1)", invocation)
    session.table("-cuda-info-kernels", "InfoCudaKernels", kernel)
    session.table("-cuda-info-contexts", "InfoCudaContexts", ("*", "0x000055d1c0a3b5e0", 0, "active"))
    session.focus((0, 0, 0, 0), 0, 53, "(0,0,0)", "(0,0,0)")
    lanes = [
        (" *"[n == 0], n, "active" if n % 2 == 0 else "divergent", "0x00007f2e6fbff300", f"({n},0,0)", "None")
        for n in range(32)
    ]
    session.table("-cuda-info-lanes device 0 sm 0 warp 0", "InfoCudaLanes", *lanes)
    session.frames(
        ("0x00007f2e6fbff300", "wait_for(int volatile*)", "spin.cu", 12), ("0x00007f2e6fbff520", "spin", "spin.cu", 21)
    )
    session.prints(
        "info cuda barriers",
        "Focus is blocked on a Warp Barrier.\nDevice 0 SM 0 Wp 0\n"
        " Ln(s) Thread State Active Exited Collective Warp Convergence Barrier(s)\n"
        "(0-15)        Ready    yes     no         no                           1\n"
        "(16-31) BlockedPlus     no     no         no                        none",
    )
    session.prints("info cuda managed", "Static managed variables on device 0 are:\nmanaged_flag = 0")
    warps_of = [
        (block // per_sm, block % per_sm * 4 + warp, block, warp) for block in range(blocks) for warp in range(4)
    ]
    session.table(
        "-cuda-info-sms device 0",
        "InfoCudaSms",
        *((" ", sm, mask([w for s, w, _b, _n in warps_of if s == sm], 16)) for sm in sms),
    )
    rows = []
    for number, (_sm, warp, block, inside) in enumerate(warps_of):
        lanes_apart = number < apart
        active, divergent = ("0x55555555", "0xaaaaaaaa") if lanes_apart else ("0xffffffff", "0x00000000")
        rows.append(
            (
                " *"[number == 0],
                warp,
                active,
                divergent,
                "0x00007f2e6fbff300",
                0,
                f"({block},0,0)",
                f"({inside * 32},0,0)",
            )
        )
    session.table("-cuda-info-warps device 0 sm all", "InfoCudaWarps", *rows)
    session.table("-cuda-info-blocks kernel 0", "CoalescedInfoCudaBlocks",
                  ("*", 0, "(0,0,0)", f"({blocks - 1},0,0)", blocks, "running"))  # fmt: skip
    threads, waiting = blocks * 128, apart * 16
    session.table(
        "-cuda-info-threads kernel 0", "CoalescedInfoCudaThreads",
        ("*", 0, "(0,0,0)", "(0,0,0)", f"({blocks - 1},0,0)", "(127,0,0)",
         threads - waiting, "0x00007f2e6fbff300", "spin.cu", 12),
        (" ", 0, "(0,0,0)", "(1,0,0)", "(7,0,0)", "(127,0,0)", waiting, "0x00007f2e6fbff480", "spin.cu", 18),
    )  # fmt: skip
    session.prints("x/i 0x7f2e6fbff300", "   0x7f2e6fbff300 <wait_for(int volatile*)+0>:\tLDG.E.STRONG.SYS R4, [R2.64]")
    session.prints("x/i 0x7f2e6fbff480", "   0x7f2e6fbff480 <spin(int volatile*)+384>:\tBSYNC B0")
    session.prints("info symbol 0x7f2e6fbff300", "wait_for(int volatile*) in section .text.spin")
    session.prints("info symbol 0x7f2e6fbff480", "spin + 384 in section .text.spin")
    return session


def illegal_address() -> Session:
    """An illegal address, with the texts of a real one (llama-server)."""
    session = Session()
    kernel = "void convert_unary<float, __half>(void const*, __half*, long)"
    session.prints(
        "target cudacore *",
        "Opening GPU coredump: /tmp/core\n"
        "\nCUDA Exception: Warp Illegal Address\n"
        "The exception was triggered at PC 0x7ff35529cff0\n"
        "[Current focus set to CUDA kernel 0, grid 561, block (0,0,0), thread (192,0,0), device 1, "
        "sm 0, warp 5, lane 0]\n"
        f"#0  0x00007ff35529d000 in {kernel}<<<(32,1,1),(256,1,1)>>> ()",
    )
    idle = (" ", 0, "01:00.0", "NVIDIA RTX A6000", "GA102-A", "sm_86", 84, 48, 32, 255, "0x000000000000000000000")
    busy = ("*", 1, "02:00.0", "NVIDIA RTX A6000", "GA102-A", "sm_86", 84, 48, 32, 255, "0x000000000000000000001")
    session.table("-cuda-info-devices", "InfoCudaDevices", idle, busy)
    row = ("*", 0, "-", 1, 561, "Active", "0x000000000000000000001", "(32,1,1)", "(256,1,1)", f"{kernel}()")
    session.table("-cuda-info-kernels", "InfoCudaKernels", row)
    session.table("-cuda-info-contexts", "InfoCudaContexts", ("*", "0x00007ff2b8000b70", 1, "active"))
    session.focus((1, 0, 5, 0), 0, 561, "(0,0,0)", "(192,0,0)")
    for warp in range(6):
        faulty = warp in (4, 5)
        session.table(
            f"-cuda-info-lanes device 1 sm 0 warp {warp}", "InfoCudaLanes",
            *((" ", n, "active", "0x00007ff35529d000", f"({warp * 32 + n},0,0)",
               "Warp Illegal Address" if faulty else "None") for n in range(32)),
        )  # fmt: skip
    session.frames(("0x00007ff35529d000", kernel, None, None))
    session.table("-cuda-info-sms device 1", "InfoCudaSms", ("*", 0, "0x000000000000003f"))
    session.table(
        "-cuda-info-warps device 1 sm all", "InfoCudaWarps",
        *((" *"[w == 5], w, "0xffffffff", "0x00000000", "0x00007ff35529d000" if w > 3 else "0x00007ff35529cb00", 0,
           "(0,0,0)", f"({w * 32},0,0)") for w in range(6)),
    )  # fmt: skip
    session.table("-cuda-info-blocks kernel 0", "CoalescedInfoCudaBlocks",
                  ("*", 0, "(0,0,0)", "(0,0,0)", 1, "running"))  # fmt: skip
    session.table(
        "-cuda-info-threads kernel 0", "CoalescedInfoCudaThreads",
        (" ", 0, "(0,0,0)", "(0,0,0)", "(0,0,0)", "(127,0,0)", 128, "0x00007ff35529cb00", "n/a", 0),
        ("*", 0, "(0,0,0)", "(128,0,0)", "(0,0,0)", "(191,0,0)", 64, "0x00007ff35529d000", "n/a", 0),
    )  # fmt: skip
    session.prints("info symbol 0x7ff35529d000", f"{kernel} + 1280 in section .text._Z13convert_unary")
    session.prints("info symbol 0x7ff35529cb00", f"{kernel} in section .text._Z13convert_unary")
    return session


SESSIONS = {"hang": lambda: hang(16, apart=2), "illegal-address": illegal_address}

if __name__ == "__main__":
    for name, make in SESSIONS.items():
        (FIXTURES / f"{name}.txt").write_text(make().text, encoding="utf-8")
