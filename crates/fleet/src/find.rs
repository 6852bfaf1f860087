//! Search for ledgers: files, and the files in folders.

use crate::error::FleetError;
use cofferdam_paths::open_regular;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Storage format of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One record per line.
    Lines,
    /// One record per line, compressed by gzip.
    Gzip,
    /// Parquet file.
    Columns,
    /// History of an agent.
    History,
}

/// Ledger file to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Format, recognized by the first bytes and not by the name.
    pub format: Format,
}

/// Endings of the ledgers that are found in folders.
const ENDINGS: [&str; 3] = [".jsonl", ".jsonl.gz", ".parquet"];
/// Name of an agent's history.
const HISTORY: &str = "history";

/// Finds the ledgers that `named` are or contain. Files keep the order in which they are named;
/// files of a folder and its subfolders are sorted by path. Links to folders are not followed. Only
/// one file is open at a time.
///
/// # Errors
/// A path cannot be read or is no ledger, or a folder has none.
pub fn find(named: &[PathBuf]) -> Result<Vec<LedgerFile>, FleetError> {
    let mut found = Vec::new();
    for path in named {
        let meta = fs::metadata(path).map_err(|source| unreadable(path, source))?;
        if !meta.is_dir() {
            found.push(inspect(path)?);
            continue;
        }
        let before = found.len();
        for file in walk(path)? {
            found.push(inspect(&file)?);
        }
        if found.len() == before {
            return Err(FleetError::Nothing(path.clone()));
        }
    }
    Ok(found)
}

fn walk(folder: &Path) -> Result<Vec<PathBuf>, FleetError> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let failed = |source| unreadable(&folder, source);
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if kind.is_dir() {
                folders.push(entry.path());
            } else if name == HISTORY || ENDINGS.iter().any(|ending| name.ends_with(ending)) {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

fn inspect(path: &Path) -> Result<LedgerFile, FleetError> {
    let failed = |source| unreadable(path, source);
    let mut first = Vec::new();
    let file = open_regular(path).map_err(|why| failed(why.into()))?;
    file.take(4).read_to_end(&mut first).map_err(failed)?;
    let format = match first.as_slice() {
        [] => return Err(FleetError::Empty(path.to_owned())),
        b"PAR1" => Format::Columns,
        // The history is an SQLite database; its reader checks the rest.
        b"SQLi" => Format::History,
        [0x1f, 0x8b, ..] => Format::Gzip,
        [b'{', ..] => Format::Lines,
        _ => return Err(FleetError::Format(path.to_owned())),
    };
    Ok(LedgerFile {
        path: path.to_owned(),
        format,
    })
}

/// Host in the name of a file: `node-1` for `node-1.jsonl.gz` and for `node-1/ledger.jsonl`.
pub fn host_of(path: &Path) -> String {
    let name = |path: &Path| path.file_name().map(|n| n.to_string_lossy().into_owned());
    let mut stem = name(path).unwrap_or_default();
    for ending in [".gz", ".jsonl", ".ndjson", ".json", ".db"] {
        stem.truncate(stem.strip_suffix(ending).unwrap_or(&stem).len());
    }
    match stem.as_str() {
        "ledger" | "accounting" | "history" | "" => path.parent().and_then(name).unwrap_or(stem),
        _ => stem,
    }
}

fn unreadable(path: &Path, source: std::io::Error) -> FleetError {
    FleetError::Read {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_in_the_files_name_or_the_folders() {
        for (path, host) in [
            ("/x/node-1.jsonl", "node-1"),
            ("node-1.example.org.jsonl.gz", "node-1.example.org"),
            ("/x/node-2/ledger.jsonl", "node-2"),
            ("node-3/accounting.jsonl.gz", "node-3"),
            ("/backup/node-4/history", "node-4"),
            ("ledger.jsonl", "ledger"),
            ("a.b", "a.b"),
        ] {
            assert_eq!(host_of(Path::new(path)), host, "{path}");
        }
    }

    #[test]
    fn folders_are_walked_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("b")).unwrap();
        fs::write(at("z.jsonl"), "{}\n").unwrap();
        fs::write(at("b/a.parquet"), "PAR1").unwrap();
        fs::write(at("b/c.jsonl.gz"), [0x1f, 0x8b, 8]).unwrap();
        fs::write(at("notes.txt"), "hello").unwrap();
        let found = find(&[dir.path().to_owned()]).unwrap();
        let formats: Vec<Format> = found.iter().map(|f| f.format).collect();
        assert_eq!(formats, [Format::Columns, Format::Gzip, Format::Lines]);
        let failure = |path: PathBuf| find(&[path]).unwrap_err().to_string();
        assert!(failure(at("notes.txt")).contains("no ledger"));
        fs::write(at("empty.jsonl"), "").unwrap();
        assert!(failure(at("empty.jsonl")).contains("holds no record"));
        assert!(failure(at("none")).contains("cannot read"));
        fs::create_dir(at("hollow")).unwrap();
        assert!(failure(at("hollow")).contains("holds no ledgers"));
    }
}
