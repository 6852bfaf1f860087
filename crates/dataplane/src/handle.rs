//! Names of connections for applications. A connection keeps its name when its flow group moves to
//! another core; the core in the name is the one where it was opened.

use cofferdam_netstack::ConnectionId;

const GROUP_SHIFT: u32 = 20;
const CORE_SHIFT: u32 = 27;

/// Largest number of connections of one core, by the number of bits for them in a name.
pub(crate) const MOST_CONNECTIONS: u32 = 1 << GROUP_SHIFT;

/// Name of a connection that was opened on `core`, in flow group `group`.
pub(crate) fn encode(core: u8, group: u8, connection: ConnectionId) -> u64 {
    connection.to_bits() | u64::from(core) << CORE_SHIFT | u64::from(group) << GROUP_SHIFT
}

/// Flow group in a name.
pub(crate) fn group(handle: u64) -> u8 {
    (handle >> GROUP_SHIFT) as u8 & 0x7f
}

/// Core in a name: the one where the connection was opened.
pub(crate) fn core(handle: u64) -> u8 {
    (handle >> CORE_SHIFT) as u8 & 0x1f
}

/// Name of the connection in the stack of the core where it was opened.
pub(crate) fn connection(handle: u64) -> ConnectionId {
    let others = (u64::from(u32::MAX >> GROUP_SHIFT)) << GROUP_SHIFT;
    ConnectionId::from_bits(handle & !others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_names_core_group_and_connection() {
        let id = ConnectionId::from_bits(0xdead_beef_000f_fff7);
        let handle = encode(31, 127, id);
        assert_eq!(
            (core(handle), group(handle), connection(handle)),
            (31, 127, id)
        );
        let handle = encode(0, 5, id);
        assert_eq!(
            (core(handle), group(handle), connection(handle)),
            (0, 5, id)
        );
    }
}
