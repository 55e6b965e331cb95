# Two commands: `make quickstart` trains on a small graph, `make test` runs every test. Both set up .venv by themselves.
PYTHON ?= $(firstword $(foreach version,3.11 3.12 3.10 3.9,$(shell command -v python$(version))) python3)
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find csrc cmake -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cmake' -o -name CMakeLists.txt) CMakeLists.txt setup.py pyproject.toml
# The extension's own (setup.py), whose libraries the C++ tests are linked with.
CPP_BUILD = build/extension-$(shell $(BIN)/python -c 'import sys; print(sys.implementation.cache_tag)')
PIP = $(BIN)/python -m pip --disable-pip-version-check
# $(call step,WHAT IT DOES,LOG,COMMAND): on one line, its output in a file that is shown if it fails.
step = @$(PYTHON) packaging/step.py "$(1)" build/log/$(2).log $(3)

# cmake and ninja are those of the virtual environment.
export PATH := $(abspath $(BIN)):$(PATH)
# Tests start many processes, each of which would compile the package's Python again where this is set.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: quickstart welcome test test-python build-cpp test-cpp packages sanitize cpp-and-install cpp-and-python test-cpp-and-sanitize flags clean

quickstart: welcome $(VENV)/installed
	@$(BIN)/python -m recipes.quickstart

welcome:
	@$(if $(wildcard $(VENV)/installed),,printf '%s\n' \
	    "This installs dglke_frugal into $(VENV) and trains a small model: 4 minutes on two cores, 1.5 GB of disk." \
	    "CUDA kernels are compiled where a GPU is seen, which takes 3 minutes more.")

# All of them, also after some have failed or could not be built; what is missing is reported once more at the end.
test:
	@$(MAKE) --keep-going cpp-and-install cpp-and-python || { csrc/tests/packages.sh; exit 1; }

# pip keeps but one processor busy, and Python's tests wait often: C++'s tests have the time that these leave.
cpp-and-install cpp-and-python: $(VENV)/installed
cpp-and-install:
	@$(MAKE) --keep-going --jobs=2 build-cpp $(VENV)/installed-for-tests
cpp-and-python:
	@$(MAKE) --keep-going --jobs=2 test-python test-cpp-and-sanitize
test-cpp-and-sanitize:
	@nice -n 19 $(MAKE) --keep-going --jobs=2 test-cpp sanitize

test-python: $(VENV)/installed-for-tests
	$(BIN)/python -m pytest -q --durations=10 -n 3 --dist loadfile --no-loadscope-reorder

# GoogleTest, clang: installed where that can be done, named where not.
packages:
	@csrc/tests/packages.sh

build-cpp: packages $(VENV)/installed
	$(BIN)/cmake -S . -B $(CPP_BUILD) -DFRUGAL_TESTS=ON
	env -u MAKEFLAGS $(BIN)/cmake --build $(CPP_BUILD)  # ninja would share two jobs with pip

test-cpp: build-cpp
	$(BIN)/ctest --test-dir $(CPP_BUILD) --output-on-failure -j2

# The engine's tests under the thread and address sanitizers, and clang's thread-safety analysis.
sanitize: packages $(VENV)/installed
	env -u MAKEFLAGS csrc/tests/run_sanitizers.sh build/sanitizers

$(VENV)/bin/python:
	$(call step,Making a virtual environment,venv,$(PYTHON) -m venv $(VENV))
	$(call step,Updating pip,pip,$(PIP) install --upgrade pip)

# The versions that CI has: left to the resolver, torch may bring several GB of CUDA libraries. pip compiles
# nothing, since Python compiles a module that it imports.
$(VENV)/dependencies: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(call step,Installing PyTorch and build tools,dependencies,$(PIP) install --no-compile -c constraints.txt torch \
	    "setuptools>=77" nanobind "cmake>=3.26" ninja)
	@touch $@

$(VENV)/installed: $(VENV)/dependencies $(SOURCES)
	$(call step,Compiling the extension,extension,$(PIP) install -v -c constraints.txt --no-build-isolation -e .)
	@touch $@

$(VENV)/installed-for-tests: $(VENV)/installed
	$(call step,Installing what the tests need,tests,$(PIP) install --no-compile -c constraints.txt "dglke-frugal[test]")
	@touch $@

# What is made from the declarations of flags.
flags:
	$(BIN)/python -m dglke_frugal.cli.flag_help > docs/flags.md
	$(BIN)/python -m dglke_frugal.cli.stub > dglke_frugal/python_training.pyi

clean:
	rm -rf $(VENV) build
