# `make help` lists the targets. Environments are made on first use: .venv with the newest Paddle
# that the package knows, .venv-2.6 and so on with an older one each.

PYTHON ?= python3
VENV ?= .venv
RUN = $(VENV)/bin
SOURCES = _paddle_ipu_autoload.py setup.py paddle_ipu passes ops tests tools examples benchmarks
EXTRAS = dev,bert,ernie,mnist,poprun,resnet50,serving,text-generation
# Each of the test processes gets its share of the cores.
TEST_PROCESSES ?= 2
PYTEST = -m pytest -n $(TEST_PROCESSES)
# Each test process would otherwise compile the tests anew.
unexport PYTHONDONTWRITEBYTECODE

# What an environment is made again for.
BUILT_FROM = pyproject.toml setup.py $(wildcard $(addprefix paddle_ipu/xla/kernels/,*.cc *.h */*.cc */*.h */*.inc))

# `make test ISA=AVX2` runs everything as on a processor that has no more: XLA, oneDNN and our own
# kernels (which obey oneDNN's variable), and MKL in Paddle's executor.
ifneq ($(ISA),)
export ONEDNN_MAX_CPU_ISA = $(ISA)
export XLA_FLAGS = --xla_cpu_max_isa=$(ISA)
export MKL_ENABLE_INSTRUCTIONS = $(ISA)
endif

# The releases that other environments hold. Paddle 2.6 has the old API whole; in `oldest` all that
# the package is built on is of the first version that it takes, in `newest` of the last one that
# the newest Python here has.
VERSIONS_2.6 = paddlepaddle==2.6.2
VERSIONS_3.0 = paddlepaddle==3.0.0
VERSIONS_3.1 = paddlepaddle==3.1.1
VERSIONS_3.2 = paddlepaddle==3.2.2
VERSIONS_oldest = $(shell $(PYTHON) -m tools.oldest_versions)
# What brings MNIST asks for a newer NumPy; two files of tests need it.
EXTRAS_oldest = $(subst mnist$(comma),,$(EXTRAS))
LEFT_OUT_oldest = $(addprefix --ignore tests/journeys/examples/,test_mnist.py test_popart_programs.py)
comma = ,
PYTHON_newest = $(shell for python in python3.13 python3.12 $(HOME)/.pyenv/versions/3.13*/bin/python $(HOME)/.pyenv/versions/3.12*/bin/python $(PYTHON); do \
	"$$python" -c '' 2>/dev/null && echo "$$python" && break; done)

# The tiers are pytest's markers; CONTRIBUTING.md explains them, tests/tiers.py has them.
CORE = -m "not long and not thorough"
CORE_OF_OLDEST = -m "not long and not thorough and not newest and not same"

.PHONY: help bert mnist resnet50 ernie text-generation word2vec inference c-library venv wheel docs docs-serve format lint types imports
.PHONY: test test-all core core-2.6 core-oldest core-newest every every-2.6 every-3.0 every-3.1 every-3.2 examples verify-bert onnx-nodes
.PHONY: fuzz steps venv-2.6 venv-3.0 venv-3.1 venv-3.2 venv-oldest venv-newest clean
# Environments are kept, though only patterns name them.
.PRECIOUS: .venv-%/installed $(VENV)/installed-%

help:  ## list the targets
	@grep -E '^[a-z0-9.-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 14

bert: $(VENV)/installed-bert  ## pretrain a small BERT on the IPU Model; ARGS="--help" tells more
	$(RUN)/python -m examples.bert.pretrain $(ARGS)

mnist: $(VENV)/installed-mnist  ## train a small network on MNIST; ARGS="--replicas 4" on a POD4
	$(RUN)/python -m examples.mnist.train $(ARGS)

resnet50: $(VENV)/installed-resnet50  ## train ResNet-50 on small images; ARGS="--num-ipus 4 --fp16"
	$(RUN)/python -m examples.resnet50.train $(ARGS)

ernie: $(VENV)/installed-ernie  ## run a saved ERNIE-style encoder, beside Paddle's CPU executor
	$(RUN)/python -m examples.ernie.infer $(ARGS)

text-generation: $(VENV)/installed-text-generation  ## train a small decoder and let it write
	$(RUN)/python -m examples.text_generation.generate $(ARGS)

word2vec: $(VENV)/installed-inference  ## run the word2vec sample of Paddle Inference on IPU and CPU
	$(RUN)/python -m examples.inference.word2vec $(ARGS)

c-library: $(VENV)/installed-inference  ## build the C library over predictors, and its sample in C++
	$(RUN)/python -m paddle_ipu.inference.c_api.build --output out/c
	$(RUN)/python -m examples.inference.word2vec
	$(CXX) -std=c++17 -O2 examples/inference/word2vec.cc -o out/c/word2vec -Iout/c -Lout/c \
		-lpaddle_ipu_inference -Wl,-rpath,$(abspath out/c)
	out/c/word2vec out/word2vec/word2vec.json out/word2vec/word2vec.pdiparams

inference: word2vec  ## run the samples of Paddle Inference: word2vec, ResNet-50, a custom operator
	$(RUN)/python -m examples.inference.resnet50
	$(RUN)/python -m examples.inference.custom_operator

$(VENV)/installed-inference: $(BUILT_FROM)
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --upgrade pip
	$(RUN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/installed-%: $(BUILT_FROM)
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --upgrade pip
	$(RUN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@

venv: $(VENV)/installed  ## make .venv and install the project with all it needs for development

$(VENV)/installed: $(BUILT_FROM)
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --upgrade pip
	$(RUN)/python -m pip install --quiet --editable '.[$(EXTRAS)]'
	@touch $@

.venv-%/installed: $(BUILT_FROM)
	$(or $(PYTHON_$*),$(PYTHON)) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --upgrade pip
	.venv-$*/bin/python -m pip install --quiet --editable '.[$(or $(EXTRAS_$*),$(EXTRAS))]' $(VERSIONS_$*)
	@touch $@

venv-2.6: .venv-2.6/installed  ## make .venv-2.6 with Paddle 2.6 (venv-3.0, venv-3.1, venv-3.2: likewise)
venv-3.0: .venv-3.0/installed
venv-3.1: .venv-3.1/installed
venv-3.2: .venv-3.2/installed
venv-oldest: .venv-oldest/installed  ## make .venv-oldest with the oldest versions of what the package is built on
venv-newest: .venv-newest/installed  ## make .venv-newest with the newest Python here and all that is newest on it

wheel: .venv-wheel/installed  ## build an sdist and a wheel for every Python into dist, and check them
	.venv-wheel/bin/python -m tools.wheel

# Material would otherwise advertise its successor; --quiet would lose the warnings that fail the build.
docs docs-serve: export NO_MKDOCS_2_WARNING = 1
docs: .venv-docs/installed  ## build the documentation into site; a warning is an error
	.venv-docs/bin/python -m mkdocs build --strict

docs-serve: .venv-docs/installed  ## show the documentation on this machine, built again when a page changes
	.venv-docs/bin/python -m mkdocs serve

# `make wheel` and `make docs` need tools alone, not the package.
.venv-wheel/installed .venv-docs/installed: .venv-%/installed: pyproject.toml
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --upgrade pip
	.venv-$*/bin/python -m pip install --quiet --group $*
	@touch $@

format: venv  ## rewrite the sources in ruff's format
	$(RUN)/ruff format $(SOURCES)
	$(RUN)/ruff check --select I --fix $(SOURCES)

lint: venv  ## check format and lint rules
	$(RUN)/ruff format --check $(SOURCES)
	$(RUN)/ruff check $(SOURCES)

types: venv  ## check types with mypy --strict; count what is Any
	$(RUN)/mypy
	@echo "$$(grep -rnE --include='*.py' ': Any\b|-> Any\b' paddle_ipu ops passes | wc -l) lines with Any for a type"

imports: venv  ## check who may import whom
	$(RUN)/lint-imports --no-logo

# XLA compiles most programs but once for all Paddle versions.
core core-% every every-%: export JAX_COMPILATION_CACHE_DIR = $(abspath out/xla)
core core-% every every-%: export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS = 0.05
# The comparison of both versions' programs, tests/versions, needs the other version's Python.
core core-oldest core-newest every: export PADDLE_IPU_PADDLE26_PYTHON = $(abspath .venv-2.6/bin/python)

core: venv venv-2.6  ## run the tests of `make test` on the newest Paddle
	$(RUN)/python $(PYTEST) $(CORE)

core-2.6: venv-2.6  ## run those of them that depend on Paddle's version on 2.6
	.venv-2.6/bin/python $(PYTEST) $(CORE_OF_OLDEST)

core-oldest core-newest: core-%: venv-% venv-2.6  ## run the tests of `make test` with the oldest versions (core-newest: with the newest)
	.venv-$*/bin/python $(PYTEST) $(CORE) $(LEFT_OUT_$*)

every: venv venv-2.6  ## run every test on the newest Paddle
	$(RUN)/python $(PYTEST) -m ""

every-2.6: venv-2.6  ## run every test but the thorough ones on Paddle 2.6
	.venv-2.6/bin/python $(PYTEST) -m "not thorough"

every-3.0: venv-3.0  ## run those of them that depend on Paddle's version on 3.0 (every-3.1, every-3.2: likewise)
every-3.1: venv-3.1
every-3.2: venv-3.2
every-3.0 every-3.1 every-3.2: every-%:
	.venv-$*/bin/python $(PYTEST) -m "not thorough and not same"

# Examples that are checked are compiled.
examples verify-bert: export IPU_CACHE_PATH =
examples: venv  ## run the examples at their smallest size
	$(RUN)/python -m examples.bert.pretrain --preset smoke --output out/test
	$(RUN)/python -m tests.journeys.examples.journey --output out/test
	$(RUN)/python -m examples.mnist.train --smoke --output out/test
	$(RUN)/python -m examples.resnet50.train --smoke --output out/test
	$(RUN)/python -m examples.ernie.infer --smoke --output out/test
	$(RUN)/python -m examples.text_generation.generate --smoke --output out/test
	$(RUN)/python -m examples.inference.word2vec --output out/test

verify-bert: venv  ## compare the small BERT's first steps with Paddle's CPU executor
	$(RUN)/python -m examples.bert.pretrain --preset small --verify --output out/verify

onnx-nodes: venv  ## run ONNX's node tests as of opset 11; ARGS="--only PATTERN" runs some
	$(RUN)/python -m tests.operators.onnx_nodes.run $(ARGS)

KIND ?= operators
CASES ?= 2000
SEED ?= 0
fuzz: venv  ## try random cases beside Paddle's CPU executor; KIND=operators CASES=2000 SEED=1 LEDGER=--ledger
	$(RUN)/python -m tests.differential $(KIND) --cases $(CASES) --seed $(SEED) $(LEDGER)

steps: venv venv-2.6  ## compare the lowered steps with those of another checkout; OTHER=../before
	$(RUN)/python -m tools.lowered_steps compare $(OTHER) --paddle26-python $(abspath .venv-2.6/bin/python)

test: lint types imports core core-2.6 examples  ## check everything that every change must keep

ON_EVERY_PADDLE = every every-2.6 every-3.0 every-3.1 every-3.2
test-all: lint types imports $(ON_EVERY_PADDLE) core-oldest core-newest examples verify-bert onnx-nodes  ## check everything, on every Paddle

clean:  ## remove what building and testing leave behind, environments included
	rm -rf $(VENV) .venv-2.6 .venv-3.0 .venv-3.1 .venv-3.2 .venv-oldest .venv-newest .venv-wheel .venv-docs build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache \
		.import_linter_cache .hypothesis
