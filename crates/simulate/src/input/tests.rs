use super::*;
use crate::host::Host;
use proptest::prelude::*;

fn two() -> Host {
    let shape = r#"{"nodes":1,"llcs_per_node":1,"cores_per_llc":2,"threads_per_core":1}"#;
    host(&format!(
        r#"{{"schema":"cofferdam.host/1","shape":{shape}}}"#
    ))
    .unwrap()
}

const GOOD: &str = r#"{
  "schema": "cofferdam.tenants/1",
  "groups": [
    {"name": "pods", "parent": "all", "quota_cpus": 1.5},
    {"name": "all", "weight": 200}
  ],
  "tenants": [
    {"name": "web", "parent": "pods", "weight": 50, "quota_cpus": 0.5, "quota_period_us": 50000,
     "loads": [{"threads": 2, "behaviour": {"periodic": {"run_us": 100, "sleep_us": 900}}},
               {"threads": 1, "behaviour": {"bursts": {"mean_run_us": 10, "mean_sleep_us": 20}}}]},
    {"name": "batch", "cpus": "0-1",
     "loads": [{"threads": 3, "behaviour": {"phases": {"run_us": 4000}}}]},
    {"name": "own", "reserved_cpus": 0.5, "loads": [{"threads": 1, "behaviour": {"cpu-bound": {}}}]}
  ]
}"#;

#[test]
fn a_whole_file_is_read() {
    let read = tenants(GOOD, &two()).unwrap();
    assert_eq!(read.groups[0].name, "all", "parents come first");
    assert_eq!(read.groups[1].parent, Some(0));
    let web = &read.tenants[0];
    assert_eq!((web.cgroup.parent, web.cgroup.weight), (Some(1), 50));
    let quota = web.cgroup.quota.unwrap();
    assert_eq!((quota.quota_ns, quota.period_ns), (25_000_000, 50_000_000));
    assert_eq!((web.threads(), web.demand_cpus()), (3, 0.2 + 1.0 / 3.0));
    assert_eq!(read.tenants[1].cgroup.cpus, Some(vec![0, 1]));
}

/// Asserts that `GOOD` with `from` replaced is refused with all of `words`, in the line of `to`.
fn refused(from: &str, to: &str, words: &[&str]) {
    assert!(GOOD.contains(from), "{from}");
    let text = GOOD.replacen(from, to, 1);
    let error = tenants(&text, &two()).unwrap_err();
    let message = error.to_string();
    for word in words {
        assert!(message.contains(word), "{word}: {message}");
    }
    assert_eq!(message.lines().count(), 1, "{message}");
    // The second line of a duplicate name.
    let lines: Vec<&str> = text.lines().collect();
    let line = lines.iter().rposition(|l| l.contains(to)).unwrap() + 1;
    assert!(
        message.starts_with(&format!("line {line}")),
        "{line}: {message}"
    );
}

