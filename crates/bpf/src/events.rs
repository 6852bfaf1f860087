//! Decodes the ring of container events.

use crate::skeleton::types::{cf_event, cf_event_kind, cf_limits, cf_path_event};
use cofferdam_types::{CgroupId, KernelEvent, NetnsId};
use std::ffi::OsStr;
use std::mem::{offset_of, size_of};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Decodes one record of the ring. `None` if this version does not know it or cannot trust it: too
/// short, an unknown kind, or a path that was cut off or has no end. The host is then scanned:
/// [`KernelEvent::Lost`].
pub fn decode_event(record: &[u8]) -> Option<KernelEvent> {
    let kind = u32_at(record, offset_of!(cf_event, kind))?;
    let pid = u32_at(record, offset_of!(cf_event, pid))?;
    let netns = NetnsId(u32_at(record, offset_of!(cf_event, netns))?);
    let path_bytes = u32_at(record, offset_of!(cf_event, path_bytes))?;
    let cgroup = CgroupId(u64_at(record, offset_of!(cf_event, cgroup))?);
    if record.len() < size_of::<cf_event>() {
        return None;
    }
    match cf_event_kind(kind) {
        cf_event_kind::CF_EVENT_CGROUP_CREATED => {
            if path_bytes >= cf_limits::CF_PATH_MAX.0 {
                return Some(KernelEvent::Lost { count: 1 });
            }
            let start = offset_of!(cf_path_event, path);
            // The kernel's length includes the NUL.
            let end = start + (path_bytes as usize).checked_sub(1)?;
            let bytes = record.get(start..end)?;
            if !bytes.starts_with(b"/") || bytes.contains(&0) {
                return None;
            }
            Some(KernelEvent::CgroupCreated {
                cgroup,
                path: PathBuf::from(OsStr::from_bytes(bytes)),
            })
        }
        cf_event_kind::CF_EVENT_CGROUP_REMOVED => Some(KernelEvent::CgroupRemoved { cgroup }),
        cf_event_kind::CF_EVENT_PROCESS_SEEN => {
            Some(KernelEvent::ProcessSeen { cgroup, netns, pid })
        }
        cf_event_kind::CF_EVENT_UNKNOWN_NETNS => Some(KernelEvent::UnknownNetns { netns }),
        cf_event_kind::CF_EVENT_UNKNOWN_CGROUP => Some(KernelEvent::UnknownCgroup {
            cgroup,
            pid: (pid != 0).then_some(pid),
        }),
        _ => None,
    }
}

fn u32_at(record: &[u8], offset: usize) -> Option<u32> {
    let bytes = record.get(offset..offset + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn u64_at(record: &[u8], offset: usize) -> Option<u64> {
    let bytes = record.get(offset..offset + 8)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, path: Option<&str>) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(7u32.to_ne_bytes());
        bytes.extend(42u64.to_ne_bytes());
        bytes.extend(4026531840u32.to_ne_bytes());
        bytes.extend(path.map_or(0, |p| p.len() as u32 + 1).to_ne_bytes());
        if let Some(path) = path {
            bytes.extend(path.as_bytes());
            bytes.resize(size_of::<cf_path_event>(), 0);
        }
        bytes
    }

    #[test]
    fn decodes_each_kind() {
        assert_eq!(
            decode_event(&record(1, Some("/a/b"))),
            Some(KernelEvent::CgroupCreated {
                cgroup: CgroupId(42),
                path: "/a/b".into()
            })
        );
        assert_eq!(
            decode_event(&record(2, None)),
            Some(KernelEvent::CgroupRemoved {
                cgroup: CgroupId(42)
            })
        );
        assert_eq!(
            decode_event(&record(3, None)),
            Some(KernelEvent::ProcessSeen {
                cgroup: CgroupId(42),
                netns: NetnsId(4026531840),
                pid: 7
            })
        );
        assert_eq!(
            decode_event(&record(4, None)),
            Some(KernelEvent::UnknownNetns {
                netns: NetnsId(4026531840)
            })
        );
    }

    /// Promise 76.
    #[test]
    fn refuses_what_it_cannot_trust() {
        assert_eq!(decode_event(&[]), None);
        assert_eq!(decode_event(&record(9, None)), None, "unknown kind");
        assert_eq!(decode_event(&record(1, None)), None, "a path of no bytes");
        assert_eq!(decode_event(&record(1, Some("relative"))), None);
        let mut short = record(1, Some("/a/b"));
        short.truncate(size_of::<cf_event>() + 2);
        assert_eq!(
            decode_event(&short),
            None,
            "path cut off by the record's end"
        );
        let long = "/".to_owned() + &"x".repeat(600);
        assert_eq!(
            decode_event(&record(1, Some(&long))),
            Some(KernelEvent::Lost { count: 1 })
        );
    }
}
