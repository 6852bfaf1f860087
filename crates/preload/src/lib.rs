//! BSD sockets over a session on the dataplane, for unmodified programs: preloaded by
//! `cofferdam dataplane exec`.
//!
//! A socket of the dataplane is one end of a pair of Unix sockets under the program's own
//! descriptor; the [`pump`], a thread of the process, moves data between the other end and the
//! process' session. Everything that a program does with a descriptor of a connection, in this
//! process or in a child that inherits it (read, sendfile, poll, epoll, dup, fcntl, SO_RCVTIMEO),
//! the kernel does with a real socket; only calls that name addresses and options are answered
//! here ([`calls`]). A listener's end is a queue of connections, which are passed as descriptors:
//! `accept` works in every process that has the listener.
//!
//! Rejected: descriptors that only stand for a socket, with every call on them answered here. poll
//! and epoll of mixed sets, dup, fork and signals would all have to be imitated.

mod calls;
mod control;
mod entry;
mod errors;
mod fork;
mod heading;
mod inside;
mod internal;
mod process;
mod pump;
mod real;
mod said;
mod settings;
mod signals;
mod table;
mod udp;
mod unix;
mod watched;
