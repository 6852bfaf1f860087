//! Mappings of this process, from /proc/self/maps.

use std::io;
use std::ops::Range;

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MapEntry {
    pub addresses: Range<usize>,
    pub is_readable: bool,
    pub is_writable: bool,
    pub is_executable: bool,
    /// Offset of its first byte in the file.
    pub offset: usize,
    /// Path of the file, or `[stack]` and the like; empty for anonymous memory.
    pub name: String,
}

pub(crate) fn mappings() -> io::Result<Vec<MapEntry>> {
    let text = std::fs::read_to_string("/proc/self/maps")?;
    let all: Option<Vec<MapEntry>> = text.lines().map(parse).collect();
    all.ok_or_else(|| io::Error::other("/proc/self/maps has a line of another form"))
}

/// The mapping that contains an address.
pub(crate) fn mapping_at(mappings: &[MapEntry], address: usize) -> Option<&MapEntry> {
    mappings.iter().find(|m| m.addresses.contains(&address))
}

/// Parses `START-END RIGHTS OFFSET DEVICE INODE NAME`.
fn parse(line: &str) -> Option<MapEntry> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?.as_bytes();
    let offset = words.next()?;
    let name = words.nth(2).unwrap_or_default();
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some(MapEntry {
        addresses: number(start)?..number(end)?,
        is_readable: rights.first()? == &b'r',
        is_writable: rights.get(1)? == &b'w',
        is_executable: rights.get(2)? == &b'x',
        offset: number(offset)?,
        name: name.trim_start().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whole() {
        let line = "7f5e8c200000-7f5e8c228000 r-xp 00028000 fe:00 131 /usr/lib/a file.so";
        let found = parse(line).expect("a mapping");
        assert_eq!(found.addresses, 0x7f5e_8c20_0000..0x7f5e_8c22_8000);
        assert!(found.is_readable && !found.is_writable && found.is_executable);
        assert_eq!(
            (found.offset, found.name.as_str()),
            (0x28000, "/usr/lib/a file.so")
        );
        let line =
            "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]";
        assert_eq!(parse(line).expect("a mapping").name, "[stack]");
        assert_eq!(parse("7ffc00000000 rw-p"), None);
        let own = mappings().expect("readable");
        let code = own_code as *const () as usize;
        assert!(
            own.iter()
                .any(|m| m.is_executable && m.addresses.contains(&code))
        );
    }

    fn own_code() {}
}
