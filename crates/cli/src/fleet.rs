//! `cofferdam report fleet`: runs `cofferdam-fleet`, a separate program, because the query engine
//! in it is larger than all the rest.

use crate::exit::{Failure, Outcome};
use cofferdam_fleet_args::ReportArgs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name of the program.
const PROGRAM: &str = "cofferdam-fleet";

/// Replaces this process by `cofferdam-fleet report`.
pub fn report(args: &ReportArgs) -> Outcome {
    let own = std::env::current_exe()
        .map_err(|e| Failure::failed(format!("cannot find the path of this program: {e}")))?;
    let Some(program) = find(&own) else {
        return Err(Failure::Unsupported(format!(
            "the program {PROGRAM} is missing: install the package {PROGRAM}, or put it next to {}",
            own.display()
        )));
    };
    let failed = Command::new(&program)
        .arg("report")
        .args(args.words())
        .exec();
    Err(Failure::failed(format!(
        "cannot run {}: {failed}",
        program.display()
    )))
}

/// Path of the program: in the folder of `own`, or in libexec.
fn find(own: &Path) -> Option<PathBuf> {
    let folder = own.parent()?;
    let places = [
        folder.join(PROGRAM),
        folder.join("../libexec/cofferdam").join(PROGRAM),
    ];
    places.into_iter().find(|place| place.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Promise 17.
    #[test]
    fn the_program_is_next_to_this_one_or_in_libexec() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("bin/cofferdam");
        let libexec = dir.path().join("libexec/cofferdam");
        fs::create_dir_all(own.parent().unwrap()).unwrap();
        fs::create_dir_all(&libexec).unwrap();
        assert_eq!(find(&own), None);
        fs::write(libexec.join(PROGRAM), "").unwrap();
        assert!(
            find(&own)
                .unwrap()
                .ends_with("libexec/cofferdam/cofferdam-fleet")
        );
        let neighbour = own.with_file_name(PROGRAM);
        fs::write(&neighbour, "").unwrap();
        assert_eq!(find(&own), Some(neighbour));
    }
}
