//! Measured results: data with their provenance in `docs/data`, rendered as tables into documents.
//!
//! A file of data is CSV below lines `# KEY: VALUE` with every key of [`PROVENANCE`]. A document
//! includes it between two comments; `cargo xtask figures` writes the lines between them:
//!
//! ```text
//! <!-- table: penalty.csv columns=cell,penalty where=cell:cpu/flood/ -->
//! <!-- end of table -->
//! ```
//!
//! Columns `X`, `X_low` and `X_high` become one column `X [X_low, X_high]`. In the same way `<!--
//! parameters: PATH.rs MODULE -->` lists the constants of a source file, with their values and the
//! first sentence of their documentation.

use crate::{schema_fields, tree};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Folder of the data, from the root of the tree.
const DATA: &str = "docs/data";

/// Facts without which a figure cannot be measured again.
const PROVENANCE: [&str; 6] = ["commit", "machine", "date", "command", "runs", "interval"];

/// Folder of the published JSON Schemas.
const SCHEMAS: &str = "docs/src/reference";

const BEGIN: &str = "<!-- table: ";
const BEGIN_PARAMETERS: &str = "<!-- parameters: ";
const BEGIN_SCHEMA: &str = "<!-- schema: ";
const BEGINS: [&str; 3] = [BEGIN, BEGIN_PARAMETERS, BEGIN_SCHEMA];
const END: &str = "<!-- end of table -->";

/// Renders the tables of every document; `--check` fails instead if one is not up to date.
pub fn figures(arguments: &[String]) -> Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let is_check = match words[..] {
        [] => false,
        ["--check"] => true,
        _ => bail!("usage: cargo xtask figures [--check]"),
    };
    let mut used = Vec::new();
    let mut stale = Vec::new();
    for document in tree::files(&[".md"])? {
        let text = tree::read(&document)?;
        let load = |path: &Path| {
            used.push(path.to_owned());
            tree::read(path)
        };
        let rendered =
            render_document(&text, load).with_context(|| format!("in {}", document.display()))?;
        if rendered == text {
            continue;
        }
        if is_check {
            stale.push(document.display().to_string());
        } else {
            std::fs::write(tree::root().join(&document), rendered)
                .with_context(|| format!("cannot write {}", document.display()))?;
        }
    }
    let unused: Vec<String> = tree::files(&[".csv"])?
        .iter()
        .filter(|file| file.starts_with(DATA) && !used.contains(file))
        .map(|file| file.display().to_string())
        .collect();
    if !stale.is_empty() {
        bail!(
            "tables differ from their data: {}; run: cargo xtask figures",
            stale.join(", ")
        );
    }
    if !unused.is_empty() {
        bail!("no document shows {}", unused.join(", "));
    }
    Ok(())
}

/// Replaces the lines of rendered tables by empty ones, so that line numbers stay.
pub fn without_tables(text: &str) -> String {
    let mut is_table = false;
    let mut plain = String::with_capacity(text.len());
    for line in text.lines() {
        is_table |= BEGINS.iter().any(|begin| line.starts_with(begin));
        if !is_table {
            plain.push_str(line);
        }
        plain.push('\n');
        is_table &= line != END;
    }
    plain
}

/// Renders each table of a document again; `load` returns the text of a file.
fn render_document(text: &str, mut load: impl FnMut(&Path) -> Result<String>) -> Result<String> {
    let mut rendered = String::with_capacity(text.len());
    let mut lines = text.split_inclusive('\n');
    while let Some(line) = lines.next() {
        rendered.push_str(line);
        let line = line.trim_end();
        let table = if let Some(request) = line.strip_prefix(BEGIN) {
            let request = Request::parse(request)?;
            let path = Path::new(DATA).join(&request.file);
            let data = Data::parse(&load(&path)?);
            data.with_context(|| path.display().to_string())?
                .table(&request)?
        } else if let Some(request) = line.strip_prefix(BEGIN_PARAMETERS) {
            let (path, module) = parameters_request(request)?;
            parameters(&load(path)?, module)
                .with_context(|| format!("{}, module {module}", path.display()))?
        } else if let Some(request) = line.strip_prefix(BEGIN_SCHEMA) {
            let (file, definition) = schema_request(request)?;
            let path = Path::new(SCHEMAS).join(file);
            schema_fields::table(&load(&path)?, definition)
                .with_context(|| format!("{}, {request}", path.display()))?
        } else {
            continue;
        };
        rendered.push_str(&table);
        let end = lines
            .find(|line| line.trim_end() == END)
            .with_context(|| format!("no line `{END}` after `{line}`"))?;
        rendered.push_str(end);
    }
    Ok(rendered)
}

