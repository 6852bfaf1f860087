//! TCP segments (RFC 9293, 3.1; options of RFC 7323 and RFC 2018).

use super::{be16, be32};

pub const HEADER_BYTES: usize = 20;
pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const PSH: u8 = 8;
pub const ACK: u8 = 16;
pub const URG: u8 = 32;
/// ECN echo (RFC 3168, 6.1).
pub const ECE: u8 = 64;
pub const CWR: u8 = 128;
/// Largest window scale (RFC 7323, 2.3).
pub const MAX_SCALE: u8 = 14;
/// Most SACK ranges of a segment; three if it has a timestamp (RFC 2018, 3).
pub const MAX_SACK: usize = 4;

/// Header of a segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Segment {
    pub source_port: u16,
    pub destination_port: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    /// Window as sent, not scaled.
    pub window: u16,
    /// Offset of the end of urgent data from `seq` (RFC 9293, 3.8.5; RFC 6093, 3.1). Valid only
    /// with URG.
    pub urgent: u16,
    /// Length of header and options in bytes.
    pub header_len: usize,
    pub options: Options,
}

/// TCP Fast Open option (RFC 7413, 2): a cookie, or a request for one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FastOpenOption {
    bytes: [u8; MOST_COOKIE_BYTES],
    len: u8,
    /// Whether the option has the experimental number (RFC 6994) that it had before the RFC.
    pub is_experimental: bool,
}

/// Longest cookie (RFC 7413, 4.1.1).
const MOST_COOKIE_BYTES: usize = 16;
/// Shortest cookie (RFC 7413, 4.1.1).
const LEAST_COOKIE_BYTES: usize = 4;
const FAST_OPEN: u8 = 34;
const EXPERIMENT: u8 = 254;
/// Identifier of the Fast Open experiment.
const FAST_OPEN_EXPERIMENT: [u8; 2] = [0xf9, 0x89];

impl FastOpenOption {
    /// An option with a cookie or, if `cookie` is empty, a request for one. A cookie that is too
    /// long is truncated.
    pub fn new(cookie: &[u8], is_experimental: bool) -> Self {
        let len = cookie.len().min(MOST_COOKIE_BYTES);
        let mut bytes = [0; MOST_COOKIE_BYTES];
        bytes[..len].copy_from_slice(&cookie[..len]);
        Self {
            bytes,
            len: len as u8,
            is_experimental,
        }
    }

    /// The cookie; empty in a request for one.
    pub fn cookie(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Length on the wire without padding.
    fn written(&self) -> usize {
        let head = if self.is_experimental { 4 } else { 2 };
        head + usize::from(self.len)
    }

    /// Parses an option. Returns `None` unless the cookie has a valid, even number of bytes.
    fn parse(cookie: &[u8], is_experimental: bool) -> Option<Self> {
        let is_cookie = (LEAST_COOKIE_BYTES..=MOST_COOKIE_BYTES).contains(&cookie.len());
        let fits = cookie.is_empty() || is_cookie && cookie.len().is_multiple_of(2);
        fits.then(|| Self::new(cookie, is_experimental))
    }
}

/// TCP options that the stack supports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    pub mss: Option<u16>,
    pub scale: Option<u8>,
    pub sack_permitted: bool,
    /// Value and echo.
    pub timestamps: Option<(u32, u32)>,
    pub sack: [(u32, u32); MAX_SACK],
    pub sack_count: u8,
    pub fast_open: Option<FastOpenOption>,
}

impl Options {
    /// SACK ranges.
    pub fn sack_ranges(&self) -> &[(u32, u32)] {
        &self.sack[..usize::from(self.sack_count)]
    }

    /// Appends a SACK range; the caller respects [`MAX_SACK`].
    pub fn add_sack(&mut self, range: (u32, u32)) {
        self.sack[usize::from(self.sack_count)] = range;
        self.sack_count += 1;
    }

    /// Length on the wire, padded to words.
    pub fn len(&self) -> usize {
        let mut len = 0;
        len += if self.mss.is_some() { 4 } else { 0 };
        len += if self.scale.is_some() { 4 } else { 0 };
        len += match (self.timestamps.is_some(), self.sack_permitted) {
            (true, _) => 12,
            (false, true) => 4,
            (false, false) => 0,
        };
        if self.sack_count > 0 {
            len += 4 + 8 * usize::from(self.sack_count);
        }
        if let Some(option) = &self.fast_open {
            len += option.written().next_multiple_of(4);
        }
        len
    }
}

impl Segment {
    /// Number of sequence numbers that SYN and FIN occupy.
    pub const fn control_len(&self) -> u32 {
        (self.flags & SYN != 0) as u32 + (self.flags & FIN != 0) as u32
    }
}

