# Two commands for a fresh machine with Python 3.11 and make: `make run`, `make test`.
PYTHON ?= python3
BIN = .venv/bin
PYTEST = OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto

.PHONY: run test test-all lint docs bench clean

run: .venv/ready
	$(BIN)/troth run --report

# Style, types and fast tests: one process per core, one thread in each.
test: lint
	$(PYTEST) -m "not slow"

# The rest: slow laws, real processes, Chromium, Flower, committed results.
test-all: lint
	$(PYTEST)

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation: warnings are errors. Open build/docs/index.html.
docs: .venv/ready
	$(BIN)/sphinx-build -W --keep-going -n -q -E -d build/doctrees docs build/docs

bench: .venv/ready
	$(BIN)/python benchmarks/engine.py

# Built once; again only when what it is built from changes.
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[test,flower,docs,tensorboard,mlflow,ray]'
# An independent implementation that tests compare with. Without what it depends on
# (torchvision, seaborn, …): its rules need none of that.
	$(BIN)/pip install --quiet --no-deps --constraint constraints.txt byzfl
	touch $@

clean:
	rm -rf .venv build src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