/// Parses `PATH.rs MODULE -->`.
fn parameters_request(text: &str) -> Result<(&Path, &str)> {
    let mut words = text.split_whitespace();
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some(path), Some(module), Some("-->"), None) => Ok((Path::new(path), module)),
        _ => bail!("`{BEGIN_PARAMETERS}` takes PATH.rs MODULE"),
    }
}

/// Parses `FILE.schema.json [DEFINITION] -->`.
fn schema_request(text: &str) -> Result<(&str, Option<&str>)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        [file, "-->"] => Ok((file, None)),
        [file, definition, "-->"] => Ok((file, Some(definition))),
        _ => bail!("`{BEGIN_SCHEMA}` takes FILE.schema.json DEFINITION"),
    }
}

/// Table of the documented constants in the module `name` of a source file.
fn parameters(source: &str, name: &str) -> Result<String> {
    let begin = source
        .find(&format!("mod {name} {{"))
        .context("no such module")?;
    let body = source[begin..].split("\n}").next().unwrap_or_default();
    let mut table = String::from("\n| parameter | value | meaning |\n|---|---|---|\n");
    let mut doc = String::new();
    let mut declaration = String::new();
    for line in body.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            doc.push(' ');
            doc.push_str(text.trim());
            continue;
        }
        if line.starts_with("pub const ") || !declaration.is_empty() {
            declaration.push_str(line);
            let Some(whole) = declaration.strip_suffix(';') else {
                continue;
            };
            let (named, value) = whole.split_once('=').context("a constant without value")?;
            let constant = named.trim_start_matches("pub const ");
            let constant = constant.split(':').next().unwrap_or_default();
            let sentence = doc.trim().split(". ").next().unwrap_or_default();
            let sentence = sentence.trim_end_matches('.').replace(['[', ']'], "");
            let value = value.trim().replace("Duration::from_", "");
            writeln!(table, "| `{constant}` | `{value}` | {sentence}. |")?;
            declaration.clear();
        }
        doc.clear();
    }
    if !table.contains('`') {
        bail!("no constants");
    }
    table.push('\n');
    Ok(table)
}

/// Table that a document asks for.
struct Request {
    file: String,
    /// Columns to show, in this order; all if there are none.
    columns: Vec<String>,
    /// Column and prefixes of the rows to show.
    condition: Option<(String, Vec<String>)>,
}

impl Request {
    /// Parses `FILE [columns=A,B] [where=COLUMN:PREFIX,PREFIX] -->`.
    fn parse(text: &str) -> Result<Self> {
        let text = text
            .strip_suffix("-->")
            .context("the comment of a table does not end on its line")?;
        let mut words = text.split_whitespace();
        let mut request = Self {
            file: words.next().context("a table without a file")?.to_owned(),
            columns: Vec::new(),
            condition: None,
        };
        for word in words {
            match word.split_once('=') {
                Some(("columns", names)) => {
                    request.columns = names.split(',').map(str::to_owned).collect();
                }
                Some(("where", condition)) => {
                    let (column, prefixes) = condition
                        .split_once(':')
                        .context("`where` takes COLUMN:PREFIX")?;
                    let prefixes = prefixes.split(',').map(str::to_owned).collect();
                    request.condition = Some((column.to_owned(), prefixes));
                }
                _ => bail!("`{word}` is neither columns=A,B nor where=COLUMN:PREFIX"),
            }
        }
        Ok(request)
    }
}

