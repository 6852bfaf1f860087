//! The functions of the table. They translate between C pointers and error numbers and the methods
//! of [`Shim`].

mod convert;
mod data;
mod device;
mod files;
mod options;
mod poll;
mod sockets;

pub use files::sendfile;
pub use options::getsockopt;
pub use sockets::close;

use crate::abi::Interface;
use crate::interpose;
use crate::shim::Shim;
use libc::c_void;

unsafe extern "C" fn free(userdata: *mut c_void) {
    interpose::forget(userdata.cast());
    // SAFETY: `fill` made the pointer from a box; packetdrill frees it once, after all calls.
    drop(unsafe { Box::from_raw(userdata.cast::<Shim>()) });
}

/// Fills in the table. packetdrill owns the shim from then on, until it calls `free`.
pub fn fill(shim: Box<Shim>) -> Interface {
    Interface {
        userdata: Box::into_raw(shim).cast(),
        free: Some(free),
        socket: Some(sockets::socket),
        bind: Some(sockets::bind),
        listen: Some(sockets::listen),
        accept: Some(sockets::accept),
        connect: Some(sockets::connect),
        read: Some(data::read),
        readv: Some(data::readv),
        recv: Some(data::recv),
        recvfrom: Some(data::recvfrom),
        recvmsg: Some(data::recvmsg),
        write: Some(data::write),
        writev: Some(data::writev),
        send: Some(data::send),
        sendto: Some(data::sendto),
        sendmsg: Some(data::sendmsg),
        fcntl: Some(sockets::fcntl),
        ioctl: Some(sockets::ioctl),
        close: Some(sockets::close),
        shutdown: Some(sockets::shutdown),
        getsockopt: Some(options::getsockopt),
        setsockopt: Some(options::setsockopt),
        poll: Some(poll::poll),
        netdev_send: Some(device::netdev_send),
        netdev_receive: Some(device::netdev_receive),
        usleep: Some(device::usleep),
        gettimeofday: Some(device::gettimeofday),
        epoll_create: Some(poll::epoll_create),
        epoll_ctl: Some(poll::epoll_ctl),
        epoll_wait: Some(poll::epoll_wait),
        pipe: Some(files::pipe),
        splice: Some(files::splice),
    }
}
