//! Names that no other process uses.

use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Beginning of every name that this process gives, `cf-PID-`.
pub(crate) fn prefix() -> String {
    format!("cf-{}-", std::process::id())
}

/// Beginning of every link name that this process gives on the host.
pub(crate) fn link_prefix() -> String {
    format!("cf{}x", base36(std::process::id()))
}

/// `cf-PID-N-LABEL`: for namespaces, cgroups and podman containers.
pub fn unique(label: &str) -> String {
    format!(
        "{}{}-{label}",
        prefix(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// A device name of at most 15 bytes, for devices in the host's namespace.
pub fn unique_link() -> String {
    let name = format!(
        "{}{}",
        link_prefix(),
        base36(NEXT.fetch_add(1, Ordering::Relaxed))
    );
    assert!(
        name.len() <= 15,
        "device name {name} is longer than the kernel allows"
    );
    name
}

fn base36(mut n: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(n % 36, 36).expect("a remainder of 36 is a digit"));
        n /= 36;
        if n == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_device_names_fit_the_kernel() {
        assert_ne!(unique("a"), unique("a"));
        assert_ne!(unique_link(), unique_link());
        assert_eq!(base36(0), "0");
        assert_eq!(base36(36 * 36 + 35), "10z");
        // The largest process id of 64-bit Linux leaves room for a million devices.
        assert!(format!("cf{}x{}", base36(4_194_304), base36(999_999)).len() <= 15);
    }
}
