//! Context of the kubeconfig, as kubectl merges it from files and options.

use super::{Cluster, KubectlError, kubectl};
use serde::Deserialize;
use std::process::Stdio;

/// Namespace of a context that names none.
const DEFAULT_NAMESPACE: &str = "default";

/// Fields of the context in force that are needed here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// Path of the API server's URL without a `/` at its end, such as `/k8s/clusters/c-m-abc` of
    /// Rancher; empty for most.
    pub server_path: String,
    namespace: Option<String>,
}

/// Output of `kubectl config view`. Only the fields at these places are read: extensions of other
/// tools may have keys of the same names.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Kubeconfig {
    current_context: String,
    contexts: Vec<KubeconfigEntry>,
    clusters: Vec<KubeconfigEntry>,
}

/// Entry of the list of contexts or of clusters, with the fields of that kind.
#[derive(Default, Deserialize)]
#[serde(default)]
struct KubeconfigEntry {
    name: String,
    context: ContextFields,
    cluster: ClusterFields,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContextFields {
    cluster: String,
    namespace: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClusterFields {
    server: String,
}

impl Context {
    /// Asks kubectl. If no context is in force, the result is empty, and the proxy reports the
    /// reason.
    ///
    /// # Errors
    /// [`KubectlError::NoKubectl`].
    pub fn read(cluster: &Cluster) -> Result<Context, KubectlError> {
        let out = kubectl(cluster)
            .args(["config", "view", "--minify", "--output=json"])
            .stdin(Stdio::null())
            .output()
            .map_err(KubectlError::NoKubectl)?;
        let text = String::from_utf8_lossy(&out.stdout);
        Ok(match out.status.success() {
            true => Context::of_view(&text).unwrap_or_default(),
            false => Context::default(),
        })
    }

    /// Parses the output of `kubectl config view --minify --output=json`. Wrappers of kubectl may
    /// print lines before it.
    fn of_view(text: &str) -> Option<Context> {
        let mut documents = text.match_indices('{').map(|(at, _)| at);
        let begin = documents.find(|at| *at == 0 || text.as_bytes().get(at - 1) == Some(&b'\n'))?;
        let mut all = serde_json::Deserializer::from_str(text.get(begin..)?).into_iter();
        let config: Kubeconfig = all.next()?.ok()?;
        let named =
            |all: Vec<KubeconfigEntry>, name: &str| all.into_iter().find(|one| one.name == name);
        let context = named(config.contexts, &config.current_context)?.context;
        let server = named(config.clusters, &context.cluster).unwrap_or_default();
        Some(Context {
            server_path: path_of(&server.cluster.server),
            namespace: context.namespace.filter(|name| !name.is_empty()),
        })
    }

    /// Namespace that kubectl would use.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE)
    }
}

/// Path of a URL without a `/` at its end; empty if it cannot be part of a request.
fn path_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = rest.find('/').and_then(|at| rest.get(at..));
    let path = path.and_then(|path| path.split(['?', '#']).next());
    let path = path.unwrap_or_default().trim_end_matches('/');
    match path.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => path.to_owned(),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// View whose context has these fields.
    fn view(server: &str, fields: &str) -> String {
        format!(
            r#"{{"kind": "Config", "current-context": "c",
                "clusters": [{{"name": "a", "cluster": {{"server": "{server}"}}}}],
                "contexts": [{{"name": "c", "context":
                    {{"cluster": "a", "user": "u" {fields}}}}}]}}"#
        )
    }

    fn read(text: &str) -> (String, String) {
        let context = Context::of_view(text).unwrap_or_default();
        (context.server_path.clone(), context.namespace().to_owned())
    }

    /// Promise 25.
    #[test]
    fn the_namespace_comes_from_the_context_and_no_extension() {
        let extension = r#", "extensions": [{"name": "x", "extension":
            {"namespace": "other", "context": {"namespace": "o"}}}]"#;
        let own = r#", "namespace": "team-x""#;
        for (fields, namespace) in [
            ("", "default"),
            (extension, "default"),
            (own, "team-x"),
            (&format!("{own}{extension}"), "team-x"),
            (&format!("{extension}{own}"), "team-x"),
            (r#", "namespace": """#, "default"),
            (r#", "namespace": "a.b c\u00e9""#, "a.b cé"),
        ] {
            assert_eq!(
                read(&view("https://h:6443", fields)).1,
                namespace,
                "{fields}"
            );
        }
    }

    /// Promise 25.
    #[test]
    fn the_path_comes_from_the_server_of_the_context() {
        for (server, path) in [
            ("https://h:6443", ""),
            ("https://h:6443/", ""),
            (
                "https://[fd00::1]:6443/k8s/clusters/c-m-abc",
                "/k8s/clusters/c-m-abc",
            ),
            (
                "https://rancher/k8s/clusters/c-m-abc/?x#y",
                "/k8s/clusters/c-m-abc",
            ),
            ("h/with a blank", ""),
            ("h/a\r\nX-Header: b", ""),
        ] {
            assert_eq!(path_of(server), path, "{server}");
        }
        assert_eq!(read(&view("https://h/p", "")).0, "/p");
    }

    /// Promise 25.
    #[test]
    fn a_notice_before_the_view_is_skipped() {
        let notice = format!(
            "A new {{version}} of kubectl is there\n{}\nbye",
            view("https://h/p", "")
        );
        assert_eq!(read(&notice), ("/p".to_owned(), "default".to_owned()));
        for text in ["", "{", "{}", "[]", "a { b", "{\"contexts\": 3}"] {
            assert_eq!(read(text), (String::new(), "default".to_owned()), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,200}") {
            let _ = Context::of_view(&text);
            let _ = path_of(&text);
        }
    }
}
