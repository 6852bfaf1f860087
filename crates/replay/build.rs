//! Compiles the BPF sources of the accounting and of the diagnosis for the host. The headers in
//! `shim/` replace libbpf's; the programs are the files that the kernel gets.

use std::error::Error;
use std::path::Path;
use std::{env, fs, io};

fn main() -> Result<(), Box<dyn Error>> {
    let here = env::var("CARGO_MANIFEST_DIR")?;
    let (here, bpf) = (Path::new(&here), Path::new(&here).join("../../bpf"));
    let mut sources = Vec::new();
    for folder in ["accounting", "schedule"] {
        let entries = fs::read_dir(bpf.join(folder))?;
        let paths = entries.map(|entry| Ok(entry?.path()));
        sources.extend(paths.collect::<io::Result<Vec<_>>>()?);
    }
    sources.retain(|path| path.to_string_lossy().ends_with(".bpf.c"));
    sources.sort();
    for watched in [bpf, here.join("shim")] {
        println!("cargo:rerun-if-changed={}", watched.display());
    }
    cc::Build::new()
        // The programs are written for clang (`#pragma clang attribute`).
        .compiler("clang")
        .include(here.join("shim"))
        // The kernel's field offsets have no meaning here: accesses are plain.
        .flag("-Wno-unknown-attributes")
        .flag("-Wno-unused-parameter")
        .flag("-fno-strict-aliasing")
        .extra_warnings(true)
        .warnings_into_errors(true)
        .files(sources)
        .file(here.join("shim/world.c"))
        .file(here.join("shim/schedule.c"))
        .try_compile("cofferdam_replay_programs")?;
    Ok(())
}
