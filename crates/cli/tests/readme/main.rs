//! Test of the blocks of shell in README and in the first page of the dataplane, typed as they
//! stand. It needs root.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod blocks;
mod shell;

use blocks::blocks;
use cofferdam_lab::fixtures::{
    FakeContainer, Namespace, Net, Router, exclusive, time_limit, try_run,
};
use shell::{QUIT, Shell};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit of a command of the README that ends by itself, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Namespaces of the dataplane's example, to be removed if it fails halfway.
const EXAMPLE_NAMESPACES: [&str; 2] = ["server", "client"];

/// Environment of the README's reader, which a test lacks.
struct Reader {
    folder: tempfile::TempDir,
    web: FakeContainer,
    _peer: Namespace,
    _router: Router,
}

impl Reader {
    /// Installs the program, and creates a container that can reach 10.98.2.2.
    fn new() -> Reader {
        for name in EXAMPLE_NAMESPACES {
            let taken = Path::new("/run/netns").join(name).exists();
            assert!(
                !taken,
                "this host has a namespace {name}, the README's example too"
            );
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
        std::fs::create_dir(at("bin")).unwrap();
        let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, at(name)).unwrap();
        link(Path::new(env!("CARGO_BIN_EXE_cofferdam")), "bin/cofferdam");
        link(&root.join("etc"), "etc");
        // Tests run as root, and not every host has sudo.
        std::fs::write(at("bin/sudo"), "#!/bin/sh\nexec \"$@\"\n").unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(at("bin/sudo"), executable).unwrap();
        let reader = Reader {
            folder,
            web: FakeContainer::new("web-3"),
            _peer: Namespace::new("peer"),
            _router: Router::new("router"),
        };
        reader._router.attach(reader.web.namespace());
        reader._router.attach(&reader._peer);
        reader.web.ping("10.98.2.2");
        reader
    }

    /// Command with the reader's own words in the two places where the README has placeholders.
    fn own_words(&self, command: &str) -> String {
        command.replace("ping HOST", "ping 10.98.2.2").replace(
            "--container web-3",
            &format!("--container {}", self.web.name()),
        )
    }
}

/// Way to run a command.
enum Way {
    /// To its end, with code 0.
    ToTheEnd,
    /// A live screen: `q` ends it, with code 0.
    UntilQ,
    /// A benchmark that takes minutes: Ctrl-C after its first output ends it, with code 130.
    UntilCtrlC,
    /// Not at all: `make` builds with the caller's toolchain, and `make test` runs this very test.
    Not,
}

fn way(command: &str) -> Way {
    let has = |word: &str| command.split_whitespace().any(|w| w == word);
    match () {
        () if command.starts_with("make ") => Way::Not,
        () if command.contains("# live; q ends it") => Way::UntilQ,
        () if has("bench") => Way::UntilCtrlC,
        () => Way::ToTheEnd,
    }
}

/// Documents whose blocks a newcomer pastes.
const DOCUMENTS: [&str; 2] = [
    include_str!("../../../../README.md"),
    include_str!("../../../../docs/src/dataplane/try.md"),
];

/// Promise 55.
#[test]
fn every_block_of_shell_runs_as_it_stands() {
    let _alone = exclusive();
    time_limit(Duration::from_secs(400), || {
        let reader = Reader::new();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut run = 0;
            for block in DOCUMENTS.into_iter().flat_map(blocks) {
                run += type_block(&reader, &block);
            }
            assert!(run >= 20, "only {run} commands were run");
            for name in EXAMPLE_NAMESPACES {
                let left = Path::new("/run/netns").join(name).exists();
                assert!(!left, "the example leaves its namespace {name}");
            }
        }));
        for name in EXAMPLE_NAMESPACES {
            let _ = try_run(&["ip", "netns", "del", name]);
        }
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
    cofferdam_lab::fixtures::assert_nothing_left();
}

/// Types a block into a new shell. Returns the number of commands that ran.
fn type_block(reader: &Reader, block: &blocks::Block) -> usize {
    let mut shell = Shell::start(reader.folder.path());
    let mut screen = String::new();
    let mut run = 0;
    // Not every host boots systemd; `make test-package` tests these commands. The commands after
    // them ask the agent that systemd starts.
    let needs_systemd = |command: &&String| command.contains("systemctl");
    for command in block.commands.iter().take_while(|c| !needs_systemd(c)) {
        if let Some(output) = type_command(&mut shell, reader, command) {
            run += 1;
            screen += &output;
        }
    }
    assert_eq!(shell.jobs(), "", "jobs are left after {block:?}");
    for line in &block.output {
        let is_shown = screen.lines().any(|shown| shown.trim_end() == line);
        assert!(is_shown, "no `{line}` in:\n{screen}");
    }
    run
}

/// Runs one command and returns its output; `None` if it is not run here.
fn type_command(shell: &mut Shell, reader: &Reader, command: &str) -> Option<String> {
    let command = reader.own_words(command);
    let ((code, output), expected) = match way(&command) {
        Way::Not => return None,
        Way::ToTheEnd => (shell.run(&command, PATIENCE), 0),
        Way::UntilQ => (shell.run_until(&command, QUIT, "q", PATIENCE), 0),
        Way::UntilCtrlC => (shell.run_until(&command, "", "\u{3}", PATIENCE), 130),
    };
    assert_eq!(code, expected, "`{command}` says:\n{output}");
    Some(output)
}
