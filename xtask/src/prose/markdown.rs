//! Paragraphs, headings, items and cells of Markdown, without code and quotations.

use super::passage::{Passage, Place};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Passages of a document.
pub fn passages(text: &str) -> Vec<Passage> {
    let mut passages = Vec::new();
    let mut open: Option<Passage> = None;
    // Code blocks and quotations that are open.
    let mut foreign = 0_u32;
    let parser = Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter();
    for (event, range) in parser {
        let line = text.get(..range.start).unwrap_or_default();
        let line = line.matches('\n').count() + 1;
        match event {
            Event::Start(Tag::CodeBlock(_) | Tag::BlockQuote(_)) => foreign += 1,
            Event::End(TagEnd::CodeBlock | TagEnd::BlockQuote(_)) => foreign -= 1,
            Event::Start(Tag::Paragraph | Tag::Heading { .. } | Tag::Item | Tag::TableCell) => {
                passages.extend(open.take());
                open = Some(Passage {
                    line,
                    place: Place::Document,
                    text: String::new(),
                });
            }
            Event::End(
                TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::Item | TagEnd::TableCell,
            ) => passages.extend(open.take()),
            Event::Text(words) if foreign == 0 => push(&mut open, &words),
            Event::Code(_) if foreign == 0 => push(&mut open, "_"),
            Event::SoftBreak | Event::HardBreak => push(&mut open, "\n"),
            _ => {}
        }
    }
    passages.extend(open);
    passages.retain(|passage| !passage.text.trim().is_empty());
    passages
}

fn push(open: &mut Option<Passage>, words: &str) {
    if let Some(passage) = open {
        passage.text.push_str(words);
    }
}
