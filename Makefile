# Two commands: `make demo` and `make test`. Both install what is missing, say what, and build
# as you; only what needs root runs as root. Everything else is in xtask/.

toolchain := $(shell scripts/toolchain)
ifneq ($(toolchain),)
export RUSTUP_TOOLCHAIN := $(toolchain)
endif

.PHONY: demo test lint fuzz leftovers help

help:
	@echo 'make demo       see who causes and who pays for network CPU, on this machine (a minute)'
	@echo 'make test       build and run every test'
	@echo 'make lint       formatting, clippy, documents'
	@echo 'make fuzz       run every fuzz target for a minute; no other tool is needed'
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

leftovers:
	@scripts/setup demo
	@cargo xtask leftovers