/// Parses the header at the start of `bytes`; `None` if it is too short. A truncated option ends
/// the list, and the options before it count (RFC 9293, 3.2: a bad option length must not crash).
pub fn parse(bytes: &[u8]) -> Option<Segment> {
    let fixed = bytes.get(..HEADER_BYTES)?;
    let header_len = usize::from(fixed[12] >> 4) * 4;
    if header_len < HEADER_BYTES {
        return None;
    }
    let mut segment = Segment {
        source_port: be16(fixed, 0),
        destination_port: be16(fixed, 2),
        seq: be32(fixed, 4),
        ack: be32(fixed, 8),
        flags: fixed[13],
        window: be16(fixed, 14),
        urgent: be16(fixed, 18),
        header_len,
        options: Options::default(),
    };
    parse_options(bytes.get(HEADER_BYTES..header_len)?, &mut segment.options);
    Some(segment)
}

fn parse_options(mut bytes: &[u8], options: &mut Options) {
    loop {
        let (kind, body, rest) = match *bytes {
            [] | [0, ..] => return,
            [1, ref rest @ ..] => {
                bytes = rest;
                continue;
            }
            [kind, len, ..] => {
                let Some(body) = bytes.get(2..usize::from(len)) else {
                    return;
                };
                (kind, body, &bytes[usize::from(len)..])
            }
            [_] => return,
        };
        match (kind, body.len()) {
            (2, 2) => options.mss = Some(be16(body, 0)),
            (3, 1) => options.scale = Some(body[0].min(MAX_SCALE)),
            (4, 0) => options.sack_permitted = true,
            (5, len) if len > 0 && len % 8 == 0 => {
                options.sack_count = 0;
                for range in body.chunks_exact(8).take(MAX_SACK) {
                    options.sack[usize::from(options.sack_count)] =
                        (be32(range, 0), be32(range, 4));
                    options.sack_count += 1;
                }
            }
            (8, 8) => options.timestamps = Some((be32(body, 0), be32(body, 4))),
            (FAST_OPEN, _) => options.fast_open = FastOpenOption::parse(body, false),
            (EXPERIMENT, 2..) if body[..2] == FAST_OPEN_EXPERIMENT => {
                options.fast_open = FastOpenOption::parse(&body[2..], true);
            }
            _ => {}
        }
        bytes = rest;
    }
}

/// Writes header and options to the start of `out`, with `sum` in the checksum field. Returns the
/// header's length, `20 + options.len()`.
pub fn write(out: &mut [u8], segment: &Segment, sum: u16) -> usize {
    let options = &segment.options;
    let len = HEADER_BYTES + options.len();
    out[..2].copy_from_slice(&segment.source_port.to_be_bytes());
    out[2..4].copy_from_slice(&segment.destination_port.to_be_bytes());
    out[4..8].copy_from_slice(&segment.seq.to_be_bytes());
    out[8..12].copy_from_slice(&segment.ack.to_be_bytes());
    out[12] = (len as u8 / 4) << 4;
    out[13] = segment.flags;
    out[14..16].copy_from_slice(&segment.window.to_be_bytes());
    out[16..18].copy_from_slice(&sum.to_be_bytes());
    out[18..20].copy_from_slice(&segment.urgent.to_be_bytes());
    let mut at = HEADER_BYTES;
    let mut put = |bytes: &[u8]| {
        out[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    if let Some(mss) = options.mss {
        put(&[2, 4]);
        put(&mss.to_be_bytes());
    }
    match (options.sack_permitted, options.timestamps.is_some()) {
        (true, true) => put(&[4, 2]),
        (true, false) => put(&[1, 1, 4, 2]),
        (false, true) => put(&[1, 1]),
        (false, false) => {}
    }
    if let Some((value, echo)) = options.timestamps {
        put(&[8, 10]);
        put(&value.to_be_bytes());
        put(&echo.to_be_bytes());
    }
    if let Some(scale) = options.scale {
        put(&[1, 3, 3, scale]);
    }
    if options.sack_count > 0 {
        put(&[1, 1, 5, 2 + 8 * options.sack_count]);
        for (left, right) in options.sack_ranges() {
            put(&left.to_be_bytes());
            put(&right.to_be_bytes());
        }
    }
    if let Some(option) = &options.fast_open {
        let written = option.written();
        if option.is_experimental {
            put(&[EXPERIMENT, written as u8]);
            put(&FAST_OPEN_EXPERIMENT);
        } else {
            put(&[FAST_OPEN, written as u8]);
        }
        put(option.cookie());
        put(&[1; 3][..written.next_multiple_of(4) - written]);
    }
    len
}
