//! Handles. Each contains a generation, which distinguishes an ended object from the next one in
//! its slot.

use std::fmt;

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name {
            pub(crate) slot: u32,
            pub(crate) generation: u32,
        }

        impl $name {
            /// The handle as one integer, to pass it through a ring or a C interface.
            pub const fn to_bits(self) -> u64 {
                (self.generation as u64) << 32 | self.slot as u64
            }

            /// The handle of an integer that [`Self::to_bits`] returned. The stack checks every
            /// handle: any other integer is a stale handle.
            pub const fn from_bits(bits: u64) -> Self {
                Self { slot: bits as u32, generation: (bits >> 32) as u32 }
            }

            /// Slot in the stack's table, from 0 to below its limit. The caller may use it as an
            /// index.
            pub const fn slot(self) -> u32 {
                self.slot
            }
        }
    };
}

handle!(
    /// A TCP connection of one stack.
    ConnectionId
);
handle!(
    /// A TCP address and port on which connections are accepted.
    ListenerId
);
handle!(
    /// A bound UDP address and port.
    UdpId
);
handle!(
    /// An application's timer.
    TimerId
);

/// An Ethernet address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// Broadcast address of the link.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Whether the address is unicast (IEEE 802.3: lowest bit of the first byte clear) and not
    /// zero.
    pub const fn is_unicast(self) -> bool {
        self.0[0] & 1 == 0
            && (self.0[0] | self.0[1] | self.0[2] | self.0[3] | self.0[4] | self.0[5]) != 0
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}
