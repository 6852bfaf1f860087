//! BSD sockets over a session with the dataplane for unmodified programs. `cofferdam dataplane
//! exec` preloads this library.
//!
//! A socket of the dataplane is one end of a pair of Unix sockets under the program's descriptor.
//! The [`pump`], a thread of the process, moves data between the other end and the process'
//! session. The kernel implements all operations on a connection's descriptor with a real socket,
//! in this process and in a child that inherits it (read, sendfile, poll, epoll, dup, fcntl,
//! SO_RCVTIMEO). Only calls with addresses and options are implemented here ([`calls`]). A
//! listener's end is a queue of connections, which are passed as descriptors, so `accept` works in
//! every process that has the listener.
//!
//! Rejected: descriptors that only represent a socket, with every call implemented here. The
//! library would have to imitate poll and epoll on mixed sets, dup, fork and signals.

mod accept_message;
mod calls;
mod control;
mod entry;
mod epoll_sets;
mod errors;
mod fork;
mod heading;
mod inside;
mod internal;
mod process;
mod pump;
mod real;
mod settings;
mod signals;
mod table;
mod udp;
mod unix;
