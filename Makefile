# SPDX-License-Identifier: GPL-2.0-only
# The targets are listed by `make help`; each is one command of tools/ that can be run by itself.

export LIO_CWND_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/lio-cwnd
export CARGO_TARGET_DIR ?= $(LIO_CWND_CACHE)/cargo
# Rustup's toolchains are found by RUSTUP_HOME, which stays.
export CARGO_HOME ?= $(LIO_CWND_CACHE)/cargo-home

LAB = tools/cwndlab

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## Install the Debian packages that are missing
	@ci/deps

.PHONY: build
build: deps ## The kernel (User-Mode Linux), the guest's user space, and the tools
	@$(LAB) build

.PHONY: demo
demo: build ## Compare reads with and without feedback; ends with a table
	@$(LAB) demo --output out/demo

.PHONY: check
check: deps ## All tests: kernel, tools, lab, and the real parts end to end
	@ci/check

.PHONY: export
export: deps ## The kernel side as a mailable patch series in out/series
	@tools/kernel export out/series

.PHONY: clean
clean: ## Remove out/; the cache in LIO_CWND_CACHE stays
	rm -rf out
