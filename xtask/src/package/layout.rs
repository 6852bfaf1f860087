//! Layout of an installation: its files and their paths.

use super::build::{BuildProducts, LIBRARY, LIBRARY_ABI, PRELOAD, Release};
use super::stage;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Default path of the agent's configuration.
pub const CONFIGURATION: &str = "/etc/cofferdam/cofferdam.toml";

/// Paths that differ between a distribution's package and an installation by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Prefix, such as `/usr` or `/usr/local`.
    pub prefix: PathBuf,
    /// Folder of libraries.
    pub libraries: PathBuf,
    /// Folder of systemd units.
    pub units: PathBuf,
    /// Folder of zsh's completions.
    pub zsh: PathBuf,
    /// Path of the configuration.
    pub configuration: PathBuf,
    /// Whether manual pages are compressed, as in Debian's packages.
    pub compressed: bool,
}

impl Layout {
    /// Layout of Debian's packages.
    pub fn debian() -> Layout {
        Layout {
            prefix: "/usr".into(),
            libraries: "/usr/lib/x86_64-linux-gnu".into(),
            units: "/lib/systemd/system".into(),
            zsh: "/usr/share/zsh/vendor-completions".into(),
            configuration: CONFIGURATION.into(),
            compressed: true,
        }
    }

    /// Layout with everything below `prefix`, except for the configuration.
    pub fn below(prefix: &Path) -> Layout {
        Layout {
            libraries: prefix.join("lib"),
            units: prefix.join("lib/systemd/system"),
            zsh: prefix.join("share/zsh/site-functions"),
            configuration: CONFIGURATION.into(),
            compressed: false,
            prefix: prefix.to_owned(),
        }
    }

    /// Layout of the tarball: below the prefix, with the configuration among the examples.
    pub fn archive(prefix: &Path) -> Layout {
        let examples = prefix.join("share/doc/cofferdam/examples");
        Layout {
            configuration: examples.join("cofferdam.toml"),
            ..Layout::below(prefix)
        }
    }
}

/// One file or link of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path on the installed system.
    pub to: PathBuf,
    /// Content of the file.
    pub content: Content,
}

/// Content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Copy of this file, executable or not.
    Copy(PathBuf, Mode),
    /// This text.
    Text(String),
    /// Link to this name in the same folder.
    Link(String),
}

/// Permissions of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// 0755
    Program,
    /// 0644
    Data,
}

/// Entry of the program of `report fleet`, in the folder of programs that only programs run. In
/// Debian it is a separate package: it is larger than all the rest, and few hosts need it.
pub fn fleet(layout: &Layout, built: &BuildProducts) -> Entry {
    Entry {
        to: layout.prefix.join("libexec/cofferdam/cofferdam-fleet"),
        content: Content::Copy(built.fleet.clone(), Mode::Program),
    }
}

