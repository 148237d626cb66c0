"""Rust's newer symbols."""

from __future__ import annotations

import pytest

from livedbg.text.demangling import demangled_rust

STEP = "_RNvXNtCsc0W65ysIEon_5waits6engineINtB2_5InputNtB4_3RawENtB2_4Step4stepB4_"


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_RNvCsc0W65ysIEon_5waits4main", "waits::main"),
        (STEP, "waits::engine::Input<waits::Raw>::step"),
        (f"{STEP}.llvm.123", "waits::engine::Input<waits::Raw>::step"),
        (
            "_RINvNtCsc0W65ysIEon_5waits6engine3runINtB2_5InputNtB4_3RawEEB4_",
            "waits::engine::run<waits::engine::Input<waits::Raw>>",
        ),
        (
            "_RNCNCNvNtCsjrHSEGnQ3l9_3std9panicking12default_hook00B7_",
            "std::panicking::default_hook::{closure#0}::{closure#0}",
        ),
        (
            "_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINtNtB4_5boxed5FnBoxuEp6OutputuEL_ECs1iopQbuBiw2_3std",
            "alloc::alloc::box_free<dyn alloc::boxed::FnBox<(), Output = ()>>",
        ),
        ("_RMC0INtC8arrayvec8ArrayVechKj7b_E", "arrayvec::ArrayVec<u8, 123>"),
        (
            "_RINvC1a1fTjSeRhQmPxOdFUKCeEuEE",
            'a::f<(usize, [str], &u8, &mut u32, *const i64, *mut f64, unsafe extern "C" fn(str))>',
        ),
        ("_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y", "utf8_idents::საჭმელად_გემრიელი_სადილი"),
    ],
)
def test_a_symbol_has_its_name(symbol: str, name: str) -> None:
    assert demangled_rust(symbol) == name


@pytest.mark.parametrize("symbol", ["read", "_ZN3app3runEv", "_R", "_RNvC", "_RB_", "_RNvC9short4main", "_RNvCü1a"])
def test_what_is_no_such_symbol_has_none(symbol: str) -> None:
    assert demangled_rust(symbol) is None


@pytest.mark.invariant("demangling.R1")
def test_R1_a_hostile_symbol_costs_little() -> None:
    deep = "_RINvC1a1f" + "T" * 5000 + "E" * 5000
    assert demangled_rust(deep) is None
    doubling = "_RINvC1a1fThhE" + "".join(f"TB{place}_B{place}_E" for place in "7fnvD") + "E"
    for symbol in (doubling, "_RINvC1a1f" + "Rh" * 50_000 + "E", "_RINvC1a1fKj" + "f" * 100_000 + "_E"):
        name = demangled_rust(symbol)
        assert name is None or len(name) <= 1 << 12
