//! Files generated from the definition of the command line and from the schemas.

mod man;

use crate::args::{Cli, GenerateArgs, GeneratedFiles};
use crate::exit::Outcome;
use crate::schema;
use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;
use std::fs;
use std::path::Path;

/// Writes the requested files.
pub fn run(args: &GenerateArgs) -> Outcome {
    let dir = &args.dir;
    fs::create_dir_all(dir)
        .with_context(|| format!("cannot create directory {}", dir.display()))?;
    match args.what {
        GeneratedFiles::Man => man::write(dir)?,
        GeneratedFiles::Completions => completions(dir)?,
        GeneratedFiles::Schemas => schemas(dir)?,
    }
    Ok(())
}

/// Writes completions for bash, zsh and fish.
pub fn completions(dir: &Path) -> anyhow::Result<()> {
    let mut command = Cli::command();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command, "cofferdam", dir)
            .with_context(|| format!("cannot write completions to {}", dir.display()))?;
    }
    Ok(())
}

/// Writes JSON Schemas of all JSON output.
pub fn schemas(dir: &Path) -> anyhow::Result<()> {
    for (name, schema) in schema::all() {
        let path = dir.join(name);
        fs::write(&path, schema_text(&schema)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Text of a schema, as in `docs/src/reference`.
pub fn schema_text(schema: &schemars::Schema) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(schema)? + "\n")
}
