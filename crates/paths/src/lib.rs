//! Sockets, locks and files at paths that other processes can reach.
//!
//! Every process of the workspace that listens at a path, locks a file or reads a configuration
//! does it here. [`UnixSocket`] replaces only the socket of a dead process. [`HostLock`] writes
//! only to its own file. [`read_text`] reads only a regular file of bounded size. [`PeerBudget`]
//! divides the places of a server between its peers.

mod budget;
mod folder;
mod listener;
mod lock;
mod probe;
mod read;

pub use budget::{Admission, Peer, PeerBudget};
pub use folder::{RUN_FOLDER, leave_run_folder};
pub use listener::{
    ListenError, SocketAccess, SocketFile, SocketKind, UnixSocket, refuse_descriptors,
};
pub use lock::{HostLock, LockError, open_lock_file};
pub use probe::{Occupant, occupant};
pub use read::{FileError, open_regular, read_bytes, read_text};
