//! Bars of text.

use super::super::history::bar;
use super::style::Palette;
use ratatui::text::{Line, Span};

/// Past as one bar for each interval, the newest at the right, on a scale up to `full`.
pub fn past(values: &[f64], full: f64, width: usize, palette: Palette) -> Vec<Span<'static>> {
    let mut spans = vec![Span::from(" ".repeat(width.saturating_sub(values.len())))];
    // One span for neighbouring values of one sign: most of a past has one.
    for run in values.chunk_by(|a, b| (*a < 0.0) == (*b < 0.0)) {
        let style = if run[0] < 0.0 {
            palette.paid()
        } else {
            palette.owes()
        };
        let text: String = run.iter().map(|value| bar(*value, full)).collect();
        spans.push(Span::styled(text, style));
    }
    spans
}

/// Parts of a whole, each with its own glyph, in `width` cells; the rest is dots.
pub fn parts(parts: &[(f64, char)], whole: f64, width: usize) -> String {
    let mut text = String::new();
    let (mut sum, mut drawn) = (0.0, 0);
    for (part, glyph) in parts {
        sum += part.max(0.0);
        let until = ((sum / whole.max(f64::MIN_POSITIVE)) * width as f64).round() as usize;
        let until = until.clamp(drawn, width);
        text.extend(std::iter::repeat_n(*glyph, until - drawn));
        drawn = until;
    }
    text.extend(std::iter::repeat_n('·', width - drawn));
    text
}

/// Line of a label and its content.
pub fn labelled(label: &str, rest: impl IntoIterator<Item = Span<'static>>) -> Line<'static> {
    let mut spans = vec![Span::from(format!("{label:<LABEL$}"))];
    spans.extend(rest);
    Line::from(spans)
}

/// Cells of a label.
pub const LABEL: usize = 11;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fill_their_width() {
        assert_eq!(parts(&[(50.0, '█'), (25.0, '▓')], 100.0, 8), "████▓▓··");
        assert_eq!(parts(&[(500.0, '█'), (25.0, '▓')], 100.0, 4), "████");
        assert_eq!(parts(&[(f64::NAN, '█'), (-3.0, '▓')], 100.0, 4), "····");
        assert_eq!(parts(&[(1.0, '█')], 0.0, 3), "███");
        assert_eq!(parts(&[], 100.0, 0), "");
    }
}
