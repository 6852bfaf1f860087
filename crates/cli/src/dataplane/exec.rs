//! `cofferdam dataplane exec`: runs an unmodified program on a running dataplane.

use super::serve::{attach, become_user};
use crate::args::DataplaneExecArgs;
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use cofferdam_dataplane::exec::{self, ProgramError};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Library that is preloaded into the program.
const LIBRARY: &str = "libcofferdam_preload.so";
const PRELOAD: &str = "LD_PRELOAD";

/// Performs all possible checks, then becomes the program.
pub fn run(args: &DataplaneExecArgs, interrupt: &Interrupt) -> Outcome {
    let (word, arguments) = args
        .command
        .split_first()
        .ok_or_else(|| Failure::Usage("no program: write it behind `--`".to_owned()))?;
    let program = exec::find(word).map_err(refused)?;
    exec::check(&program).map_err(refused)?;
    let own = Path::new(word)
        .file_name()
        .unwrap_or(word)
        .to_string_lossy();
    let name = args.name.as_deref().unwrap_or(&own);
    let library = library()?;
    if let Some(user) = &args.attach.user {
        become_user(user)?;
    }
    // The program attaches itself; whether it can is checked before it runs.
    drop(attach(
        &args.attach.socket,
        name,
        args.attach.wait,
        interrupt,
    )?);
    let socket = std::path::absolute(&args.attach.socket)
        .map_err(|e| Failure::failed(format!("{}: {e}", args.attach.socket.display())))?;
    exec::refuse_io_uring().map_err(|e| {
        Failure::Unsupported(format!(
            "io_uring cannot be refused to the program ({e}): \
             a kernel with CONFIG_SECCOMP_FILTER is needed"
        ))
    })?;
    let mut preload = OsString::from(library);
    if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let error = Command::new(&program)
        .arg0(word)
        .args(arguments)
        .env(PRELOAD, preload)
        .env("COFFERDAM_DATAPLANE_SOCKET", socket)
        .env("COFFERDAM_DATAPLANE_NAME", name)
        .exec();
    Err(Failure::failed(format!(
        "cannot start {}: {error}",
        program.display()
    )))
}

fn refused(error: ProgramError) -> Failure {
    Failure::failed(error.to_string())
}

/// Path of the library: next to this program, as after a build, or in the library folder of its
/// prefix.
fn library() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe();
    let own =
        own.map_err(|e| Failure::failed(format!("cannot find the path of this program: {e}")))?;
    let places = places(&own);
    let found = places.iter().find(|place| place.is_file()).cloned();
    found.ok_or_else(|| {
        let places: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
        Failure::Unsupported(format!(
            "{LIBRARY} is missing (looked for {}): install cofferdam whole, or build it with \
             `cargo build -p cofferdam-preload`",
            places.join(", ")
        ))
    })
}

fn places(own: &Path) -> Vec<PathBuf> {
    let folder = own.parent().unwrap_or(Path::new("/"));
    let prefix = folder.parent().unwrap_or(folder);
    vec![
        folder.join(LIBRARY),
        prefix.join("lib/cofferdam").join(LIBRARY),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_next_to_the_program_or_installed() {
        assert_eq!(
            places(Path::new("/usr/bin/cofferdam")),
            [
                Path::new("/usr/bin/libcofferdam_preload.so"),
                Path::new("/usr/lib/cofferdam/libcofferdam_preload.so")
            ]
        );
    }
}
