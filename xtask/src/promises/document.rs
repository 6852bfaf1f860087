//! Numbered sentences of the specification.

/// Sentence that a test checks.
#[derive(Debug, PartialEq)]
pub struct Promise {
    pub number: u32,
    /// Line of its number, from 1.
    pub line: usize,
    pub text: String,
}

/// Promises of a document: `12. The agent …`, continued by indented lines.
pub fn promises(document: &str) -> Vec<Promise> {
    let mut promises: Vec<Promise> = Vec::new();
    let mut is_open = false;
    for (at, line) in document.lines().enumerate() {
        if let Some((number, text)) = numbered(line) {
            promises.push(Promise {
                number,
                line: at + 1,
                text: text.to_owned(),
            });
            is_open = true;
        } else if line.starts_with(' ') && is_open {
            if let Some(promise) = promises.last_mut() {
                promise.text.push(' ');
                promise.text.push_str(line.trim());
            }
        } else {
            is_open = false;
        }
    }
    promises
}

/// Number and text of the first line of a promise.
fn numbered(line: &str) -> Option<(u32, &str)> {
    let (number, text) = line.split_once(". ")?;
    Some((number.parse().ok()?, text.trim()))
}

/// Numbers that are there twice, or lower than the one before. A removed number leaves a gap.
pub fn faults_of_numbers(promises: &[Promise]) -> Vec<String> {
    let pairs = promises.iter().zip(promises.iter().skip(1));
    let wrong = pairs.filter(|(before, after)| after.number <= before.number);
    wrong
        .map(|(before, after)| {
            let (line, number) = (after.line, after.number);
            format!("{line}: promise {number} follows promise {}", before.number)
        })
        .collect()
}
