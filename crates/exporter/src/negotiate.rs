//! Text formats of metrics, and the choice of the one that a scraper prefers (RFC 9110, section
//! 12.5.1).

use std::fmt::Write;

/// Text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' text format 0.0.4.
    Text,
}

/// Format as `Accept` names it: media type, and the versions that it fulfils.
type Offer = (&'static str, &'static str, &'static [&'static str]);

const OPEN_METRICS: Offer = ("application", "openmetrics-text", &["1.0.0", "0.0.1"]);
const TEXT: Offer = ("text", "plain", &["0.0.4"]);

impl Exposition {
    /// Value of `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Exposition::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Exposition::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Format for a request whose `Accept` headers are `accept`. OpenMetrics unless the text format
    /// is preferred, even if neither is acceptable: a scraper without the header gets it.
    pub fn preferred<'a>(accept: impl Iterator<Item = &'a [u8]>) -> Exposition {
        let accept: Vec<&str> = accept.filter_map(|v| std::str::from_utf8(v).ok()).collect();
        let ranges = || accept.iter().flat_map(|list| list.split(','));
        let text = quality(ranges(), &TEXT);
        match text > quality(ranges(), &OPEN_METRICS) {
            true => Exposition::Text,
            false => Exposition::OpenMetrics,
        }
    }
}

/// Quality of `offer` in thousandths: that of the most specific media range that includes it.
fn quality<'a>(ranges: impl Iterator<Item = &'a str>, offer: &Offer) -> u32 {
    let fitting = ranges.filter_map(|range| specificity_and_quality(range, offer));
    fitting.max().map_or(0, |(_, quality)| quality)
}

/// Specificity of `range` for `offer`, and its quality. `None` if the range does not include it.
fn specificity_and_quality(range: &str, (kind, subtype, versions): &Offer) -> Option<(u8, u32)> {
    let mut parts = range.split(';').map(str::trim);
    let (first, second) = parts.next()?.split_once('/')?;
    let is_it = |word: &str, of: &str| word.eq_ignore_ascii_case(of);
    let mut specificity = match (first, second) {
        ("*", "*") => 0,
        (first, "*") if is_it(first, kind) => 1,
        (first, second) if is_it(first, kind) && is_it(second, subtype) => 2,
        _ => return None,
    };
    let mut quality = 1000;
    for (name, value) in parts.filter_map(|parameter| parameter.split_once('=')) {
        let value = value.trim().trim_matches('"');
        match name.trim().to_ascii_lowercase().as_str() {
            "q" => {
                let number: f32 = value.parse().ok().filter(|q| (0.0..=1.0).contains(q))?;
                quality = (number * 1000.0) as u32;
            }
            "version" if !versions.contains(&value) => return None,
            "version" => specificity = 3,
            // Other parameters do not matter, such as the character set.
            _ => {}
        }
    }
    Some((specificity, quality))
}

/// Converts OpenMetrics to Prometheus' text format: counters get their `_total`, units and the end
/// marker are dropped.
pub(crate) fn as_text(open_metrics: &str) -> String {
    let mut out = String::with_capacity(open_metrics.len());
    let mut help: Option<(&str, &str)> = None;
    for line in open_metrics.lines() {
        let mut words = line.splitn(4, ' ');
        let head = (words.next(), words.next(), words.next(), words.next());
        match head {
            (Some("#"), Some("HELP"), Some(name), text) => {
                help = Some((name, text.unwrap_or_default()));
            }
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", kind),
                    "unknown" => ("", "untyped"),
                    _ => ("", kind),
                };
                if let Some((_, text)) = help.take().filter(|(helped, _)| *helped == name) {
                    let text = text.replace("\\\"", "\"");
                    let _ = writeln!(out, "# HELP {name}{suffix} {text}");
                }
                let _ = writeln!(out, "# TYPE {name}{suffix} {kind}");
            }
            (Some("#"), ..) => {}
            _ => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::Exposition::{OpenMetrics, Text};
    use super::*;

    fn preferred(accept: &[&str]) -> Exposition {
        Exposition::preferred(accept.iter().map(|v| v.as_bytes()))
    }

    /// Promise 22.
    #[test]
    fn a_scraper_gets_the_format_that_it_prefers() {
        for (accept, format) in [
            ("", OpenMetrics),
            ("*/*", OpenMetrics),
            ("application/json", OpenMetrics),
            ("text/plain", Text),
            ("TEXT/Plain;Version=0.0.4;Q=0.3", Text),
            ("text/*, application/*;q=0.9", Text),
            ("text/plain, */*", OpenMetrics),
            ("text/plain, */*;q=0.1", Text),
            ("application/openmetrics-text;q=0, */*", Text),
            ("application/openmetrics-text;q=0.4,text/plain;q=0.5", Text),
            (
                "application/openmetrics-text;q=0.5,text/plain;q=0.5",
                OpenMetrics,
            ),
            (
                "text/plain;version=9, application/openmetrics-text;q=0.1",
                OpenMetrics,
            ),
            (
                "text/plain;q=2, application/openmetrics-text;q=0.1",
                OpenMetrics,
            ),
            (
                "text/plain;q=nan, application/openmetrics-text;q=0.1",
                OpenMetrics,
            ),
            // Prometheus 2.42, 3.0, and 3.0 for the text format alone.
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;\
                 q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                OpenMetrics,
            ),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/\
                 openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;\
                 q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
                OpenMetrics,
            ),
            (
                "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.3",
                Text,
            ),
        ] {
            assert_eq!(preferred(&[accept]), format, "{accept}");
        }
        assert_eq!(preferred(&[]), OpenMetrics);
        // The header may come in parts.
        assert_eq!(
            preferred(&["text/plain", "application/openmetrics-text;q=0.5"]),
            Text
        );
    }

    /// Promise 22.
    #[test]
    fn the_text_format_has_other_names_of_counters() {
        let open_metrics = "# HELP a_seconds Of \\\"x\\\".\n# TYPE a_seconds counter\n\
             # UNIT a_seconds seconds\n\
             a_seconds_total{l=\"# TYPE b gauge\"} 1\n# HELP b B.\n# TYPE b gauge\nb 2\n# EOF\n";
        let text = "# HELP a_seconds_total Of \"x\".\n# TYPE a_seconds_total counter\n\
             a_seconds_total{l=\"# TYPE b gauge\"} 1\n# HELP b B.\n# TYPE b gauge\nb 2\n";
        assert_eq!(as_text(open_metrics), text);
    }

    proptest::proptest! {
        #[test]
        fn no_header_and_no_text_panics(
            bytes in proptest::collection::vec(0_u8.., 0..80),
            text in ".{0,200}",
        ) {
            let _ = Exposition::preferred(std::iter::once(&bytes[..]));
            let _ = as_text(&text);
        }
    }
}
