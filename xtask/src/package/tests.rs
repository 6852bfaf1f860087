//! Tests of the packages with a stand-in for the program, without a release build.

use super::build::{BuildProducts, LIBRARY, PRELOAD, Release};
use super::layout::{CONFIGURATION, Content, Layout, entries};
use super::{deb, install, stage, tarball};
use crate::tree;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Largest exposure of the unit. `systemd-analyze security` calls it "OK"; the agent needs BPF,
/// namespaces and the network.
const EXPOSURE_AT_MOST: f64 = 4.0;

fn release() -> Release {
    Release {
        version: "0.1.0".to_owned(),
        epoch_s: 1_700_000_000,
        commit: None,
    }
}

/// Products of a build in `folder`, as stand-ins.
fn stand_in(folder: &Path) -> BuildProducts {
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    for folder in [&man, &completions] {
        fs::create_dir_all(folder).unwrap();
    }
    for page in ["cofferdam.1", "cofferdam-top.1"] {
        fs::write(man.join(page), ".TH cofferdam 1\n").unwrap();
    }
    for shell in ["cofferdam.bash", "_cofferdam", "cofferdam.fish"] {
        fs::write(completions.join(shell), "# completions\n").unwrap();
    }
    let built = BuildProducts {
        sources: tree::root().to_owned(),
        binary: folder.join("cofferdam"),
        fleet: folder.join("cofferdam-fleet"),
        library: Some(folder.join(LIBRARY)),
        preload: Some(folder.join(PRELOAD)),
        sbom: folder.join("cofferdam.cdx.json"),
        man,
        completions,
    };
    for file in [
        &built.binary,
        &built.fleet,
        built.library.as_ref().unwrap(),
        built.preload.as_ref().unwrap(),
        &built.sbom,
    ] {
        fs::write(file, "#!/bin/sh\nexit 0\n").unwrap();
    }
    built
}

fn output(program: &str, arguments: &[&str]) -> String {
    let out = Command::new(program).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{program} {arguments:?}: {out:?}");
    text
}

fn make_deb(folder: &Path) -> String {
    fs::create_dir_all(folder.join("built")).unwrap();
    let built = stand_in(&folder.join("built"));
    let package = deb::make(&built, &release(), "libc6 (>= 2.34)", folder).unwrap();
    package.to_str().unwrap().to_owned()
}

/// Mode and owner of everything in the package, by path.
fn listed(package: &str) -> BTreeMap<String, (String, String)> {
    let text = output("dpkg-deb", &["--contents", package]);
    let rows = text.lines().map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (
            words[5].to_owned(),
            (words[0].to_owned(), words[1].to_owned()),
        )
    });
    rows.collect()
}

