# Two commands for a fresh machine with Python 3.11 and make: `make run`, `make test`.
PYTHON ?= python3
BIN = .venv/bin
FLOWER = .venv-flower/bin

.PHONY: run test test-flower lint bench clean

run: .venv/ready
	$(BIN)/troth run --report

# A process a core, and in each of them one thread.
test: lint
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto

# What runs on Flower, which wants older ones of some packages: an environment of its own.
test-flower: .venv-flower/ready
	OMP_NUM_THREADS=1 $(FLOWER)/pytest tests/flower tests/commands/test_server.py tests/commands/test_client.py

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/ready
	$(BIN)/python benchmarks/engine.py

# Built once; again only when what it is built from changes.
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[test]'
# An independent implementation that tests compare with. Without what it depends on
# (torchvision, seaborn, …): its rules need none of that.
	$(BIN)/pip install --quiet --no-deps --constraint constraints.txt byzfl
	touch $@

.venv-flower/ready: pyproject.toml constraints-flower.txt
	$(PYTHON) -m venv .venv-flower
	$(FLOWER)/pip install --quiet --constraint constraints-flower.txt --editable '.[flower]' pytest
	touch $@

clean:
	rm -rf .venv .venv-flower build src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
