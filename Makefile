# Two commands first: `make demo` and `make test`. All install what is missing, say what, and build
# as you; only what needs root runs as root. Everything else is in xtask/.

toolchain := $(shell scripts/toolchain)
ifneq ($(toolchain),)
export RUSTUP_TOOLCHAIN := $(toolchain)
endif

.PHONY: demo test lint fuzz kernels leftovers help

help:
	@echo 'make demo       see who causes and who pays for network CPU, on this machine (a minute)'
	@echo 'make test       build and run every test'
	@echo 'make lint       formatting, clippy, documents'
	@echo 'make fuzz       run every fuzz target for a minute; no other tool is needed'
	@echo 'make kernels    boot Debian 12'"'"'s and 13'"'"'s kernels in QEMU and try everything on them; DEBS="a.deb b.deb" for others'
	@echo 'make leftovers  list what Cofferdam or its tests left on this host'

demo:
	@scripts/setup demo
	@cargo xtask demo

test:
	@scripts/setup test
	@cargo xtask test

lint:
	@scripts/setup lint
	@cargo xtask lint

fuzz:
	@scripts/setup fuzz
	@cargo xtask fuzz

kernels:
	@scripts/setup kernels
	@cargo xtask kernels $(DEBS)

leftovers:
	@scripts/setup demo
	@cargo xtask leftovers
