"""What is said beside the kernel's line of a task that hangs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.logs.reading import verdict

BLOCKED = "INFO: task {}:{} blocked for more than 120 seconds.\n      Not tainted 6.15.0 #3\n"
OWNED = "INFO: task {}:{} is blocked on a mutex likely owned by task {}:{}.\n"
MUTEX = ("__schedule", "schedule", "schedule_preempt_disabled", "__mutex_lock.constprop.0", "mutex_lock")
PAGE = ("__schedule", "schedule", "io_schedule", "folio_wait_bit_common", "__filemap_get_folio")
FENCE = ("__schedule", "schedule", "schedule_timeout", "dma_fence_default_wait", "dma_fence_wait_timeout")


def trace(waits: Iterable[str], *own: str) -> str:
    calls = "".join(f" {name}+0x1a/0x2b0\n ? return_thunk+0x5/0x5f\n" for name in waits)
    below = "".join(f" {name}\n" for name in own)
    return f"Call Trace:\n <TASK>\n{calls}{below} </TASK>\n"


FILL = BLOCKED.format("pump", 411) + trace(MUTEX, "tank_fill+0x11/0x20 [tank]", "tank_write+0x21/0x40 [tank]")
OPEN = BLOCKED.format("valve", 412) + trace(PAGE, "valve_open+0x11/0x20")


def stamped(text: str) -> str:
    """The text as dmesg prints it: each line with its time."""
    return "".join(f"[ 4711.{at:06}] {line}\n" for at, line in enumerate(text.splitlines()))


@pytest.mark.invariant("hung_tasks.K1")
def test_K1_where_it_waits_and_for_what() -> None:
    worker = "Workqueue: events drain_tank\n" + trace(FENCE, "lid_fini+0xf1/0x610 [acc]", "lid_close+0x1/0x2 [acc]")
    said = "Process 7 (kworker/12:9) is blocked in the kernel for more than 120 s, in lid_fini of acc, waiting for"
    for text in (worker, stamped(worker)):
        told = verdict((stamped if text is not worker else str)(BLOCKED.format("kworker/12:9", 7)) + text)
        assert told.state == "stalled"
        assert told.sentence == f"{said} a fence of a device (work: drain_tank)."
    assert "in tank_fill of tank, waiting for a mutex." in verdict(FILL).sentence
    assert "in valve_open, waiting for a page." in verdict(stamped(OPEN)).sentence


@pytest.mark.invariant("hung_tasks.K1")
@pytest.mark.parametrize(
    "more", ["", "Call Trace:\n <TASK>\n", trace(("__schedule", "schedule")), trace((), "main+0x1/0x2")]
)
def test_K1_without_a_function_nothing_is_said(more: str) -> None:
    assert verdict(BLOCKED.format("pump", 411) + more).sentence.endswith(
        "is blocked in the kernel for more than 120 s."
    )


@pytest.mark.parametrize(
    ("later_s", "state"), [(200, "stalled"), (900, "unknown")]
)  # the kernel reports it again each two minutes
def test_a_task_that_is_not_reported_again_may_go_on(later_s: int, state: str) -> None:
    later = f"[ {4711 + later_s}.000001] usb 1-1: new device number 3\n"
    told = verdict(stamped(FILL) + later)
    assert told.state == state
    assert ("It may be over: " in told.sentence) is (state == "unknown")
    again = f"[ {4711 + later_s - 100}.000001] {BLOCKED.format('pump', 411).partition(chr(10))[0]}\n"
    assert verdict(stamped(FILL) + again + later).state == "stalled"
    assert verdict(FILL + "usb 1-1: new device number 3\n").state == "stalled"  # without times


@pytest.mark.invariant("hung_tasks.K2")
def test_K2_the_owner_that_the_kernel_names() -> None:
    owner = OWNED.format("pump", 411, "valve", 412) + trace(PAGE, "valve_open+0x11/0x20")
    said = "waiting for a mutex of process 412 (valve), which waits in valve_open for a page."
    assert verdict(stamped(FILL + owner)).sentence.endswith(f"in tank_fill of tank, {said}")


@pytest.mark.invariant("hung_tasks.K2")
def test_K2_the_owner_that_lockdep_lists() -> None:
    locks = (
        "\nShowing all locks held in the system:\n2 locks held by pump/411:\n"
        " #0: ffff888017d801e0 (&pump->lid){++++}-{4:4}, at: tank_write+0x37/0x300\n"
        " #1: ffff888000fec848 (&tank_table[i]){+.+.}-{4:4}, at: tank_fill+0xf88/0x3440\n"
        "1 lock held by valve/412:\n #0: ffff888000fec848 (&tank_table[i]){+.+.}-{4:4}, at: valve_move+0x3b8/0x2c30\n"
    )
    said = "waiting for mutex tank_table of process 412 (valve), which waits in valve_open for a page."
    assert verdict(FILL + OPEN + locks).sentence.endswith(f"in tank_fill of tank, {said}")
    both_wait = locks.replace("at: valve_move", "at: valve_open")
    assert "of process" not in verdict(FILL + OPEN + both_wait).sentence


@pytest.mark.invariant("hung_tasks.K2")
def test_K2_owners_that_wait_for_each_other_are_a_deadlock() -> None:
    other = BLOCKED.format("valve", 412) + trace(MUTEX, "valve_open+0x11/0x20")
    circle = FILL + OWNED.format("pump", 411, "valve", 412) + other + OWNED.format("valve", 412, "pump", 411)
    told = verdict(stamped(circle))
    assert told.state == "stalled"
    assert told.sentence.partition(". ")[0].endswith("which waits for it in turn: a deadlock in the kernel.")
    assert "deadlock" not in verdict(stamped(FILL + OWNED.format("pump", 411, "valve", 412) + other)).sentence


@pytest.mark.invariant("hung_tasks.K3")
def test_K3_several_that_hang_are_one_statement() -> None:
    names = ["kworker/3:1", "pump", "jbd2/vdb1-8", "kworker/u9:0", "tankd"]
    many = "".join(BLOCKED.format(name, 411 + at) for at, name in enumerate(names))
    said = "Process 411 (kworker/3:1) is blocked in the kernel for more than 120 s, and so are 4 others: "
    assert verdict(stamped(many)).sentence.startswith(f"{said}jbd2/vdb1-8, pump, tankd, …")
    two = verdict(stamped(BLOCKED.format("pump", 411) + BLOCKED.format("valve", 412)))
    assert two.sentence.startswith(
        "Process 411 (pump) is blocked in the kernel for more than 120 s, and so is 1 other: valve"
    )
    again = verdict(stamped(BLOCKED.format("pump", 411) * 3))
    assert "other" not in again.sentence


@pytest.mark.invariant("hung_tasks.K1")
def test_K1_lines_that_name_the_kernel_behind_their_time() -> None:
    log = stamped(FILL + "RIP: 0033:0x77220111c574\nRSP: 002b:00007fff30657198 EFLAGS: 00000202\n" * 4)
    for blank in (" ", "\u00a0"):
        told = verdict(log.replace("] ", f"] kernel:{blank}"))
        assert told.state == "stalled"
        assert "in tank_fill of tank, waiting for a mutex" in told.sentence


GONE = "pcieport 0000:40:01.1: pciehp: Slot(3): Link Down\npcieport 0000:40:01.1: pciehp: Slot(3): Card not present\n"
OOPS = (
    "BUG: kernel NULL pointer dereference, address: 0000000000000040\n#PF: supervisor read access in kernel mode\n"
    "CPU: 5 UID: 0 PID: 140 Comm: irq/43-pump Not tainted 6.14.0 #43\nRIP: 0010:tank_move+0xc1/0xe0 [tank]\n"
)


DISK = "I/O error, dev vdb, sector 77120 op 0x1:(WRITE) flags 0x800 phys_seg 3 prio class 2\n"


def test_what_came_before_or_after_an_error_of_a_kernels_log() -> None:
    gone = "The device in PCIe slot 3 (port 0000:40:01.1) is gone: its link went down."
    fault = "The kernel faulted (oops): kernel NULL pointer dereference at 0000000000000040, in tank_move of tank"
    lines = "".join(f"tank: lid {n} is shut\n" for n in range(400))
    both = verdict(stamped(GONE + lines + OOPS))
    assert both.state == "unknown"
    assert both.sentence.startswith(f"{fault}, process 140 (irq/43-pump). Before it: {gone}")
    assert verdict(stamped(DISK + lines + OOPS)).sentence.startswith(f"Disk vdb has errors. Then: {fault}")
    for alone in (OOPS + lines + GONE, OOPS + OOPS, DISK + DISK):
        said = verdict(stamped(alone)).sentence
        assert "Then" not in said
        assert "Before" not in said
    assert "Before" not in verdict(stamped(GONE), stamped(OOPS)).sentence
    assert "gone" not in verdict(stamped(GONE.replace("Link Down", "Link Up").replace("Card not", "Card"))).sentence
    steps = "".join(f"epoch {n} of 9, loss 0.{n}\n" for n in range(1, 10))
    assert verdict(f"{steps}Training finished\n" + GONE).state != "crashed"