/// Promise 75.
#[test]
fn each_mistake_has_its_line_and_its_remedy() {
    refused(
        r#""weight": 200"#,
        r#""wieght": 200"#,
        &["unknown field `wieght`"],
    );
    refused(r#""weight": 200"#, r#""weight": 0"#, &["1 to 10000"]);
    refused(
        r#""weight": 50"#,
        r#""weight": 1e999"#,
        &["number out of range"],
    );
    refused(r#""weight": 50"#, r#""weight": NaN"#, &["expected"]);
    refused(
        r#""weight": 50"#,
        r#""weight": null, "weight": 3"#,
        &["duplicate field"],
    );
    refused(r#""threads": 2"#, r#""threads": 0"#, &["1 to 100000"]);
    refused(r#""threads": 2"#, r#""threads": 1e18"#, &["1 to 100000"]);
    refused(r#""threads": 2"#, r#""threads": -1"#, &["1 to 100000"]);
    refused(r#""run_us": 100,"#, r#""run_us": 0,"#, &["give 1 to"]);
    refused(r#""sleep_us": 900"#, r#""sleep_us": -900"#, &["give 0 to"]);
    refused(
        r#""quota_period_us": 50000"#,
        r#""quota_period_us": 0"#,
        &["1000 to 1000000"],
    );
    refused(
        r#""quota_cpus": 0.5"#,
        r#""quota_cpus": 0"#,
        &["leave it out"],
    );
    refused(
        r#""quota_cpus": 0.5, "quota_period_us": 50000"#,
        r#""quota_cpus": 0.005, "quota_period_us": 50000"#,
        &["'web'", "1 ms"],
    );
    refused(
        r#""reserved_cpus": 0.5"#,
        r#""reserved_cpus": 0"#,
        &["at least 0.001"],
    );
    refused(r#""cpus": "0-1""#, r#""cpus": "0-7""#, &["the host", "0-7"]);
    refused(r#""cpus": "0-1""#, r#""cpus": "1-""#, &["write 0-3,8"]);
    refused(r#""name": "batch""#, r#""name": "web""#, &["there twice"]);
    refused(r#""name": "batch""#, r#""name": """#, &["1 to 255"]);
    refused(
        r#""name": "web", "parent": "pods""#,
        r#""name": "web", "parent": "pod""#,
        &["not in 'groups'"],
    );
    refused(r#"{"cpu-bound": {}}"#, r#"{"cpu": {}}"#, &["cpu-bound"]);
    refused(
        "cofferdam.tenants/1",
        "cofferdam.tenants/9",
        &["it must be"],
    );
    refused(
        r#""name": "own", "#,
        r#""name": "own", "cpus": "1", "#,
        &["remove 'cpus'"],
    );
}

/// Promise 75.
#[test]
fn cycles_crowds_and_empty_lists_are_refused() {
    let message = |text: &str| tenants(text, &two()).unwrap_err().to_string();
    let circle = GOOD.replacen(
        r#"{"name": "all","#,
        r#"{"name": "all", "parent": "pods","#,
        1,
    );
    assert!(
        message(&circle).contains("above itself"),
        "{}",
        message(&circle)
    );
    let own = GOOD.replacen(
        r#"{"name": "all","#,
        r#"{"name": "all", "parent": "all","#,
        1,
    );
    assert!(message(&own).contains("above itself"));
    let none = r#"{"schema":"cofferdam.tenants/1","tenants":[]}"#;
    assert!(message(none).contains("at least one"));
    let crowd = GOOD.replacen(r#""threads": 2"#, r#""threads": 99999"#, 1);
    assert!(
        message(&crowd).contains("100000 threads"),
        "{}",
        message(&crowd)
    );
    let idle = r#"{"schema":"cofferdam.tenants/1","tenants":[{"name":"a","loads":[]}]}"#;
    assert!(message(idle).contains("no threads"));
    let deep: Vec<String> = (0..40)
        .map(|i| format!(r#"{{"name":"g{i}","parent":"g{}"}}"#, i + 1))
        .collect();
    let deep = format!(
        r#"{{"schema":"cofferdam.tenants/1","groups":[{},{{"name":"g40"}}],"tenants":[]}}"#,
        deep.join(",")
    );
    assert!(message(&deep).contains("above it"), "{}", message(&deep));
}

/// Promise 75.
#[test]
fn hosts_without_a_sensible_number_of_cpus_are_refused() {
    let message = |rest: &str| {
        let text = format!("{{\"schema\":\"cofferdam.host/1\",\n{rest}}}");
        host(&text).unwrap_err().to_string()
    };
    let shape = |n: u64| {
        format!(
            r#""shape":{{"nodes":{n},"llcs_per_node":1,"cores_per_llc":{n},"threads_per_core":1}}"#
        )
    };
    assert!(message(&shape(0)).starts_with("line 2: the product"));
    assert!(message(&shape(4_000_000_000)).contains("1 to 1024"));
    assert!(message(r#""cpus":[]"#).contains("give 1 to 1024"));
    let one = r#"{"cpu":0,"core":0,"llc":0,"node":0}"#;
    assert!(message(&format!(r#""cpus":[{one},{one}]"#)).contains("listed twice"));
    let isolated = r#""cpus":[{"cpu":0,"core":0,"llc":0,"node":0,"isolated":true}]"#;
    assert!(message(isolated).contains("isolated"));
    assert!(message(&format!("{},\"cpus\":[{one}]", shape(1))).contains("either"));
    assert!(message(&format!("{},\"tick_hz\":0", shape(1))).contains("CONFIG_HZ"));
    assert!(message(&format!("{},\"cgroup_version\":3", shape(1))).contains("1 or 2"));
    assert!(message(&format!("{},\"colour\":3", shape(1))).contains("unknown field"));
}

#[test]
fn a_host_survives_the_round_trip() {
    let mut one = two();
    one.tick_hz = 1000;
    one.cgroup = crate::CgroupVersion::V1;
    one.topology.cpus[1].isolated = true;
    assert_eq!(host(&host_json(&one)), Ok(one));
}

proptest! {
    /// Promise 75.
    #[test]
    fn any_text_is_read_or_refused_in_one_line(text in "\\PC{0,200}") {
        for error in [host(&text).err(), tenants(&text, &two()).err()]
            .into_iter()
            .flatten()
        {
            prop_assert_eq!(error.to_string().lines().count(), 1);
        }
    }

    /// Promise 75.
    #[test]
    fn a_file_with_bytes_changed_is_read_or_refused(
        at in 0..GOOD.len(),
        with in "[0-9a-z{}\",:.\\[\\]-]{0,4}",
    ) {
        let mut text = GOOD.to_owned();
        if text.is_char_boundary(at) {
            text.replace_range(at..(at + 1).min(text.len()), &with);
            if let Ok(read) = tenants(&text, &two()) {
                prop_assert!(check(&read, &two()).is_ok());
            }
        }
    }
}
