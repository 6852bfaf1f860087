//! Two veth pairs, one for the Linux servers and one for the dataplane: the baseline must not pay
//! for XDP on its device.

use crate::dataplane::data::{EchoServer, Link};
use crate::error::BenchError;
use crate::topology::make_netns;
use cofferdam_lab::UndoStack;
use cofferdam_lab::names::{CGROUP_PREFIX, SOCKET_ROOT};
use cofferdam_lab::{LabError, Netns, sweep, veth};
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// One pair: the namespaces of server and client, each with an `eth0`.
pub(super) struct Pair {
    pub server: Netns,
    pub client: Netns,
    /// Address of the server, the destination of the client.
    pub address: Ipv4Addr,
    /// Address of the load generator.
    pub generator: Ipv4Addr,
}

/// Both pairs. Dropping it removes them.
pub(super) struct DataplaneTestbed {
    linux: Pair,
    dataplane: Pair,
    link: Link,
    folder: PathBuf,
    _undo: UndoStack,
}

impl DataplaneTestbed {
    pub fn make(link: Link) -> Result<DataplaneTestbed, BenchError> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        sweep::leftovers();
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let tag = format!("{}-dp{serial}", std::process::id());
        let mut undo = UndoStack::default();
        let mut pair = |name: &str, net: u8, address: u8| {
            let server = make_netns(&format!("{tag}-{name}s"), &mut undo)?;
            let client = make_netns(&format!("{tag}-{name}c"), &mut undo)?;
            veth::pair((&server, "eth0"), (&client, "eth0"), 1)?;
            for end in [&server, &client] {
                end.run(&format!("ip link set eth0 mtu {}", link.mtu_bytes))?;
            }
            let ip = |last| Ipv4Addr::new(10, 79, net, last);
            server.address("eth0", ip(1))?;
            client.address("eth0", ip(2))?;
            Ok::<_, BenchError>(Pair {
                server,
                client,
                address: ip(address),
                generator: ip(8),
            })
        };
        let folder = Path::new(SOCKET_ROOT)
            .join(format!("{CGROUP_PREFIX}{}-dp{serial}", std::process::id()));
        let linux = pair("l", 1, 1)?;
        let dataplane = pair("d", 2, 9)?;
        // AF_XDP accepts no packets larger than the MTU, and none without a complete checksum.
        dataplane.client.offload("eth0", "tx off tso off gso off")?;
        if !link.has_offloads {
            for end in [&linux.server, &linux.client, &dataplane.server] {
                end.offload("eth0", "tso off gso off gro off")?;
            }
        }
        fs::create_dir(&folder).map_err(BenchError::host("make", &folder))?;
        let path = folder.clone();
        undo.push(folder.display().to_string(), move || {
            fs::remove_dir_all(path).map_err(|e| e.to_string())
        });
        Ok(DataplaneTestbed {
            linux,
            dataplane,
            link,
            folder,
            _undo: undo,
        })
    }

    /// Properties of its pairs.
    pub fn link(&self) -> Link {
        self.link
    }

    /// Path of the dataplane's socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("dataplane.sock")
    }

    /// Folder for files of the servers.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Pair on which a server is measured.
    pub fn pair(&self, server: EchoServer) -> &Pair {
        if server.is_linux() {
            &self.linux
        } else {
            &self.dataplane
        }
    }
}

impl Pair {
    /// Packets that the client's device has received.
    pub fn received_packets(&self) -> Result<u64, BenchError> {
        let read = "cat /sys/class/net/eth0/statistics/rx_packets";
        let shown = self.client.script(read)?;
        shown.trim().parse().map_err(|_| {
            let reason = format!("no number in '{}'", shown.trim());
            let command = read.to_owned();
            BenchError::Lab(LabError::Command { command, reason })
        })
    }

    /// Steers receive work to these CPUs of each receiver. With an empty list it stays with the
    /// sender, as on any veth.
    pub fn steer(&self, server: &[u32], client: &[u32]) -> Result<(), BenchError> {
        self.server.steer("eth0", server)?;
        Ok(self.client.steer("eth0", client)?)
    }
}
