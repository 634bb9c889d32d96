# What a person or CI asks for. Every target does all that it needs on a fresh clone.

PYTEST_ARGS ?=
ARGS ?=
PY := .venv/bin/python
# The back-end of MLX that is installed on Linux; BACKEND=cpu, cuda12 or cuda13 asks for one.
INSTALLED := $(sort $(foreach folder,$(wildcard .venv/lib/*/site-packages/mlx_c*.dist-info),\
	$(subst _,,$(patsubst mlx_%,%,$(firstword $(subst -, ,$(notdir $(folder))))))))
# Workers take tests from each other's ends, so modules stay together and none of them is idle for long.
PYTEST := $(PY) -m pytest -n auto --dist worksteal
SOURCES := app engine shaders tests packaging

.PHONY: help setup exchange model run test test-full test-offline test-tools lint lint-workflows format lock wheel check-wheel self-test fuzz soak clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.complete ## create .venv from the lock file (on Linux BACKEND=cpu, cuda12 or cuda13 chooses what MLX computes on)

.venv/.complete: packaging/development.lock packaging/cuda12.lock packaging/cuda13.lock pyproject.toml packaging/setup.sh
ifneq ($(or $(BACKEND),$(INSTALLED)),$(INSTALLED))
.venv/.complete: exchange
endif
exchange:

.venv/.complete:
	@echo "Setting up .venv"
	@bash packaging/setup.sh

model: setup ## download the built-in model once (98 MB); later runs need no network
	@$(PY) -m app models download

run: setup model ## open the window
	@$(PY) -m app

test: test-tools ## run the tests on all cores, in random order (PYTEST_ARGS=... are passed on)
	$(PYTEST) $(PYTEST_ARGS)

test-full: test-tools ## run all tests, including the long ones
	$(PYTEST) -m "full or not full" $(PYTEST_ARGS)

test-offline: test-tools ## on Linux: run the tests where there is no network but the loopback
	unshare --user --map-root-user --net sh -c 'ip link set lo up && exec $(PYTEST) $(PYTEST_ARGS)'

# Without root it names the command to run, and pytest says which tests it skipped for that.
test-tools: setup model
	@bash packaging/system_packages.sh --tests

lint: setup ## check style, types, import contracts and wording
	$(PY) -m ruff check $(SOURCES)
	$(PY) -m ruff format --check $(SOURCES)
	.venv/bin/lint-imports --no-cache
	@$(MAKE) --no-print-directory --jobs 2 types-linux types-darwin
	$(PY) -m tests.plain_english

# Each with a cache of its own: in one cache each would undo what the other has checked.
types-%:
	$(PY) -m mypy --platform $* --cache-dir .mypy_cache/$*

lint-workflows: setup build/zizmor ## check the files of the workflows
	@build/zizmor/bin/zizmor --offline --strict-collection --no-progress --quiet .github/workflows

build/zizmor: packaging/workflows.lock
	@$(PY) -m pip install --quiet --require-hashes --no-deps --target $@ --requirement packaging/workflows.lock && touch $@

format: setup ## format the code
	$(PY) -m ruff check --fix $(SOURCES)
	$(PY) -m ruff format $(SOURCES)

lock: ## regenerate the lock files for every platform
	@bash packaging/lock.sh

wheel: setup ## build dist/draftlight-*.whl, with the documentation in it if `make docs` has built it
	@rm -rf dist/draftlight-*.whl assets/manual
	@[ ! -d dist/docs ] || cp -r dist/docs assets/manual
	@$(PY) -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/draftlight-*.whl

check-wheel: wheel model ## install the wheel into an empty environment and run its self-test there
	@bash packaging/check_wheel.sh

gpu-check: setup model ## ten minutes on this machine's GPU (Metal or CUDA), and a report to send back (ARGS="--quick")
	@$(PY) -m tests.gpu_check $(ARGS)

parcel: setup model ## pack what gpu-check needs on a Linux machine without a network (ARGS="--backend cpu" to rehearse)
	@$(PY) packaging/parcel.py $(ARGS)

.PHONY: deb app bare-machine demonstration docs pictures gpu-check parcel

deb: wheel ## build a Debian package of everything, for this machine's distribution (Debian 12, 13, Ubuntu 24.04)
	@bash packaging/linux/build_deb.sh

app: wheel ## on a Mac: build the application and its disk image, and run the self-test of both
	@bash packaging/macos/build_app.sh

docs: setup model ## build the documentation in dist/docs, with pictures and numbers made now (ARGS=--fresh makes them anew)
	@[ build/docs/environment/bin/sphinx-build -nt packaging/docs.lock ] || { $(PY) -m venv --clear build/docs/environment && \
		build/docs/environment/bin/python -m pip install --quiet --require-hashes --only-binary :all: --no-deps -r packaging/docs.lock; }
	@$(PY) packaging/build_docs.py $(ARGS)

pictures: setup model ## paint the pictures of README and of the documentation anew, with real answers; look at them
	@$(PY) packaging/build_docs.py --pictures

demonstration: setup model ## record the comparison that the first screen's demonstration shows (assets/demonstration)
	@$(PY) packaging/record_demonstration.py

bare-machine: ## as root: install on a bare Debian, ask, open the window (ARGS=deb, uv, pipx or checkout; `make deb` first)
	@bash packaging/bare_machine.sh $(ARGS)

self-test: setup model ## load the model, decode, draw the window, quit
	@QT_QPA_PLATFORM=offscreen $(PY) -m app self-test

bench-%: setup model ## run tests/benchmarks/NAME.py, for example bench-kernel; ARGS="..." is passed on
	@$(PY) -m tests.benchmarks.$(subst -,_,$*) $(ARGS)

fuzz: setup build/atheris ## fuzz every reader of foreign files, a million inputs each; ARGS="TARGET... --inputs N" is passed on
	@PYTHONPATH=.:build/atheris $(PY) -m tests.fuzz $(ARGS)

build/atheris: packaging/fuzz.lock
	@$(PY) -m pip install --quiet --require-hashes --no-deps --target $@ --requirement packaging/fuzz.lock && touch $@

soak: setup model ## hours of use in the real window, and whether anything grows; ARGS="--minutes 120"
	@$(PY) -m tests.benchmarks.soak $(ARGS)

clean: ## remove everything that was built, including .venv
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache
