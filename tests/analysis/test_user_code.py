"""The user's own line in a stack: what it is, what it never is, and how it is written."""

from __future__ import annotations

import pytest

from livedbg.analysis.place_names import function_name, place_text
from livedbg.analysis.user_code import NO_FRAMEWORKS, Framework, Inside, UserCode
from livedbg.model import Frame, Stack
from livedbg.session.rulebook import user_code

FUTEX = Frame(function="__futex_abstimed_wait_common64", module="libc.so.6", address=0x7F)
OWN = Frame(function="serve(int)", file="/home/me/server.cpp", line=31, module="server")
EVAL = Frame(function="_PyEval_EvalFrameDefault", module="libpython3.11.so.1.0")
WAIT = Frame(function="Condition.wait", file="/usr/lib/python3.11/threading.py", line=320, language="python")
TRAIN = Frame(function="fetch_batch", file="/home/me/train.py", line=12, language="python")


def native(function: str, module: str = "server", file: str | None = None, line: int | None = None) -> Frame:
    return Frame(function=function, module=module, file=file, line=line)


def python(function: str, file: str, line: int = 7) -> Frame:
    return Frame(function=function, file=file, line=line, language="python")


def chosen(*frames: Frame, code: UserCode = NO_FRAMEWORKS) -> Frame | None:
    return code.frame(Stack(thread="thread:box/1/1", frames=frames, taken_mono_ns=1, source="test"))


@pytest.mark.invariant("user_code.U2")
@pytest.mark.parametrize(
    "inner",
    [
        native("__lll_lock_wait", "libc.so.6", "./nptl/lowlevellock.c", 49),
        native("std::mutex::lock()", "server", "/usr/include/c++/12/bits/std_mutex.h", 100),
        native("void std::__invoke_impl<void, main::{lambda()#1}>(std::__invoke_other)", "server", "/x/invoke.h", 6),
        native("pthread_mutex_lock", "server"),  # a static libc
        native("nanosleep", "server"),
        native("std::sys::sync::mutex::futex::Mutex::lock", "app", "/rustc/9fc6/library/std/src/sys/futex.rs", 9),
        native("runtime.futex", "app", "/usr/local/go/src/runtime/sys_linux_amd64.s", 557),
        native("acquire_timed", "python3.11", "./Modules/_threadmodule.c", 98),
        native("sleep", "_ctypes.cpython-311-x86_64-linux-gnu.so", "/tmp/Python-3.11/Modules/_ctypes/callproc.c", 923),
        native("ffi_call_unix64", "libffi.so.8"),
        native("0x7f0012", "server"),
        native("boost::asio::detail::scheduler::run(boost::system::error_code&)", "server", "/opt/boost/s.ipp", 20),
        native("__tsan_mutex_lock", "server"),
        native("__lll_lock_wait", "server", "lowlevellock.c", 49),  # a static libc with lines
        native("__GI___poll", "server", "poll.c", 29),
        native("__interceptor_pthread_join", "libtsan.so.2"),
        native("epoll_dispatch", "libevent-2.1.so.7"),
        python("Queue.get", "/usr/lib/python3.11/queue.py"),
        python("wait", "/root/.pyenv/versions/3.12.1/lib/python3.12/threading.py"),
        python("_call_with_frames_removed", "<frozen importlib._bootstrap>"),
        python("select", "/opt/conda/lib/python3.10/selectors.py"),
        python("handle", "/venv/lib/python3.12/site-packages/flask/app.py"),
        python("get", "/usr/lib/python3/dist-packages/requests/api.py"),
        python("main", "/opt/python311.zip/runpy.py"),
        python("<module>", "/venv/bin/gunicorn"),
        python("pyarrow.lib.check_status", "pyarrow/error.pxi"),
    ],
)
def test_what_is_inside_of_something_else_is_never_preferred_to_the_users_code(inner: Frame) -> None:
    assert chosen(FUTEX, inner, OWN) == OWN
    assert chosen(FUTEX, inner, TRAIN) == TRAIN


