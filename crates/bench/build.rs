//! Builds the load generator that the program contains: statically, by the same compiler, from the
//! sources of `src/bin/cofferdam-load`, which use the standard library alone.

use std::env;
use std::error::Error;
use std::path::Path;
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    let source = "src/bin/cofferdam-load";
    println!("cargo:rerun-if-changed={source}");
    println!("cargo:rerun-if-changed=build.rs");
    let output = Path::new(&env::var("OUT_DIR")?).join("cofferdam-load");
    let status = Command::new(env::var("RUSTC")?)
        .args(["--edition", "2024", "--crate-type", "bin", "--crate-name"])
        .args(["cofferdam_load", "--cap-lints", "allow"])
        .args(["--target", &env::var("TARGET")?])
        .args([
            "-C",
            "opt-level=2",
            "-C",
            "panic=abort",
            "-C",
            "strip=symbols",
        ])
        // The static archive of the GNU C library comes with its headers (libc6-dev).
        .args(["-C", "target-feature=+crt-static"])
        .arg("-o")
        .arg(&output)
        .arg(format!("{source}/main.rs"))
        .status()?;
    if !status.success() {
        return Err(format!("the static load generator could not be built ({status})").into());
    }
    Ok(())
}
