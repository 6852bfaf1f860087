//! What `cofferdam dataplane exec` tells this library, in the environment.

use std::path::PathBuf;
use std::time::Duration;

/// The dataplane's control socket.
const SOCKET: &str = "COFFERDAM_DATAPLANE_SOCKET";
/// The application's name in the dataplane's configuration.
const NAME: &str = "COFFERDAM_DATAPLANE_NAME";

/// How long an ending process waits until its peers have what it sent. Longer: a program ends
/// later where a peer is gone; shorter: a slow peer loses the end of the data.
pub const EXIT_PATIENCE: Duration = Duration::from_secs(5);
/// How long an ending process waits until its datagrams have left: those for a neighbour that is being
/// looked for wait as long as that. Longer: a program ends later where a neighbour is gone; shorter: a
/// program that sends one datagram and ends loses it.
pub const DATAGRAM_PATIENCE: Duration = Duration::from_secs(1);
/// How long `listen` waits for the dataplane's answer, which comes within microseconds.
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// How long the pump's thread leaves the session to threads of the program that are not waiting.
/// Longer: what others of its threads wait for is late while one computes; shorter: the thread wakes
/// more often for nothing.
pub const GRACE: Duration = Duration::from_millis(2);
/// Between two attempts to attach again to a dataplane that has ended.
pub const RETRY: Duration = Duration::from_secs(1);

/// Where to attach, and as whom.
#[derive(Clone)]
pub struct Settings {
    /// The dataplane's control socket.
    pub socket: PathBuf,
    /// The application's name.
    pub name: String,
}

impl Settings {
    /// From the environment; none where it has none: everything is the kernel's.
    pub fn read() -> Option<Settings> {
        Some(Settings {
            socket: std::env::var_os(SOCKET)?.into(),
            name: std::env::var(NAME).ok()?,
        })
    }
}
