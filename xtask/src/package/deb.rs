//! The Debian package, built by dpkg's own tools.

use super::build::{BuildProducts, LIBRARY, LIBRARY_ABI, Release};
use super::layout::{CONFIGURATION, Content, Entry, Layout, Mode, entries, fleet};
use super::stage;
use crate::run::check;
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Architecture in Debian's spelling.
pub const ARCHITECTURE: &str = "amd64";
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
const MAINTAINER: &str = "Cofferdam maintainers <maintainers@cofferdam.example>";

/// Builds the package in `folder`, and returns its path. `depends` are its dependencies in dpkg's
/// form.
pub fn make(
    built: &BuildProducts,
    release: &Release,
    depends: &str,
    folder: &Path,
) -> Result<PathBuf> {
    let root = folder.join("deb");
    stage::fresh(&root)?;
    stage::write(&entries(&Layout::debian(), built, release)?, &root)?;
    let documents = root.join("usr/share/doc/cofferdam");
    fs::write(
        documents.join("changelog"),
        changelog("cofferdam", &release.version, release.epoch_s),
    )?;
    stage::compress(&documents.join("changelog"))?;
    for path in stage::walk(&root.join("usr/share/man"))? {
        if path.is_file() {
            stage::compress(&path)?;
        }
    }
    let overrides = stage::text(&built.sources.join("packaging/debian/lintian-overrides"))?;
    let place = root.join("usr/share/lintian/overrides");
    fs::create_dir_all(&place)?;
    fs::write(place.join("cofferdam"), overrides)?;
    control(&root, built, release, depends)?;
    pack(&root, "cofferdam", release, folder)
}

/// Builds the package of `report fleet` in `folder`, and returns its path.
pub fn make_fleet(
    built: &BuildProducts,
    release: &Release,
    depends: &str,
    folder: &Path,
) -> Result<PathBuf> {
    let (root, version) = (folder.join("deb-fleet"), &release.version);
    stage::fresh(&root)?;
    let layout = Layout::debian();
    let documents = layout.prefix.join("share/doc/cofferdam-fleet");
    let copyright = Entry {
        to: documents.join("copyright"),
        content: Content::Copy(built.sources.join("packaging/debian/copyright"), Mode::Data),
    };
    let changelog = Entry {
        to: documents.join("changelog"),
        content: Content::Text(changelog("cofferdam-fleet", version, release.epoch_s)),
    };
    stage::write(&[fleet(&layout, built), copyright, changelog], &root)?;
    stage::compress(&stage::under(&root, &documents).join("changelog"))?;
    let size_kib = installed_kib(&root)?;
    let control = root.join("DEBIAN");
    fs::create_dir_all(&control)?;
    let text = format!(
        "Package: cofferdam-fleet\n\
         Version: {version}\n\
         Architecture: {ARCHITECTURE}\n\
         Maintainer: {MAINTAINER}\n\
         Installed-Size: {size_kib}\n\
         Depends: {depends}\n\
         Recommends: cofferdam\n\
         Section: admin\n\
         Priority: optional\n\
         Description: reports over the ledgers of many hosts that run Cofferdam\n \
         Merges what Cofferdam recorded on many hosts into one page and Parquet files:\n \
         which containers cost others CPU time, a bill corrected for it, and what\n \
         enforcement would return. `cofferdam report fleet` runs it. No agent needs it.\n"
    );
    fs::write(control.join("control"), text)?;
    fs::write(control.join("md5sums"), checksums(&root)?)?;
    pack(&root, "cofferdam-fleet", release, folder)
}