@pytest.mark.parametrize(
    "frame",
    [
        OWN,
        TRAIN,
        native("lambda", "server", "server.cpp", 4),  # a relative path, as the compiler was given it
        native("read_batch", "libengine.so", "/src/engine/read.cpp", 7),
        native("read", "server", "/src/server/read.cpp", 7),  # named like a function of libc
        native("main", "app", "/usr/src/app/main.cpp", 7),  # where images of docker keep programs
        native("step", "server", "/home/me/go/src/example.com/step.go", 7),
        native("solve", "libmodel.so", "/home/me/Modules/solve.c", 7),
        python("main", "/usr/src/app/train.py"),
        python("<module>", "<string>", 1),
        python("run", "/home/me/lib/tools.py"),
        python("cell", "<ipython-input-3-ab>"),
        python("fit", "train.py"),
        python("step", "/home/me/pythonic/lib/step.py"),
    ],
)
def test_what_the_user_wrote_is_the_users(frame: Frame) -> None:
    assert NO_FRAMEWORKS.inside(frame) is Inside.USER
    assert chosen(FUTEX, frame, native("main", "server", "/home/me/main.cpp", 9)) == frame


@pytest.mark.invariant("user_code.U2")
def test_without_lines_the_function_of_the_program_is_named_and_one_with_a_line_is_better() -> None:
    bare = native("engine_step", "libengine.so")
    assert chosen(FUTEX, bare, native("main", "server")) == bare
    assert chosen(FUTEX, bare, OWN) == OWN


@pytest.mark.invariant("user_code.U2")
def test_sources_of_others_that_a_project_holds_are_a_package() -> None:
    bare = native("tank::Valve::shut", "libtank.so")
    for file in ("../deps/pool/src/pool.c", "/w/app/third_party/pool/pool.cc", "/w/build/_deps/pool-src/pool.h"):
        pool = native("poolLoop", "plant", file, 12)
        assert chosen(FUTEX, bare, pool) == bare
        assert chosen(FUTEX, pool) == pool
    own = native("fill", "plant", "/w/deps_of_plant/fill.c", 7)
    assert chosen(FUTEX, bare, own) == own


@pytest.mark.invariant("user_code.U2")
def test_without_any_code_of_the_users_the_narrowest_inside_is_named_but_never_libc() -> None:
    package = python("handle", "/venv/lib/python3.12/site-packages/gunicorn/sync.py")
    script = python("<module>", "/venv/bin/gunicorn")
    assert chosen(FUTEX, WAIT, package, script) == package
    assert chosen(FUTEX, EVAL, WAIT) == WAIT
    assert chosen(FUTEX, EVAL, native("start_thread", "libc.so.6"), native("0x12", "server")) is None
    assert chosen() is None
    assert NO_FRAMEWORKS.frame(None) is None


@pytest.mark.invariant("user_code.U3")
def test_python_wins_over_an_extension_without_lines_and_loses_to_the_users_own_native_line() -> None:
    extension = native("at_wait", "_engine.cpython-311-x86_64-linux-gnu.so")
    assert chosen(FUTEX, extension, TRAIN) == TRAIN
    lined = native("engine::wait()", "_engine.cpython-311-x86_64-linux-gnu.so", "/home/me/engine.cpp", 31)
    assert chosen(FUTEX, lined, TRAIN) == lined
    assert chosen(FUTEX, extension, WAIT) == extension


