//! Interactive shell on its own terminal, for typing.

use cofferdam_lab::fixtures::{Terminal, wait_until};
use std::path::Path;
use std::time::{Duration, Instant};

/// Prompt with the exit code of the last command. Typing is not echoed, so only prompts look like
/// this.
const PROMPT: (&str, &str) = ("README:", ":> ");
/// Word on every screen: the key that ends it.
pub const QUIT: &str = "quit";

/// `bash` on its own terminal.
pub struct Shell {
    terminal: Terminal,
    /// Bytes of the screen from earlier commands.
    seen: usize,
}

impl Shell {
    /// Starts the shell in `folder`, whose `bin` precedes the host's.
    pub fn start(folder: &Path) -> Shell {
        let begin = format!(
            "PATH={}/bin:$PATH\nPS1='{}$?{}'\nPS2=\nstty -echo\n",
            folder.display(),
            PROMPT.0,
            PROMPT.1
        );
        std::fs::write(folder.join("bin/rc"), begin).unwrap();
        let mut shell = Shell {
            terminal: Terminal::start(folder, "bash --rcfile bin/rc --noediting -i"),
            seen: 0,
        };
        shell.prompt(Duration::from_secs(20));
        shell
    }

    /// Types a command; returns its exit code and its output.
    pub fn run(&mut self, command: &str, limit: Duration) -> (i32, String) {
        self.type_keys(&format!("{command}\n"));
        self.prompt(limit)
    }

    /// Types a command, and `key` as soon as `sign` appears.
    pub fn run_until(
        &mut self,
        command: &str,
        sign: &str,
        key: &str,
        limit: Duration,
    ) -> (i32, String) {
        self.type_keys(&format!("{command}\n"));
        wait_until(&format!("'{sign}' of `{command}`"), limit, || {
            let fresh = self.fresh();
            fresh.contains(sign) && !fresh.trim().is_empty()
        });
        self.type_keys(key);
        self.prompt(limit)
    }

    /// List of jobs in the background.
    pub fn jobs(&mut self) -> String {
        let (_, text) = self.run("jobs -r", Duration::from_secs(20));
        text.trim().to_owned()
    }

    fn type_keys(&mut self, keys: &str) {
        self.terminal.press(keys);
    }

    /// Output since the last prompt.
    fn fresh(&self) -> String {
        let screen = self.terminal.screen();
        String::from_utf8_lossy(&screen[self.seen..]).replace('\r', "")
    }

    /// Waits for the prompt; returns the exit code in it, and the text before it.
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

    /// Offset after the first new prompt.
    fn fresh_end(&self) -> usize {
        let screen = self.terminal.screen();
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
        self.terminal.press("\nkill $(jobs -p); exit\n");
        let begin = Instant::now();
        while !self.terminal.has_ended() && begin.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
