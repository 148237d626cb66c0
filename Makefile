# Two commands: `make demo` (a really stuck workload, and livedbg attached to it) and `make test`.
VENV ?= .venv
PY := $(VENV)/bin/python
DEMO ?= deadlock
# SUITE=--strict: a test that fails in the parallel run and passes alone fails the run (tests/suite.py).
SUITE ?=
# Most tests wait for real programs: more workers than cores.
PYTEST_WORKERS ?= 4

.DEFAULT_GOAL := help
.PHONY: help demo test lint types unit coverage bench chaos fuzz mutants zoo wild aoti sim-check jobs heavy golden guides long-watch stress gpu-check docs snapshots setup clean

help: ## what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: ## the virtual environment and the system packages that the demo needs
	@.ci/setup demo $(VENV)

demo: ## start a really stuck workload and attach to it (DEMO=deadlock|gil|pipeline|ascend)
	@.ci/setup demo $(VENV)
	@$(VENV)/bin/livedbg demo $(DEMO)

test: ## lint, types and the whole test suite
	@.ci/setup test $(VENV)
	@$(MAKE) --no-print-directory lint types unit

lint:
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports --no-cache
	$(VENV)/bin/python -m tests.house

types:
	$(VENV)/bin/mypy

unit:
	$(PY) -m tests.suite $(SUITE) -n $(PYTEST_WORKERS) --dist worksteal

coverage: ## the test suite with what of the code it ran
	@.ci/setup test $(VENV)
	$(PY) -m pytest -n $(PYTEST_WORKERS) --dist worksteal --cov --cov-report=term

bench: ## pause, cost and speed against gdb, py-spy, pystack and grep, as ratios
	@.ci/setup bench $(VENV)
	$(PY) -m tests.bench

chaos: ## kill and stop livedbg, gdb and the guard at random moments; the target must not notice (ROUNDS=500)
	@.ci/setup test $(VENV)
	$(PY) -m tests.touch.chaos $(ROUNDS)

gpu-check: ## device state on a real GPU: look, dump, attach; recordings in build/gpu-check (exit code 77 without one)
	@.ci/setup test $(VENV)
	$(PY) -m tests.gpu

fuzz: ## damaged and hostile inputs for every reader of foreign data, limits of 10 s and 1 GB each (CASES=50000)
	@.ci/setup test $(VENV)
	$(PY) -m tests.fuzz $(CASES)

mutants: ## small changes of the code that decides verdicts, which the tests should notice (MUTANTS=rules|analysis|waits|ascend|FILE)
	@.ci/setup mutants $(VENV)
	$(PY) -m tests.mutants $(MUTANTS)

zoo: ## what livedbg says of programs that it was not made for; those that are installed (ZOO=words of names)
	@.ci/setup test $(VENV)
	$(PY) -m tests.zoo $(ZOO)

guides: ## run the commands of docs/guides for real and write the pages (GUIDES=words of names)
	@.ci/setup test $(VENV)
	$(PY) -m tests.guides.make $(GUIDES)

wild: ## what livedbg says of logs of failed jobs that nobody here wrote: bare, in every wrapping, amid 200 MB of lines
	@.ci/setup test $(VENV)
	$(PY) -m tests.wild --wrapped --padded

aoti: ## real AOTInductor models that are wrong, under the guide; needs torch and g++, takes minutes (AOTI=shape|dtype|nan|throw|hang)
	$(PY) -m tests.aoti $(AOTI)

sim-check: ## real runs of Ascend's simulator, hung, crashed and healthy, live and from their logs; SIMPLER and PTO_ISA name its sources (SIM=hang|async|…)
	$(PY) -m tests.sim $(SIM)

jobs: ## real torch.distributed jobs (gloo), hung and healthy, under launchers too; needs torch, takes minutes (JOBS=words of names)
	$(PY) -m tests.jobs $(JOBS)

golden: ## what livedbg says of all fixture logs, compared with tests/golden/sentences.txt; WRITE=1 takes it over
	@.ci/setup test $(VENV)
	$(PY) -m tests.golden $(if $(WRITE),--write)

heavy: ## the tests that `make test` leaves out: each has a shorter form there
	@.ci/setup test $(VENV)
	$(PY) -m pytest -n $(PYTEST_WORKERS) --dist worksteal -m heavy

long-watch: ## ten minutes of `watch` on a healthy Python job of 16 threads at a load of 20: no stall may be printed
	$(PY) -m tests.healthy.long

stress: ## ten minutes of healthy churn with delayed readings: no claim may be made; then hangs amid it (STRESS="--load 20")
	@.ci/setup test $(VENV)
	$(PY) -m tests.stress $(STRESS)

docs: ## the generated pages and pictures of docs/
	$(PY) -m tests.make_docs

snapshots: ## take the screen snapshots anew (look at them before you commit)
	$(PY) -m pytest tests/app --snapshot-update -n 0

clean: ## remove what was built
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis tests/targets/build