/// Entries of everything that is installed except [`fleet`], sorted by path.
pub fn entries(layout: &Layout, built: &BuildProducts, release: &Release) -> Result<Vec<Entry>> {
    let mut all = Vec::new();
    let mut copy = |to: PathBuf, from: PathBuf, mode| {
        all.push(Entry {
            to,
            content: Content::Copy(from, mode),
        });
    };
    let share = layout.prefix.join("share");
    let documents = share.join("doc/cofferdam");
    let ours = |path: &str| built.sources.join(path);
    copy(
        layout.prefix.join("bin/cofferdam"),
        built.binary.clone(),
        Mode::Program,
    );
    for page in files(&built.man, ".1")? {
        copy(share.join("man/man1").join(name(&page)?), page, Mode::Data);
    }
    let completions = |file: &str| built.completions.join(file);
    copy(
        share.join("bash-completion/completions/cofferdam"),
        completions("cofferdam.bash"),
        Mode::Data,
    );
    copy(
        layout.zsh.join("_cofferdam"),
        completions("_cofferdam"),
        Mode::Data,
    );
    copy(
        share.join("fish/vendor_completions.d/cofferdam.fish"),
        completions("cofferdam.fish"),
        Mode::Data,
    );
    copy(
        layout.configuration.clone(),
        ours("etc/cofferdam.toml"),
        Mode::Data,
    );
    for example in [
        "dataplane.toml",
        "grafana-dashboard.json",
        "kubernetes.yaml",
        "prometheus-rules-test.yaml",
        "prometheus-rules.yaml",
    ] {
        let to = documents.join("examples").join(example);
        copy(to, ours("etc").join(example), Mode::Data);
    }
    // The help of `simulate` names this folder.
    for example in files(&ours("etc/simulate"), ".json")? {
        let to = documents.join("examples/simulate").join(name(&example)?);
        copy(to, example, Mode::Data);
    }
    for page in stage::walk(&ours("docs/src"))? {
        let kind = page.extension().and_then(|e| e.to_str());
        if matches!(kind, Some("md" | "svg" | "png" | "json")) {
            let to = documents.join(page.strip_prefix(&built.sources)?);
            copy(to, page, Mode::Data);
        }
    }
    for file in ["README.md", "CHANGELOG.md"] {
        copy(documents.join(file), ours(file), Mode::Data);
    }
    copy(
        documents.join("cofferdam.cdx.json"),
        built.sbom.clone(),
        Mode::Data,
    );
    copy(
        documents.join("copyright"),
        ours("packaging/debian/copyright"),
        Mode::Data,
    );
    if let Some(preload) = &built.preload {
        // The command looks for it here. It is not a library that programs are linked with.
        let folder = layout.prefix.join("lib/cofferdam");
        copy(folder.join(PRELOAD), preload.clone(), Mode::Data);
    }
    if let Some(library) = &built.library {
        let exact = format!("{LIBRARY}.{LIBRARY_ABI}.{}", release.version);
        copy(layout.libraries.join(&exact), library.clone(), Mode::Data);
        copy(
            layout.prefix.join("include/cofferdam_dataplane.h"),
            ours("crates/dataplane/include/cofferdam_dataplane.h"),
            Mode::Data,
        );
        for link in [format!("{LIBRARY}.{LIBRARY_ABI}"), LIBRARY.to_owned()] {
            all.push(Entry {
                to: layout.libraries.join(link),
                content: Content::Link(exact.clone()),
            });
        }
        all.push(Entry {
            to: layout.libraries.join("pkgconfig/cofferdam-dataplane.pc"),
            content: Content::Text(pkg_config(layout, release)),
        });
    }
    // kubectl finds its plugins by name.
    all.push(Entry {
        to: layout.prefix.join("bin/kubectl-cofferdam"),
        content: Content::Link("cofferdam".to_owned()),
    });
    all.push(Entry {
        to: share.join("man/man1/kubectl-cofferdam.1"),
        content: Content::Text(".so man1/cofferdam-kubectl.1\n".to_owned()),
    });
    all.push(Entry {
        to: layout.units.join("cofferdam.service"),
        content: Content::Text(unit(layout, &built.sources)?),
    });
    all.sort_by(|a, b| a.to.cmp(&b.to));
    Ok(all)
}

/// The systemd unit with the path of the program.
fn unit(layout: &Layout, sources: &Path) -> Result<String> {
    let text = stage::text(&sources.join("etc/cofferdam.service"))?;
    let program = layout.prefix.join("bin/cofferdam");
    let program = program.to_str().context("PREFIX is not UTF-8")?;
    Ok(text.replace("/usr/local/bin/cofferdam", program))
}

fn pkg_config(layout: &Layout, release: &Release) -> String {
    format!(
        "libdir={}\nincludedir={}/include\n\nName: cofferdam-dataplane\n\
         Description: An application on Cofferdam's dataplane\nVersion: {}\n\
         Libs: -L${{libdir}} -lcofferdam_dataplane\nCflags: -I${{includedir}}\n",
        layout.libraries.display(),
        layout.prefix.display(),
        release.version,
    )
}

/// Files in `folder` whose names end in `ending`, sorted.
fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let read =
        std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut found = Vec::new();
    for entry in read {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn name(path: &Path) -> Result<&str> {
    let name = path.file_name().and_then(|n| n.to_str());
    name.with_context(|| format!("{} has no name", path.display()))
}
