//! The functions of the table: pointers and error numbers of C on one side, [`Shim`] on the other.

mod convert;
mod data;
mod poll;

use crate::abi::Interface;
use crate::shim::Shim;
use convert::{done, give, may_wait, read_address, shim, write_address};
use libc::{
    c_int, c_long, c_longlong, c_uint, c_ulong, c_void, size_t, sockaddr, socklen_t, ssize_t,
    timeval,
};
use nix::errno::Errno;
use std::time::Duration;

unsafe extern "C" fn free(userdata: *mut c_void) {
    // SAFETY: made by `fill` from a box; packetdrill frees once, after all calls.
    drop(unsafe { Box::from_raw(userdata.cast::<Shim>()) });
}

unsafe extern "C" fn socket(
    userdata: *mut c_void,
    domain: c_int,
    kind: c_int,
    protocol: c_int,
) -> c_int {
    // SAFETY: the table's first argument.
    let shim = unsafe { shim(userdata) };
    give(shim.call(|host| host.socket(domain, kind, protocol)))
}

unsafe extern "C" fn bind(
    userdata: *mut c_void,
    file: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: the table's first argument; the address is as in bind(2).
    let (shim, address) = unsafe { (shim(userdata), read_address(address, len)) };
    done(address.and_then(|address| shim.call(|host| host.bind(file, address))))
}

unsafe extern "C" fn listen(userdata: *mut c_void, file: c_int, backlog: c_int) -> c_int {
    // SAFETY: the table's first argument.
    let shim = unsafe { shim(userdata) };
    done(shim.call(|host| host.listen(file, backlog)))
}

unsafe extern "C" fn accept(
    userdata: *mut c_void,
    file: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the table's first argument.
    let shim = unsafe { shim(userdata) };
    let waits = !shim.call(|host| host.is_nonblocking(file));
    let accepted = may_wait(shim, waits, |host| {
        let (accepted, remote) = host.accept(file)?;
        Ok((accepted, remote, host.shows_mapped(file, remote)))
    });
    give(accepted.map(|(accepted, remote, as_mapped)| {
        // SAFETY: as in accept(2).
        unsafe { write_address(remote, as_mapped, address, len) };
        accepted
    }))
}

unsafe extern "C" fn connect(
    userdata: *mut c_void,
    file: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: the table's first argument; the address is as in connect(2).
    let (shim, address) = unsafe { (shim(userdata), read_address(address, len)) };
    let address = match address {
        Ok(address) => address,
        Err(error) => return done(Err(error)),
    };
    let waits = !shim.call(|host| host.is_nonblocking(file));
    match shim.call(|host| host.connect(file, address)) {
        Err(Errno::EINPROGRESS | Errno::EALREADY) if waits => {
            done(shim.wait(None, |host| match host.connect(file, address) {
                Err(Errno::EALREADY) => Err(Errno::EAGAIN),
                other => other,
            }))
        }
        other => done(other),
    }
}

/// # Safety
/// `argument` is as in fcntl(2).
unsafe extern "C" fn fcntl(
    userdata: *mut c_void,
    file: c_int,
    command: c_int,
    argument: c_long,
) -> c_int {
    // SAFETY: the table's first argument.
    let shim = unsafe { shim(userdata) };
    match command {
        libc::F_GETFL => {
            let nonblocking = shim.call(|host| host.is_nonblocking(file));
            libc::O_RDWR | if nonblocking { libc::O_NONBLOCK } else { 0 }
        }
        libc::F_SETFL => {
            let on = argument as c_int & libc::O_NONBLOCK != 0;
            done(shim.call(|host| host.set_nonblocking(file, on)))
        }
        _ => done(Err(Errno::EINVAL)),
    }
}

unsafe extern "C" fn ioctl(
    userdata: *mut c_void,
    file: c_int,
    request: c_ulong,
    value: *mut c_int,
) -> c_int {
    // SAFETY: the table's first argument.
    let shim = unsafe { shim(userdata) };
    let queued = shim.call(|host| host.queued_bytes(file, request));
    done(queued.and_then(|bytes| {
        if value.is_null() {
            return Err(Errno::EFAULT);
        }
        // SAFETY: not null; both requests point at an integer.
        unsafe { *value = bytes };
        Ok(())
    }))
}

unsafe extern "C" fn close(userdata: *mut c_void, file: c_int) -> c_int {
    // SAFETY: the table's first argument.
    let shim = unsafe { shim(userdata) };
    done(shim.call(|host| host.close(file)))
}

unsafe extern "C" fn shutdown(userdata: *mut c_void, file: c_int, how: c_int) -> c_int {
    // SAFETY: the table's first argument.
    let shim = unsafe { shim(userdata) };
    done(shim.call(|host| host.shutdown(file, how)))
}

