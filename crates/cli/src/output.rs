//! Results on standard output or in a file, with errors that name place and reason.

use crate::exit::Failure;
use anyhow::Context;
use cofferdam_types::printable_json;
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Destination of results.
#[derive(Debug)]
pub struct Output {
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    Stdout,
    File {
        path: PathBuf,
        file: File,
        /// Created by us and still empty: removed again unless something is written.
        fresh: bool,
        /// Nothing was written yet: the file still has its old content.
        untouched: bool,
        /// Length of all complete results, bytes.
        whole_bytes: u64,
    },
}

/// `document` as indented JSON. Characters that control a terminal are escaped.
pub fn json(document: &impl Serialize) -> Result<String, Failure> {
    written(serde_json::to_string_pretty(document))
}

/// `document` as one line of JSON.
pub fn json_line(document: &impl Serialize) -> Result<String, Failure> {
    written(serde_json::to_string(document))
}

fn written(text: serde_json::Result<String>) -> Result<String, Failure> {
    let text = text.map_err(|e| Failure::failed(format!("cannot write JSON: {e}")))?;
    Ok(printable_json(&text).into_owned() + "\n")
}

impl Output {
    /// Standard output.
    pub fn stdout() -> Output {
        Output { sink: Sink::Stdout }
    }

    /// The file `path`, or standard output without one.
    ///
    /// A regular file that is not empty is refused without `force`. It is emptied only when the
    /// first result is written, so that a command that cannot start destroys nothing. Other files
    /// (`/dev/null`, a FIFO) are written to.
    pub fn open(path: Option<&Path>, force: bool) -> Result<Output, Failure> {
        let Some(path) = path else {
            return Ok(Output::stdout());
        };
        let created = OpenOptions::new().write(true).create_new(true).open(path);
        let (file, fresh) = match created {
            Ok(file) => (Ok(file), true),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                (OpenOptions::new().write(true).open(path), false)
            }
            Err(e) => (Err(e), false),
        };
        let file = file.with_context(|| {
            format!("cannot write to {}: give another --output", path.display())
        })?;
        let holds_data = file.metadata().is_ok_and(|m| m.is_file() && m.len() > 0);
        if holds_data && !force {
            return Err(Failure::failed(format!(
                "{} exists and is not empty: give another --output, or --force to replace it",
                path.display()
            )));
        }
        let path = path.to_owned();
        let sink = Sink::File {
            path,
            file,
            fresh,
            untouched: true,
            whole_bytes: 0,
        };
        Ok(Output { sink })
    }

    /// Writes all of `text` at once and flushes it.
    pub fn write(&mut self, text: &str) -> Result<(), Failure> {
        match &mut self.sink {
            Sink::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(text.as_bytes())
                    .and_then(|()| out.flush())
                    .map_err(|e| failed(e, "standard output"))
            }
            Sink::File {
                path,
                file,
                fresh,
                untouched,
                whole_bytes,
            } => {
                let is_file = file.metadata().is_ok_and(|m| m.is_file());
                if *untouched && !*fresh && is_file {
                    file.set_len(0)
                        .map_err(|e| failed(e, &path.display().to_string()))?;
                }
                *untouched = false;
                if let Err(e) = file.write_all(text.as_bytes()) {
                    // A partial result would make the file unreadable to parsers.
                    if is_file {
                        let _ = file.set_len(*whole_bytes);
                    }
                    return Err(failed(e, &path.display().to_string()));
                }
                *whole_bytes += text.len() as u64;
                *fresh = false;
                Ok(())
            }
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Sink::File {
            path, fresh: true, ..
        } = &self.sink
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Failure of a write to `place`; silent where the reader closed the pipe.
pub fn failed(error: io::Error, place: &str) -> Failure {
    let remedy = match error.kind() {
        ErrorKind::BrokenPipe => return Failure::ReaderGone,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => ": free some space",
        _ => "",
    };
    Failure::failed(format!("cannot write to {place}: {error}{remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_made_for_nothing_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        drop(Output::open(Some(&path), false).unwrap());
        assert!(!path.exists());
    }

    /// Promise 77.
    #[test]
    fn a_file_with_data_is_replaced_only_by_force() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, "precious").unwrap();
        let refused = Output::open(Some(&path), false).unwrap_err();
        let line = refused.line().unwrap();
        assert_eq!(refused.code(), 1);
        assert!(
            line.contains("exists") && line.contains("--force"),
            "{line}"
        );
        let mut output = Output::open(Some(&path), true).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        output.write("new").unwrap();
        drop(output);
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }

    /// Promise 77.
    #[test]
    fn an_empty_file_may_be_filled() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, "").unwrap();
        Output::open(Some(&path), false)
            .unwrap()
            .write("new")
            .unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }

    /// Promise 76.
    #[test]
    fn a_full_disk_is_one_line() {
        let mut output = Output::open(Some(Path::new("/dev/full")), false).unwrap();
        let failure = output.write("x").unwrap_err();
        assert_eq!(failure.code(), 1);
        let line = failure.line().unwrap();
        assert!(
            line.contains("/dev/full") && line.contains("No space left"),
            "{line}"
        );
    }

    /// Promise 76.
    #[test]
    fn an_unwritable_place_is_one_line() {
        let failure = Output::open(Some(Path::new("/nowhere/at/all")), false).unwrap_err();
        let line = failure.line().unwrap();
        assert!(
            line.contains("/nowhere/at/all") && line.contains("--output"),
            "{line}"
        );
    }
}
