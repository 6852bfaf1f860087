//! Requests to network devices (`ioctl`), and their hardware timestamps.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;

const SIOCGHWTSTAMP: libc::Ioctl = 0x89b1;
const HWTSTAMP_FILTER_NONE: u32 = 0;

/// Makes one request on a device of the socket's network namespace; the kernel answers in `words`.
/// Returns the result of `ioctl`, which is not negative.
///
/// # Errors
/// `InvalidInput` for a name longer than any device's; otherwise the kernel's.
///
/// # Safety `words` must be at least as large as the structure of the request `number`. If the
/// structure's contents define its size (`SIOCETHTOOL`), `words` must have that size.
pub unsafe fn request(
    socket: &impl AsRawFd,
    device: &str,
    number: libc::Ioctl,
    words: &mut [u32],
) -> io::Result<i32> {
    // SAFETY: ifreq is plain data, for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if device.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: `request` names a device and points to `words`, which is as large as the request
    // needs (the caller's promise); both outlive the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), number, &raw mut request) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Whether the hardware of `device` currently timestamps received packets (`ptp4l` and others turn
/// it on). Source: Documentation/networking/timestamping.rst, section 3.
fn has_receive_timestamps(device: &str) -> io::Result<bool> {
    let socket = UnixDatagram::unbound()?;
    // struct hwtstamp_config: flags, tx_type, rx_filter.
    let mut config = [0; 3];
    // SAFETY: the request's structure is the three words of `config`.
    unsafe { request(&socket, device, SIOCGHWTSTAMP, &mut config) }?;
    Ok(config[2] != HWTSTAMP_FILTER_NONE)
}

/// Lists the devices of the calling thread's network namespace whose hardware timestamps received
/// packets; most often none.
pub fn hardware_timestamping() -> Vec<String> {
    let devices = std::fs::read_dir("/sys/class/net");
    let names = devices.into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<String> = names
        .filter(|name| has_receive_timestamps(name).unwrap_or(false))
        .collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 19.
    #[test]
    fn the_loopback_device_has_no_hardware_to_stamp_with() {
        assert!(has_receive_timestamps("lo").is_err());
        assert!(!hardware_timestamping().contains(&"lo".to_owned()));
        let unknown = has_receive_timestamps("no-such-device").unwrap_err();
        assert_eq!(unknown.raw_os_error(), Some(libc::ENODEV));
        let long = has_receive_timestamps("a-name-longer-than-any-device").unwrap_err();
        assert_eq!(long.kind(), io::ErrorKind::InvalidInput);
    }
}
