# Two commands first: `make demo` and `make test`. All install what is missing, say what, and build
# as you; only what needs root runs as root. Everything else is in xtask/.

toolchain := $(shell scripts/toolchain)
ifneq ($(toolchain),)
export RUSTUP_TOOLCHAIN := $(toolchain)
endif

# Where `install` puts things.
export PREFIX ?= /usr/local
export DESTDIR ?=

.PHONY: demo test test-kubernetes bench-spark lint fuzz kernels leftovers install uninstall deb tarball image crates reproducible test-package nightly nightly-record help

help:
	@echo 'make demo       see who causes and who pays for network CPU, on this machine (a minute)'
	@echo 'make test       build and run every test'
	@echo 'make test-kubernetes  build Kubernetes once, and try the chart and what pods do on a real cluster of one node'
	@echo 'make bench-spark OUTPUT=run  measure jobs of Apache Spark beside floods and floods beside them; half an hour'
	@echo 'make install    build a release and install it below PREFIX=/usr/local, in DESTDIR if given'
	@echo 'make uninstall  remove it again'
	@echo 'make deb        make the Debian package; also: make tarball, make image'
	@echo 'make crates     package the library crates, and build each from its package alone'
	@echo 'make lint       formatting, clippy, documents'
	@echo 'make fuzz       run every fuzz target for SECONDS=60; no other tool is needed'
	@echo 'make kernels    boot Debian 12'"'"'s and 13'"'"'s kernels in QEMU and try everything on them; DEBS="a.deb b.deb" for others'
	@echo 'make test-package  live the life of the package in a clean Debian 12'
	@echo 'make reproducible  build package and archive twice and compare their bytes'
	@echo 'make nightly LANES="fuzz crates"  run lanes of the schedule; nightly-record shows their results in the book'
	@echo 'make leftovers  list what Cofferdam or its tests left on this host'

demo:
	@scripts/setup demo
	@cargo xtask demo

test:
	@scripts/setup test
	@cargo xtask test

test-kubernetes:
	@scripts/setup test-kubernetes
	@cargo xtask test-kubernetes

bench-spark:
	@scripts/setup bench-spark
	@cargo xtask bench-spark $(OUTPUT)

lint:
	@scripts/setup lint
	@cargo xtask lint

fuzz:
	@scripts/setup fuzz
	@cargo xtask fuzz $(SECONDS)

kernels:
	@scripts/setup kernels
	@cargo xtask kernels $(DEBS)

leftovers:
	@scripts/setup demo
	@cargo xtask leftovers

install:
	@scripts/setup build
	@cargo xtask install

uninstall:
	@cargo xtask uninstall

deb tarball image crates reproducible test-package:
	@scripts/setup $@
	@cargo xtask $@

nightly:
	@scripts/setup build
	@cargo xtask nightly $(LANES)

nightly-record:
	@scripts/setup build
	@cargo xtask nightly --record
