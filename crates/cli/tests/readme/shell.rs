//! An interactive shell on a terminal of its own, typed into.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The prompt tells how the last command ended; typing is not echoed, so only prompts look so.
const PROMPT: (&str, &str) = ("README:", ":> ");

/// `bash` under `script`, which makes the terminal.
pub struct Shell {
    child: Child,
    keys: ChildStdin,
    screen: Arc<Mutex<Vec<u8>>>,
    /// Bytes of the screen that belong to what was typed before.
    seen: usize,
}

impl Shell {
    /// Starts it in `folder`, whose `bin` goes before the host's.
    pub fn start(folder: &Path) -> Shell {
        let path = std::env::var("PATH").unwrap_or_default();
        let begin = format!(
            "PS1='{}$?{}'\nPS2=\nstty -echo rows 24 cols 100\n",
            PROMPT.0, PROMPT.1
        );
        std::fs::write(folder.join("bin/rc"), begin).unwrap();
        let mut child = Command::new("script")
            .args(["--quiet", "--flush", "--command"])
            .arg("exec bash --rcfile bin/rc --noediting -i")
            .arg("/dev/null")
            .current_dir(folder)
            .env("PATH", format!("{}/bin:{path}", folder.display()))
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (keys, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let screen = Arc::new(Mutex::new(Vec::new()));
        let sink = screen.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = output.read(&mut bytes) {
                sink.lock().unwrap().extend_from_slice(&bytes[..n]);
            }
        });
        let mut shell = Shell {
            child,
            keys,
            screen,
            seen: 0,
        };
        shell.prompt(Duration::from_secs(20));
        shell
    }

    /// Types a command; its exit code and what it printed.
    pub fn run(&mut self, command: &str, limit: Duration) -> (i32, String) {
        self.type_keys(&format!("{command}\n"));
        self.prompt(limit)
    }

    /// Types a command, and `key` as soon as it has printed something.
    pub fn run_until(&mut self, command: &str, key: &str, limit: Duration) -> (i32, String) {
        self.type_keys(&format!("{command}\n"));
        let begin = Instant::now();
        while self.fresh().trim().is_empty() && begin.elapsed() < limit {
            std::thread::sleep(Duration::from_millis(50));
        }
        // Until it shows what it is for, and not only that it begins.
        std::thread::sleep(Duration::from_secs(2));
        self.type_keys(key);
        self.prompt(limit)
    }

    /// What still runs in the background.
    pub fn jobs(&mut self) -> String {
        let (_, text) = self.run("jobs -r", Duration::from_secs(20));
        text.trim().to_owned()
    }

    fn type_keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// What was printed since the last prompt.
    fn fresh(&self) -> String {
        let screen = self.screen.lock().unwrap();
        String::from_utf8_lossy(&screen[self.seen..]).replace('\r', "")
    }

    /// Waits for the prompt: the exit code in it, and the text before.
    fn prompt(&mut self, limit: Duration) -> (i32, String) {
        let begin = Instant::now();
        loop {
            let text = self.fresh();
            let found = text.split_once(PROMPT.0);
            let code = found.and_then(|(_, rest)| rest.split_once(PROMPT.1));
            if let (Some((before, _)), Some((code, _))) = (found, code) {
                let end = self.fresh_end();
                self.seen = end;
                return (code.parse().unwrap(), before.to_owned());
            }
            assert!(begin.elapsed() < limit, "no prompt after {limit:?}: {text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The place behind the first new prompt.
    fn fresh_end(&self) -> usize {
        let screen = self.screen.lock().unwrap();
        let find = |from: usize, what: &str| {
            let bytes = screen[from..].windows(what.len());
            let place = bytes.into_iter().position(|w| w == what.as_bytes());
            place.map(|p| from + p + what.len())
        };
        let end = find(self.seen, PROMPT.0).and_then(|from| find(from, PROMPT.1));
        end.expect("the prompt was just seen")
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The terminal goes with `script`, and its hang-up ends the shell and what it runs.
        let _ = self.keys.write_all(b"\nkill $(jobs -p); exit\n");
        std::thread::sleep(Duration::from_millis(300));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
