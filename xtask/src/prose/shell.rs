//! Comments of shell and Python: lines that begin with `#`.

use super::passage::{Passage, Place, without_code};

/// Comments on lines of their own, neighbours as one.
pub fn passages(text: &str) -> Vec<Passage> {
    let mut passages: Vec<Passage> = Vec::new();
    let mut next = 0;
    for (number, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix('#') else {
            continue;
        };
        if comment.starts_with('!') {
            continue;
        }
        match passages.last_mut().filter(|_| next == number) {
            Some(passage) => {
                passage.text.push('\n');
                passage.text.push_str(comment);
            }
            None => passages.push(Passage {
                line: number + 1,
                place: Place::Comment,
                text: comment.to_owned(),
            }),
        }
        next = number + 1;
    }
    for passage in &mut passages {
        passage.text = without_code(&passage.text);
    }
    passages
}