/// Packs the tree below `root`.
fn pack(root: &Path, name: &str, release: &Release, folder: &Path) -> Result<PathBuf> {
    for path in stage::walk(root)? {
        if path.is_dir() {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
    }
    stage::date(root, release.epoch_s)?;
    let package = folder.join(format!("{name}_{}_{ARCHITECTURE}.deb", release.version));
    let mut command = Command::new("dpkg-deb");
    command
        .args(["--root-owner-group", "-Zxz", "--build"])
        .arg(root)
        .arg(&package)
        .env("SOURCE_DATE_EPOCH", release.epoch_s.to_string());
    check(command)?;
    Ok(package)
}

/// Writes `DEBIAN/`.
fn control(root: &Path, built: &BuildProducts, release: &Release, depends: &str) -> Result<()> {
    let (version, control) = (&release.version, root.join("DEBIAN"));
    let size_kib = installed_kib(root)?;
    fs::create_dir_all(&control)?;
    let text = format!(
        "Package: cofferdam\n\
         Version: {version}\n\
         Architecture: {ARCHITECTURE}\n\
         Maintainer: {MAINTAINER}\n\
         Installed-Size: {size_kib}\n\
         Depends: {depends}\n\
         Suggests: prometheus\n\
         Section: admin\n\
         Priority: optional\n\
         Description: keeps containers on one host from taking each other's CPU\n \
         The kernel processes packets in whatever time slice happens to be running,\n \
         and bills that container. Cofferdam measures which container caused the work\n \
         and which one paid for it, and where a rule asks for it, charges the one that\n \
         caused it. CPU reservations hold, and every claim has a benchmark.\n \
         .\n \
         The package contains the agent, a systemd unit that is not enabled, the\n \
         command-line tools, and the library for applications on its dataplane.\n"
    );
    fs::write(control.join("control"), text)?;
    fs::write(control.join("conffiles"), format!("{CONFIGURATION}\n"))?;
    if built.library.is_some() {
        let name = LIBRARY.trim_end_matches(".so");
        let line = format!("{name} {LIBRARY_ABI} cofferdam (>= {version})\n");
        fs::write(control.join("shlibs"), line)?;
        fs::write(control.join("triggers"), "activate-noawait ldconfig\n")?;
    }
    for script in SCRIPTS {
        let text = stage::text(&built.sources.join("packaging/debian").join(script))?;
        fs::write(control.join(script), text)?;
        fs::set_permissions(control.join(script), fs::Permissions::from_mode(0o755))?;
    }
    let sums = checksums(root)?;
    fs::write(control.join("md5sums"), sums)?;
    Ok(())
}

/// Size of the installed files in KiB, each rounded up, as dpkg-gencontrol counts.
fn installed_kib(root: &Path) -> Result<u64> {
    let mut kib = 0;
    for path in stage::walk(root)? {
        let meta = fs::symlink_metadata(&path)?;
        kib += if meta.is_file() {
            meta.len().div_ceil(1024)
        } else {
            1
        };
    }
    Ok(kib)
}

/// Text of `md5sums`: all files except the configuration, for `dpkg --verify`.
fn checksums(root: &Path) -> Result<String> {
    let mut names = Vec::new();
    for path in stage::walk(root)? {
        let relative = path.strip_prefix(root)?.to_owned();
        let is_file = fs::symlink_metadata(&path)?.is_file();
        if is_file && !relative.starts_with("DEBIAN") && !relative.starts_with("etc") {
            names.push(relative);
        }
    }
    let out = Command::new("md5sum")
        .args(&names)
        .current_dir(root)
        .output()
        .context("cannot run md5sum")?;
    if !out.status.success() {
        bail!("md5sum failed: {}", String::from_utf8_lossy(&out.stderr));
    }
    String::from_utf8(out.stdout).context("a file name is not UTF-8")
}

/// Libraries that `programs` need, in the form of `Depends`.
pub fn depends(programs: &[&Path], folder: &Path) -> Result<String> {
    let work = folder.join("shlibdeps");
    stage::fresh(&work)?;
    // dpkg-shlibdeps requires a source package.
    fs::create_dir_all(work.join("debian"))?;
    fs::write(
        work.join("debian/control"),
        format!("Source: cofferdam\n\nPackage: cofferdam\nArchitecture: {ARCHITECTURE}\n"),
    )?;
    let mut command = Command::new("dpkg-shlibdeps");
    command.arg("-O").args(programs).current_dir(&work);
    let out = command
        .output()
        .context("cannot run dpkg-shlibdeps; is dpkg-dev installed?")?;
    let text = String::from_utf8_lossy(&out.stdout);
    let found = text
        .lines()
        .find_map(|line| line.strip_prefix("shlibs:Depends="));
    match found {
        Some(depends) if out.status.success() => Ok(depends.to_owned()),
        _ => bail!(
            "dpkg-shlibdeps failed: {}",
            String::from_utf8_lossy(&out.stderr).trim()
        ),
    }
}

/// Changelog in Debian's form; CHANGELOG.md next to it has the contents.
fn changelog(package: &str, version: &str, epoch_s: u64) -> String {
    format!(
        "{package} ({version}) unstable; urgency=medium\n\n  * Version {version}; \
         /usr/share/doc/cofferdam/CHANGELOG.md lists what is new.\n\n -- {MAINTAINER}  {}\n",
        rfc2822(epoch_s)
    )
}

/// Date in the form `Tue, 24 Nov 2026 05:33:01 +0000`.
fn rfc2822(epoch_s: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(epoch_s);
    // 2026-11-24T05:33:01Z
    let text = humantime::format_rfc3339_seconds(time).to_string();
    let month: usize = text[5..7].parse().unwrap_or(1);
    // 1970 began on a Thursday.
    let weekday = DAYS[usize::try_from(epoch_s / 86_400 % 7).unwrap_or(0)];
    format!(
        "{weekday}, {} {} {} {} +0000",
        &text[8..10],
        MONTHS[month - 1],
        &text[..4],
        &text[11..19]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_in_debians_form() {
        assert_eq!(rfc2822(0), "Thu, 01 Jan 1970 00:00:00 +0000");
        assert_eq!(rfc2822(1_795_498_381), "Tue, 24 Nov 2026 05:33:01 +0000");
    }
}
