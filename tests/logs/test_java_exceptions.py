"""Exceptions of Java, which logs show with their causes."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.logs.reading import verdict

STEPS = "".join(f"epoch {n} of 90, loss 0.{n}\n" for n in range(10, 40))
CHAIN = (
    "java.lang.RuntimeException: no server\n\tat com.a.Server.start(Server.java:120)\n"
    "\tat com.a.Main.main(Main.java:3)\n"
    "Caused by: java.io.IOException: cannot load /m/a.pt\n\tat com.a.Loader.load(Loader.java:71)\n\t... 2 more\n"
    "Caused by: java.lang.NullPointerException: config\n\tat com.a.Loader.parse(Loader.java:88)\n\t... 3 more\n"
)
SPARK = (
    'Exception in thread "main" org.apache.spark.SparkException: Job aborted due to stage failure: Task 33 failed 4 '
    "times, most recent failure: Lost task 33.3: com.x.GpuOOM: GPU OutOfMemory\n"
    "\tat ai.x.Table.split(Native Method)\n"
    "\tat ai.x.Table.split(Table.java:2171)\n\nDriver stacktrace:\n\tat org.apache.spark.X.fail(Dag.scala:26)\n"
)


@pytest.mark.invariant("blocks.J1")
def test_J1_the_root_of_a_chain_counts() -> None:
    said = verdict(f"2026-01-02 03:04:05,123 ERROR [main] app.Main - run failed\n{CHAIN}")
    assert said.state is VerdictState.CRASHED
    assert said.sentence.startswith(
        "Crashed in com.a.Loader.parse (Loader.java:88): java.lang.NullPointerException: config. It led to "
        "java.lang.RuntimeException: no server."
    )
    assert verdict(f"2026-01-02 03:04:05,123 ERROR [main] a.Main - failed\n{CHAIN}{STEPS}").state is not said.state


def test_one_that_ended_the_program() -> None:
    said = verdict(STEPS + SPARK)
    assert said.state is VerdictState.CRASHED
    assert "(Table.java:2171): org.apache.spark.SparkException: Job aborted due to stage failure" in said.sentence


@pytest.mark.invariant("blocks.J1")
def test_J2_that_of_a_pool_s_thread_and_a_warning_end_nothing() -> None:
    pool = 'Exception in thread "pool-1-thread-2" java.io.IOException: reset\n\tat org.x.Pool.run(Pool.java:3)\n'
    warned = "26/04/12 08:02:11 WARN TaskSetManager: Lost task 33.0: com.x.GpuOOM: no\n\tat ai.x.T.split(T.java:21)\n"
    for text in (pool, warned):
        assert verdict(STEPS + text).state is not VerdictState.CRASHED
