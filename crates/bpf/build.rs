//! Compiles the BPF objects, links them into one object per skeleton, and generates the skeletons.

use libbpf_cargo::SkeletonBuilder;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Folder of the sources in the type information, independent of the builder's disk.
const INSTALLED: &str = "/usr/src/cofferdam";

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // A link in the workspace, so that the package of the crate has the sources.
    let bpf = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?)
        .join("bpf")
        .canonicalize()?;
    println!("cargo:rerun-if-changed={}", bpf.display());
    for skeleton in [
        "accounting",
        "delay",
        "enforce",
        "interruption",
        "latency",
        "redirect",
        "reference",
        "schedule",
        "tenants",
    ] {
        let object = link(
            &compile(&bpf.join(skeleton), &out)?,
            &out.join(format!("{skeleton}.o")),
        )?;
        SkeletonBuilder::new()
            .obj(object)
            .generate(out.join(format!("{skeleton}.skel.rs")))?;
    }
    Ok(())
}

fn compile(folder: &Path, out: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut objects = Vec::new();
    let mut sources: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?;
    sources.sort();
    for source in sources {
        let Some(name) = source.file_name().and_then(|n| n.to_str()) else {
            continue;
        };
        let Some(stem) = name.strip_suffix(".bpf.c") else {
            continue;
        };
        let object = out.join(format!("{stem}.bpf.o"));
        // The type information names each source file, but not its folder on the builder's disk.
        let sources = folder.parent().unwrap_or(folder).display();
        let map = format!("-ffile-prefix-map={sources}={INSTALLED}/bpf");
        SkeletonBuilder::new()
            .source(&source)
            .obj(&object)
            .clang_args([
                "-Wall",
                "-Wextra",
                "-Werror",
                "-Wno-unused-parameter",
                "-mcpu=v3",
                &map,
                &format!("-fdebug-compilation-dir={INSTALLED}"),
            ])
            .build()?;
        objects.push(object);
    }
    Ok(objects)
}

fn link(objects: &[PathBuf], output: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let mut linker = libbpf_rs::Linker::new(output)?;
    for object in objects {
        linker.add_file(object)?;
    }
    linker.link()?;
    Ok(output.to_owned())
}
