//! SYN cookies (RFC 4987, 3.6): during a SYN flood the SYN+ACK's sequence number contains
//! everything that the listener would have to remember.
//!
//! ```text
//! sequence number   5 bits time (64 s), 3 bits segment size, 24 bits keyed hash
//! timestamp         lowest 6 bits: 4 window scale (15: none), 1 SACK, 1 unused
//! ```

use super::isn;
use crate::api::Time;
use crate::core::siphash::Key;
use crate::flow::FlowKey;
use crate::tuning::belief::{COOKIE_STEP_S, COOKIE_STEPS};

/// Segment sizes that a cookie can encode.
const SIZES: [u16; 8] = [216, 536, 1160, 1220, 1380, 1440, 1460, 8940];
const NO_SCALE: u8 = 15;
const OPTION_BITS: u32 = 0x3f;

/// Generator and verifier of cookies.
#[derive(Debug, Clone, Copy)]
pub struct Cookies(Key);

/// Options that a cookie and its timestamp encode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CookieOptions {
    pub mss: u16,
    pub scale: Option<u8>,
    pub sack: bool,
}

impl Cookies {
    pub fn new(secret: &[u8; 16]) -> Self {
        Self(Key::new(secret, 4))
    }

    fn hash(&self, key: &FlowKey, irs: u32, step: u64, size: u32) -> u32 {
        let mut words = [0; 7];
        words[..5].copy_from_slice(&key.words());
        words[5] = u64::from(irs) << 32 | u64::from(size);
        words[6] = step;
        self.0.hash(&words) as u32 & 0xff_ffff
    }

    /// Sequence number for a SYN with the number `irs` that announces segments of `mss` bytes.
    pub fn make(&self, key: &FlowKey, irs: u32, mss: u16, now: Time) -> u32 {
        let step = now.as_nanos() / 1_000_000_000 / COOKIE_STEP_S;
        let size = SIZES.iter().rposition(|size| *size <= mss).unwrap_or(0) as u32;
        (step as u32 & 31) << 27 | size << 24 | self.hash(key, irs, step, size)
    }

    /// Segment size of a valid `cookie` for this SYN; `None` if it is forged or too old.
    pub fn check(&self, key: &FlowKey, irs: u32, cookie: u32, now: Time) -> Option<u16> {
        let current = now.as_nanos() / 1_000_000_000 / COOKIE_STEP_S;
        let age = (current as u32).wrapping_sub(cookie >> 27) & 31;
        let step = current.checked_sub(u64::from(age))?;
        let size = cookie >> 24 & 7;
        (u64::from(age) < COOKIE_STEPS && cookie & 0xff_ffff == self.hash(key, irs, step, size))
            .then(|| SIZES[size as usize])
    }

    /// Timestamp of the SYN+ACK, with the options in its lowest bits. It is never later than the
    /// clock.
    pub fn timestamp(now: Time, offset: u32, scale: Option<u8>, sack: bool) -> u32 {
        let bits = u32::from(scale.unwrap_or(NO_SCALE)) << 2 | u32::from(sack) << 1;
        let value = isn::timestamp(now, offset);
        let marked = value & !OPTION_BITS | bits;
        if marked.wrapping_sub(value) as i32 > 0 {
            marked.wrapping_sub(OPTION_BITS + 1)
        } else {
            marked
        }
    }

    /// Options of a cookie's ACK. Only an echoed timestamp restores scale and SACK.
    pub fn options(mss: u16, echo: Option<u32>) -> CookieOptions {
        let bits = echo.map(|echo| echo & OPTION_BITS);
        let scale = bits
            .map(|bits| (bits >> 2) as u8)
            .filter(|scale| *scale != NO_SCALE);
        CookieOptions {
            mss,
            scale,
            sack: bits.is_some_and(|bits| bits & 2 != 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(port: u16) -> FlowKey {
        FlowKey {
            remote_port: port,
            ..FlowKey::default()
        }
    }

    /// Promise 57.
    #[test]
    fn a_cookie_matches_only_its_syn_for_a_limited_time() {
        let cookies = Cookies::new(&[7; 16]);
        let at = |seconds: u64| Time::from_nanos(seconds * 1_000_000_000);
        for start in [0, 63, 64, 100_000] {
            let cookie = cookies.make(&key(1), 9, 1460, at(start));
            assert_eq!(
                cookies.check(&key(1), 9, cookie, at(start + 63)),
                Some(1460)
            );
            assert_eq!(cookies.check(&key(1), 9, cookie, at(start + 128)), None);
            assert_eq!(cookies.check(&key(2), 9, cookie, at(start)), None);
            assert_eq!(cookies.check(&key(1), 8, cookie, at(start)), None);
            assert_eq!(cookies.check(&key(1), 9, cookie ^ 1 << 24, at(start)), None);
            assert_eq!(
                Cookies::new(&[8; 16]).check(&key(1), 9, cookie, at(start)),
                None
            );
        }
        let found = (0..100_000u32).filter(|guess| {
            cookies
                .check(&key(1), 9, guess.wrapping_mul(2_654_435_761), at(70))
                .is_some()
        });
        assert!(found.count() <= 1, "guessing is one in 2^24 a step");
    }

    #[test]
    fn sizes_are_rounded_down_and_options_come_back() {
        let cookies = Cookies::new(&[7; 16]);
        for (asked, got) in [(48, 216), (536, 536), (1459, 1440), (9000, 8940)] {
            let cookie = cookies.make(&key(1), 1, asked, Time::ZERO);
            assert_eq!(cookies.check(&key(1), 1, cookie, Time::ZERO), Some(got));
        }
        for (scale, sack) in [
            (Some(0), true),
            (Some(14), false),
            (None, true),
            (None, false),
        ] {
            for ms in 0..200 {
                let now = Time::from_nanos(ms * 1_000_000);
                let value = Cookies::timestamp(now, 5, scale, sack);
                assert!(super::super::seq::le(value, isn::timestamp(now, 5)));
                assert_eq!(
                    Cookies::options(1460, Some(value)),
                    CookieOptions {
                        mss: 1460,
                        scale,
                        sack
                    }
                );
            }
        }
        let plain = CookieOptions {
            mss: 536,
            scale: None,
            sack: false,
        };
        assert_eq!(Cookies::options(536, None), plain);
    }
}
