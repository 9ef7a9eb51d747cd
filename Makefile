# Two commands do everything on a machine that has Python 3.11+ and a package index:
#   make demo   sets up and runs the main job on Spark
#   make test   sets up and runs every check that CI runs

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready

.PHONY: demo warm wheel test test-cluster fuzz fuzz-guided soak lint types docs canary constraints clean

# What the demo needs and no more: it is the first thing that a new user waits for.
demo: $(INSTALLED)
	$(BIN)/tocsin warm --family ranges --family words --family patterns --family attributes
	$(BIN)/tocsin demo

# Compile all kernels ahead of time; what is compiled already costs a few seconds.
warm: $(READY)
	$(BIN)/tocsin warm

# A wheel of this platform with compiled kernels: who installs it compiles nothing. LEVELS are LLVM's names of processors.
LEVELS := $(if $(filter x86_64,$(shell uname -m)),x86-64-v3 x86-64-v4,generic)
wheel: $(READY)
	rm -rf build/kernels
	for level in $(LEVELS); do \
		NUMBA_CPU_NAME=$$level NUMBA_CPU_FEATURES= TOCSIN_CACHE_DIR=$(CURDIR)/build/kernels/$$level $(BIN)/tocsin warm || exit 1; \
	done
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .

# Two processes; all tests that need the Spark session share one of them.
test: warm lint types
	$(BIN)/pytest -m "not slow and not cluster" -n 2 --dist loadgroup

# A Spark standalone cluster on this machine; executors and drivers are killed. FAULT_RUNS=20 for the long run.
test-cluster: $(READY)
	$(BIN)/pytest -m cluster tests/spark

# Random cases against DuckDB, lxml and the reference; another SEED each time, unless one is given. A difference is written
# to tests/fuzz/corpus, which `make test` replays. TARGETS="sql xml" for some of the targets, CASES for so many of each.
MINUTES ?= 10
FUZZ := PYTHONPATH=tests $(BIN)/python -m fuzz --minutes $(MINUTES)
fuzz: warm
	$(FUZZ) $(if $(SEED),--seed $(SEED)) $(if $(CASES),--cases $(CASES)) $(TARGETS)

# By coverage, for TARGET=text or TARGET=xml.
fuzz-guided: $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check --group fuzz
	TOCSIN_KERNELS=python PYTHONPATH=tests $(BIN)/python -m fuzz.guided $(TARGET) $(MINUTES)

# Threads, forks and clock jumps beside a writer: errors, the slope of memory, latencies.
HOURS ?= 1
soak: warm
	PYTHONPATH=tests $(BIN)/python -m soak --hours $(HOURS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# The documentation as a site, in site/; builds without a network.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir site

# The tests with the newest release of every dependency, upper bounds on numba and llvmlite among those left out.
canary:
	$(PYTHON) -m venv .venv-canary
	.venv-canary/bin/pip install --quiet --upgrade "pip>=25.1"
	.venv-canary/bin/pip install --quiet --editable '.[spark,serve,sigma,text,bench]' --group dev
	.venv-canary/bin/pip install --quiet --upgrade numba llvmlite
	.venv-canary/bin/pytest -m "not slow and not cluster"

# Set up once, and again when what is to be installed has changed: the package with Spark, then what the checks need.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Tocsin needs Python 3.11 or newer: make PYTHON=python3.12 ..."'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check "pip>=25.1"
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[spark]'
	touch $(INSTALLED)

$(READY): $(INSTALLED)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[spark,serve,sigma,text,bench]' --group dev
	touch $(READY)

# Compile the pinned versions anew; the file holds no addresses of a package index.
constraints:
	uv pip compile --universal --python-version 3.11 --all-extras --group dev --upgrade \
		--no-header --no-annotate --no-emit-index-url --no-emit-find-links pyproject.toml -o constraints.txt

clean:
	rm -rf $(VENV) .venv-canary .mypy_cache .ruff_cache .pytest_cache .hypothesis build demo results site
