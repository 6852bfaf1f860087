//! Congestion avoidance of Reno (RFC 5681, 3.1), with byte counting (RFC 3465).

/// New window and count of acknowledged bytes: one segment more for each window acknowledged.
pub fn acknowledged(cwnd: u32, counted: u32, bytes: u32, mss: u32) -> (u32, u32) {
    let counted = counted.saturating_add(bytes);
    if counted >= cwnd {
        (cwnd.saturating_add(mss), counted - cwnd)
    } else {
        (cwnd, counted)
    }
}

/// New `ssthresh`: half of the bytes in flight, at least two segments (RFC 5681, equation 4).
pub fn ssthresh(flight: u32, mss: u32) -> u32 {
    (flight / 2).max(2 * mss)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reno_grows_by_one_segment_per_window_and_halves() {
        let (mut cwnd, mut counted) = (10_000, 0);
        for _ in 0..10 {
            (cwnd, counted) = acknowledged(cwnd, counted, 1000, 1000);
        }
        assert_eq!((cwnd, counted), (11_000, 0));
        assert_eq!(
            (ssthresh(11_000, 1000), ssthresh(1000, 1000)),
            (5_500, 2000)
        );
    }
}
