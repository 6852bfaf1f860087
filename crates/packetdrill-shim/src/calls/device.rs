//! The network device and the clock.

use super::convert::{done, shim};
use crate::memory;
use libc::{c_int, c_longlong, c_uint, c_void, size_t, timeval};
use std::time::Duration;

pub unsafe extern "C" fn netdev_send(
    userdata: *mut c_void,
    packet: *const c_void,
    len: size_t,
) -> c_int {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    let packet = memory::read(packet, len);
    done(packet.and_then(|packet| shim.call(|host| host.arrive(&packet))))
}

/// Truncates a packet that does not fit the buffer.
pub unsafe extern "C" fn netdev_receive(
    userdata: *mut c_void,
    packet: *mut c_void,
    len: *mut size_t,
    time_us: *mut c_longlong,
) -> c_int {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    let next = shim.next_packet();
    done(memory::get(len).and_then(|most| {
        let Some((at, mut bytes)) = next else {
            return memory::put(len, 0);
        };
        bytes.truncate(most);
        memory::write(packet, &bytes)?;
        memory::put(time_us, (at.as_nanos() / 1000) as c_longlong)?;
        memory::put(len, bytes.len())
    }))
}

pub unsafe extern "C" fn usleep(userdata: *mut c_void, time_us: c_uint) -> c_int {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    shim.sleep(Duration::from_micros(time_us.into()));
    0
}

pub unsafe extern "C" fn gettimeofday(
    userdata: *mut c_void,
    time: *mut timeval,
    _zone: *mut c_void,
) -> c_int {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    let now_us = shim.time().as_nanos() / 1000;
    done(memory::put(
        time,
        timeval {
            tv_sec: (now_us / 1_000_000) as i64,
            tv_usec: (now_us % 1_000_000) as i64,
        },
    ))
}