/// Contents of a data file.
struct Data {
    provenance: BTreeMap<String, String>,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Data {
    fn parse(text: &str) -> Result<Self> {
        let mut provenance = BTreeMap::new();
        let mut body = text;
        while let Some(rest) = body.strip_prefix("# ") {
            let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
            let (key, value) = line
                .split_once(": ")
                .with_context(|| format!("`# {line}` is not `# KEY: VALUE`"))?;
            provenance.insert(key.to_owned(), value.trim().to_owned());
            body = after;
        }
        for key in PROVENANCE {
            if provenance.get(key).is_none_or(String::is_empty) {
                bail!(
                    "no line `# {key}: …`: a figure needs {}",
                    PROVENANCE.join(", ")
                );
            }
        }
        let mut reader = csv::Reader::from_reader(body.as_bytes());
        let header = reader.headers()?.iter().map(str::to_owned).collect();
        let rows = reader
            .records()
            .map(|record| Ok(record?.iter().map(str::to_owned).collect()))
            .collect::<Result<_>>()?;
        Ok(Self {
            provenance,
            header,
            rows,
        })
    }

    fn position(&self, column: &str) -> Result<usize> {
        self.header
            .iter()
            .position(|name| name == column)
            .with_context(|| format!("no column `{column}`; there are {}", self.header.join(", ")))
    }

    /// Columns shown when a document names none: all but the bounds of intervals.
    fn default_columns(&self) -> Vec<String> {
        let is_bound = |name: &str| {
            ["_low", "_high"].iter().any(|end| {
                name.strip_suffix(end)
                    .is_some_and(|value| self.header.iter().any(|other| other == value))
            })
        };
        let shown = self.header.iter().filter(|name| !is_bound(name));
        shown.cloned().collect()
    }

    /// The table in Markdown, with its provenance below.
    fn table(&self, request: &Request) -> Result<String> {
        let columns = if request.columns.is_empty() {
            self.default_columns()
        } else {
            request.columns.clone()
        };
        let mut positions = Vec::new();
        for column in &columns {
            let bounds = self
                .position(&format!("{column}_low"))
                .and_then(|low| Ok((low, self.position(&format!("{column}_high"))?)));
            positions.push((self.position(column)?, bounds.ok()));
        }
        let condition = match &request.condition {
            Some((column, prefixes)) => Some((self.position(column)?, prefixes)),
            None => None,
        };
        let headings: Vec<String> = columns.iter().map(|name| name.replace('_', " ")).collect();
        let mut table = format!("\n| {} |\n", headings.join(" | "));
        writeln!(table, "|{}", "---|".repeat(columns.len()))?;
        let mut shown = 0;
        for row in &self.rows {
            if condition.as_ref().is_some_and(|(at, prefixes)| {
                !prefixes.iter().any(|prefix| row[*at].starts_with(prefix))
            }) {
                continue;
            }
            shown += 1;
            let cells: Vec<String> = positions
                .iter()
                .map(|&(at, bounds)| match bounds {
                    Some((low, high)) if !row[low].is_empty() => {
                        format!("{} [{}, {}]", row[at], row[low], row[high])
                    }
                    _ => row[at].replace('|', "\\|"),
                })
                .collect();
            writeln!(table, "| {} |", cells.join(" | "))?;
        }
        if shown == 0 {
            bail!("no row of {} fits", request.file);
        }
        let passport = PROVENANCE.map(|key| format!("{key}: {}", self.provenance[key]));
        writeln!(
            table,
            "
`{DATA}/{}`: {}.
",
            request.file,
            passport.join("; ")
        )?;
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA_FILE: &str = "# commit: 2e425c7d\n# machine: Xeon\n# date: 2026-11-29\n\
        # command: cofferdam bench penalty --grid\n# runs: 5 pairs\n# interval: 95%\n\
        cell,penalty,penalty_low,penalty_high,missed\n\
        cpu/flood,0.98,0.96,0.99,\ncpu/stream,1.06,1.04,1.08,penalty\n";

    fn render(document: &str, data: &str) -> Result<String> {
        render_document(document, |_| Ok(data.to_owned()))
    }

    #[test]
    fn a_table_has_intervals_and_its_provenance() {
        let document = "Before.\n<!-- table: a.csv -->\nold\n<!-- end of table -->\nAfter.\n";
        let rendered = render(document, DATA_FILE).unwrap();
        assert!(
            rendered.contains("| cell | penalty | missed |\n|---|---|---|\n"),
            "{rendered}"
        );
        assert!(rendered.contains("| cpu/stream | 1.06 [1.04, 1.08] | penalty |"));
        assert!(rendered.contains("commit: 2e425c7d; machine: Xeon; date: 2026-11-29"));
        assert!(!rendered.contains("old") && rendered.ends_with("After.\n"));
        assert_eq!(
            render(&rendered, DATA_FILE).unwrap(),
            rendered,
            "a second time"
        );
    }

    #[test]
    fn a_document_chooses_columns_and_rows() {
        let document =
            "<!-- table: a.csv columns=missed,cell where=cell:cpu/s -->\n<!-- end of table -->\n";
        let rendered = render(document, DATA_FILE).unwrap();
        assert!(
            rendered.contains("| missed | cell |") && rendered.contains("| penalty | cpu/stream |")
        );
        assert!(!rendered.contains("cpu/flood"));
    }

    #[test]
    fn a_figure_without_provenance_is_refused() {
        let document = "<!-- table: a.csv -->\n<!-- end of table -->\n";
        for key in PROVENANCE {
            let data: String = DATA_FILE
                .split_inclusive('\n')
                .filter(|line| !line.starts_with(&format!("# {key}:")))
                .collect();
            let error = render(document, &data).unwrap_err();
            assert!(
                format!("{error:#}").contains(&format!("# {key}: ")),
                "{error:#}"
            );
        }
    }

    #[test]
    fn a_table_that_cannot_be_rendered_is_refused() {
        let end = "\n<!-- end of table -->\n";
        for (request, reason) in [
            ("a.csv columns=nothing", "no column `nothing`"),
            ("a.csv where=cell:none", "no row of a.csv fits"),
            ("a.csv where=cell", "COLUMN:PREFIX"),
            ("a.csv sorted", "`sorted` is neither"),
            ("", "a table without a file"),
        ] {
            let error = render(&format!("{BEGIN}{request} -->{end}"), DATA_FILE).unwrap_err();
            assert!(format!("{error:#}").contains(reason), "{error:#}");
        }
        let error = render(&format!("{BEGIN}a.csv -->\n"), DATA_FILE).unwrap_err();
        assert!(error.to_string().contains("end of table"), "{error:#}");
    }

    #[test]
    fn parameters_have_value_and_meaning() {
        let source = "mod a {\n    /// Other.\n    pub const B: u32 = 1;\n}\nmod law {\n\
            /// Time of [`X`]. Longer: late.\n    pub const PAY: Duration =\n\
            Duration::from_millis(5);\n}\n";
        let table = parameters(source, "law").unwrap();
        assert!(
            table.contains("| `PAY` | `millis(5)` | Time of `X`. |"),
            "{table}"
        );
        assert!(!table.contains("Other"));
        assert!(parameters(source, "none").is_err());
        assert!(parameters_request("a.rs -->").is_err());
    }

    #[test]
    fn a_schema_is_rendered_and_hidden_from_the_gate() {
        let document = "a\n<!-- schema: a.schema.json -->\n<!-- end of table -->\nb\n";
        let schema = r#"{"properties": {"a": {"type": "string", "description": "A."}}}"#;
        let rendered = render(document, schema).unwrap();
        assert!(
            rendered.contains("| `a` | string, may be absent | A. |"),
            "{rendered}"
        );
        assert!(!without_tables(&rendered).contains("A."));
        assert!(schema_request("-->").is_err());
    }

    #[test]
    fn the_gate_sees_no_rendered_table() {
        let plain = without_tables("a\n<!-- table: a.csv -->\n| b |\n<!-- end of table -->\nc\n");
        assert_eq!(plain, "a\n\n\n\nc\n");
    }
}
