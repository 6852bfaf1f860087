//! Identifiers that the kernel assigns. Each wraps one integer so that they cannot be mixed up.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// Id of a cgroup in the unified (v2) hierarchy: the inode number of its directory.
    CgroupId(u64)
}
id! {
    /// Inode number of a network namespace, as in `/proc/PID/ns/net` → `net:[4026531840]`.
    NetnsId(u32)
}
id! {
    /// Index of a network device, unique only within its network namespace.
    IfIndex(u32)
}
id! {
    /// Number of a logical CPU, as in `/sys/devices/system/cpu/cpuN`.
    CpuId(u32)
}
