//! The preloaded library in programs that use no dataplane.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::path::PathBuf;
use std::process::Command;

/// Path of the library, which is built with these tests.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.with_file_name("libcofferdam_preload.so");
    assert!(path.is_file(), "{} is missing", path.display());
    path
}

#[test]
fn a_program_without_a_dataplane_is_unaffected() {
    let script = "import os, socket, sys\n\
        a, b = socket.socketpair()\n\
        a.sendall(b'x'); assert b.recv(1) == b'x'\n\
        s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\n\
        c = socket.create_connection(s.getsockname()); d, _ = s.accept()\n\
        c.sendall(b'y'); assert d.recv(1) == b'y'\n\
        c.close(); assert d.recv(1) == b''\n\
        os.closerange(3, 64)\n\
        if os.fork() == 0: os._exit(7)\n\
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 7\n\
        print('done')";
    let out = Command::new("/usr/bin/python3")
        .args(["-c", script])
        .env("LD_PRELOAD", library())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert_eq!(String::from_utf8_lossy(&out.stdout), "done\n", "{errors}");
    assert_eq!((out.status.code(), errors.as_ref()), (Some(0), ""));
}
