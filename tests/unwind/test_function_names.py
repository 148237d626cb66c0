"""Names of functions from debug information and symbols."""

from __future__ import annotations

import pytest

from livedbg.unwind.places import full_name, symbol_name

NAMES = [
    ("run<int>", "_ZN3app6Engine3runIiEEvT_", "app::Engine::run<int>"),
    ("pop", "_ZN4demo5QueueIlE3popEl", "demo::Queue<long>::pop"),
    ("operator()", "_ZZ4mainENKUliE_clEi", "main::{lambda(int)#1}::operator()"),
    ("operator()", "_ZZN3app3runEiENKUliE_clEi", "app::run(int)::{lambda(int)#1}::operator()"),
    ("operator()", "_ZZNK3app1A3runEiENKUliE_clEi", "app::A::run(int) const::{lambda(int)#1}::operator()"),
    ("operator<", "_ZN3appltERKNS_1AES2_", "app::operator<"),
    ("operator<<", "_ZN3applsERKNS_1AEi", "app::operator<<"),
    ("work", "_ZN12_GLOBAL__N_14workEi", "(anonymous namespace)::work"),
    ("Engine", "_ZN3app6EngineC2Ev", "app::Engine::Engine"),
    ("~Engine", "_ZN3app6EngineD2Ev", "app::Engine::~Engine"),
    ("get<int>", "_ZN3app3getIiEEPKT_S3_", "app::get<int>"),
    ("wait", "_ZN3app4waitEv.isra.0", "app::wait"),
    ("read", "read@@GLIBC_2.2.5", "read"),
    ("main.main", "main.main", "main.main"),
    ("other", "_ZN3app3runEi", "other"),  # the symbol is of another function
    (None, "read@@GLIBC_2.2.5", "read"),
    (None, "_ZN3app3runEi", "app::run(int)"),
    ("run", "_ZN3app6Engine3run17h0123456789abcdefE", "app::Engine::run"),
    (None, "_ZN4core3ptr24drop_in_place$LT$i32$GT$17h0123456789abcdefE", "core::ptr::drop_in_place<i32>"),
    ("short", None, "short"),
    (None, None, None),
]


@pytest.mark.parametrize(("function", "symbol", "name"), NAMES)
def test_the_whole_name(function: str | None, symbol: str | None, name: str | None) -> None:
    assert full_name(function, symbol) == name


def test_what_is_no_symbol_of_cxx_stays() -> None:
    assert symbol_name("_Z") == "_Z"
    assert symbol_name("@") == "@"
    assert full_name("f" * 100, "_Z" + "1" * 2000) == "f" * 100
