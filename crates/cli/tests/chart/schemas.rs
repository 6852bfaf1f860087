//! JSON Schemas for kubeconform, converted from the OpenAPI description in Kubernetes' own module:
//! no schema comes from the network.

use super::parts::swagger;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

/// Kinds that the chart may render, each of which gets a schema.
const KINDS: [&str; 14] = [
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "DaemonSet",
    "Deployment",
    "Namespace",
    "NetworkPolicy",
    "Pod",
    "Role",
    "RoleBinding",
    "Secret",
    "ServiceAccount",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// Writes `KIND-VERSION.json` for each kind into `folder`.
pub fn write(folder: &Path) {
    let text = fs::read_to_string(swagger()).unwrap();
    let swagger: Value = serde_json::from_str(&text).unwrap();
    let mut definitions = swagger["definitions"].as_object().unwrap().clone();
    definitions.values_mut().for_each(strict);
    // Numbers are valid quantities; ports and shares are numbers or names.
    let either = json!({"type": ["string", "number"]});
    for name in [
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    ] {
        assert!(
            definitions
                .insert(name.to_owned(), either.clone())
                .is_some(),
            "{name}"
        );
    }
    let mut written = 0;
    for (name, definition) in &definitions {
        let kinds = definition["x-kubernetes-group-version-kind"].as_array();
        let Some([kind]) = kinds.map(Vec::as_slice) else {
            continue;
        };
        let (kind, version) = (
            kind["kind"].as_str().unwrap(),
            kind["version"].as_str().unwrap(),
        );
        if !KINDS.contains(&kind) || version != "v1" {
            continue;
        }
        let mut needed = Map::new();
        collect(&definitions, name, &mut needed);
        let schema = json!({"$ref": format!("#/definitions/{name}"), "definitions": needed});
        let file = folder.join(format!("{}-{version}.json", kind.to_lowercase()));
        fs::write(file, schema.to_string()).unwrap();
        written += 1;
    }
    assert_eq!(written, KINDS.len());
}

/// Makes properties errors that a definition does not name.
fn strict(definition: &mut Value) {
    if let Some(map) = definition.as_object_mut()
        && map.contains_key("properties")
    {
        map.insert("additionalProperties".to_owned(), json!(false));
    }
}

/// Collects the definition `name` and all that it refers to.
fn collect(all: &Map<String, Value>, name: &str, found: &mut Map<String, Value>) {
    if found.contains_key(name) {
        return;
    }
    let definition = &all[name];
    found.insert(name.to_owned(), definition.clone());
    let mut open = vec![definition];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(reference)) = map.get("$ref") {
                    collect(all, reference.trim_start_matches("#/definitions/"), found);
                }
                open.extend(map.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
}
