use super::*;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, accept, connect, send, sendmsg};
use std::io::IoSlice;
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};

const KINDS: [SocketKind; 2] = [SocketKind::Stream, SocketKind::SeqPacket];

fn open(path: &Path) -> Result<UnixSocket, ListenError> {
    UnixSocket::listen(path, SocketKind::Stream, SocketAccess::Owner)
}

/// Mode and group of a path.
fn rights(path: &Path) -> (u32, u32) {
    let meta = fs::symlink_metadata(path).unwrap();
    (meta.mode() & 0o7777, meta.gid())
}

/// Promise 71.
#[test]
fn a_socket_belongs_to_those_it_is_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    for kind in KINDS {
        for (access, expected) in [
            (SocketAccess::Owner, (0o600, 0)),
            (SocketAccess::Group(4321), (0o660, 4321)),
            (SocketAccess::Everybody, (0o666, 0)),
        ] {
            let socket = UnixSocket::listen(&path, kind, access).unwrap();
            assert_eq!(rights(&path), expected, "{kind:?} {access:?}");
            socket.file.set_access(SocketAccess::Group(1234)).unwrap();
            assert_eq!(rights(&path), (0o660, 1234));
            socket.file.set_access(SocketAccess::Owner).unwrap();
            assert_eq!(rights(&path), (0o600, 0));
        }
    }
    assert!(!path.exists());
}

/// Promise 71.
#[test]
fn a_peer_is_accepted_and_cannot_send_descriptors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    for (kind, own) in KINDS
        .into_iter()
        .zip([SockType::Stream, SockType::SeqPacket])
    {
        let listener = UnixSocket::listen(&path, kind, SocketAccess::Owner).unwrap();
        let peer = socket(AddressFamily::Unix, own, SockFlag::SOCK_CLOEXEC, None).unwrap();
        let address = UnixAddr::new(&path).unwrap();
        connect(peer.as_raw_fd(), &address).unwrap();
        // Before and after accept: the connection inherits the refusal.
        let mut accepted = Vec::new();
        for _ in 0..2 {
            let descriptors = [peer.as_raw_fd()];
            let sent = sendmsg::<()>(
                peer.as_raw_fd(),
                &[IoSlice::new(b"x")],
                &[ControlMessage::ScmRights(&descriptors)],
                MsgFlags::empty(),
                None,
            );
            assert_eq!(sent, Err(Errno::EPERM), "Linux 6.16 refuses it");
            let without = send(peer.as_raw_fd(), b"hello", MsgFlags::empty());
            assert_eq!(without, Ok(5));
            accepted.extend(accept(listener.as_fd().as_raw_fd()));
        }
        assert_eq!(accepted.len(), 1);
        drop(accepted);
    }
}

/// Promise 66.
#[test]
fn a_live_socket_of_any_type_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    for own in KINDS {
        let _first = UnixSocket::listen(&path, own, SocketAccess::Owner).unwrap();
        for kind in KINDS {
            let refused = UnixSocket::listen(&path, kind, SocketAccess::Owner).unwrap_err();
            assert!(
                matches!(refused, ListenError::Taken(_)),
                "{own:?} {kind:?}: {refused}"
            );
        }
        // A socket with a full backlog is alive.
        assert!(path.exists());
    }
}

/// Promise 66.
#[test]
fn the_socket_of_a_dead_process_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    drop(UnixListener::bind(&path).unwrap());
    let before = fs::symlink_metadata(&path).unwrap().ino();
    let socket = open(&path).unwrap();
    UnixStream::connect(&path).unwrap();
    assert_eq!(rights(&path).0, 0o600);
    drop(socket);
    assert!(!path.exists(), "inode {before} is gone, and its successor");
}

/// Promise 66.
#[test]
fn a_bound_socket_that_does_not_listen_yet_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    let own = socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
    .unwrap();
    bind(own.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
    let other = path.clone();
    let starts = std::thread::spawn(move || open(&other).map(drop));
    std::thread::sleep(STARTING / 5);
    listen(&own, Backlog::MAXCONN).unwrap();
    let refused = starts.join().unwrap().unwrap_err();
    assert!(matches!(refused, ListenError::Taken(_)), "{refused}");
}

/// Promise 66.
#[test]
fn anything_but_a_socket_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    let target = folder.path().join("target");
    let refused = || {
        let refused = open(&path).unwrap_err();
        assert!(matches!(refused, ListenError::Foreign(_)), "{refused}");
        assert!(
            refused
                .to_string()
                .contains("a.sock exists and is not a socket")
        );
    };
    fs::write(&path, "precious").unwrap();
    refused();
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    fs::rename(&path, &target).unwrap();
    symlink(&target, &path).unwrap();
    refused();
    fs::remove_file(&target).unwrap();
    refused();
    // A link to a dead socket counts as a link.
    drop(UnixListener::bind(&target).unwrap());
    refused();
    assert!(target.exists() && fs::symlink_metadata(&path).unwrap().is_symlink());
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    refused();
    fs::remove_dir(&path).unwrap();
    nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
    refused();
}

/// Promise 71.
#[test]
fn only_its_own_file_is_changed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    let target = folder.path().join("target");
    fs::write(&target, "precious").unwrap();
    fs::set_permissions(&target, Permissions::from_mode(0o640)).unwrap();
    let socket = open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(socket.file.set_access(SocketAccess::Everybody).is_err());
    symlink(&target, &path).unwrap();
    assert!(socket.file.set_access(SocketAccess::Everybody).is_err());
    assert_eq!(rights(&target).0, 0o640);
    fs::remove_file(&path).unwrap();
    let second = open(&path).unwrap();
    assert!(socket.file.set_access(SocketAccess::Everybody).is_err());
    drop(socket);
    assert!(path.exists(), "it is the second one's");
    drop(second);
    assert!(!path.exists());
}

/// Promise 71.
#[test]
fn a_folder_goes_with_the_socket_that_made_it() {
    let folder = tempfile::tempdir().unwrap();
    let (created, chosen) = (folder.path().join("made"), folder.path().join("chosen"));
    fs::create_dir(&chosen).unwrap();
    drop(open(&created.join("a.sock")).unwrap());
    drop(open(&chosen.join("a.sock")).unwrap());
    assert!(!created.exists() && chosen.exists());
}

#[test]
fn a_path_that_cannot_be_had_is_named() {
    let refused = open(Path::new("/proc/nowhere/a.sock"))
        .unwrap_err()
        .to_string();
    assert!(refused.contains("/proc/nowhere/a.sock"), "{refused}");
    let long = format!("/tmp/{}", "x".repeat(200));
    let refused = open(Path::new(&long)).unwrap_err().to_string();
    assert!(refused.contains("xxx"), "{refused}");
}