@pytest.mark.invariant("user_code.U4")
@pytest.mark.parametrize(
    ("deep", "place", "raised"),
    [
        (4, "/w/train.py", True),
        (3, "/w/train.py", False),  # the call itself is what failed
        (4, "/venv/lib/python3.12/site-packages/plant/run.py", False),  # no place of the user's
    ],
)
def test_what_raised_deep_inside_a_package_is_known_beside_the_place(deep: int, place: str, raised: bool) -> None:
    package = [python(f"f{n}", f"/venv/lib/python3.12/site-packages/tank/t{n}.py") for n in range(deep)]
    stack = [*package, python("step", place), python("<module>", place)]
    assert UserCode().raised_in(stack) == (package[0] if raised else None)
    inner = [python("one", "/fw/a.py"), *package[1:], *stack[deep:]]
    framework = UserCode([Framework(files=("/fw/",))])
    assert framework.raised_in(inner) is None  # it tells its users nothing
    assert framework.raised_in(inner, bare=True) == (inner[0] if place == "/w/train.py" else None)


@pytest.mark.invariant("user_code.U4")
def test_what_raised_below_the_outermost_line_of_a_script_is_known_however_near_it_is() -> None:
    package = python("fill", "/venv/lib/python3.12/site-packages/tank/t.py")
    assert UserCode().raised_in([package, python("<module>", "/w/train.py")]) == package
    assert UserCode().raised_in([python("<module>", "/w/train.py")]) is None


@pytest.mark.invariant("user_code.U5")
@pytest.mark.parametrize(
    ("source", "function", "caller", "wrapped"),
    [
        ("@plan(backend='one')", "fill", "/fw/run.py", True),
        ("@plan(backend='one')", "fill", "/w/train.py", False),  # a function within it is decorated
        ("@plan(backend='one')", "<module>", "/fw/run.py", False),
        ("fill(x)", "fill", "/fw/run.py", False),
    ],
)
def test_the_line_of_a_decorator_is_no_place_if_a_library_calls_its_function(
    source: str, function: str, caller: str, wrapped: bool
) -> None:
    at = Frame(function, "/w/train.py", 3, language="python", source=(source,), source_from=3)
    stack = [python("guard", "/fw/guard.py"), at, python("call", caller), python("<module>", "/w/train.py", 10)]
    assert UserCode([Framework(files=("/fw/",))]).frame_of(stack) == (stack[3] if wrapped else at)


@pytest.mark.invariant("user_code.U1")
def test_the_place_of_a_stack_depends_on_that_stack_only() -> None:
    code = UserCode()
    first, second = (Stack(thread="t", frames=(FUTEX, own), taken_mono_ns=1, source="") for own in (OWN, TRAIN))
    for stack, own in ((first, OWN), (second, TRAIN), (first, OWN)):
        assert code.frame(stack) == own
        assert UserCode().frame(stack) == own


def test_a_system_adds_its_framework_and_packages_come_before_it() -> None:
    code = UserCode(
        [Framework(modules=("libfw",), files=("/fw/",), functions=("fw::",)), Framework(modules=("libother",))]
    )
    inner = (
        native("run()", "libfw_core.so", "/build/core.cpp", 3),
        native("go()", "libother.so", "/build/core.cpp", 3),
        native("int fw::step<int>(int)", "server", "/src/step.h", 3),
        python("step", "/opt/fw/step.py"),
    )
    assert [code.inside(frame) for frame in inner] == [Inside.FRAMEWORK] * 4
    assert chosen(FUTEX, *inner, OWN, code=code) == OWN
    package = python("train", "/venv/lib/python3.12/site-packages/mine/train.py")
    assert chosen(FUTEX, inner[3], WAIT, package, code=code) == package
    assert chosen(FUTEX, WAIT, inner[3], code=code) == inner[3]


