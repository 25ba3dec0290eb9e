# Every command that readers and maintainers need; `make help` lists them. Nothing but make and Python ≥ 3.11 has
# to be there: the first command makes the environment .venv.

PYTHON ?= python3
TORCH ?= 2.13.0
VENV := .venv
COLAB := .venv-colab
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
COLAB_STAMP := $(COLAB)/.installed-torch-$(TORCH)
PORT ?= 8000
# Processes for tests, which often wait for a browser: half as many again as there are cores.
WORKERS ?= $(shell "$(BIN)/python" -c 'import os; print(max(2, os.cpu_count() * 3 // 2))')
SOLUTIONS ?= yes
NOTEBOOKS ?= zh/02-* en/11-* zh/12-* en/14-*

# What Python has compiled is kept, even where that is switched off: every command starts many processes.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help book pdf publish-tree test lint unit nbval site-test lab serve notebooks bench clean test-colab
.DELETE_ON_ERROR:

help: ## List the commands
	@grep -E '^[a-z-]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/:.*## /\t/' | expand -t 14

# $(call environment,FOLDER): a virtual environment in FOLDER, with a clear message if Python is too old.
define environment
[ -x "$(1)/bin/python" ] || { \
  "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
    echo 'attnbook needs Python 3.11 or newer as "$(PYTHON)"; name another one: make PYTHON=python3.13 ...' >&2; \
    exit 1; }; \
  "$(PYTHON)" -m venv "$(1)"; }
endef

# Nothing is compiled beforehand: Python compiles what it imports, and most of what is installed never is.
$(STAMP): pyproject.toml constraints.txt
	@$(call environment,$(VENV))
	"$(BIN)/python" -m pip install --quiet --no-compile -c constraints.txt -e '.[book,pdf,test]'
	@touch "$@"

book: $(STAMP) ## Build the book in both languages, and in parallel, into build/site
	"$(BIN)/python" -m attnbook.book

pdf: $(STAMP) ## Print the built book, one PDF for each language, into build/pdf (needs Chromium)
	@[ -f build/site/index.html ] || $(MAKE) book
	"$(BIN)/python" -m attnbook.book --pdf

notebooks: $(STAMP) ## Write only the notebooks of each language (SOLUTIONS=no: for a class)
	"$(BIN)/python" -m attnbook.book --notebooks $(if $(filter no,$(SOLUTIONS)),--without-solutions)

publish-tree: ## Make what publish.yml uploads, in build/publish
	$(MAKE) book
	"$(BIN)/python" -m attnbook.book --publish

test: ## Everything: lint, unit, nbval, book, site-test
	$(MAKE) lint
	$(MAKE) unit
	$(MAKE) nbval
	$(MAKE) book
	$(MAKE) site-test

lint: $(STAMP) ## Style of code and notebooks (ruff)
	"$(BIN)/ruff" check .
	"$(BIN)/ruff" format --check .

unit: $(STAMP) ## Unit, property and bilingual tests
	"$(BIN)/python" -m pytest -n $(WORKERS) --dist worksteal --ignore=tests/book/test_site.py

nbval: $(STAMP) ## Execute every chapter and compare marked outputs; make book uses what it has executed
	OMP_NUM_THREADS=1 "$(BIN)/python" -m pytest --nbval-lax -n 2 --dist loadfile -p attnbook.book.from_nbval chapters

site-test: $(STAMP) ## Browser tests of the built site (after make book)
	"$(BIN)/python" -m pytest -n $(WORKERS) --dist worksteal tests/book/test_site.py

lab: $(STAMP) ## Open the chapters in JupyterLab
	"$(BIN)/jupyter" lab chapters

serve: $(STAMP) ## Serve build/site at http://localhost:8000
	@[ -f build/site/index.html ] || $(MAKE) book
	"$(BIN)/python" -m http.server --bind 127.0.0.1 --directory build/site $(PORT)

bench: $(STAMP) ## Run the benchmarks
	@for file in benchmarks/*.py; do [ -e "$$file" ] || continue; echo "== $$file"; "$(BIN)/python" "$$file" || exit 1; done

# What Colab brings, and what the tests need; not the package, which the notebooks install themselves.
$(COLAB_STAMP): pyproject.toml
	@$(call environment,$(COLAB))
	"$(COLAB)/bin/python" -m pip install --quiet '.[test]' ipykernel nbclient pyyaml \
	  anywidget==0.9.21 ipywidgets==7.7.1 plotly==5.24.1 'numpy==2.1.*' 'torch==$(TORCH)'
	"$(COLAB)/bin/python" -m pip uninstall --quiet --yes attnbook
	@touch "$@"

test-colab: $(STAMP) $(COLAB_STAMP) ## Readers' notebooks and unit tests as in Colab (NOTEBOOKS='*/*': all)
	rm -rf build/colab
	"$(COLAB)/bin/python" -m pip wheel --quiet --no-deps --wheel-dir build/colab .
	"$(BIN)/python" -m attnbook.book --notebooks --output build/colab --package "$$(echo "$$PWD"/build/colab/*.whl)"
	"$(COLAB)/bin/python" tests/colab.py build/colab $(foreach pattern,$(NOTEBOOKS),'$(pattern)')
	"$(COLAB)/bin/python" -m pytest -n auto --dist loadfile \
	  --ignore=tests/book --ignore=tests/test_bilingual.py --ignore=tests/test_jupyterlab.py

clean: ## Remove everything that was built; environments stay
	rm -rf build dist _build .pytest_cache .ruff_cache .hypothesis
