//! Files that a killed agent leaves behind: its sockets and its lock.

use cofferdam_paths::{HostLock, Occupant, occupant};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Lock that only one process of the host may hold.
const LOCK: &str = "accounting.lock";
/// Longest time between binding a socket and listening on it. A socket on which nobody listens for
/// longer is stale.
const BIND_TO_LISTEN: Duration = Duration::from_millis(50);

/// Removes the sockets at which no process listens, in `folder` and at `socket`, and the files with
/// the page's URL in their folders. Then removes the lock, and `folder` if it is empty. Does
/// nothing while a process holds the lock.
pub(crate) fn clear(folder: &Path, socket: &Path) {
    if !folder.exists() {
        return;
    }
    // Dropping the lock removes its file and the folder.
    let Ok(_alone) = HostLock::take(folder, LOCK) else {
        return;
    };
    // The URL is useless without the agent that wrote it, and a live agent holds the lock.
    for folder in [Some(folder), socket.parent()].into_iter().flatten() {
        cofferdam_web::remove_url_file(&folder.join(crate::page::URL_FILE));
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut dead: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    dead.push(socket.to_owned());
    dead.retain(|path| nobody_listens(path));
    if dead.is_empty() {
        return;
    }
    std::thread::sleep(BIND_TO_LISTEN);
    for path in dead {
        if nobody_listens(&path) {
            let _ = fs::remove_file(path);
        }
    }
}

fn nobody_listens(path: &Path) -> bool {
    occupant(path).is_ok_and(|found| found == Occupant::Dead)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// Promise 63.
    #[test]
    fn stale_files_are_removed_and_nothing_else() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("cofferdam");
        let elsewhere = temp.path().join("agent.sock");
        fs::create_dir(&folder).unwrap();
        let live = UnixListener::bind(folder.join("dataplane.sock")).unwrap();
        drop(UnixListener::bind(folder.join("latency.sock")).unwrap());
        drop(UnixListener::bind(&elsewhere).unwrap());
        fs::write(folder.join(LOCK), "4711\n").unwrap();
        fs::write(folder.join("web.url"), "http://127.0.0.1:9478/").unwrap();
        fs::write(folder.join("web.url.new"), "http://127").unwrap();
        let names = || -> Vec<String> {
            let entries = fs::read_dir(&folder).unwrap().flatten();
            let mut names: Vec<String> = entries
                .map(|e| e.file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        let lock = HostLock::take(&folder, LOCK).unwrap();
        clear(&folder, &elsewhere);
        let all = [
            LOCK,
            "dataplane.sock",
            "latency.sock",
            "web.url",
            "web.url.new",
        ];
        assert_eq!(names(), all);
        drop(lock);
        clear(&folder, &elsewhere);
        assert_eq!(names(), ["dataplane.sock"]);
        assert!(!elsewhere.exists());
        drop(live);
        clear(&folder, &elsewhere);
        assert!(!folder.exists());
    }
}