unsafe extern "C" fn getsockopt(
    userdata: *mut c_void,
    file: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the table's first argument.
    let shim = unsafe { shim(userdata) };
    let bytes = shim.call(|host| host.option(file, level, name));
    done(bytes.and_then(|bytes| {
        if value.is_null() || len.is_null() {
            return Err(Errno::EFAULT);
        }
        // SAFETY: `value` has `*len` bytes, as in getsockopt(2).
        unsafe {
            let room = bytes.len().min(*len as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast(), room);
            *len = room as socklen_t;
        }
        Ok(())
    }))
}

unsafe extern "C" fn setsockopt(
    userdata: *mut c_void,
    file: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    if value.is_null() {
        return done(Err(Errno::EFAULT));
    }
    // SAFETY: the table's first argument; `value` has `len` bytes, as in setsockopt(2).
    let (shim, value) = unsafe {
        let value = std::slice::from_raw_parts(value.cast::<u8>(), len as usize);
        (shim(userdata), value)
    };
    done(shim.call(|host| host.set_option(file, level, name, value)))
}

unsafe extern "C" fn netdev_send(
    userdata: *mut c_void,
    packet: *const c_void,
    len: size_t,
) -> c_int {
    // SAFETY: the table's first argument; the packet has `len` bytes.
    let (shim, packet) = unsafe {
        let packet = std::slice::from_raw_parts(packet.cast::<u8>(), len);
        (shim(userdata), packet)
    };
    done(shim.call(|host| host.arrive(packet)))
}

unsafe extern "C" fn netdev_receive(
    userdata: *mut c_void,
    packet: *mut c_void,
    len: *mut size_t,
    time_us: *mut c_longlong,
) -> c_int {
    // SAFETY: the table's first argument.
    let shim = unsafe { shim(userdata) };
    let next = shim.next_packet();
    // SAFETY: `packet` has `*len` bytes, the others are valid. A packet that is longer is cut.
    unsafe {
        *len = match next {
            Some((at, bytes)) => {
                let room = bytes.len().min(*len);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), packet.cast(), room);
                *time_us = (at.as_nanos() / 1000) as c_longlong;
                room
            }
            None => 0,
        };
    }
    0
}

unsafe extern "C" fn usleep(userdata: *mut c_void, time_us: c_uint) -> c_int {
    // SAFETY: the table's first argument.
    let shim = unsafe { shim(userdata) };
    shim.sleep(Duration::from_micros(time_us.into()));
    0
}

unsafe extern "C" fn gettimeofday(
    userdata: *mut c_void,
    time: *mut timeval,
    _zone: *mut c_void,
) -> c_int {
    // SAFETY: the table's first argument.
    let shim = unsafe { shim(userdata) };
    let now_us = shim.time().as_nanos() / 1000;
    if time.is_null() {
        return done(Err(Errno::EFAULT));
    }
    // SAFETY: not null, and as in gettimeofday(2).
    unsafe {
        *time = timeval {
            tv_sec: (now_us / 1_000_000) as i64,
            tv_usec: (now_us % 1_000_000) as i64,
        };
    }
    0
}

unsafe extern "C" fn pipe(_: *mut c_void, _: *mut c_int) -> c_int {
    done(Err(Errno::ENOSYS))
}

unsafe extern "C" fn splice(
    _: *mut c_void,
    _: c_int,
    _: *mut libc::loff_t,
    _: c_int,
    _: *mut libc::loff_t,
    _: size_t,
    _: c_uint,
) -> ssize_t {
    give::<i8, _>(Err(Errno::ENOSYS))
}

/// Fills the table. From here on the shim is packetdrill's, until it calls `free`.
pub fn fill(shim: Box<Shim>) -> Interface {
    Interface {
        userdata: Box::into_raw(shim).cast(),
        free: Some(free),
        socket: Some(socket),
        bind: Some(bind),
        listen: Some(listen),
        accept: Some(accept),
        connect: Some(connect),
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
        fcntl: Some(fcntl),
        ioctl: Some(ioctl),
        close: Some(close),
        shutdown: Some(shutdown),
        getsockopt: Some(getsockopt),
        setsockopt: Some(setsockopt),
        poll: Some(poll::poll),
        netdev_send: Some(netdev_send),
        netdev_receive: Some(netdev_receive),
        usleep: Some(usleep),
        gettimeofday: Some(gettimeofday),
        epoll_create: Some(poll::epoll_create),
        epoll_ctl: Some(poll::epoll_ctl),
        epoll_wait: Some(poll::epoll_wait),
        pipe: Some(pipe),
        splice: Some(splice),
    }
}
