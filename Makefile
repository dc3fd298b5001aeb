# Every command for developing and checking Retrace, locally and in CI. Requires Linux, make, and Python 3.11 or later; installs everything else.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help run test test-vllm lint bench lock screenshots

# The first Python found that is new enough. `make PYTHON=/path/to/python …` chooses another.
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)
PY := .venv/bin/python
PIP_FILES_RUN := requirements.txt
PIP_FILES_DEV := requirements.txt requirements-dev.txt

help: ## List the commands
	@echo "Retrace: replay, judge, and train LLM agents."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

run: .python ## Install missing packages, start everything, and print the URL (PORT=8000)
	@$(PYTHON) .ci/install.py $(PIP_FILES_RUN)
	@exec $(PY) manage.py run --with-parent

test: .python ## Run all CI checks: lint, types, import rules, tests, browser tests
	@$(PYTHON) .ci/install.py $(PIP_FILES_DEV)
	@exec $(PY) .ci/checks.py $(ONLY)

test-vllm: .python ## Install vLLM for the CPU and run its tests: rollouts, swapping adapters at run time, the canary
	@$(PYTHON) .ci/install.py $(PIP_FILES_DEV)
	@$(PYTHON) .ci/vllm.py
	@exec $(PY) -m pytest -p no:xdist -m vllm tests/vllm

lint: .python ## Run only the checks that aren't tests
	@$(PYTHON) .ci/install.py $(PIP_FILES_DEV)
	@exec $(PY) .ci/checks.py lint

bench: .python ## Measure speed and scale (SIZE=small|full or a number of items)
	@$(PYTHON) .ci/install.py $(PIP_FILES_DEV)
	@exec $(PY) -m bench $(SIZE)

bench-learning: .python ## Measure how much each algorithm learns (SEEDS="0 1 2", STAGES="sft grpo", SIZE=large, WORLD=search, KEEP=folder, RESULTS=folder)
	@$(PYTHON) .ci/install.py $(PIP_FILES_DEV)
	@SEEDS="$(SEEDS)" STAGES="$(STAGES)" SIZE="$(SIZE)" WORLD="$(WORLD)" KEEP="$(KEEP)" RESULTS="$(RESULTS)" exec $(PY) -m bench.learning

screenshots: .python ## Take the screenshots in docs/ from a demo workspace
	@$(PYTHON) .ci/install.py $(PIP_FILES_DEV)
	@exec $(PY) -m docs.screenshots

lock: .python ## Pin all direct and transitive dependencies in pyproject.toml (UPGRADE=1: latest versions)
	@$(PYTHON) .ci/install.py $(PIP_FILES_DEV)
	@exec $(PY) .ci/lock.py $(if $(UPGRADE),--upgrade)

.python:
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or later found. Install one, or name it: make PYTHON=/path/to/python3 …"; exit 1; }
.PHONY: .python
