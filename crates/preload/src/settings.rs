//! Settings that `cofferdam dataplane exec` passes in the environment.

use std::path::PathBuf;
use std::time::Duration;

/// Path of the dataplane's control socket.
const SOCKET: &str = "COFFERDAM_DATAPLANE_SOCKET";
/// Name of the application in the dataplane's configuration.
const NAME: &str = "COFFERDAM_DATAPLANE_NAME";

/// Longest wait of an ending process until its peers have its data. Longer: a program ends later if
/// a peer is gone; shorter: a slow peer loses the end of the data.
pub const EXIT_PATIENCE: Duration = Duration::from_secs(5);
/// Longest wait of an ending process until its datagrams have left: those to an unresolved
/// neighbour wait that long. Longer: a program ends later if a neighbour is gone; shorter: a
/// program that sends one datagram and ends loses it.
pub const DATAGRAM_PATIENCE: Duration = Duration::from_secs(1);
/// Longest wait of `listen` for the dataplane's answer, which usually takes microseconds.
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// Time for which the pump's thread leaves the session to threads of the program that are not
/// waiting. Longer: data for other threads is late while one computes; shorter: the thread wakes
/// more often for nothing.
pub const GRACE: Duration = Duration::from_millis(2);
/// Time between two attempts to attach to a dataplane that has ended.
pub const RETRY: Duration = Duration::from_secs(1);

/// Dataplane to attach to, and the application's name.
#[derive(Clone)]
pub struct Settings {
    /// Path of the dataplane's control socket.
    pub socket: PathBuf,
    /// Name of the application.
    pub name: String,
}

impl Settings {
    /// Reads the settings from the environment. Returns `None` without them: the kernel then
    /// handles all calls.
    pub fn read() -> Option<Settings> {
        Some(Settings {
            socket: std::env::var_os(SOCKET)?.into(),
            name: std::env::var(NAME).ok()?,
        })
    }
}
