//! Tables whose rows name promises by number, in their last column.

/// Row of such a table.
#[derive(Debug, PartialEq)]
pub struct Row<'a> {
    /// Line of the document, from 1.
    pub line: usize,
    /// First cell.
    pub text: &'a str,
    pub promises: Vec<u32>,
}

/// Rows of a document whose last cell lists numbers, as `12, 30`.
pub fn rows(document: &str) -> Vec<Row<'_>> {
    let lines = document.lines().enumerate();
    lines
        .filter_map(|(at, line)| {
            let cells = line.strip_prefix('|')?.trim_end().strip_suffix('|')?;
            let (text, last) = cells.rsplit_once('|')?;
            let promises = last.split(',').map(|number| number.trim().parse().ok());
            Some(Row {
                line: at + 1,
                text: text.trim(),
                promises: promises.collect::<Option<Vec<u32>>>()?,
            })
        })
        .collect()
}
