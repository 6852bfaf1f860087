use super::*;
use tempfile::TempDir;

struct Tree(TempDir);

impl Tree {
    fn new(online: &str) -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        tree.write(&format!("{CPUS}/online"), online);
        tree
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{text}\n")).unwrap();
    }

    fn cpu(&self, cpu: u32, siblings: &str, l2: &str, l3: &str) {
        let folder = format!("{CPUS}/cpu{cpu}");
        self.write(&format!("{folder}/topology/core_cpus_list"), siblings);
        for (index, level, shared) in [(0, 1, siblings), (1, 1, siblings), (2, 2, l2), (3, 3, l3)] {
            self.write(
                &format!("{folder}/cache/index{index}/level"),
                &level.to_string(),
            );
            self.write(
                &format!("{folder}/cache/index{index}/shared_cpu_list"),
                shared,
            );
        }
        self.write(&format!("{folder}/cache/uevent"), "");
    }

    fn read(&self) -> Topology {
        topology(&HostFs::below(self.0.path())).unwrap()
    }
}

fn fields(topology: &Topology) -> Vec<(u32, u32, u32, u32, bool)> {
    let of = |c: &LogicalCpu| (c.cpu.0, c.core, c.llc, c.node, c.isolated);
    topology.cpus.iter().map(of).collect()
}

/// Promise 38.
#[test]
fn two_sockets_with_siblings_are_read() {
    let tree = Tree::new("0-7");
    for cpu in 0..8 {
        let (low, socket) = (cpu % 4, cpu % 4 / 2);
        let pair = format!("{low},{}", low + 4);
        let l3 = ["0-1,4-5", "2-3,6-7"][socket as usize];
        tree.cpu(cpu, &pair, &pair, l3);
    }
    tree.write("/sys/devices/system/node/node0/cpulist", "0-1,4-5");
    tree.write("/sys/devices/system/node/node1/cpulist", "2-3,6-7");
    tree.write("/sys/devices/system/node/possible", "0-1");
    tree.write(&format!("{CPUS}/isolated"), "3");
    assert_eq!(
        fields(&tree.read()),
        [
            (0, 0, 0, 0, false),
            (1, 1, 0, 0, false),
            (2, 2, 2, 1, false),
            (3, 3, 2, 1, true),
            (4, 0, 0, 0, false),
            (5, 1, 0, 0, false),
            (6, 2, 2, 1, false),
            (7, 3, 2, 1, false),
        ]
    );
}

/// Promise 38.
#[test]
fn offline_cpus_are_left_out() {
    let tree = Tree::new("0,2");
    tree.cpu(0, "0", "0", "0,2");
    tree.cpu(2, "2", "2", "0,2");
    assert_eq!(
        fields(&tree.read()),
        [(0, 0, 0, 0, false), (2, 2, 0, 0, false)]
    );
}

/// Promise 38.
#[test]
fn an_older_kernel_and_a_bare_one() {
    let tree = Tree::new("0-1");
    for cpu in 0..2 {
        tree.write(
            &format!("{CPUS}/cpu{cpu}/topology/thread_siblings_list"),
            "0-1",
        );
    }
    assert_eq!(fields(&tree.read())[1], (1, 0, 0, 0, false));
    let bare = Tree::new("0-1");
    assert_eq!(fields(&bare.read())[1], (1, 1, 0, 0, false));
}

#[test]
fn what_makes_no_sense_is_ignored() {
    let tree = Tree::new("0-1");
    tree.cpu(0, "7-3", "x", "");
    tree.cpu(1, "0", "0", "0");
    assert_eq!(
        fields(&tree.read()),
        [(0, 0, 0, 0, false), (1, 1, 0, 0, false)]
    );
    assert!(topology(&HostFs::below(tempfile::tempdir().unwrap().path())).is_err());
}

#[test]
fn this_host_has_its_online_cpus() {
    let fs = HostFs::host();
    let seen: Vec<CpuId> = topology(&fs).unwrap().cpus.iter().map(|c| c.cpu).collect();
    assert_eq!(seen, online_cpus(&fs).unwrap());
}
