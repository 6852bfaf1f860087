//! CPUs that come and go while the accounting runs.

use std::fs;

/// Online CPUs at the last look.
pub struct OnlineCpus(String);

impl OnlineCpus {
    /// Reads the online CPUs.
    pub fn now() -> OnlineCpus {
        OnlineCpus(read())
    }

    /// Reads the online CPUs again. Returns whether they have changed.
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
