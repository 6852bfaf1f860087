//! Netlink requests of one socket, for subjects that [`Inventory`](crate::Inventory) does not
//! track: the messages, rtnetlink, the `netdev` family, and sock_diag. A request concerns the
//! network namespace of the thread that opened the socket; see
//! [`in_namespace`](crate::in_namespace).

pub(crate) mod message;
mod netdev;
mod socket;
pub(crate) mod sockets;

pub use message::{LinkMessage, Message, attribute, attributes, u32_at};
pub use netdev::{NAPI_ID, NAPI_SET, NAPI_THREADED, Napi, Netdev};
pub use socket::Rtnetlink;
pub use sockets::{InetSocket, SockDiag};
