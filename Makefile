# make demo   install into .venv with the model and complete one example file, with statistics
# make test   the same environment with the test tools, then everything that CI checks
# make score  measure this machine and add a row to docs/score.jsonl
# make clean  remove the environment and the tools' caches (models stay; see `tokenleap models rm`)

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
MODEL := qwen2.5-coder-0.5b
# The empty line in Account.withdraw.
EXAMPLE := examples/account.py
LINE := 29

.DELETE_ON_ERROR:
.PHONY: demo test score clean

demo: $(VENV)/.installed
	$(BIN)/tokenleap models pull $(MODEL)
	@echo "tokenleap complete $(EXAMPLE):$(LINE)"
	@$(BIN)/tokenleap complete $(EXAMPLE):$(LINE) --model $(MODEL) --in-process \
	  >$(VENV)/demo.txt 2>$(VENV)/demo.log || { cat $(VENV)/demo.log >&2; exit 1; }
	@echo; printf '%s' "$$(head -n $(LINE) $(EXAMPLE) | tail -n 3)"; cat $(VENV)/demo.txt; echo; echo
	@cat $(VENV)/demo.log

test: $(VENV)/.tested
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/tokenleap models pull $(MODEL)
	$(BIN)/python -m pytest

score: $(VENV)/.installed
	$(BIN)/tokenleap bench score --out docs/score.jsonl

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "Tokenleap needs Python 3.10 or later; name one with make PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Stamps, so that a second run installs nothing; a changed pyproject.toml installs again.
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --editable '.[model]'
	@touch $@

$(VENV)/.tested: pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --editable '.[model,test]'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist *.egg-info
