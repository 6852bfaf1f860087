use super::*;
use cofferdam_types::{CgroupId, Runtime};

fn container(n: u64, name: &str, path: &str, netns: u32) -> Arc<Container> {
    Arc::new(Container {
        id: Some(format!("{n:064x}")),
        runtime: Runtime::Podman,
        netns: Some(NetnsId(netns)),
        ..Container::plain(CgroupId(n), path, name)
    })
}

fn all() -> Vec<Arc<Container>> {
    vec![
        container(1, "web-3", "/a/web", 7),
        container(2, "db-1", "/a/db", 8),
        container(3, "nested", "/a/web/in", 9),
    ]
}

fn names(fs: &HostFs, text: &str) -> Result<Vec<String>, String> {
    let selector: Selector = text.parse().unwrap();
    let found = resolve_in(fs, &selector, &all()).map_err(|e| e.to_string())?;
    Ok(found.iter().map(|c| c.name.clone()).collect())
}

/// Promise 9.
#[test]
fn a_near_name_is_offered() {
    let fs = HostFs::below("/nonexistent");
    let error = names(&fs, "web3").unwrap_err();
    assert_eq!(
        error,
        "no container 'web3'; did you mean 'web-3'?; running: db-1, nested, web-3; \
         'cofferdam top --once' lists all containers"
    );
    assert!(
        !names(&fs, "entirely-else")
            .unwrap_err()
            .contains("did you mean")
    );
    assert_eq!(names(&fs, "*").unwrap().len(), 3);
    let none: &[Arc<Container>] = &[];
    let error = resolve_in(&fs, &"x".parse().unwrap(), none).unwrap_err();
    assert!(
        error.to_string().contains("no container is running"),
        "{error}"
    );
}

#[test]
fn processes_lead_to_the_innermost_container() {
    let root = tempfile::tempdir().unwrap();
    let fs = HostFs::below(root.path());
    for (pid, path) in [(5, "/a/web/in/deep"), (6, "/a/website"), (7, "/a/web")] {
        let directory = root.path().join(format!("proc/{pid}"));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("cgroup"), format!("0::{path}\n")).unwrap();
    }
    assert_eq!(names(&fs, "pid:5").unwrap(), ["nested"]);
    assert_eq!(names(&fs, "pid:7").unwrap(), ["web-3"]);
    let error = names(&fs, "pid:6").unwrap_err();
    assert!(
        error.starts_with("process 6 is in the cgroup /a/website"),
        "{error}"
    );
    assert!(names(&fs, "pid:8").unwrap_err().starts_with("no process 8"));
}

#[test]
fn namespaces_by_number_and_by_name() {
    let fs = HostFs::below("/nonexistent");
    assert_eq!(names(&fs, "netns:8").unwrap(), ["db-1"]);
    for bad in ["netns:blue", "netns:../../proc/self/ns/net", "netns:.."] {
        assert!(
            names(&fs, bad)
                .unwrap_err()
                .starts_with("no network namespace"),
            "{bad}"
        );
    }
    assert!(
        names(&fs, "netns:99")
            .unwrap_err()
            .starts_with("no container 'netns:99'")
    );
}

#[test]
fn distances() {
    for (a, b, expected) in [
        ("", "", 0),
        ("web", "web", 0),
        ("web3", "web-3", 1),
        ("ewb", "web", 1),
        ("a", "xyz", 3),
    ] {
        assert_eq!(distance(a, b), expected, "{a} {b}");
    }
}
