# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3.11
VENV := .venv
INSTALLED := $(VENV)/installed

.PHONY: demo test

demo: $(INSTALLED)
	$(VENV)/bin/tsdr demo --out runs/demo

test: $(INSTALLED)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/pytest --numprocesses auto

# The stamp is younger than what it was installed from, so a second call installs nothing.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(INSTALLED)
