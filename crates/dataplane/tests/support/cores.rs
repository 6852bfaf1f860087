//! Clients of a dataplane of several cores, and the counts of each core.

use super::{ADDRESS, Scene, bytes, connect};
use cofferdam_dataplane::status;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Clients that send and read random bytes over connections of their own until they are to end.
pub struct Clients(Vec<JoinHandle<u32>>, Arc<AtomicBool>);

impl Clients {
    pub fn new(scene: &Scene, count: u64) -> Clients {
        let stop = Arc::new(AtomicBool::new(false));
        let client = |n: u64| {
            let stop = stop.clone();
            scene.client.thread(move || {
                let mut stream = connect(ADDRESS, 7);
                // A device may be down meanwhile.
                let patience = Some(Duration::from_secs(30));
                stream.set_read_timeout(patience).expect("a time limit");
                let mut rounds = 0;
                while !stop.load(Ordering::Relaxed) || rounds < 3 {
                    let len = if rounds % 4 == 3 { 50_000 } else { 200 };
                    let sent = bytes(len, n << 32 | u64::from(rounds));
                    let mut back = vec![0; len];
                    let mut writer = stream.try_clone().expect("a second handle");
                    let copy = sent.clone();
                    let writing = std::thread::spawn(move || writer.write_all(&copy));
                    stream.read_exact(&mut back).expect("all comes back");
                    writing.join().expect("it ends").expect("it takes all");
                    assert!(back == sent, "client {n}, round {rounds}");
                    rounds += 1;
                }
                rounds
            })
        };
        Clients((0..count).map(client).collect(), stop)
    }

    /// Ends the clients. Returns the number of rounds of each.
    pub fn end(self) -> Vec<u32> {
        self.1.store(true, Ordering::Relaxed);
        let ends = self.0.into_iter();
        ends.map(|thread| thread.join().expect("a client"))
            .collect()
    }
}

/// A count of each core.
pub fn each_core(socket: &Path, key: &str) -> Vec<u64> {
    let status = status(socket).expect("a status");
    let cores = status["cores"].as_array().expect("cores");
    cores
        .iter()
        .map(|core| core[key].as_u64().expect("a number"))
        .collect()
}

/// Groups with connections.
pub fn busy_groups(socket: &Path) -> Vec<u8> {
    let status = status(socket).expect("a status");
    let groups = status["flow_groups"].as_array().expect("groups");
    let busy = groups
        .iter()
        .filter(|g| g["connections"].as_u64() > Some(0));
    busy.map(|g| g["group"].as_u64().expect("a number") as u8)
        .collect()
}
