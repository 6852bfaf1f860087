//! The console blocks of a Markdown text, as commands and what they print.

/// A command, and the lines that the text shows as its output.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// As it is typed: several lines where it has a here-document.
    pub command: String,
    /// What it prints.
    pub output: Vec<String>,
}

/// All blocks that begin with "```console".
pub fn blocks(text: &str) -> Vec<Vec<Step>> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while lines.any(|line| line == "```console") {
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        blocks.push(steps(&block));
    }
    blocks
}

fn steps(lines: &[&str]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = lines.iter();
    while let Some(line) = lines.next() {
        let prompted = line.strip_prefix("$ ").or(line.strip_prefix("# "));
        match (prompted, steps.last_mut()) {
            (Some(command), _) => {
                let mut command = command.to_owned();
                if let Some((_, word)) = command.clone().split_once("<<") {
                    let end = word.trim().trim_matches('\'').to_owned();
                    for line in lines.by_ref() {
                        command += &format!("\n{line}");
                        if *line == end {
                            break;
                        }
                    }
                }
                steps.push(Step {
                    command,
                    output: Vec::new(),
                });
            }
            (None, Some(last)) => last.output.push((*line).to_owned()),
            (None, None) => panic!("a console block begins with output: {line}"),
        }
    }
    steps
}

#[test]
fn commands_here_documents_and_output_are_distinguished() {
    let text = "x\n```console\n$ a b # c\nsays\n# cat > f <<'END'\n[x]\nEND\n# d\n```\n";
    let step = |command: &str, output: &[&str]| Step {
        command: command.to_owned(),
        output: output.iter().map(|&l| l.to_owned()).collect(),
    };
    let expected = vec![
        step("a b # c", &["says"]),
        step("cat > f <<'END'\n[x]\nEND", &[]),
        step("d", &[]),
    ];
    assert_eq!(blocks(text), [expected]);
}
