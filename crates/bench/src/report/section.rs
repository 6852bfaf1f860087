//! Parts of sections: a heading with its lead, figures, cells with an interval.

pub use cofferdam_page::section::{figure, section};

use super::format::{instead, number};
use crate::data::Estimate;
use maud::{Markup, html};

/// Section of the conditions that could not be measured, with the reasons; `None` if there are
/// none.
pub fn not_measured<'a>(
    failed: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> Option<Markup> {
    let mut failed = failed.into_iter().peekable();
    failed.peek()?;
    let list = html! { ul { @for (what, why) in failed { li { (what) ": " (why) } } } };
    Some(section("Not measured", "", list))
}

/// Median, and below it its interval or the text in its place; a dash without a figure.
pub fn spread(value: Option<&Estimate>) -> Markup {
    spread_as(value, number)
}

/// Like [`spread`], with every number formatted by `show`.
pub fn spread_as(value: Option<&Estimate>, show: fn(f64) -> String) -> Markup {
    let Some(e) = value else {
        return html! { "–" };
    };
    let below = match e.interval() {
        Some(i) => format!("[{}, {}]", show(i.low()), show(i.high())),
        None => instead(e),
    };
    html! { (show(e.median)) small { (below) } }
}
