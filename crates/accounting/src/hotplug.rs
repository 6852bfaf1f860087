//! CPUs that come and go while the accounting runs.

use std::fs;

/// The online CPUs at the last look.
pub struct OnlineCpus(String);

impl OnlineCpus {
    /// Those of now.
    pub fn now() -> OnlineCpus {
        OnlineCpus(read())
    }

    /// Whether they are others than at the last look.
    pub fn changed(&mut self) -> bool {
        let now = read();
        let changed = now != self.0;
        self.0 = now;
        changed
    }
}

fn read() -> String {
    fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default()
}
