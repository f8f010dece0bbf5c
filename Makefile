.DEFAULT_GOAL := help
# What is given is text, not to be expanded by make or read as code by a shell, which gets it in its environment.
GIVEN := PRESET PAGE MAX_HOURS MINUTES FLAGS PYTHON GPU_PYTHON OTHER_TORCH
$(foreach name,$(GIVEN),$(if $(filter command environment,$(origin $(name))),$(eval override $(name) := $$(value $(name)))))
export PRESET PAGE MAX_HOURS MINUTES FLAGS
ifndef PYTHON
PYTHON := $(shell for p in python3.13 python3.12 python3.11; do $$p -c "" 2>/dev/null && echo $$p && exit; done; echo python3)
endif
export PYTHON
BIN := .venv/bin
# Without bytecode, which some containers switch off, every process would compile all that it imports: ten seconds.
RUN := exec env -u PYTHONDONTWRITEBYTECODE PATH="$$PWD/$(BIN):$$PATH" $(BIN)/python
LIMIT := $${MAX_HOURS:+--max-hours "$$MAX_HOURS"}

.PHONY: help book html pdf test lint unit chapters-test book-test other gpu-check campaign twins notebooks record snakemake freeze clean unfit

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-12s %s\n", $$1, $$2}'

# An environment of an older Python, of one that is gone or from before its folder was moved is made from nothing:
# `installed` says where it was made. What is right stays, so a reader may have made it. Pip since 25 takes half the
# time of the one that Python 3.11 brings along, and half of the rest if .pyc files are left to the first import.
IS_RIGHT := -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
unfit = $(shell cd $(1) 2>/dev/null && test -e bin/pip && bin/python $(IS_RIGHT) \
	&& { ! test -s installed || test "$$(cat installed)" = "$$(pwd -P)"; } || echo unfit)
