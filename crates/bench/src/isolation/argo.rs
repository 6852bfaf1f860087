//! Experiment as an Argo Workflow. Its steps run one after the other on a machine: two cells at
//! once would disturb each other.

use super::experiment::Experiment;
use serde_json::{Value, json};

/// Recipe of the workflow's container image.
pub const RECIPE: &str = include_str!("argo/Containerfile");

/// Workflow as JSON (which is YAML), for `argo submit FILE`. Each task measures one runtime and
/// resource into a directory of the shared volume. The last task merges the directories and renders
/// the report.
pub fn workflow(experiment: &Experiment, image: &str) -> Value {
    let mut tasks = Vec::new();
    let mut before: Option<String> = None;
    let mut parts = Vec::new();
    for runtime in &experiment.runtimes {
        for resource in &experiment.resources {
            let name = format!("{runtime}-{resource}");
            let mut part = experiment.clone();
            part.runtimes = vec![*runtime];
            part.resources = vec![*resource];
            let mut task = json!({
                "name": name,
                "template": "cell",
                "arguments": { "parameters": [
                    { "name": "experiment", "value": json!(part).to_string() },
                    { "name": "output", "value": format!("/results/{name}") },
                ] },
            });
            if let Some(before) = before.replace(name.clone()) {
                // A failed runtime must not stop the measurement of the others.
                task["depends"] =
                    format!("{before}.Succeeded || {before}.Failed || {before}.Errored").into();
            }
            tasks.push(task);
            parts.push(format!("/results/{name}"));
        }
    }
    if let Some(last) = before {
        tasks.push(json!({
            "name": "report",
            "template": "report",
            "depends": format!("{last}.Succeeded || {last}.Failed || {last}.Errored"),
        }));
    }
    let mounts = json!([
        { "name": "results", "mountPath": "/results" },
        { "name": "cgroup", "mountPath": "/sys/fs/cgroup" },
        { "name": "data", "mountPath": "/var/tmp" },
    ]);
    let host = |path: &str| json!({ "path": path, "type": "Directory" });
    let measure = "set -e; printf %s \"$EXPERIMENT\" > /tmp/experiment.json; exec cofferdam bench \
        isolation --experiment /tmp/experiment.json --output \"$OUTPUT\"";
    let mut report = vec![
        "cofferdam".to_owned(),
        "report".into(),
        "--output".into(),
        "/results/whole".into(),
    ];
    report.extend(parts);
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": { "generateName": "cofferdam-isolation-" },
        "spec": {
            "entrypoint": "matrix",
            // One at a time: the experiment measures the machine, not the cluster.
            "parallelism": 1,
            "volumes": [
                { "name": "cgroup", "hostPath": host("/sys/fs/cgroup") },
                { "name": "data", "hostPath": host("/var/tmp") },
            ],
            "volumeClaimTemplates": [{
                "metadata": { "name": "results" },
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": { "requests": { "storage": "1Gi" } },
                },
            }],
            "templates": [
                { "name": "matrix", "dag": { "failFast": false, "tasks": tasks } },
                {
                    "name": "cell",
                    "inputs": { "parameters": [{ "name": "experiment" }, { "name": "output" }] },
                    // A retry resumes: the directory has the earlier measurements.
                    "retryStrategy": { "limit": "2", "retryPolicy": "OnError" },
                    "container": {
                        "image": image,
                        "command": ["sh", "-c", measure],
                        "env": [
                            { "name": "EXPERIMENT", "value": "{{inputs.parameters.experiment}}" },
                            { "name": "OUTPUT", "value": "{{inputs.parameters.output}}" },
                        ],
                        "securityContext": { "privileged": true },
                        "volumeMounts": mounts,
                    },
                },
                {
                    "name": "report",
                    "container": {
                        "image": image,
                        "command": report,
                        "volumeMounts": [{ "name": "results", "mountPath": "/results" }],
                    },
                },
            ],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolation::data::{Resource, RuntimeKind};
    use std::collections::HashSet;

    /// Checks Argo's rules that its published types cannot express, and the graph itself.
    /// Promise 47.
    #[test]
    fn the_graph_is_whole_and_its_experiments_are_readable() {
        let mut experiment = Experiment::quick();
        experiment.runtimes = vec![RuntimeKind::Process, RuntimeKind::Podman];
        let workflow = workflow(&experiment, "example.org/cofferdam:1");
        let templates = workflow["spec"]["templates"].as_array().unwrap();
        let names: HashSet<&str> = templates
            .iter()
            .map(|t| t["name"].as_str().unwrap())
            .collect();
        assert!(names.contains(workflow["spec"]["entrypoint"].as_str().unwrap()));
        let tasks = templates[0]["dag"]["tasks"].as_array().unwrap();
        assert_eq!(tasks.len(), 2 * 4 + 1);
        let mut earlier = HashSet::new();
        for task in tasks {
            assert!(names.contains(task["template"].as_str().unwrap()));
            let depends = task["depends"].as_str().unwrap_or_default();
            for word in depends.split(" || ").filter(|w| !w.is_empty()) {
                let (name, state) = word.split_once('.').unwrap();
                assert!(earlier.contains(name), "{depends}");
                assert!(["Succeeded", "Failed", "Errored"].contains(&state));
            }
            let name = task["name"].as_str().unwrap();
            let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
            assert!(name.len() <= 128 && name.chars().all(allowed) && earlier.insert(name));
            if let Some(text) = task["arguments"]["parameters"][0]["value"].as_str() {
                let part = Experiment::parse(text, name).unwrap();
                assert_eq!((part.runtimes.len(), part.resources.len()), (1, 1));
                assert_eq!(part.scenarios, experiment.scenarios);
            }
        }
        assert_eq!(Resource::PAPER.len(), 4);
        let volumes: HashSet<&str> = ["results", "cgroup", "data"].into();
        for template in &templates[1..] {
            for mount in template["container"]["volumeMounts"].as_array().unwrap() {
                assert!(volumes.contains(mount["name"].as_str().unwrap()));
            }
        }
        assert!(RECIPE.contains("COPY") && RECIPE.contains("iproute2"));
    }

    /// Definitions of Argo 3.5's schema that our workflow needs.
    const SCHEMA: &str = include_str!("argo/workflow.schema.json");

    /// Collects the mistakes in `value` with their paths. Stricter than the schema: a property that
    /// a definition does not name is a mistake.
    fn mistakes(schema: &Value, rule: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
        if let Some(name) = rule["$ref"].as_str() {
            let name = name.trim_start_matches("#/definitions/");
            match &schema["definitions"][name] {
                Value::Null => found.push(format!("{at}: {name} is not kept")),
                rule => mistakes(schema, rule, value, at, found),
            }
            return;
        }
        let kind = rule["type"].as_str().unwrap_or("object");
        let fits = match kind {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "boolean" => value.is_boolean(),
            other => panic!("{at}: the schema's type {other} is not known here"),
        };
        if !fits {
            found.push(format!("{at}: {value} is no {kind}"));
        }
        for name in rule["required"].as_array().into_iter().flatten() {
            if value.get(name.as_str().unwrap()).is_none() {
                found.push(format!("{at}: {name} is missing"));
            }
        }
        let items = value.as_array().into_iter().flatten().enumerate();
        for (i, item) in items {
            mistakes(schema, &rule["items"], item, &format!("{at}[{i}]"), found);
        }
        for (name, inner) in value.as_object().into_iter().flatten() {
            let at = format!("{at}.{name}");
            match (&rule["properties"][name], &rule["additionalProperties"]) {
                (Value::Null, Value::Null) => found.push(format!("{at}: unknown")),
                (Value::Null, any) => mistakes(schema, any, inner, &at, found),
                (rule, _) => mistakes(schema, rule, inner, &at, found),
            }
        }
    }

    /// Promise 47.
    #[test]
    fn the_workflow_is_one_by_argos_own_schema() {
        let schema: Value = serde_json::from_str(SCHEMA).unwrap();
        let rule = json!({ "$ref": "#/definitions/io.argoproj.workflow.v1alpha1.Workflow" });
        let check = |workflow: &Value| {
            let mut found = Vec::new();
            mistakes(&schema, &rule, workflow, "workflow", &mut found);
            found
        };
        let mut experiment = Experiment::quick();
        experiment.runtimes = RuntimeKind::ALL.to_vec();
        let whole = workflow(&experiment, "example.org/cofferdam:1");
        assert_eq!(check(&whole), [] as [String; 0]);
        // The check finds a typo, a wrong type, and a missing property.
        let mut typo = whole.clone();
        typo["spec"]["templates"][0]["dag"]["tasks"][0]["template_name"] = "x".into();
        assert!(check(&typo)[0].contains("tasks[0].template_name: unknown"));
        let mut kind = whole.clone();
        kind["spec"]["parallelism"] = "1".into();
        assert!(check(&kind)[0].contains("parallelism"));
        let mut missing = whole;
        let container = &mut missing["spec"]["templates"][1]["container"];
        container.as_object_mut().unwrap().remove("image");
        assert!(check(&missing)[0].contains("image"));
    }
}
