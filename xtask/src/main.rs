//! Developer tasks. `make` calls these; `scripts/setup` has installed the packages that they need.
//!
//! Exit codes are those of cofferdam: 0 done, 1 failed, 2 usage.
#![forbid(unsafe_code)]

mod crates;
mod documents;
mod figures;
mod fuzz;
mod lint;
mod manifest;
mod nightly;
mod package;
mod packetdrill;
mod policy;
mod promises;
mod prose;
mod run;
mod schema_fields;
mod soak;
mod tree;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask TASK

  demo         build, then run `cofferdam demo` as root
  test [ARGS]  build and run every test as root, one at a time; ARGS go to cargo test
  test-kubernetes [test] [pods] [churn] [workflow]
               build the parts of Kubernetes once; on a real cluster of one node, try the chart,
               make static and resized pods and many Jobs, have 50 pods a minute come and go next
               to an agent, and execute the benchmark's workflow
  bench-spark OUTPUT [ROUNDS]
               fetch Spark once; measure its jobs as victims and as interferers, 5 rounds by default
  soak [--runs N] [--beside COMMAND] [--output DIR]
               whole runs of the tests, 20 by default; 1 if one ever failed; a stopped soak resumes
  lint         formatting, clippy, documentation, the checks below
  fmt          format Rust and BPF C
  loc          no tracked source file is longer than 800 lines
  links        every file that a document points to exists
  spec [--index]
               every promise of SPECIFICATION.md has a test, every marker of a test its promise, and
               every bound its constant; --index prints promise, test, file and line
  figures [--check]
               render the tables of measured results from docs/data into the documents
  policy       licences, duplicates and sources of all dependencies by deny.toml; manifests of
               crates that others may depend on; one oldest compiler everywhere
  prose [--list RULE]
               the language of docs/GLOSSARY.md in sources, documents and commits; --list prints the
               findings of opening, word, name, test or width
  manifest     render etc/kubernetes.yaml from the chart in packaging/helm
  man [DIR]    write manual pages; DIR is target/man by default
  completions [DIR]
               write completions for bash, zsh and fish; target/completions
  fuzz [SECONDS] [TARGET…]
               run the fuzz targets, 60 s each by default
  install, uninstall
               build a release and install it below PREFIX (/usr/local) in DESTDIR (/); remove it
  crates       package the crates that others may depend on, and build each from its package
  deb          make the Debian package in target/package, and run lintian on it
  tarball      make the archive with the static program
  image        make the OCI image of the static program, by podman
  reproducible [deb] [tarball]
               build package and archive again elsewhere; 1 unless both have the same bytes
  test-package make the package; install, run, upgrade and purge it in a clean Debian 12
  kernels [--only STEPS] [DEB…]
               boot kernels in QEMU and run the checks of scripts/kernels.d there
  packetdrill --sources DIR [--scripts DIR] [--ip v4|v6|mapped] [--kernel] [FILTER]
               play packetdrill's scripts against the stack, or the kernel
  nightly LANE… | --record
               run lanes of the schedule; take their results into docs/data/nightly.csv
  leftovers    list what Cofferdam or its tests left on this host; 1 if there is anything";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    let done = match task.as_str() {
        "demo" => run::demo(&rest),
        "test" => run::test(&rest),
        "soak" => soak::soak(&rest),
        "lint" => lint::lint(),
        "fmt" => lint::format(),
        "loc" => tree::lengths(),
        "links" => documents::links(),
        "spec" => promises::spec(&rest),
        "figures" => figures::figures(&rest),
        "policy" => policy::check(),
        "prose" => prose::prose(&rest),
        "manifest" => manifest::write(),
        "man" | "completions" => run::generate(&task, &rest),
        "test-kubernetes" => run::kubernetes(&rest),
        "bench-spark" => run::spark(&rest),
        "fuzz" => fuzz::fuzz(&rest),
        "kernels" => run::kernels(&rest),
        "packetdrill" => packetdrill::packetdrill(&rest),
        "leftovers" => run::leftovers(),
        "nightly" => nightly::nightly(&rest),
        "install" => package::install::install(),
        "uninstall" => package::install::uninstall(),
        // Parts of these two tasks that may need root.
        "install-tree" => package::install::install_tree(&rest),
        "uninstall-tree" => package::install::uninstall_tree(&rest),
        "crates" => crates::crates(),
        "deb" => package::deb(),
        "tarball" => package::tarball(),
        "image" => package::image(),
        "reproducible" => package::reproducible(&rest),
        "test-package" => package::life(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("xtask {task}: {e:#}");
            ExitCode::FAILURE
        }
    }
}
