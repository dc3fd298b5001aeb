# Everything a person or a CI machine does with Retrace. Needs Linux, make and Python 3.11 or later; installs the rest.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help run test test-vllm lint bench lock screenshots

# The first Python that is new enough. `make PYTHON=/path/to/python …` names another.
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)
PY := .venv/bin/python
PIP_FILES_RUN := requirements.txt
PIP_FILES_DEV := requirements.txt requirements-dev.txt

help: ## Say what can be made
	@echo "Retrace: replay, judge and train LLM agents."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

run: .python ## Install what is missing, start everything, print the address (PORT=8000)
	@$(PYTHON) .ci/install.py $(PIP_FILES_RUN)
	@exec $(PY) manage.py run --with-parent

test: .python ## Run everything that CI runs: lint, types, import rules, tests, browser tests
	@$(PYTHON) .ci/install.py $(PIP_FILES_DEV)
	@exec $(PY) .ci/checks.py $(ONLY)

test-vllm: .python ## Install vLLM for the CPU and test with it: rollouts, adapters swapped while it runs, the canary
	@$(PYTHON) .ci/install.py $(PIP_FILES_DEV)
	@$(PYTHON) .ci/vllm.py
	@exec $(PY) -m pytest -p no:xdist -m vllm tests/vllm

lint: .python ## Only the checks that run no test
	@$(PYTHON) .ci/install.py $(PIP_FILES_DEV)
	@exec $(PY) .ci/checks.py lint

bench: .python ## Measure speed and scale (SIZE=small|full or a number of items)
	@$(PYTHON) .ci/install.py $(PIP_FILES_DEV)
	@exec $(PY) -m bench $(SIZE)

bench-learning: .python ## Measure what each algorithm learns (SEEDS="0 1 2", STAGES="sft grpo", KEEP=folder, RESULTS=folder)
	@$(PYTHON) .ci/install.py $(PIP_FILES_DEV)
	@SEEDS="$(SEEDS)" STAGES="$(STAGES)" KEEP="$(KEEP)" RESULTS="$(RESULTS)" exec $(PY) -m bench.learning

screenshots: .python ## Take the pictures of docs/ from a demo workspace
	@$(PYTHON) .ci/install.py $(PIP_FILES_DEV)
	@exec $(PY) -m docs.screenshots

lock: .python ## Pin every package that pyproject.toml leads to (UPGRADE=1 takes the newest)
	@$(PYTHON) .ci/install.py $(PIP_FILES_DEV)
	@exec $(PY) .ci/lock.py $(if $(UPGRADE),--upgrade)

.python:
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or later found. Install one, or name it: make PYTHON=/path/to/python3 …"; exit 1; }
.PHONY: .python
