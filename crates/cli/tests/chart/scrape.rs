//! Tests of the chart's PodMonitor and rules in a real Prometheus: with the scrape configuration
//! that the Prometheus operator derives from the PodMonitor, alerts name the tenants.

use super::{documents, kind, parts};
use cofferdam_lab::fixtures::time_limit;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit: Prometheus discovers its targets 5 s after its start, and needs some scrapes for a
/// rate.
const PATIENCE: Duration = Duration::from_secs(120);
/// Alert whose description names the offender.
const PAYS: &str = "CofferdamContainerPaysForOthers";
const TOKEN: &str = "token-of-the-gateways";

/// Labels of the agent's pod, as Kubernetes' service discovery describes it.
fn discovered(monitor: &Value) -> Value {
    let mut labels = json!({
        "__meta_kubernetes_namespace": "cofferdam",
        "__meta_kubernetes_pod_name": "cofferdam-x7k2p",
        "__meta_kubernetes_pod_node_name": "node-1",
        "__meta_kubernetes_pod_phase": "Running",
        "__meta_kubernetes_pod_container_name": "gateway",
        "__meta_kubernetes_pod_container_port_name": "gateway",
    });
    for (label, value) in monitor["spec"]["selector"]["matchLabels"]
        .as_object()
        .unwrap()
    {
        let label = sanitized(label);
        labels[format!("__meta_kubernetes_pod_label_{label}")] = value.clone();
        labels[format!("__meta_kubernetes_pod_labelpresent_{label}")] = json!("true");
    }
    labels
}

/// Name of a label as Prometheus accepts it.
fn sanitized(label: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    label.chars().map(fits).collect()
}

/// Scrape job that the operator derives from `monitor`, with `target` in place of its discovery of
/// pods. `overrides` is `overrideHonorLabels` of the Prometheus object.
fn scrape_job(monitor: &Value, target: SocketAddr, overrides: bool) -> Value {
    let endpoint = &monitor["spec"]["podMetricsEndpoints"][0];
    let mut relabelings = vec![
        json!({"source_labels": ["job"], "target_label": "__tmp_prometheus_job_name"}),
        json!({
            "source_labels": ["__meta_kubernetes_pod_phase"],
            "regex": "(Failed|Succeeded)",
            "action": "drop",
        }),
    ];
    for (label, value) in monitor["spec"]["selector"]["matchLabels"]
        .as_object()
        .unwrap()
    {
        let label = sanitized(label);
        relabelings.push(json!({
            "action": "keep",
            "source_labels": [
                format!("__meta_kubernetes_pod_label_{label}"),
                format!("__meta_kubernetes_pod_labelpresent_{label}"),
            ],
            "regex": format!("({});true", value.as_str().unwrap()),
        }));
    }
    let job_label = sanitized(monitor["spec"]["jobLabel"].as_str().unwrap());
    relabelings.extend([
        json!({
            "action": "keep",
            "source_labels": ["__meta_kubernetes_pod_container_port_name"],
            "regex": endpoint["port"],
        }),
        json!({"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"}),
        json!({
            "source_labels": ["__meta_kubernetes_pod_container_name"],
            "target_label": "container",
        }),
        json!({"source_labels": ["__meta_kubernetes_pod_name"], "target_label": "pod"}),
        json!({"target_label": "job", "replacement": "cofferdam/cofferdam"}),
        json!({
            "source_labels": [format!("__meta_kubernetes_pod_label_{job_label}")],
            "target_label": "job", "regex": "(.+)", "replacement": "${1}",
        }),
        json!({"target_label": "endpoint", "replacement": endpoint["port"]}),
    ]);
    for relabeling in endpoint["relabelings"].as_array().unwrap() {
        let mut own = json!({});
        for (key, value) in relabeling.as_object().unwrap() {
            let key = match key.as_str() {
                "sourceLabels" => "source_labels",
                "targetLabel" => "target_label",
                key => key,
            };
            own[key] = value.clone();
        }
        relabelings.push(own);
    }
    json!({
        "job_name": "podMonitor/cofferdam/cofferdam/0",
        "honor_labels": endpoint["honorLabels"] == true && !overrides,
        "scrape_interval": "1s",
        "metrics_path": endpoint["path"],
        "authorization": {"type": endpoint["authorization"]["type"], "credentials": TOKEN},
        "static_configs": [{"targets": [target.to_string()], "labels": discovered(monitor)}],
        "relabel_configs": relabelings,
    })
}

