//! Sysctls of the network namespace that have an equivalent in the stack. Scripts set those of
//! Linux but mean the stack under test.

use cofferdam_netstack::{Congestion, Ecn, PathProbing, TcpConfig};
use std::path::PathBuf;
use std::str::FromStr;

/// Folder in which the kernel shows them.
pub const FOLDER: &str = "/proc/sys/net/ipv4";

/// A folder with a file per sysctl.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sysctls {
    folder: PathBuf,
}

/// Buffer sizes: minimum, default, maximum.
type Sizes = [u32; 3];

impl Sysctls {
    /// Reads the sysctls in `folder`.
    pub fn new(folder: impl Into<PathBuf>) -> Sysctls {
        Sysctls {
            folder: folder.into(),
        }
    }

    /// Words of a sysctl; empty if the kernel lacks it.
    fn words(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// First number of a sysctl, in decimal.
    pub fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.words(name).first()?.parse().ok()
    }

    fn flag(&self, name: &str) -> Option<bool> {
        self.number::<u32>(name).map(|value| value != 0)
    }

    fn sizes(&self, name: &str) -> Option<Sizes> {
        let numbers: Vec<u32> = (self.words(name).iter())
            .filter_map(|word| word.parse().ok())
            .collect();
        numbers.try_into().ok()
    }

    /// Minimum number of segments per burst (`tcp_min_tso_segs`).
    pub fn least_burst_segments(&self) -> u32 {
        self.number("tcp_min_tso_segs").unwrap_or(2)
    }

    /// Initial and maximum send buffer of a socket in bytes (`tcp_wmem`).
    pub fn send_buffer_bytes(&self) -> Option<(u32, u32)> {
        self.sizes("tcp_wmem").map(|[_, usual, most]| (usual, most))
    }

    /// Limit of unsent bytes in a socket's send buffer (`tcp_notsent_lowat`).
    pub fn not_sent_low_bytes(&self) -> Option<u32> {
        self.number("tcp_notsent_lowat")
    }

    /// Bits of `tcp_fastopen`; 0 if the kernel lacks it.
    pub fn fast_open(&self) -> u32 {
        self.number("tcp_fastopen").unwrap_or(0)
    }

    /// `tcp_fastopen_key`: the current key, then the previous one.
    pub fn fast_open_keys(&self) -> Vec<[u8; 16]> {
        let words = self.words("tcp_fastopen_key").join(",");
        words.split(',').filter_map(key).collect()
    }

    /// Returns `before` with the settings that the sysctls override.
    pub fn apply(&self, before: &TcpConfig) -> TcpConfig {
        let mut tcp = before.clone();
        let flag = |name: &str, to: &mut bool| *to = self.flag(name).unwrap_or(*to);
        flag("tcp_sack", &mut tcp.sack);
        flag("tcp_timestamps", &mut tcp.timestamps);
        flag("tcp_window_scaling", &mut tcp.window_scaling);
        match self.words("tcp_congestion_control").first() {
            Some(name) if name == "reno" => tcp.congestion = Congestion::NewReno,
            // The stack has only two algorithms; CUBIC stands in for every other.
            Some(_) => tcp.congestion = Congestion::Cubic,
            None => {}
        }
        let count = |name: &str, to: &mut u8| *to = self.number(name).unwrap_or(*to);
        count("tcp_syn_retries", &mut tcp.syn_retries);
        count("tcp_synack_retries", &mut tcp.syn_ack_retries);
        count("tcp_retries2", &mut tcp.data_retries);
        match self.number("tcp_mtu_probing") {
            Some(0) => tcp.path_probing = PathProbing::Off,
            Some(1_u32 | 2) => tcp.path_probing = PathProbing::AfterBlackHole,
            _ => {}
        }
        match self.number("tcp_ecn") {
            Some(0) => tcp.ecn = Ecn::Off,
            Some(1) => tcp.ecn = Ecn::On,
            Some(2) => tcp.ecn = Ecn::Accept,
            // The stack does not support Accurate ECN.
            _ => {}
        }
        if let Some([_, _, most]) = self.sizes("tcp_rmem") {
            tcp.receive_window_bytes = most.clamp(2 << 10, 16 << 20);
        }
        tcp
    }
}

/// Parses a key in the kernel's notation: four words of eight hexadecimal digits, separated by
/// dashes. In memory each word is little-endian.
fn key(text: &str) -> Option<[u8; 16]> {
    let mut key = [0; 16];
    let mut words = text.split('-');
    for bytes in key.chunks_exact_mut(4) {
        let word = u32::from_str_radix(words.next()?, 16).ok()?;
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    words.next().is_none().then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 62.
    #[test]
    fn keys_are_read_as_the_kernel_writes_them() {
        let bytes: Vec<u8> = (0..16).collect();
        assert_eq!(
            key("03020100-07060504-0b0a0908-0f0e0d0c").map(|key| key.to_vec()),
            Some(bytes)
        );
        for wrong in ["", "1-2-3", "1-2-3-4-5", "g-0-0-0"] {
            assert_eq!(key(wrong), None, "{wrong}");
        }
    }
}