/// Promise 79.
#[test]
fn each_file_of_the_package_has_its_path_and_mode() {
    let temp = tempfile::tempdir().unwrap();
    let files = listed(&make_deb(temp.path()));
    for (path, mode) in [
        ("./usr/bin/cofferdam", "-rwxr-xr-x"),
        ("./lib/systemd/system/cofferdam.service", "-rw-r--r--"),
        ("./etc/cofferdam/cofferdam.toml", "-rw-r--r--"),
        ("./usr/share/man/man1/cofferdam-top.1.gz", "-rw-r--r--"),
        (
            "./usr/share/bash-completion/completions/cofferdam",
            "-rw-r--r--",
        ),
        (
            "./usr/share/zsh/vendor-completions/_cofferdam",
            "-rw-r--r--",
        ),
        (
            "./usr/share/fish/vendor_completions.d/cofferdam.fish",
            "-rw-r--r--",
        ),
        (
            "./usr/lib/x86_64-linux-gnu/libcofferdam_dataplane.so.0.0.1.0",
            "-rw-r--r--",
        ),
        (
            "./usr/lib/x86_64-linux-gnu/libcofferdam_dataplane.so.0",
            "lrwxrwxrwx",
        ),
        ("./usr/lib/cofferdam/libcofferdam_preload.so", "-rw-r--r--"),
        ("./usr/include/cofferdam_dataplane.h", "-rw-r--r--"),
        ("./usr/share/doc/cofferdam/copyright", "-rw-r--r--"),
        ("./usr/share/doc/cofferdam/changelog.gz", "-rw-r--r--"),
        (
            "./usr/share/doc/cofferdam/docs/src/guide/install.md",
            "-rw-r--r--",
        ),
        // The links of the alerts name it.
        (
            "./usr/share/doc/cofferdam/docs/src/guide/alerts.md",
            "-rw-r--r--",
        ),
        // The help of `simulate` names it.
        (
            "./usr/share/doc/cofferdam/examples/simulate/host-24.json",
            "-rw-r--r--",
        ),
        (
            "./usr/share/doc/cofferdam/examples/simulate/tenants-24.json",
            "-rw-r--r--",
        ),
    ] {
        let found = files.get(path).unwrap_or_else(|| panic!("no {path}"));
        assert_eq!(found.0, mode, "{path}");
    }
    for (path, (mode, owner)) in &files {
        assert_eq!(owner, "root/root", "{path}");
        let modes = ["drwxr-xr-x", "-rwxr-xr-x", "-rw-r--r--", "lrwxrwxrwx"];
        assert!(modes.contains(&mode.as_str()), "{path} has the mode {mode}");
        assert!(!path.contains("packetdrill_shim"), "{path} is for tests");
    }
}

#[test]
fn everything_not_built_comes_from_the_sources_of_the_build() {
    let temp = tempfile::tempdir().unwrap();
    let mut built = stand_in(temp.path());
    built.sources = temp.path().join("sources");
    std::os::unix::fs::symlink(tree::root(), &built.sources).unwrap();
    let all = entries(&Layout::debian(), &built, &release()).unwrap();
    assert!(all.len() > 50, "{}", all.len());
    for entry in &all {
        if let Content::Copy(from, _) = &entry.content {
            assert!(from.starts_with(temp.path()), "{}", from.display());
        }
    }
    fs::remove_file(&built.sources).unwrap();
    let failed = entries(&Layout::debian(), &built, &release()).unwrap_err();
    assert!(format!("{failed:#}").contains("sources/"), "{failed:#}");
}

#[test]
fn the_program_of_fleet_reports_is_a_separate_package() {
    let temp = tempfile::tempdir().unwrap();
    assert!(
        !listed(&make_deb(temp.path()))
            .keys()
            .any(|path| path.contains("cofferdam-fleet"))
    );
    let built = stand_in(temp.path());
    let package = deb::make_fleet(&built, &release(), "libc6 (>= 2.34)", temp.path()).unwrap();
    let files = listed(package.to_str().unwrap());
    let program = &files["./usr/libexec/cofferdam/cofferdam-fleet"];
    assert_eq!(program, &("-rwxr-xr-x".to_owned(), "root/root".to_owned()));
    assert!(files.contains_key("./usr/share/doc/cofferdam-fleet/copyright"));
    assert!(files.contains_key("./usr/share/doc/cofferdam-fleet/changelog.gz"));
}

/// Promise 79.
#[test]
fn the_configuration_is_a_conffile_and_scripts_are_sound() {
    let temp = tempfile::tempdir().unwrap();
    let package = make_deb(temp.path());
    let control = temp.path().join("control");
    output(
        "dpkg-deb",
        &["--control", &package, control.to_str().unwrap()],
    );
    let read = |name: &str| fs::read_to_string(control.join(name)).unwrap();
    assert_eq!(read("conffiles"), format!("{CONFIGURATION}\n"));
    assert!(read("control").contains("\nDepends: libc6 (>= 2.34)\n"));
    assert_eq!(
        read("shlibs"),
        "libcofferdam_dataplane 0 cofferdam (>= 0.1.0)\n"
    );
    for script in ["postinst", "prerm", "postrm"] {
        let path = control.join(script);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "{script}");
        output("sh", &["-n", path.to_str().unwrap()]);
        assert!(read(script).contains("\nset -e\n"), "{script}");
    }
    for word in ["systemctl enable", "systemctl start", "invoke start"] {
        assert!(!read("postinst").contains(word), "{word}");
    }
    let md5sums = read("md5sums");
    assert!(md5sums.contains("  usr/bin/cofferdam\n"), "{md5sums}");
    assert!(!md5sums.contains("etc/"), "{md5sums}");
}