/// Metrics of a node where shop/db-0 and a container outside of pods pay for shop/web-0.
fn metrics(after: Duration) -> String {
    let seconds = after.as_secs_f64();
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, series: &[(&str, f64)]| {
        text += &format!("# TYPE {name} {kind}\n");
        let total = if kind == "counter" { "_total" } else { "" };
        for (labels, value) in series {
            text += &format!("{name}{total}{{{labels}}} {value}\n");
        }
    };
    let [db, web, cron] = [
        r#"container="db",pod="shop/db-0",cgroup="/kubepods/db""#,
        r#"container="web",pod="shop/web-0",cgroup="/kubepods/web""#,
        r#"container="cron",pod="",cgroup="/system.slice/cron""#,
    ];
    let with = |who: &str, more: &str| format!("{who},{more}");
    let charged = [(db, 0.3), (web, 0.0), (cron, 0.2)].map(|(who, rate)| {
        let labels = with(who, r#"kind="network""#);
        (labels, rate * seconds)
    });
    let caused = [(db, 0.0), (web, 0.5), (cron, 0.0)].map(|(who, rate)| {
        let labels = with(who, r#"direction="rx""#);
        (labels, rate * seconds)
    });
    let series = |all: &[(String, f64)]| -> Vec<(String, f64)> { all.to_vec() };
    for (name, all) in [
        ("cofferdam_container_charged_seconds", series(&charged)),
        ("cofferdam_container_caused_seconds", series(&caused)),
    ] {
        let all: Vec<(&str, f64)> = all.iter().map(|(l, v)| (l.as_str(), *v)).collect();
        family(name, "counter", &all);
    }
    let degraded = with(db, r#"name="cpuset_refused""#);
    family("cofferdam_container_degraded", "gauge", &[(&degraded, 1.0)]);
    family(
        "cofferdam_agent_degraded",
        "gauge",
        &[(r#"name="no_napi""#, 1.0)],
    );
    text + "# EOF\n"
}

/// Serves the metrics to clients with the token, as long as the process runs.
fn gateway() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let begin = Instant::now();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let length = stream.read(&mut head).unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..length]).into_owned();
            let allowed = head.contains(&format!("Authorization: Bearer {TOKEN}"));
            let (status, body) = match allowed {
                true => ("200 OK", metrics(begin.elapsed())),
                false => ("403 Forbidden", String::new()),
            };
            let _gone = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Type: application/openmetrics-text; version=1.0.0\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    address
}

/// Running Prometheus, killed when dropped.
struct Prometheus {
    process: Child,
    address: SocketAddr,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _status = self.process.wait();
    }
}

impl Prometheus {
    /// Starts Prometheus in `folder` with one job and the groups of rules.
    fn start(folder: &Path, job: &Value, rules: &Value) -> Prometheus {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let configuration = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [folder.join("rules.yml")],
            "scrape_configs": [job],
        });
        // JSON is valid YAML.
        fs::write(folder.join("rules.yml"), rules.to_string()).unwrap();
        fs::write(folder.join("prometheus.yml"), configuration.to_string()).unwrap();
        let log = fs::File::create(folder.join("log")).unwrap();
        let process = Command::new(parts::from_setup("prometheus"))
            .arg("--config.file")
            .arg(folder.join("prometheus.yml"))
            .arg("--storage.tsdb.path")
            .arg(folder.join("data"))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|e| panic!("prometheus: {e}; see scripts/setup"));
        Prometheus { process, address }
    }

    /// Alerts that fire; none while Prometheus does not answer yet.
    fn alerts(&self) -> Vec<Value> {
        let Ok(mut stream) = TcpStream::connect(self.address) else {
            return Vec::new();
        };
        let mut answer = String::new();
        let request = "GET /api/v1/alerts HTTP/1.0\r\n\r\n";
        if stream.write_all(request.as_bytes()).is_err()
            || stream.read_to_string(&mut answer).is_err()
        {
            return Vec::new();
        }
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let document: Value = serde_json::from_str(body).unwrap_or_default();
        let alerts = document["data"]["alerts"].as_array().cloned();
        alerts.unwrap_or_default()
    }
}

