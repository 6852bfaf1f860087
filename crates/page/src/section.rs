//! Parts of pages: sections with a heading and a lead, and figures.

use maud::{Markup, PreEscaped, html};

/// Section with a heading and, unless it is empty, a line that explains how to read it.
pub fn section(title: &str, lead: &str, inside: Markup) -> Markup {
    html! {
        section id=(anchor(title)) {
            h2 { (title) }
            @if !lead.is_empty() { p.lead { (lead) } }
            (inside)
        }
    }
}

/// Chart with its title. `svg` comes from [`crate::chart::Chart::svg`], which escapes.
pub fn figure(title: &str, svg: &str) -> Markup {
    html! { figure { figcaption { (title) } (PreEscaped(svg)) } }
}

/// Anchor of a section: `The largest transfers` is at `#the-largest-transfers`.
pub(crate) fn anchor(title: &str) -> String {
    let letter = |c: char| match c.is_alphanumeric() {
        true => c.to_ascii_lowercase(),
        false => '-',
    };
    let text: String = title.chars().map(letter).collect();
    let words: Vec<&str> = text.split('-').filter(|word| !word.is_empty()).collect();
    words.join("-")
}

/// Links to the sections of `page`, in their order; empty if there are few.
pub(crate) fn contents(page: &str) -> Markup {
    let begin = "<section id=\"";
    let sections: Vec<(&str, &str)> = page
        .match_indices(begin)
        .filter_map(|(at, _)| {
            let (id, rest) = page[at + begin.len()..].split_once("\"><h2>")?;
            let (title, _) = rest.split_once("</h2>")?;
            // A match across sections would name the heading of another one.
            (!id.contains('<') && !title.contains('<')).then_some((id, title))
        })
        .collect();
    if sections.len() < FEWEST {
        return html! {};
    }
    html! {
        nav aria-label="Contents" {
            @for (id, title) in &sections {
                        a href={ "#" (PreEscaped(id)) } { (PreEscaped(title)) }
                    }
        }
    }
}

/// Number of sections from which a page has a table of contents.
const FEWEST: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_name_every_section_as_it_is_escaped() {
        let titles = ["A & B", "Goals", "p99 <µs>", "Words"];
        let page: String = titles
            .iter()
            .map(|t| section(t, "", html! { p { "x" } }).into_string())
            .collect();
        assert_eq!(
            contents(&page).into_string(),
            "<nav aria-label=\"Contents\"><a href=\"#a-b\">A &amp; B</a>\
             <a href=\"#goals\">Goals</a><a href=\"#p99-µs\">p99 &lt;µs&gt;</a>\
             <a href=\"#words\">Words</a></nav>"
        );
        assert_eq!(contents("<section><h2>x</h2></section>").into_string(), "");
    }
}
