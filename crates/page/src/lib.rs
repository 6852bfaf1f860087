//! Building blocks of reports: one HTML file with its style and its charts inside, which runs
//! nothing and loads nothing.
//!
//! All foreign text reaches a page through `maud`, which escapes it, or through the charts' SVG
//! writer, which does too.
#![forbid(unsafe_code)]

pub mod chart;
pub mod format;
pub mod plot;
pub mod section;

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Style sheet of every page.
pub const STYLE: &str = include_str!("style.css");

/// Reason why a chart could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("a chart could not be drawn: {0}: the data is kept; please report this")]
pub struct DrawError(String);

/// Builds a document: its title, its header, the table of contents, and the sections.
pub fn document(title: &str, header: Markup, main: Markup) -> String {
    let contents = section::contents(&main.0);
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                // A report opened from anywhere must not load or run anything.
                meta http-equiv="Content-Security-Policy"
                    content="default-src 'none'; style-src 'unsafe-inline'";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { (header) }
                (contents)
                main { (main) }
            }
        }
    };
    markup.into_string()
}
