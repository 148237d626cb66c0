"""C++ names are understood by the runtime, and no name of a target costs much."""

from __future__ import annotations

import ctypes
import resource
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg.text import demangling
from livedbg.text.demangling import demangled_symbol, demangled_type, short_symbol
from livedbg.text.sanitize import clean_line

_ANY = "_ZN4demo5worldI3fooEEvv"


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """The runtimes that are looked for."""
    _forget()
    monkeypatch.setattr(demangling, "_LIBRARIES", request.param)
    yield
    _forget()


def _forget() -> None:
    for kept in (demangling._runtime, demangling.demangled_type, demangling.demangled_symbol):
        kept.cache_clear()


def _installed(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


_RUNTIMES = [(library,) for library in demangling._LIBRARIES if _installed(library)]


def _reference(number: int) -> str:
    """A substitution: `S_` is the first, `S0_` the second, `SA_` the twelfth."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    high, low = divmod(number - 1, 36)
    return "S_" if number == 0 else f"S{digits[high] if high else ''}{digits[low]}_"


def _doubled(depth: int, leaf: str = "ii") -> str:
    """A type whose text is twice as long with each level: `A<A<A<int, int>, A<int, int>>, A<A<int, int>, …>>`."""
    return "1AI" + "S_I" * (depth - 1) + leaf + "E" + "".join(f"{_reference(level + 1)}E" for level in range(depth - 1))


def _hostile() -> dict[str, str]:
    pack = "i" * 200
    return {
        "deep": "_Z1f" + "P" * 20_000 + "i",
        "deepest that is allowed": "_Z1f" + "P" * 1_000 + "i",
        "nested": "_ZN" + "1aI" * 300 + "i" + "E" * 301,
        "nested names": "_Z" * 500,
        "local": "_Z" + "Z" * 1000 + "1fvE1g",
        "expressions": "_Z1fIXng" + "ng" * 400 + "Li1EEEvv",
        "doubled": "_ZTI" + _doubled(60),
        "just doubled enough": "_ZTI" + _doubled(16),
        "fat and doubled": "_ZTI" + _doubled(30, "Fv" + "y" * 500 + "Ei"),
        "fat, just enough": "_ZTI" + _doubled(11, "Fv" + "y" * 900 + "Ei"),
        "parameters": "_Z1f1AIiiE" + "".join(f"S_I{_reference(n)}{_reference(n)}E" for n in range(1, 100)),
        "packs in packs": f"_Z1fIJ{pack}EJ{pack}EJ{pack}EEvDp1AIJDpS_IJDpS_IJT_T0_T1_EEEEEE",
        "patterns of packs": f"_Z1fIJ{pack}EEvDp1AIJT_DpS_IJT_DpS_IJT_DpS_IJT_EEEEEEEE",
        "only references": "_Z1f" + "S_" * 10_000,
        "digits": "_Z" + "9" * 10_000,
        "huge number": "_Z1fILi" + "9" * 900 + "EEvv",
        "empty": "",
        "only the mark": "_Z",
        "zero": "_Z1f\0i",
        "not ASCII": "_Z5größev",
        "not text": "_Z1f\udcff",
    }


def test_names_of_types() -> None:
    assert demangled_type("St13runtime_error") == "std::runtime_error"
    assert demangled_type("NSt3__112basic_stringIcEE") == "std::basic_string<char>"
    assert demangled_type("N12_GLOBAL__N_15LocalE") == "(anonymous namespace)::Local"
    assert demangled_type("Z4mainE5Local") == "main::Local"
    assert demangled_type("PKc") == "char const*"
    assert demangled_type("Dn") == "std::nullptr_t"
    assert demangled_type("not a name") == "not a name"


def test_brackets_close_as_the_standard_writes_them_now() -> None:
    """A catchpoint's pattern matches the same text whatever the runtime's custom is."""
    name = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
    assert demangled_type(name) == "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>"
    assert demangled_type("St6vectorIS_IiEE").endswith(">>")
    assert demangled_symbol("_ZN1AgtIiEEbT_") == "bool A::operator><int>(int)"
    assert demangled_symbol("_ZN1ArsIiEEbT_") == "bool A::operator>><int>(int)"


def test_names_of_functions() -> None:
    assert demangled_symbol("_ZN2at6Tensor4itemEv") == "at::Tensor::item()"
    assert demangled_symbol("_ZN4demo5worldC1Ei") == "demo::world::world(int)"
    assert demangled_symbol("main") == "main"
    assert demangled_symbol("\x1b[31mmain") == clean_line("\x1b[31mmain")
    assert demangled_symbol("_Z7größev") == "größe()"  # five letters, seven bytes


@pytest.mark.parametrize("libraries", _RUNTIMES, indirect=True, ids=str)
def test_each_runtime_gives_the_same_text(libraries: None) -> None:
    assert demangled_symbol(_ANY) == "void demo::world<foo>()"
    assert demangled_type("St4pairIiS_IlbEE") == "std::pair<int, std::pair<long, bool>>"
    assert demangled_type("NSt3__113runtime_errorE") == "std::runtime_error"
    assert demangled_type("N12_GLOBAL__N_15LocalE") == "(anonymous namespace)::Local"


@pytest.mark.parametrize("libraries", [("libno-such-runtime.so.1",)], indirect=True)
def test_without_a_runtime_names_stay_mangled(libraries: None) -> None:
    assert demangled_symbol(_ANY) == _ANY
    assert demangled_type("St13runtime_error") == "St13runtime_error"
    assert demangled_type("\x1b[31m") == clean_line("\x1b[31m")


@pytest.mark.parametrize("runtime", _RUNTIMES, ids=str)
@pytest.mark.invariant("demangling.G2")
def test_G2_no_name_costs_much(runtime: tuple[str, ...]) -> None:
    """In a process of its own: what it may cost is memory without end, or a stack that overflows."""
    program = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "from livedbg.text import demangling\n"
        f"demangling._LIBRARIES = {runtime}\n"
        f"for kind, name in {_hostile()!r}.items():\n"
        "    for text in (demangling.demangled_symbol(name), demangling.demangled_type(name.removeprefix('_ZTI'))):\n"
        "        assert len(text) <= 4096, kind\n"
        "        print(kind, len(text))\n"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2 * len(_hostile())
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 30, "the processor's time of all names"


def test_names_up_to_the_limit_are_still_understood() -> None:
    assert demangled_type(_doubled(4)) == "A<" * 4 + "int, int>, A<int, int>>" + ", A<A<int, int>, A<int, int>>>" + (
        ", A<A<A<int, int>, A<int, int>>, A<A<int, int>, A<int, int>>>>"
    )
    assert demangled_type(_doubled(12)).startswith("A<A<A<") and demangled_type(_doubled(12)).endswith("…")
    assert demangled_type(_doubled(60)) == _doubled(60)  # would be 2⁶⁰ letters
    assert demangled_symbol("_Z1f" + "P" * 500 + "i") == f"f(int{'*' * 500})"
    assert demangled_symbol("_Z1f" + "P" * 20_000 + "i").startswith("_Z1fPPPP")


_PIECES = ["1A", "1AI", "S_I", "I", "E", "E", "S_", "S0_", "S1_", "S2_", "T_", "T0_", "P", "J", "DpT_", "Dp", "i", "y"]


@given(st.lists(st.sampled_from(_PIECES), max_size=40).map("".join))
@pytest.mark.invariant("demangling.G2")
def test_G2_the_bound_holds(pieces: str) -> None:
    for name in (f"_ZTI{pieces}", f"_Z1f{pieces}"):
        if demangling._expanded(name) <= 1 << 20:
            text = demangling._call(name.encode())
            assert len(text) <= min(20 * demangling._expanded(name), demangling._MOST_TEXT)


@given(st.text(max_size=30) | st.text("_ZNSt1A9TIEPKC\0", max_size=30).map("_Z".__add__))
@pytest.mark.invariant("demangling.G1")
def test_G1_any_name_gives_one_clean_line(name: str) -> None:
    for text in (demangled_symbol(name), demangled_type(name)):
        assert text == clean_line(text)


def test_threads_at_once() -> None:
    names = [f"_ZN4demo{len(str(n)) + 1}f{n}Ev" for n in range(2_000)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(demangled_symbol, names))
    assert found == [f"demo::f{n}()" for n in range(2_000)]


@pytest.mark.parametrize(
    ("mangled", "readable"),
    [
        (f"_ZZN8pybind1112cpp_function10initializeI{'RZN5torch' * 200}", "pybind11::cpp_function::initialize…"),
        ("_ZNSt6vectorI3", "std::vector…"),
        ("_ZN12_GLOBAL__N_13runE", "(anonymous namespace)::run…"),
        ("_ZNK3app6Engine4stepEv", "app::Engine::step…"),
        ("_Z99run", "_Z99run"),
        ("_Zxyz", "_Zxyz"),
        ("run", "run"),
        ("", ""),
    ],
)
def test_the_readable_part_of_a_name_that_stayed_mangled(mangled: str, readable: str) -> None:
    assert short_symbol(mangled) == readable


@given(st.text("_ZNSt0123456789aIE", max_size=60))
def test_any_name_has_a_short_one(name: str) -> None:
    assert len(short_symbol("_Z" + name)) <= len(name) + 40
