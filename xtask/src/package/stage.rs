//! Writing of an installation into a folder, with fixed permissions and times, so that two are
//! equal.

use super::layout::{Content, Entry, Mode};
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

/// Path of `to` below `root`.
pub fn under(root: &Path, to: &Path) -> PathBuf {
    root.join(to.strip_prefix("/").unwrap_or(to))
}

/// Makes an empty folder; removes earlier contents.
pub fn fresh(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    make(folder)
}

fn make(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

/// Writes `entries` below `root`. Folders have mode 0755, whatever the umask.
pub fn write(entries: &[Entry], root: &Path) -> Result<()> {
    for entry in entries {
        let to = under(root, &entry.to);
        folders(&to)?;
        let failed = || format!("cannot write {}", to.display());
        match &entry.content {
            Content::Copy(from, mode) => {
                // A running program cannot be overwritten, only replaced.
                remove(&to)?;
                fs::copy(from, &to).with_context(|| {
                    format!("cannot copy {} to {}", from.display(), to.display())
                })?;
                set_mode(&to, *mode)?;
            }
            Content::Text(text) => {
                remove(&to)?;
                fs::write(&to, text).with_context(failed)?;
                set_mode(&to, Mode::Data)?;
            }
            Content::Link(name) => {
                remove(&to)?;
                symlink(name, &to).with_context(failed)?;
            }
        }
    }
    Ok(())
}

/// Text of a file of the sources.
pub fn text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("cannot replace {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Creates missing folders of the path `to`.
fn folders(to: &Path) -> Result<()> {
    let Some(parent) = to.parent() else {
        return Ok(());
    };
    if parent.exists() {
        return Ok(());
    }
    folders(parent)?;
    make(parent)?;
    fs::set_permissions(parent, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot set the mode of {}", parent.display()))
}

fn set_mode(path: &Path, mode: Mode) -> Result<()> {
    let mode = match mode {
        Mode::Program => 0o755,
        Mode::Data => 0o644,
    };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .with_context(|| format!("cannot set the mode of {}", path.display()))
}

/// Every path below `root`, folders too, sorted.
pub fn walk(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let read =
            fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in read {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Sets the time of everything below `root` to `epoch_s`.
pub fn date(root: &Path, epoch_s: u64) -> Result<()> {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(epoch_s);
    for path in walk(root)? {
        // tar and dpkg-deb take the time of links from the command line.
        if path.is_symlink() {
            continue;
        }
        let file =
            fs::File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        file.set_modified(time)
            .with_context(|| format!("cannot date {}", path.display()))?;
    }
    Ok(())
}

/// Replaces `path` by `path.gz`, without name and time in it.
pub fn compress(path: &Path) -> Result<()> {
    let packed = gzip(&fs::read(path).with_context(|| format!("cannot read {}", path.display()))?)?;
    let mut to = path.as_os_str().to_owned();
    to.push(".gz");
    let to = PathBuf::from(to);
    fs::write(&to, packed).with_context(|| format!("cannot write {}", to.display()))?;
    set_mode(&to, Mode::Data)?;
    remove(path)
}

/// Compresses `data` by gzip(1).
pub fn gzip(data: &[u8]) -> Result<Vec<u8>> {
    let mut child = Command::new("gzip")
        .args(["-9", "-n", "-c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run gzip; is it installed?")?;
    let mut input = child.stdin.take().context("gzip has no input")?;
    let data = data.to_owned();
    let writer = std::thread::spawn(move || input.write_all(&data));
    let out = child.wait_with_output().context("cannot run gzip")?;
    let written = writer.join().is_ok_and(|result| result.is_ok());
    if !out.status.success() || !written {
        bail!("gzip failed: {}", out.status);
    }
    Ok(out.stdout)
}

/// Entry of `path` in the tree below `root`; `None` for a folder.
pub fn entry(root: &Path, path: &Path) -> Result<Option<Entry>> {
    let meta =
        fs::symlink_metadata(path).with_context(|| format!("cannot look at {}", path.display()))?;
    let relative = path.strip_prefix(root).unwrap_or(path);
    let content = if meta.is_dir() {
        return Ok(None);
    } else if meta.is_symlink() {
        let target = fs::read_link(path)?;
        Content::Link(target.to_string_lossy().into_owned())
    } else if meta.permissions().mode() & 0o111 != 0 {
        Content::Copy(path.to_owned(), Mode::Program)
    } else {
        Content::Copy(path.to_owned(), Mode::Data)
    };
    Ok(Some(Entry {
        to: Path::new("/").join(relative),
        content,
    }))
}