define new
@"$$PYTHON" $(IS_RIGHT) || { echo "Python 3.11 or newer is needed, which $$PYTHON is not; install one or say" \
	"make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }
"$$PYTHON" -m venv --clear $(@D)
endef
QUIET := --disable-pip-version-check -q
define install
$(if $(call unfit,$(@D)),$(new))
$(@D)/bin/python -m pip install $(QUIET) 'pip>=25'
$(@D)/bin/python -m pip install $(QUIET) --no-compile -r $< -c constraints.txt
@cd $(@D) && pwd -P > installed
endef

.venv/installed: requirements.txt constraints.txt pyproject.toml $(call unfit,.venv)
	$(install)

# Apart from .venv: chapters need none of its packages.
.venv-grid/installed: requirements-grid.txt constraints.txt $(call unfit,.venv-grid)
	$(install)

# With another torch, and with little else: what `results/gpu` was computed with, on a machine of fixed packages.
export OTHER_TORCH ?= 2.11.0
.venv-other/installed: constraints.txt $(call unfit,.venv-other)
	$(if $(call unfit,$(@D)),$(new))
	@grep -vE '^(torch|triton|nvidia|cuda)' constraints.txt > $(@D)/constraints.txt
	$(@D)/bin/python -m pip install $(QUIET) 'pip>=25'
	$(@D)/bin/python -m pip install $(QUIET) --no-compile -c $(@D)/constraints.txt "torch==$$OTHER_TORCH" transformers \
		numpy pandas scipy scikit-learn safetensors filelock tqdm jaxtyping networkx cloudpickle huggingface_hub \
		beartype hmmlearn hypothesis nltk psutil pytest pytest-xdist
	$(@D)/bin/python -m pip install $(QUIET) --no-deps -e .
	@cd $(@D) && pwd -P > installed

book: .venv/installed  ## Execute what has changed at PRESET (smoke, laptop, gpu, paper) and build the HTML; MAX_HOURS=20 lets it take so long
	$(RUN) -m sameloss.book.build execute --preset "$${PRESET:-laptop}" $(LIMIT)
	$(RUN) -m sameloss.book.build html

html: .venv/installed  ## Build the HTML of the committed notebooks, executing nothing
	$(RUN) -m sameloss.book.build html --committed

pdf: .venv/installed  ## Print the committed notebooks into _build/book.pdf, with Chromium
	$(RUN) -m sameloss.book.build pdf

test: lint unit chapters-test book-test  ## Everything CI checks

lint: .venv/installed  ## Ruff, mypy, the forge's workflow, and notebooks against their py:percent twins
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -m check_jsonschema --builtin-schema vendor.github-workflows .github/workflows/book.yml
	$(RUN) -m sameloss.book.build twins

unit: .venv/installed  ## Unit tests of the library
	$(RUN) -m pytest -n auto --dist worksteal -m "not book" lib tests

chapters-test: .venv/installed  ## Execute the chapters again, compare checked outputs (nbval)
	$(RUN) -m sameloss.book.build compute --anew $(LIMIT)
	OMP_NUM_THREADS=1 $(RUN) -m pytest -p no:cacheprovider -o addopts= -W default -n 2 --dist loadfile \
		--nbval-lax --nbval-current-env --nbval-cell-timeout 3600 chapters

book-test: .venv/installed .venv-grid/installed  ## Book build, one-liners, a grid of runs, faults seen from a notebook
	$(RUN) -m pytest -rs -n 2 --dist worksteal -m book tests

OTHER := lib/sameloss/languages lib/sameloss/models lib/sameloss/training lib/sameloss/measures \
	$(addprefix tests/,languages models training measures statistics store runs)
other: .venv-other/installed  ## Unit tests of the layers on another Python and torch: PYTHON=python3.12 OTHER_TORCH=2.11.0
	exec env -u PYTHONDONTWRITEBYTECODE .venv-other/bin/python -m pytest -n auto --dist worksteal \
		-m "not book" $(OTHER) --ignore tests/languages/test_pretrained.py

# Nothing is installed here: machines with GPUs often have fixed packages.
export GPU_PYTHON ?= python3
gpu-check:  ## On a machine with a GPU and PyTorch, without installing: every kind of run beside the CPU, and what 235M takes, to results/gpu
	@"$$GPU_PYTHON" -c "import torch, transformers, pandas" 2>/dev/null || { echo "gpu-check needs PyTorch, transformers and pandas," \
		"which $$GPU_PYTHON lacks; say make gpu-check GPU_PYTHON=/path/to/python3" >&2; exit 1; }
	@for part in pieces sizes kinds; do PYTHONPATH=lib "$$GPU_PYTHON" benchmarks/gpu_check.py $$part $$FLAGS || exit 1; done

campaign: .venv/installed .venv-grid/installed  ## Kills, damage, full disks, signals at random: long; FLAGS="--only training" for a part
	cd tests && exec env -u PYTHONDONTWRITEBYTECODE PATH="$$PWD/../$(BIN):$$PATH" ../$(BIN)/python -m campaign $$FLAGS

twins: .venv/installed  ## Write edited py:percent twins into their notebooks
	$(RUN) -m sameloss.book.build twins --sync

notebooks: twins  ## Execute what is committed at the default preset, perhaps one page (PAGE=ii2_stability), and make it the committed outputs
	$(RUN) -m sameloss.book.build adopt --check $${PAGE:+--page "$$PAGE"}
	$(RUN) -m sameloss.book.build execute --force $(LIMIT) $${PAGE:+--page "$$PAGE"}
	$(RUN) -m sameloss.book.build adopt $${PAGE:+--page "$$PAGE"}

record: .venv/installed  ## Compute what results/runs lacks of a long preset (PRESET=laptop-long, perhaps PAGE=ii5_growing) and add it; FLAGS=--dry-run says what is left, MINUTES=9 stops after so long, to be run again
	$(RUN) -m sameloss.book.build record --preset "$${PRESET:-laptop-long}" $${PAGE:+--page "$$PAGE"} $(LIMIT) \
		$${MINUTES:+--minutes "$$MINUTES"} $$FLAGS

snakemake: .venv-grid/installed  ## Install Snakemake, for many runs: lib/grid.smk

freeze: .venv/installed  ## Write constraints.txt from the environment
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' > constraints.txt

clean:  ## Remove the built book; computed runs stay in artifacts/
	rm -rf _build
