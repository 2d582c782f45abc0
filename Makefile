# The everyday commands. Every target uses the virtual environment that is active.
.PHONY: install test check format types imports demo bench

install:
	pip install -e '.[dev]'

test:
	pytest

check:
	ruff check .
	ruff format --check .
	mypy
	lint-imports

format:
	ruff check --fix .
	ruff format .

demo:
	tracetui demo

bench:
	python benchmarks/load.py
	python benchmarks/frame.py
	python benchmarks/startup.py
	python benchmarks/analysis.py
