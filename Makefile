# Wick's front door.
#
#   make run       installs what is missing into .venv and takes the tour
#   make test      the whole test suite; ends with `N passed, N failed`
#   make test-gpu  the tests that need a GPU, with the wick and torch of GPU_PYTHON (python3)
#   make build     .venv with torch and wick in it
#   make bench     the figures, side by side
#   make lint      formatter, compilers, clang-tidy, cppcheck, ruff          make format   applies the formatters
#   make sanitize  unit tests under ASan+UBSan and TSan                      make fuzz     FUZZ_SECONDS=20
#   make wheel     dist/*.whl                                                make docs     build/site
#   make clean
#
# Settings: PYTHON=python3.12 (for .venv), TORCH=torch==2.11.0.

PYTHON ?= python3
FUZZ_SECONDS ?= 20
export PYTHON
export PIP_DISABLE_PIP_VERSION_CHECK = 1

VENV := .venv
PY := $(VENV)/bin/python
SOURCES := $(shell find CMakeLists.txt pyproject.toml cmake include src ops python README.md -type f \
             -not -name '*.pyc' 2>/dev/null)

.PHONY: run test test-gpu build bench lint format sanitize fuzz wheel docs clean
.DEFAULT_GOAL := build

run: build
	@$(PY) examples/tour.py $(ARGS)

build: $(VENV)/.wick

test: build
	@tools/packages test
	@tools/test

GPU_PYTHON ?= python3
test-gpu:
	@$(GPU_PYTHON) -m pytest -q tests/gpu $(ARGS)

bench: build
	@$(PY) bench/run.py $(ARGS)

lint: $(VENV)/.tools
	@tools/packages lint
	@tools/lint

format: $(VENV)/.tools
	@tools/packages lint
	@find include src ops tests examples bench -name '*.[ch]' | xargs clang-format-14 -i
	@$(VENV)/bin/ruff format -q . && $(VENV)/bin/ruff check -q --fix .

sanitize:
	@tools/packages test
	@tools/sanitize

fuzz:
	@tools/packages fuzz
	@tools/fuzz $(FUZZ_SECONDS)

wheel: build
	@tools/wheel

docs: build $(VENV)/.docs
	@$(PY) tools/site.py

clean:
	rm -rf build dist $(VENV)

# Each stamp is newer than what it was made from; a step that fails leaves none.

$(VENV)/.tools: tools/requirements.txt
	@tools/packages build
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install -qq -r tools/requirements.txt
	@touch $@

$(VENV)/.docs: $(VENV)/.tools pyproject.toml
	@$(PY) tools/site.py --requires | xargs $(PY) -m pip install -qq
	@touch $@

$(VENV)/.torch: $(VENV)/.tools tools/get_torch.py
	@$(PY) tools/get_torch.py
	@touch $@

$(VENV)/.wick: $(VENV)/.torch $(SOURCES)
	@echo "building wick"
	@$(PY) -m pip install -qq --no-build-isolation --no-deps .
	@touch $@
