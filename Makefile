# `make run` sets up and runs the default study; `make test` sets up and runs all checks and tests.
PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
DOCS := .venv-docs
ARGS ?=
ROUNDS ?= ../shared/data/mlperf_hpc_v0.7.tar.xz

# One worker more than the cores of the smallest machine: tests of Slurm, signals and time limits mostly wait.
PYTEST = PATH="$(CURDIR)/$(BIN):$$PATH" pytest -n 3 --durations=10

upper = $(shell echo $(1) | tr a-z A-Z)
given = $(if $($(call upper,$(1))),--$(1)=$($(call upper,$(1))))
COMMA := ,
SPACE := $(subst ,, )

.PHONY: run predict regressors gpu rounds list rounds-there test test-all attack prepare packages env lint unit bench docs docs-tools screenshots lock schema clean
.DEFAULT_GOAL := help

help:
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/'

run: env ## set up, run the default study, write results/report.html
	@$(BIN)/hpcai run $(ARGS)

predict: env ## measure the inputs of predictions, then write the report with them
	@$(BIN)/hpcai run predict $(ARGS)

regressors: env ## time the kernels that the regressors of single layers learn from (10 to 20 minutes), then write the report
	@$(BIN)/hpcai run regressors $(ARGS)

gpu: env ## measure one GPU: products, and training steps of CosmoFlow and ResNet-50 at official size; writes results/gpu.html
	@$(BIN)/hpcai gpu $(ARGS)

rounds: rounds-there env ## import MLPerf HPC rounds (ROUNDS="folder archive") and write results/rounds.html, without any run
	PATH="$(CURDIR)/$(BIN):$$PATH" snakemake rounds $(ARGS) --config "rounds=['$(subst $(SPACE),'$(COMMA)',$(strip $(ROUNDS)))']"
	@echo "The comparison: file://$(CURDIR)/results/rounds.html"

# The results of the default study are listed once it was run.
list: rounds-there env ## build list-site/ from MLPerf HPC rounds (ROUNDS="folder archive") and the study's results, if there
	@$(BIN)/hpcai list build $(ROUNDS) $(if $(wildcard results/tables/runs.parquet),results) --out list-site $(ARGS)

rounds-there:
	@test -n "$(strip $(ROUNDS))" || { echo "ROUNDS: empty; name result repositories or archives" >&2; exit 2; }
	@for round in $(ROUNDS); do \
		test -e "$$round" && continue; \
		echo "$$round: not there; name result repositories or archives: make rounds ROUNDS=\"hpc_results_v1.0 v2.0.tar.xz\"" >&2; \
		exit 2; \
	done

test: prepare lint ## set up (as root, including Debian packages for the tests), run linters and tests
	$(PYTEST) -m "not slow" --budget-s=1500 $(ARGS)

test-all: prepare lint ## the same, plus full-size tests; run before closing an issue
	$(PYTEST) --budget-s=5400 $(ARGS)

attack: env ## fault injection: faults, changed bytes, hostile files, bad input, two users (ARGS="--seed 3 4 --kind faults"); takes minutes
	PATH="$(CURDIR)/$(BIN):$$PATH" python tests/attack/run.py $(ARGS)

# MPI first: Horovod is compiled against it, while the other packages are installed.
prepare:
	@sh tests/install_packages.sh mpi
	@$(MAKE) --no-print-directory -j2 packages env

packages:
	@sh tests/install_packages.sh

env: ## make or update the virtual environment (DEVICE=cpu|cuda, LOCK=default|newest, HOROVOD=yes|no, MPI=yes|no: change it)
	@$(PYTHON) envs/install.py $(VENV) $(foreach option,device lock horovod mpi,$(call given,$(option)))

lint: env ## linters, types, layers
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PATH="$(CURDIR)/$(BIN):$$PATH" snakefmt --check Snakefile workflow
	PATH="$(CURDIR)/$(BIN):$$PATH" lint-imports
	$(BIN)/codespell

unit: env ## only the fast tests
	PATH="$(CURDIR)/$(BIN):$$PATH" pytest tests/unit $(ARGS)

bench: env ## measure speed relative to named baselines, interleaved
	PATH="$(CURDIR)/$(BIN):$$PATH" python bench/run.py $(ARGS)

docs: env docs-tools ## build the documentation with its generated reference: docs/_build/html; warnings are errors
	$(BIN)/python docs/generate.py
	$(DOCS)/bin/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo "The documentation: file://$(CURDIR)/docs/_build/html/index.html"

docs-tools: $(DOCS)/requirements.txt

# A separate environment: the benchmarks need none of these packages.
$(DOCS)/requirements.txt: docs/requirements.txt
	$(PYTHON) -m venv --clear $(DOCS)
	$(DOCS)/bin/python -m pip install -q --disable-pip-version-check --require-hashes --only-binary :all: -r $<
	@cp $< $@

screenshots: env ## take screenshots of results/report.html and list-site for README and docs (needs chromium)
	$(BIN)/python tests/browser/screenshots.py $(ARGS)

schema: env ## write config/schema.json from the models
	$(BIN)/hpcai schema > config/schema.json

# All but `train`, in whose place other lock files have something else.
NAMES = import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"])
EXTRAS = $(foreach extra,$(filter-out train,$(shell $(PYTHON) -c '$(NAMES)')),--extra $(extra))
RESOLVE = $(BIN)/uv pip compile --generate-hashes --python-version 3.11 --python-platform x86_64-manylinux_2_28 \
	--no-header --no-annotate -q

lock: env ## resolve requirements.lock, those for CUDA and for the newest TensorFlow, docs/requirements.txt and envs/ again
	$(RESOLVE) pyproject.toml --all-extras --allow-unsafe -o requirements.lock
	$(RESOLVE) pyproject.toml envs/cuda.in $(EXTRAS) --allow-unsafe -c requirements.lock \
		--override envs/cuda-overrides.txt -o requirements-cuda.lock
	$(RESOLVE) pyproject.toml envs/newest.in $(EXTRAS) --extra jax --allow-unsafe \
		--upgrade-package tensorflow-cpu --upgrade-package keras -o requirements-newest.lock
	$(RESOLVE) docs/requirements.in -o docs/requirements.txt
	$(PYTHON) envs/conda.py

clean: ## remove reports, logs and analysis; never a measurement, nor results/gpu.html, which only one writes
	rm -rf logs results/tables results/figures results/hpc_ai500 results/own_runs results/rounds* results/summary.json results/scoring.json results/prediction.json \
		$(filter-out results/gpu.html,$(wildcard results/*.html))
