.DEFAULT_GOAL := help
PRESET ?= laptop
PYTHON ?= $(shell command -v python3.11 || echo python3)
BIN := .venv/bin
RUN := exec env PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python

.PHONY: help book html test lint unit chapters-test book-test campaign twins notebooks record take snakemake freeze clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-12s %s\n", $$1, $$2}'

.venv/installed: requirements.txt constraints.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check -q -r requirements.txt -c constraints.txt
	@touch $@

# Apart from .venv: chapters need none of its packages.
.venv-grid/installed: requirements-grid.txt constraints.txt
	$(PYTHON) -m venv .venv-grid
	.venv-grid/bin/python -m pip install --disable-pip-version-check -q -r requirements-grid.txt -c constraints.txt
	@touch $@

book: .venv/installed  ## Execute what has changed at PRESET (smoke, laptop, gpu, paper) and build the HTML
	$(RUN) -m sameloss.book.build execute --preset $(PRESET)
	$(RUN) -m sameloss.book.build html

html: .venv/installed  ## Build the HTML of the committed notebooks, executing nothing
	$(RUN) -m sameloss.book.build html --committed

test: lint unit chapters-test book-test  ## Everything CI checks

lint: .venv/installed  ## Ruff, and notebooks against their py:percent twins
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -m sameloss.book.build twins

unit: .venv/installed  ## Unit tests of the library
	$(RUN) -m pytest -n auto --dist worksteal -m "not book" lib tests

chapters-test: .venv/installed $(if $(FRESH),,take)  ## Execute the chapters again, compare checked outputs (nbval); FRESH=yes computes all their runs
	$(RUN) -m sameloss.book.build compute
	OMP_NUM_THREADS=1 $(RUN) -m pytest -p no:cacheprovider -o addopts= -W default -n 2 --dist loadfile \
		--nbval-lax --nbval-current-env --nbval-cell-timeout 3600 chapters

book-test: .venv/installed .venv-grid/installed  ## Book build, one-liners, a grid of runs, faults seen from a notebook
	$(RUN) -m pytest -rs -n 2 --dist worksteal -m book tests

campaign: .venv/installed .venv-grid/installed  ## Kills, damage, full disks, signals at random: long; FLAGS="--only training" for a part
	cd tests && exec env PATH="$(CURDIR)/$(BIN):$$PATH" ../$(BIN)/python -m campaign $(FLAGS)

twins: .venv/installed  ## Write edited py:percent twins into their notebooks
	$(RUN) -m sameloss.book.build twins --sync

notebooks: twins  ## Execute what is committed at the default preset and make it the committed outputs
	$(RUN) -m sameloss.book.build check
	$(RUN) -m sameloss.book.build execute --force
	$(RUN) -m sameloss.book.build adopt
	$(RUN) -m sameloss.book.build keep

record: PRESET := laptop-long
record: .venv/installed  ## Compute a long preset (PRESET=laptop-long, perhaps PAGE=ii5_growing) and write its tables to results/; FLAGS=--dry-run says what is left
	$(RUN) -m sameloss.book.build record --preset $(PRESET) $(if $(PAGE),--page $(PAGE)) $(FLAGS)

take: .venv/installed  ## Take as computed what results/runs holds: chapters and records then compute what is new
	$(RUN) -m sameloss.book.build take

snakemake: .venv-grid/installed  ## Install Snakemake, for many runs: lib/grid.smk

freeze: .venv/installed  ## Write constraints.txt from the environment
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' > constraints.txt

clean:  ## Remove the built book; computed runs stay in artifacts/
	rm -rf _build
