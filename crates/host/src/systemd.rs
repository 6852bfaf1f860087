//! Unit names of systemd.

/// Decodes the escapes of systemd unit names: `\x2d` is `-`, `-` is `/`. Source: systemd-escape(1).
/// A name with a bad escape stays as written. `-` stays too, because machine names have no `/`.
pub fn unescape(name: &str) -> String {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let digits = tail
            .get(1..3)
            .filter(|_| byte == b'\\' && tail.first() == Some(&b'x'));
        let code = digits
            .and_then(|d| std::str::from_utf8(d).ok())
            .and_then(|d| u8::from_str_radix(d, 16).ok());
        match code {
            Some(decoded) => {
                out.push(decoded);
                rest = tail.get(3..).unwrap_or(&[]);
            }
            None => {
                out.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| name.to_owned())
}
