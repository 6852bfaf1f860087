//! Blocks of shell in a Markdown text, as a reader pastes them.

/// Fenced block of shell, and the text that the document shows as its output.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// Commands in order; one with a here-document has several lines.
    pub commands: Vec<String>,
    /// Lines of the `text` block that follows, if one does.
    pub output: Vec<String>,
}

/// Parses all blocks that begin with "```sh".
///
/// # Panics
/// A block of another kind shows commands after prompts: pasted, `#` makes a comment and `$` an
/// unknown command.
pub fn blocks(text: &str) -> Vec<Block> {
    assert!(
        !text.contains("```console"),
        "a block with prompts cannot be pasted"
    );
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = text.lines();
    // Whether only blanks stand between the last block of shell and this line.
    let mut follows = false;
    while let Some(line) = lines.next() {
        if !line.starts_with("```") {
            follows &= line.is_empty();
            continue;
        }
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        match (line, blocks.last_mut()) {
            ("```sh", _) => blocks.push(Block {
                commands: commands(&block),
                output: Vec::new(),
            }),
            ("```text", Some(last)) if follows => {
                last.output = block.iter().map(|&line| line.to_owned()).collect();
            }
            _ => {}
        }
        follows = line == "```sh";
    }
    blocks
}

fn commands(lines: &[&str]) -> Vec<String> {
    let mut commands = Vec::new();
    let mut lines = lines.iter();
    while let Some(&line) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut command = line.to_owned();
        if let Some((_, word)) = line.split_once("<<") {
            let end = word.trim().trim_matches('\'');
            for line in lines.by_ref() {
                command += &format!("\n{line}");
                if *line == end {
                    break;
                }
            }
        }
        commands.push(command);
    }
    commands
}

/// Promise 55.
#[test]
fn blocks_of_shell_become_commands() {
    let text = "x\n```sh\n# why\na b # c\ncat > f <<'END'\n[x]\nEND\nd &\n```\n\n\
            ```text\nsays\n```\n\
                ```sh\ne\n```\nwords\n```text\nnot its output\n```\n```toml\n[x]\n```\n";
    let block = |commands: &[&str], output: &[&str]| Block {
        commands: commands.iter().map(|&c| c.to_owned()).collect(),
        output: output.iter().map(|&l| l.to_owned()).collect(),
    };
    let expected = [
        block(&["a b # c", "cat > f <<'END'\n[x]\nEND", "d &"], &["says"]),
        block(&["e"], &[]),
    ];
    assert_eq!(blocks(text), expected);
}