/// Promise 79.
#[test]
fn packages_of_the_same_files_have_the_same_bytes() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let same = |a: &Path, b: &Path| {
        let alike = fs::read(a).unwrap() == fs::read(b).unwrap();
        assert!(alike, "{} and {} differ", a.display(), b.display());
    };
    same(
        make_deb(one.path()).as_ref(),
        make_deb(other.path()).as_ref(),
    );
    let archive = |folder: &Path| {
        let mut built = stand_in(&folder.join("built"));
        built.library = None;
        built.preload = None;
        tarball::make(&built, &release(), folder).unwrap()
    };
    let first = archive(one.path());
    same(&first, &archive(other.path()));
    let listed = output("tar", &["-tzf", first.to_str().unwrap()]);
    for path in [
        "bin/cofferdam",
        "bin/kubectl-cofferdam",
        "share/man/man1/kubectl-cofferdam.1",
        "lib/systemd/system/cofferdam.service",
        "share/man/man1/cofferdam.1",
        "share/doc/cofferdam/examples/cofferdam.toml",
        "share/doc/cofferdam/cofferdam.cdx.json",
    ] {
        let path = format!("cofferdam-0.1.0-x86_64-linux/{path}\n");
        assert!(listed.contains(&path), "no {path} in\n{listed}");
    }
    assert!(
        !listed.contains(".so"),
        "a static program needs none:\n{listed}"
    );
}

/// Promise 79.
#[test]
fn an_edited_configuration_survives_installation_and_removal() {
    let temp = tempfile::tempdir().unwrap();
    let (staged, root) = (temp.path().join("staged"), temp.path().join("root"));
    fs::create_dir_all(root.join("etc/cofferdam")).unwrap();
    fs::create_dir_all(root.join("opt/bin")).unwrap();
    fs::write(root.join("opt/bin/other"), "another program").unwrap();
    let config = root.join("etc/cofferdam/cofferdam.toml");
    fs::write(&config, "# mine\n").unwrap();
    let built = stand_in(temp.path());
    let layout = Layout::below(Path::new("/opt"));
    stage::write(&entries(&layout, &built, &release()).unwrap(), &staged).unwrap();
    let words = [&staged, &root].map(|path| path.to_str().unwrap().to_owned());
    // Twice, to install over an installation.
    for _ in 0..2 {
        install::install_tree(&words).unwrap();
        assert_eq!(fs::read_to_string(&config).unwrap(), "# mine\n");
        output(root.join("opt/bin/cofferdam").to_str().unwrap(), &[]);
    }
    let unit = fs::read_to_string(root.join("opt/lib/systemd/system/cofferdam.service"));
    let unit = unit.unwrap();
    assert!(
        unit.contains("ExecStart=/opt/bin/cofferdam agent\n"),
        "{unit}"
    );
    assert!(!unit.contains("/usr/local"), "{unit}");
    let library = root.join("opt/lib/libcofferdam_dataplane.so");
    assert!(fs::read(&library).is_ok(), "the link leads to the library");
    install::uninstall_tree(&words).unwrap();
    let left: Vec<_> = stage::walk(&root).unwrap();
    let files: Vec<_> = left.iter().filter(|path| path.is_file()).collect();
    assert_eq!(files, [&config, &root.join("opt/bin/other")]);
    let ours = |path: &&std::path::PathBuf| path.ends_with("cofferdam");
    assert_eq!(left.iter().filter(ours).count(), 1, "its folder in /etc");
    // An unedited configuration is removed.
    fs::copy(tree::root().join("etc/cofferdam.toml"), &config).unwrap();
    install::uninstall_tree(&words).unwrap();
    assert!(!root.join("etc/cofferdam").exists());
}

