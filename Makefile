# SPDX-License-Identifier: GPL-2.0-only
# The targets are listed by `make help`; each is one command of tools/ that can be run by itself.
# KERNEL=7.3 takes that kernel instead of 6.12.

export LIO_CWND_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/lio-cwnd
export LIO_CWND_KERNEL ?= $(KERNEL)
export CARGO_TARGET_DIR ?= $(LIO_CWND_CACHE)/cargo
# Rustup's toolchains are found by RUSTUP_HOME, which stays.
export CARGO_HOME ?= $(LIO_CWND_CACHE)/cargo-home

# What boots the lab's machines: uml or qemu.
ENGINE ?= uml

LAB = tools/cwndlab

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^[a-z_-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## Install the Debian packages that are missing
	@ci/deps $(if $(filter qemu,$(ENGINE)),qemu-system-x86)

.PHONY: build
build: deps ## The kernel (User-Mode Linux; ENGINE=qemu: x86-64), the guest's user space, and the tools
	@$(LAB) build --engine $(ENGINE)

.PHONY: demo
demo: build ## Compare reads with and without feedback; ends with a table (ENGINE=qemu: on two machines)
	@$(LAB) demo --engine $(ENGINE) --output out/demo

.PHONY: check
check: deps ## All tests: kernel, tools, lab, the real parts end to end, and the law's floors (half an hour)
	@ci/check

.PHONY: stress
stress: deps ## Whatever may happen to a target, on a kernel full of checks, under QEMU (QUICK=1: less of it)
	@ci/deps qemu-system-x86
	@$(LAB) stress $(if $(QUICK),--quick)
	@$(LAB) stress --engine uml --part fuzzing $(if $(QUICK),--quick)

.PHONY: export
export: deps ## The kernel side as a mailable patch series in out/series
	@tools/kernel export out/series

KDIR ?= /lib/modules/$(shell uname -r)/build
RELEASE = $(shell cat $(KDIR)/include/config/kernel.release)

.PHONY: modules
modules: deps ## Only target_core_mod and iscsi_target_mod, for the installed kernel whose headers are in KDIR
	@tools/kernel modules $(KDIR)

.PHONY: modules_install
modules_install: ## Install what `make modules` built, as root; the kernel's own stay, unused
	@$(MAKE) -C $(KDIR) M=$(CURDIR)/out/modules/$(RELEASE) CONFIG_MODULE_SIG_ALL= modules_install
	@# The headers have no System.map, without which kbuild skips this:
	@depmod $(if $(INSTALL_MOD_PATH),-b $(INSTALL_MOD_PATH)) $(RELEASE)

.PHONY: dkms-deb
dkms-deb: deps ## A Debian package in out/ with which DKMS builds the two modules for each kernel
	@tools/kernel dkms-deb out

FLAVOUR ?= amd64

.PHONY: kernel-deb
kernel-deb: deps ## The patched kernel as Debian packages in out/ (hours; FLAVOUR=cloud-amd64: less)
	@ci/deps cpio debhelper kmod libdw-dev rsync
	@tools/kernel deb --flavour $(FLAVOUR) out

.PHONY: clean
clean: ## Remove out/; the cache in LIO_CWND_CACHE stays
	rm -rf out
