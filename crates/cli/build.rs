//! Passes version and commit of the build to the program.

#[path = "build/commit.rs"]
mod commit;

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build/commit.rs");
    println!("cargo:rerun-if-env-changed=COFFERDAM_COMMIT");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let given = env::var("COFFERDAM_COMMIT").ok().filter(|c| !c.is_empty());
    let commit = given.or_else(|| {
        let tree = commit::Tree::of(&root)?;
        let watched: Vec<PathBuf> = tree.watched();
        for path in watched {
            println!("cargo:rerun-if-changed={}", path.display());
        }
        // A change of these rebuilds the program anyway, and may make the tree dirty.
        for sources in ["crates", "bpf", "Cargo.lock"] {
            println!("cargo:rerun-if-changed={}", root.join(sources).display());
        }
        tree.commit()
    });
    let origin = match &commit {
        Some(commit) => {
            println!("cargo:rustc-env=COFFERDAM_BUILT_FROM={commit}");
            format!("commit {commit}")
        }
        None => "commit unknown: built outside a git tree, without COFFERDAM_COMMIT".to_owned(),
    };
    let version = env!("CARGO_PKG_VERSION");
    println!("cargo:rustc-env=COFFERDAM_VERSION={version} ({origin})");
}
