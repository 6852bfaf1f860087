//! Target of an export: standard output, or a file that appears when it is complete.

use super::{csv, line};
use crate::args::{ExportArgs, ExportFormat};
use crate::exit::Failure;
use crate::output;
use cofferdam_records::accounting::AccountingRecord;
use std::fs::Permissions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::{NamedTempFile, TempPath};

/// Writer of text.
type Sink = BufWriter<Box<dyn Write>>;

pub struct Target {
    form: Form,
    /// `None`: standard output.
    file: Option<Pending>,
}

enum Form {
    Lines(Sink),
    Csv(Box<csv::Rows<Sink>>),
    Parquet(Box<cofferdam_columnar::Writer>),
}

/// File under a temporary name, in the folder of the file that it will replace. Removed unless it
/// does.
struct Pending {
    part: TempPath,
    path: PathBuf,
    force: bool,
}

impl Target {
    /// Opens the target. A file that exists is refused without `--force`.
    pub fn open(args: &ExportArgs) -> Result<Target, Failure> {
        let Some(path) = &args.output else {
            if !args.format.is_text() {
                return Err(Failure::Usage(
                    "parquet is binary and not for standard output: give --output FILE".to_owned(),
                ));
            }
            let form = text(args.format, Box::new(io::stdout()));
            let form = form.map_err(|e| output::failed(e, "standard output"))?;
            return Ok(Target { form, file: None });
        };
        let path = &match std::fs::metadata(path) {
            Ok(_) if !args.force => return Err(exists(path)),
            // A device or a pipe would be replaced by a file.
            Ok(there) if !there.is_file() => {
                let what = format!(
                    "{} is not a regular file: give another --output",
                    path.display()
                );
                return Err(Failure::failed(what));
            }
            // The file that a link names is replaced, and not the link.
            Ok(_) => path.canonicalize().unwrap_or_else(|_| path.clone()),
            Err(_) => path.clone(),
        };
        let cannot = |e: &dyn std::fmt::Display| {
            Failure::failed(format!("cannot write to {}: {e}", path.display()))
        };
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        // Permissions as the user's umask gives them, as for any other result.
        let part = tempfile::Builder::new()
            .prefix(".cofferdam-export-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)
            .map_err(|e| cannot(&e))?;
        let (form, part) = match args.format {
            ExportFormat::Parquet => {
                let part = part.into_temp_path();
                // The Parquet writer creates its file itself.
                std::fs::remove_file(&part).map_err(|e| cannot(&e))?;
                let writer = cofferdam_columnar::Writer::create(&part, &host_name())
                    .map_err(|e| cannot(&e))?;
                (Form::Parquet(Box::new(writer)), part)
            }
            format => {
                let (file, part) = NamedTempFile::into_parts(part);
                (text(format, Box::new(file)).map_err(|e| cannot(&e))?, part)
            }
        };
        let (path, force) = (path.clone(), args.force);
        let file = Some(Pending { part, path, force });
        Ok(Target { form, file })
    }

    /// Writes an interval.
    pub fn write(&mut self, record: &AccountingRecord) -> Result<(), Failure> {
        let written = match &mut self.form {
            Form::Lines(to) => to.write_all(line(record)?.as_bytes()),
            Form::Csv(rows) => rows.write(record),
            Form::Parquet(writer) => writer.write(record).map_err(io::Error::other),
        };
        written.map_err(|e| output::failed(e, &name(self.file.as_ref())))
    }

    /// Completes the export: a file appears now.
    pub fn finish(self) -> Result<(), Failure> {
        let name = name(self.file.as_ref());
        let written = match self.form {
            Form::Lines(mut to) => to.flush(),
            Form::Csv(rows) => rows.finish().and_then(|mut to| to.flush()),
            Form::Parquet(writer) => writer.finish().map(drop).map_err(io::Error::other),
        };
        written.map_err(|e| output::failed(e, &name))?;
        let Some(Pending { part, path, force }) = self.file else {
            return Ok(());
        };
        let named = if force {
            part.persist(&path)
        } else {
            part.persist_noclobber(&path)
        };
        named.map_err(|e| match e.error.kind() {
            io::ErrorKind::AlreadyExists => exists(&path),
            _ => output::failed(e.error, &name),
        })
    }
}

fn text(format: ExportFormat, to: Box<dyn Write>) -> io::Result<Form> {
    let to = BufWriter::with_capacity(1 << 16, to);
    match format {
        ExportFormat::Csv => csv::Rows::new(to, host_name()).map(|rows| Form::Csv(Box::new(rows))),
        _ => Ok(Form::Lines(to)),
    }
}

/// Name of this host, which is in every row.
fn host_name() -> String {
    let name = nix::unistd::gethostname().map_or_else(
        |_| String::new(),
        |name| name.to_string_lossy().into_owned(),
    );
    match name.is_empty() {
        true => "localhost".to_owned(),
        false => name,
    }
}

fn name(file: Option<&Pending>) -> String {
    file.map_or("standard output".to_owned(), |f| {
        f.path.display().to_string()
    })
}

fn exists(path: &Path) -> Failure {
    Failure::failed(format!(
        "{} exists: give another --output, or --force to replace it",
        path.display()
    ))
}
