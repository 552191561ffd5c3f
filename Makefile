# One command each. `make help` explains them.
PY := .venv/bin/python
# Compiled modules are kept, whatever the environment says: tests start hundreds of processes, and pytest rewrites the
# assertions of every file anew otherwise.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup packages fix check check-idly test test-alone test-slow test-fresh test-units soak conformance bench up down console docs dist lock clean

help: ## Show what each target does
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: .venv/ready ## Make .venv with the locked dependencies, and install the tools tests and bench need

# Looked at every time: a tool that was missing, or too old, may be there now.
packages:
	@./deploy/packages

# An environment whose set-up was cut short (a full disk, no network) has no mark, and is made anew.
AGAIN_LATER := { echo "set-up: Python packages are not installed; see above, then run \`make setup\` again" >&2; exit 1; }
.venv/ready: requirements.lock pyproject.toml | packages
	@echo "set-up: installing Python packages in .venv"
	@{ [ -e $@ ] && $(PY) -m pip --version >/dev/null 2>&1; } || python3 -m venv --clear .venv || $(AGAIN_LATER)
	@rm -f $@
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock || $(AGAIN_LATER)
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . || $(AGAIN_LATER)
	@touch $@

fix: setup ## Format, and mend what the linter can
	.venv/bin/ruff check --fix --quiet src tests bench || true
	.venv/bin/ruff format --quiet src tests bench

check: setup ## Lint, format, strict types, import contracts
	.venv/bin/ruff check src tests bench
	.venv/bin/ruff format --check --quiet src tests bench
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo

# A test is skipped only for something that this machine lacks; the end of the output lists what is missing and what failed.
# Nothing is tried again: a test that fails now and then shows a fault of the system or of the test.
# Many tests wait for processes more than they compute, so there are more workers than two cores. Files go to workers in
# the order of their folders: those that take long come first, the many short ones of tests/unit fill the end.
# Those that need the machine for themselves run one by one and leave much of it idle: enough for the checks.
test: setup ## Everything CI runs: checks, and all tests but the slow ones
	.venv/bin/pytest -rsfE -n 4 --dist loadfile --no-loadscope-reorder -m "not slow and not alone"
	$(MAKE) --no-print-directory --jobs=2 test-alone check-idly

test-alone: setup
	.venv/bin/pytest -rsfE -m "alone and not slow"

check-idly: setup
	@nice -n 19 $(MAKE) --no-print-directory check

# For tests that are skipped without it: not every machine has a wheel.
.venv/slow: requirements-slow.lock | setup
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $< && touch $@ \
		|| echo "set-up: the packages of $< are not installed; the tests that need them are skipped" >&2

test-slow: .venv/slow ## The long tests, and those over generated examples with new ones
	.venv/bin/pytest -m slow --timeout=1800
	.venv/bin/pytest -n 4 -m "hypothesis and not slow and not alone" --hypothesis-profile=random

test-fresh: ## `make up`, the README's commands and some tests on a bare machine (RELEASE=bookworm or trixie; needs root)
	tests/fresh/run

test-units: ## The steps of docs/production.md on a bare machine, under a systemd of its own (needs root)
	tests/fresh/units

soak: setup ## A random mix of changes and failures, then a look for what is left (MINUTES=60, SEED=1; needs root)
	MINUTES=$(or $(MINUTES),60) SEED=$(or $(SEED),1) .venv/bin/pytest -s tests/soak

conformance: setup ## Kubernetes' conformance suite, compared with tests/conformance/results.txt (E2E_BIN=DIRECTORY; see docs/conformance.md)
	$(PY) tests/conformance/run.py

bench: setup ## Measure; every published figure comes from here
	for each in apiserver controllers growth scheduler network dataplane dns pods webhooks abuse planes tenant_data sight console; do $(PY) -m bench.$$each --quick || exit; done

up: setup ## Start a cluster on this machine in the background, show what it can do, say what to type next (UP="--nodes 3")
	@$(PY) -m alcove.dataplane.build >/dev/null 2>&1 || true
	.venv/bin/alcove up $(UP)

down: setup ## Stop the cluster of this machine; its state stays
	.venv/bin/alcove down

console: ## Check the console's sources and build them into src/alcove/console/static (needs npm)
	cd console && npm ci --ignore-scripts --no-audit --no-fund && npm run check && npm run build

docs: setup ## Write docs/reference and docs/limits.md anew from the code
	$(PY) docs/generate.py

# The first line fails early where the eBPF object cannot be compiled: no release goes without it.
dist: setup ## Build a wheel (with the compiled eBPF object) and an sdist into dist/
	$(PY) -m alcove.dataplane.build
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || date +%s) $(PY) -m build --no-isolation --outdir dist .

COMPILE := uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet
lock: ## Write requirements.lock and requirements-slow.lock anew from pyproject.toml (needs uv)
	$(COMPILE) pyproject.toml --group dev --output-file requirements.lock
	$(COMPILE) --group slow --constraint requirements.lock --output-file requirements-slow.lock

clean: ## Remove everything made here
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
