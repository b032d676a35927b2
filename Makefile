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
BUILT_FROM = pyproject.toml setup.py $(wildcard paddle_ipu/xla/kernels/*.cc paddle_ipu/xla/kernels/*.h)

# The releases that older environments hold. 2.6 has the old API whole; 3.0 to 3.2 are tested in turns.
PADDLE_2.6 = 2.6.2
PADDLE_3.0 = 3.0.0
PADDLE_3.1 = 3.1.1
PADDLE_3.2 = 3.2.2
# What `make test-all` runs beyond `make test`; `make test` runs one of them, in turns by commits. That
# their number is prime lets the turns within a share come round too.
SHARES = verify-bert unit-3.0 vision-models independent unit-3.1 onnx-nodes placements training unit-3.2 \
	half-table processes guides vision-models-2.6 examples-thorough rest-2.6 rows training-2.6 \
	sequence-models sequence-models-2.6
# Tests marked `thorough` belong to these shares by their folders, and to `guides` by none of them.
INDEPENDENT = tests/operators tests/popart tests/training
PROCESSES = tests/distributed
THOROUGH = $(INDEPENDENT) $(PROCESSES) tests/placement tests/precision tests/examples
# What no version of Paddle changes is left out on all but the newest; `rest-2.6` runs it on the oldest.
SAME = tests/xla tests/popart tests/onnx_nodes tests/examples tests/containers tests/operators/test_completeness.py \
	tests/operators/test_onnxruntime.py tests/operators/test_attribute_coverage.py \
	tests/training/test_other_platforms.py tests/models
CORE = $(SAME:%=--ignore %)
# What `make test` leaves to `training` and `training-2.6`: long tests, of programs that the core suite reads too;
# `rest-2.6` runs on 2.6 those of SAME.
LONG = tests/placement $(patsubst %,tests/verification/test_%.py,microscope saved_models) \
	$(patsubst %,tests/training/test_%.py,fifty_steps popart_rules powers recomputation resume sequence_layers) \
	$(patsubst %,tests/precision/test_%.py,every_half half_partials loss_scaling operators rounding \
	stochastic_rounding) $(patsubst %,tests/operators/test_%_against_numpy.py,shapes slices)
LONG_SAME = $(patsubst %,tests/popart/test_%.py,recomputation operator_properties) tests/models \
	tests/examples/test_bert_stages.py
TURN = $(shell git rev-list --count HEAD 2>/dev/null || date +%j)
# So many of an older Paddle's operator rows and of its test files are run at a time, in turns, by
# `make test`, and of the newest's rows and of its files about PopART's interface and XLA, which
# most others go through; `make test-all` runs all of them.
NEWEST_AT_A_TIME = PADDLE_IPU_ROWS=$(TURN)/4 PADDLE_IPU_LOWER_FILES=$(TURN)/2
ROWS_AT_A_TIME = PADDLE_IPU_ROWS=$(TURN)/6
FILES_AT_A_TIME = PADDLE_IPU_FILES=$(TURN)/3
OLDEST_FILES_AT_A_TIME = PADDLE_IPU_FILES=$(TURN)/2

.PHONY: help bert mnist resnet50 ernie text-generation word2vec inference c-library venv format lint types imports test test-all
.PHONY: share unit core rows training examples examples-thorough processes verify-bert
.PHONY: onnx-nodes independent placements half-table guides models models-2.6 rest-2.6 clean
.PHONY: vision-models sequence-models vision-models-2.6 sequence-models-2.6
.PHONY: core-2.6 training-2.6 unit-2.6 unit-3.0 unit-3.1 unit-3.2 venv-2.6 venv-3.0 venv-3.1 venv-3.2
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
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --upgrade pip
	.venv-$*/bin/python -m pip install --quiet --editable '.[$(EXTRAS)]' paddlepaddle==$(PADDLE_$*)
	@touch $@

venv-2.6: .venv-2.6/installed  ## make .venv-2.6 with Paddle 2.6 (venv-3.0, venv-3.1, venv-3.2: likewise)
venv-3.0: .venv-3.0/installed
venv-3.1: .venv-3.1/installed
venv-3.2: .venv-3.2/installed

format: venv  ## rewrite the sources in ruff's format
	$(RUN)/ruff format $(SOURCES)
	$(RUN)/ruff check --select I --fix $(SOURCES)

lint: venv  ## check format and lint rules
	$(RUN)/ruff format --check $(SOURCES)
	$(RUN)/ruff check $(SOURCES)

types: venv  ## check types with mypy --strict
	$(RUN)/mypy

imports: venv  ## check who may import whom
	$(RUN)/lint-imports --no-logo

# The comparison of both versions' programs, tests/versions, needs the other version's Python.
unit core: export PADDLE_IPU_PADDLE26_PYTHON = $(abspath .venv-2.6/bin/python)

unit: venv venv-2.6  ## run the tests, and compare programs with those of Paddle 2.6
	$(RUN)/python $(PYTEST)

core: venv venv-2.6  # unit without its long tests, with the files and operator rows whose turn it is
	$(NEWEST_AT_A_TIME) $(RUN)/python $(PYTEST) $(LONG:%=--ignore %) $(LONG_SAME:%=--ignore %)

# XLA compiles most programs but once for all Paddle versions.
unit core rows training unit-% rest-% training-% core-%: export JAX_COMPILATION_CACHE_DIR = $(abspath out/xla)
unit core rows training unit-% rest-% training-% core-%: export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS = 0.05

unit-2.6: venv-2.6  ## run the tests on Paddle 2.6 (unit-3.0, unit-3.1, unit-3.2: likewise)
	.venv-2.6/bin/python $(PYTEST) $(CORE)

rest-2.6: venv-2.6  ## run the tests that unit-2.6 leaves out
	.venv-2.6/bin/python $(PYTEST) $(SAME)

training-2.6: venv-2.6  ## run the tests of unit-2.6 that `make test` leaves out
	.venv-2.6/bin/python $(PYTEST) $(LONG)

training: venv  ## run the tests of unit that `make test` leaves out
	$(RUN)/python $(PYTEST) $(LONG) $(LONG_SAME)

rows: venv  ## run every row of the operator table
	$(RUN)/python $(PYTEST) tests/operators/test_operator_cases.py

models: vision-models sequence-models  ## train every whole model for a step, beside Paddle
models-2.6: vision-models-2.6 sequence-models-2.6  # the same on Paddle 2.6

vision-models sequence-models: %-models: venv
	PADDLE_IPU_MODELS=$* $(RUN)/python $(PYTEST) tests/models

vision-models-2.6 sequence-models-2.6: %-models-2.6: venv-2.6
	PADDLE_IPU_MODELS=$* .venv-2.6/bin/python $(PYTEST) tests/models

unit-3.0 unit-3.1 unit-3.2: unit-%: venv-%
	.venv-$*/bin/python $(PYTEST) $(CORE)

examples: venv  ## run the examples at their smallest size
	$(RUN)/python -m examples.bert.pretrain --preset smoke --output out/test
	$(RUN)/python -m tests.examples.journey --output out/test
	$(RUN)/python -m examples.mnist.train --smoke --output out/test
	$(RUN)/python -m examples.resnet50.train --smoke --output out/test
	$(RUN)/python -m examples.ernie.infer --smoke --output out/test
	$(RUN)/python -m examples.text_generation.generate --smoke --output out/test
	$(RUN)/python -m examples.inference.word2vec --output out/test

verify-bert: venv  ## compare the small BERT's first steps with Paddle's CPU executor
	$(RUN)/python -m examples.bert.pretrain --preset small --verify --output out/verify

independent: venv  ## compare with onnxruntime, and lower the step for other platforms
	$(RUN)/python $(PYTEST) -m thorough $(INDEPENDENT)

placements: venv  ## combine accumulation, replicas, stages and batches
	$(RUN)/python $(PYTEST) -m thorough tests/placement

processes: venv  ## run instances that die, hosts and containers
	$(RUN)/python $(PYTEST) -m thorough $(PROCESSES)

examples-thorough: venv  ## run what takes the examples long
	$(RUN)/python $(PYTEST) -m thorough tests/examples

guides: venv  ## run what the guides show, and every other thorough test
	$(RUN)/python $(PYTEST) -m thorough tests $(THOROUGH:%=--ignore %)

half-table: venv  ## run every row of the operator table in half
	$(RUN)/python $(PYTEST) -m thorough tests/precision

onnx-nodes: venv  ## run ONNX's node tests as of opset 11; ARGS="--only PATTERN" runs some
	$(RUN)/python -m tests.onnx_nodes.run $(ARGS)

share: N = $(words $(SHARES))
share: TAKEN = $(shell expr $(TURN) % $(words $(SHARES)) + 1)
share:  ## run the share of test-all whose turn it is
	@echo "share $(TAKEN) of $(N) of make test-all: $(word $(TAKEN),$(SHARES))"
	$(ROWS_AT_A_TIME) $(if $(findstring unit,$(word $(TAKEN),$(SHARES))),$(FILES_AT_A_TIME)) \
		$(MAKE) $(word $(TAKEN),$(SHARES))

core-2.6: venv-2.6  # unit-2.6 without its long tests, with the files and operator rows whose turn it is
	$(ROWS_AT_A_TIME) $(OLDEST_FILES_AT_A_TIME) .venv-2.6/bin/python $(PYTEST) $(CORE) $(LONG:%=--ignore %)

test: lint types imports core core-2.6 examples share  ## check everything, with a share of test-all

test-all: lint types imports unit unit-2.6 examples $(filter-out rows training training-2.6,$(SHARES))  ## check everything on every Paddle

clean:  ## remove what building and testing leave behind, environments included
	rm -rf $(VENV) .venv-2.6 .venv-3.0 .venv-3.1 .venv-3.2 build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache \
		.import_linter_cache .hypothesis