/// Alerts of the chart once `wanted` of them fire, in a Prometheus whose object has `overrides` as
/// its `overrideHonorLabels`.
fn fired(overrides: bool, wanted: usize) -> Vec<Value> {
    let documents = documents(&parts::rendered(&["all"]));
    let monitor = kind(&documents, "PodMonitor")[0];
    let rules = &kind(&documents, "PrometheusRule")[0]["spec"];
    // Seconds in place of minutes, otherwise the test would take ten minutes.
    let rules = rules.to_string().replace("[5m]", "[5s]");
    let rules = rules.replace(r#""for":"5m""#, r#""for":"0s""#);
    let folder = tempfile::tempdir().unwrap();
    let job = scrape_job(monitor, gateway(), overrides);
    let rules = serde_json::from_str(&rules).unwrap();
    let prometheus = Prometheus::start(folder.path(), &job, &rules);
    let begin = Instant::now();
    loop {
        let alerts = prometheus.alerts();
        let log = || fs::read_to_string(folder.path().join("log"));
        // Each evaluation looks the offender up; it is known a second later.
        let pays = |alert: &&Value| alert["labels"]["alertname"] == PAYS;
        let described = |alert: &Value| {
            let words = alert["annotations"]["description"].as_str();
            words.is_some_and(|words| words.contains("caused by"))
        };
        if alerts.len() >= wanted && alerts.iter().filter(pays).all(described) {
            return alerts;
        }
        assert!(begin.elapsed() < PATIENCE, "{alerts:?}: {:?}", log());
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Promise 23.
#[test]
fn alerts_in_prometheus_name_the_tenant_and_not_the_gateway() {
    time_limit(2 * PATIENCE + Duration::from_secs(60), || {
        for overrides in [false, true] {
            let alerts = fired(overrides, 4);
            let mut found: Vec<(String, Value)> = alerts
                .iter()
                .map(|alert| {
                    let mut labels = alert["labels"].clone();
                    let name = labels["alertname"].as_str().unwrap().to_owned();
                    for common in ["alertname", "severity", "job", "namespace", "endpoint"] {
                        labels.as_object_mut().unwrap().remove(common);
                    }
                    (name, labels)
                })
                .collect();
            found.sort_by_key(|(name, labels)| (name.clone(), labels.to_string()));
            let node = "node-1";
            let expected = [
                (
                    "CofferdamAgentDegraded",
                    json!({"instance": node, "name": "no_napi"}),
                ),
                (
                    PAYS,
                    json!({
                        "instance": node, "container": "db", "pod": "shop/db-0",
                        "cgroup": "/kubepods/db",
                    }),
                ),
                (
                    PAYS,
                    json!({"instance": node, "container": "cron", "cgroup": "/system.slice/cron"}),
                ),
                (
                    "CofferdamRuleNotInForce",
                    json!({
                        "instance": node, "container": "db", "pod": "shop/db-0",
                        "cgroup": "/kubepods/db", "name": "cpuset_refused",
                    }),
                ),
            ];
            let expected = expected.map(|(name, labels)| (name.to_owned(), labels));
            assert_eq!(found, expected, "overrideHonorLabels: {overrides}");
            for alert in alerts.iter().filter(|a| a["labels"]["alertname"] == PAYS) {
                let words = alert["annotations"]["description"].as_str().unwrap();
                assert!(words.contains("caused by web "), "{words}");
            }
        }
    });
}

/// Checks the documented scrape configurations as Prometheus reads them.
/// Promise 23.
#[test]
fn documented_scrape_jobs_are_valid_and_keep_the_metrics_labels() {
    let mut jobs = 0;
    for page in [
        "reference/metrics.md",
        "kubernetes/install.md",
        "guide/alerts.md",
    ] {
        let text = fs::read_to_string(parts::root().join("docs/src").join(page)).unwrap();
        let blocks = text.split("```yaml\n").skip(1);
        let blocks = blocks.filter_map(|rest| rest.split("```").next());
        for block in blocks.filter(|block| block.contains("scrape_configs:")) {
            let mut document: Value = serde_saphyr::from_str(block).unwrap();
            for job in document["scrape_configs"].as_array_mut().unwrap() {
                assert_eq!(job["honor_labels"], true, "{page}: {job}");
                // Debian's Prometheus is built without this discovery.
                job.as_object_mut().unwrap().remove("kubernetes_sd_configs");
                jobs += 1;
            }
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("prometheus.yml");
            fs::write(&file, document.to_string()).unwrap();
            let mut promtool = Command::new(parts::from_setup("promtool"));
            let checked = promtool.args(["check", "config", "--syntax-only"]);
            parts::run(checked.arg(&file));
        }
    }
    assert!(jobs >= 2, "{jobs}");
}