/// A C server is built against an installation with nothing but pkg-config.
/// Promise 55.
#[test]
fn a_c_server_compiles_with_the_flags_of_pkg_config() {
    let temp = tempfile::tempdir().unwrap();
    // The tests of the workspace build the library next to this test.
    let own = std::env::current_exe().unwrap();
    let library = own.with_file_name(LIBRARY);
    assert!(
        library.is_file(),
        "{} is missing: `cargo test -p cofferdam-dataplane --no-run` builds it",
        library.display()
    );
    let built = BuildProducts {
        library: Some(library),
        ..stand_in(temp.path())
    };
    let root = temp.path().join("root");
    let layout = Layout::below(Path::new("/opt"));
    stage::write(&entries(&layout, &built, &release()).unwrap(), &root).unwrap();
    let page = tree::read(Path::new("docs/src/dataplane/first-server.md")).unwrap();
    let code = page.split("```c\n").nth(1).unwrap().split("```").next();
    let (source, program) = (temp.path().join("shout.c"), temp.path().join("shout"));
    fs::write(&source, code.unwrap()).unwrap();
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", "cofferdam-dataplane"])
        .env("PKG_CONFIG_PATH", root.join("opt/lib/pkgconfig"))
        .env("PKG_CONFIG_SYSROOT_DIR", &root)
        .output()
        .unwrap();
    assert!(flags.status.success(), "{flags:?}");
    let words = String::from_utf8(flags.stdout).unwrap();
    let compiled = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-o"])
        .args([&program, &source])
        .args(words.split_whitespace())
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{words}: {compiled:?}");
    let out = Command::new(&program)
        .arg(temp.path().join("no.sock"))
        .env("LD_LIBRARY_PATH", root.join("opt/lib"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(stderr.contains("no dataplane answers on"), "{stderr}");
}

/// Promise 79.
#[test]
fn the_unit_is_valid_and_exposes_little() {
    let temp = tempfile::tempdir().unwrap();
    let built = stand_in(temp.path());
    fs::set_permissions(&built.binary, fs::Permissions::from_mode(0o755)).unwrap();
    let text = tree::read(Path::new("etc/cofferdam.service")).unwrap();
    let program = built.binary.to_str().unwrap();
    // The manual page is not installed where this test runs.
    let text = text
        .replace("/usr/local/bin/cofferdam", program)
        .replace("Documentation=man:cofferdam-agent(1)\n", "");
    let unit = temp.path().join("cofferdam.service");
    fs::write(&unit, &text).unwrap();
    let unit = unit.to_str().unwrap();
    let out = Command::new("systemd-analyze")
        .args(["verify", unit])
        .output()
        .unwrap();
    let remarks = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{remarks}");
    let ours: Vec<&str> = remarks
        .lines()
        .filter(|l| l.contains("cofferdam"))
        .collect();
    assert!(ours.is_empty(), "{ours:?}");
    for line in [
        "Type=notify",
        "WatchdogSec=30s",
        "Restart=on-failure",
        "RuntimeDirectoryPreserve=yes",
    ] {
        assert!(text.lines().any(|l| l == line), "no {line}");
    }
    let table = output("systemd-analyze", &["security", "--offline=yes", unit]);
    let last = table.lines().rev().find(|l| l.contains("exposure level"));
    let figure = last.and_then(|l| l.split_once(": ")?.1.split_whitespace().next());
    let exposure: f64 = figure.unwrap().parse().unwrap();
    assert!(exposure <= EXPOSURE_AT_MOST, "{exposure}: {table}");
}