@pytest.mark.parametrize(
    "frame",
    [
        native("c10d::ProcessGroupNCCL::wait()", "libtorch_cuda.so"),
        native("at::native::item(at::Tensor const&)", "solver", "/src/ATen/x.cpp", 3),
        native("ncclGroupEnd", "libnccl.so.2"),
        native("cuStreamSynchronize", "libcuda.so.1"),
        python("all_reduce", "/venv/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py"),
        python("__call__", "/home/me/pytorch/torch/_ops.py"),
        python("synchronize", "/venv/lib/python3.11/site-packages/torch_npu/npu/utils.py"),
        python("execute", "/opt/pytorch/nvfuser/nvfuser/__init__.py"),
        python("execute", "/opt/pytorch/Fuser/python/nvfuser_direct/__init__.py"),
        python("__call__", "/opt/pytorch/lightning-thunder/thunder/executors/nvfuserex_impl.py"),
        python("apply", "/home/me/vllm/vllm/model_executor/layers/linear.py"),
        python("forward", "/home/me/vllm/vllm/model_executor/layers/vocab_parallel_embedding.py"),
        python("<module>", f"/tmp/tmpq1/ab/c{'q7' * 25}a.py"),
    ],
)
def test_the_built_in_systems_name_their_frameworks(frame: Frame) -> None:
    code = user_code()
    assert code.inside(frame) is Inside.FRAMEWORK
    assert chosen(FUTEX, frame, TRAIN, code=code) == TRAIN


@pytest.mark.parametrize(
    "frame",
    [
        native(
            "nvfuser::IndexCompute::handle(Split*)", "test_nvfuser", "/opt/pytorch/nvfuser/csrc/index_compute.cpp", 3
        ),
        python("test_cat", "/opt/pytorch/nvfuser/tests/python/test_ops.py"),
        python("main", "/home/me/nvfuser/bench.py"),
        python("forward", "/home/me/vllm/vllm/model_executor/models/pump.py"),
        python("turn", "/home/me/vllm/vllm/model_executor/layers/valves/pump.py"),  # one of a kind, as a model's
        python("fill", "/home/me/tank/layers/pump.py"),
        python("main", "/home/me/collect_measurements_of_all_pumps_and_all_their_tanks.py"),
    ],
)
def test_code_of_those_who_work_on_a_framework_is_their_own(frame: Frame) -> None:
    assert user_code().inside(frame) is Inside.USER


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("serve(int)", "serve"),
        ("app::Engine::run<int>(int)", "app::Engine::run"),
        ("std::vector<int, std::allocator<int> > app::make(int) const", "app::make"),
        ("app::detail::long_namespace::Engine::step(int)", "Engine::step"),
        ("(anonymous namespace)::step()", "step"),
        ("main::{lambda()#1}::operator()() const", "main::lambda"),
        ("start(char const*, std::function<void ()>)::{lambda()#1}::operator()() const", "start::lambda"),
        ("main(int, char**)::<lambda()>::operator()(void) const", "main::lambda"),
        ("main::{lambda(void*)#9}::_FUN(void*)", "main::lambda"),
        ("app::Functor::operator()(int)", "app::Functor::operator()"),
        ("operator()", "operator()"),
        ("std::ostream& operator<<(std::ostream&, X)", "operator<<"),
        ("step.constprop.0", "step"),
        ("step [clone .isra.0]", "step"),
        ("a<b", "a<b"),
        ("", ""),
        ("x" * 60, "x" * 39 + "…"),
    ],
)
def test_a_function_is_named_by_one_word(function: str, name: str) -> None:
    assert function_name(function) == name


def test_a_place_is_a_function_and_its_line_or_else_its_module() -> None:
    assert place_text(OWN) == "serve (server.cpp:31)"
    assert place_text(native("engine_step(int)", "libengine.so")) == "engine_step (libengine.so)"
    assert place_text(python("hold.<locals>.inner", "/home/me/train.py")) == "inner (train.py:7)"
    assert place_text(python("<module>", "/home/me/train.py")) == "train.py:7"
    assert place_text(Frame(function="f")) == "f"


def test_a_function_of_java_is_the_user_s_unless_its_package_is_known() -> None:
    names = ("java.util.Arrays.copyOf", "org.apache.spark.rdd.RDD.iterator", "com.acme.etl.Dedup$.run")
    frames = [Frame(function=name, file="X.java", line=3, language="java") for name in names]
    assert [NO_FRAMEWORKS.inside(frame) for frame in frames] == [Inside.LIBRARY, Inside.PACKAGE, Inside.USER]
