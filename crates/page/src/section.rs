//! What pages are made of: sections with a heading and its lead, figures.

use maud::{Markup, PreEscaped, html};

/// A section with a heading and, where there is one, a line that says how to read it.
pub fn section(title: &str, lead: &str, inside: Markup) -> Markup {
    html! {
        section {
            h2 { (title) }
            @if !lead.is_empty() { p.lead { (lead) } }
            (inside)
        }
    }
}

/// A chart with its title. `svg` comes from [`crate::chart::Chart::svg`], which escapes.
pub fn figure(title: &str, svg: &str) -> Markup {
    html! { figure { figcaption { (title) } (PreEscaped(svg)) } }
}
