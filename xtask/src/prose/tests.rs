use super::*;

fn findings(file: &str, text: &str) -> Vec<(Rule, usize)> {
    findings_of(Path::new(file), text)
        .into_iter()
        .map(|finding| (finding.rule, finding.line))
        .collect()
}

#[test]
fn sentences_begin_with_a_noun_or_a_verb() {
    for opening in [
        "What it is.",
        "Who pays.",
        "Whose it is.",
        "Where.",
        "Of the host.",
        "As before.",
        "Those of a pod.",
        "So it is.",
        "It ends.",
        "Its name.",
        "The same again.",
    ] {
        for text in [
            format!("/// {opening}\nfn f() {{}}\n"),
            format!("//! {opening}\n"),
            format!("/// \n/// {opening}\nfn f() {{}}\n"),
            format!("/// Debt.\n///\n/// {opening}\nfn f() {{}}\n"),
            format!("/// Debt.\n///\n/// # Errors\n/// {opening}\nfn f() {{}}\n"),
        ] {
            assert_eq!(findings("a.rs", &text).len(), 1, "{text}");
        }
        let document = format!("# Title\n\nA sentence. {opening}\n");
        assert_eq!(
            findings("a.md", &document),
            [(Rule::Opening, 3)],
            "{opening}"
        );
        assert_eq!(findings("a.h", &format!("/* {opening} */")).len(), 1);
        assert_eq!(findings("a.sh", &format!("# {opening}\n")).len(), 1);
    }
    for text in [
        "/// Debt of a container, nanoseconds. It is bounded.\nfn f() {}\n",
        "/// Offender's share.\nfn f() {}\n",
        "/// `what` is a name.\nfn f() {}\n",
        "fn f() { g(\"What is a string\"); }\n",
    ] {
        assert_eq!(findings("a.rs", text), [], "{text}");
    }
}

#[test]
fn words_of_the_dialect_are_refused_everywhere() {
    for word in [
        "told",
        "tells of",
        "anew",
        "whoever",
        "goes on",
        "those that",
        "somebody",
        "nobody's",
        "made up",
        "so long",
        "as much",
        "beside",
        "rival",
        "taken back",
        // prose: allow word: a refused phrase
        "is to be",
    ] {
        let sentence = format!("The agent {word} a peer.");
        assert_eq!(
            findings("a.rs", &format!("// {sentence}\n")),
            [(Rule::Word, 1)],
            "{word}"
        );
        assert_eq!(findings("a.md", &sentence), [(Rule::Word, 1)], "{word}");
        let message = format!("fn f() {{ g(\"{sentence}\"); }}");
        assert_eq!(findings("a.rs", &message), [(Rule::Word, 1)], "{word}");
    }
    let over_lines = "// The agent goes\n// on here.\n";
    assert_eq!(findings("a.rs", over_lines), [(Rule::Word, 1)]);
    for text in [
        "// Rivalry, besides a retold story: `told` is a name.\n",
        // prose: allow word: an example of a refused word
        "fn f() { let x = \"told\"; }\n",
        // prose: allow word: an example of a refused word
        "#[cfg(test)]\nmod tests { const A: &str = \"what was told here\"; }\n",
    ] {
        assert_eq!(findings("a.rs", text), [], "{text}");
    }
}

#[test]
fn code_and_quotations_in_documents_are_no_prose() {
    for text in [
        "```console\n$ what told\n```\n",
        "    told\n",
        // prose: allow word: an example of a refused word
        "> So it was told by a person.\n",
        "Run `what told` now.\n",
    ] {
        assert_eq!(findings("a.md", text), [], "{text}");
    }
    let table = "| field | meaning |\n|---|---|\n| `a` | What it is. |\n";
    assert_eq!(findings("a.md", table), [(Rule::Opening, 3)]);
}

#[test]
fn types_and_locals_are_nouns() {
    for text in [
        "struct Told;",
        "enum Kept {}",
        "pub struct Written(u8);",
        "trait Wanted {}",
        // prose: allow word: an example of a refused word
        "fn f() { let told = 1; }",
        "fn f() { for known in x {} }",
        "fn f() { g(|held| 1); }",
        "fn f() { let (a, mut said) = x; }",
    ] {
        assert_eq!(findings("a.rs", text), [(Rule::Name, 1)], "{text}");
    }
    for text in [
        "struct AcceptMessage;",
        "struct Seed;",
        "struct PendingFrames;",
        "struct ToldTwice;",
        // prose: allow word: an example of a refused word
        "fn f() { let record = told(); }",
        "// struct Held",
        "fn f() { g(\"let held = 1\"); }",
    ] {
        assert_eq!(findings("a.rs", text), [], "{text}");
    }
}

#[test]
fn a_test_has_a_short_name() {
    let ten = "#[test]\nfn a_b_c_d_e_f_g_h_i_j() {}\n";
    assert_eq!(findings("a.rs", ten), []);
    let eleven = "#[test]\n#[should_panic]\nfn a_b_c_d_e_f_g_h_i_j_k() {}\n";
    assert_eq!(findings("a.rs", eleven), [(Rule::Test, 3)]);
    let helper = "#[test]\nfn a() {}\nfn a_b_c_d_e_f_g_h_i_j_k() {}\n";
    assert_eq!(findings("a.rs", helper), []);
}

#[test]
fn lines_fit_a_hundred_columns() {
    let words = "a ".repeat(50);
    assert_eq!(findings("a.rs", &words), []);
    assert_eq!(findings("a.rs", &format!("{words} b")), [(Rule::Width, 1)]);
    assert_eq!(findings("a.md", &"https://a/".repeat(20)), []);
}

#[test]
fn an_exemption_has_a_reason() {
    let with_reason = "// prose: allow word: title of a paper\n// told\n";
    assert_eq!(findings("a.rs", with_reason), []);
    let in_document = "<!-- prose: allow opening: quoted message -->\nWhat it is.\n";
    assert_eq!(findings("a.md", in_document), []);
    // In two parts: the gate reads this file as well.
    let bare = concat!("// prose: ", "allow word\nfn f() {}\n");
    assert_eq!(findings("a.rs", bare), [(Rule::Exemption, 1)]);
    // prose: allow word: an example of a refused word
    let of_another_rule = "// prose: allow width: a table\n// told\n";
    assert_eq!(findings("a.rs", of_another_rule), [(Rule::Word, 2)]);
}

#[test]
fn generated_files_are_not_checked() {
    assert_eq!(
        // prose: allow word: an example of a refused word
        findings("a.rs", "// @generated\n/// What told.\nfn f() {}\n"),
        []
    );
}

#[test]
fn strings_and_characters_do_not_confuse_the_lexer() {
    // prose: allow word: an example of a refused word
    let text = "fn f<'a>(x: &'a str) { g('\"', '\\'', r#\"told\"told\"#, b\"\\\"\"); } // told\n";
    assert_eq!(findings("a.rs", text), [(Rule::Word, 1)]);
}

#[test]
fn files_of_other_projects_are_not_checked() {
    assert!(is_checked(Path::new("crates/web/assets/page.js")));
    assert!(is_checked(Path::new("scripts/setup")));
    assert!(!is_checked(Path::new("crates/web/assets/vendor/a.min.js")));
    assert!(!is_checked(Path::new("docs/src/images/a.svg")));
}

#[test]
fn a_finding_fails_with_its_place() {
    assert!(refuse(&[]).is_ok());
    let finding = Finding {
        line: 7,
        rule: Rule::Word,
        text: "x".to_owned(),
    };
    let error = refuse(&[(PathBuf::from("a.rs"), finding)]).unwrap_err();
    assert!(error.to_string().contains("a.rs:7: word: x"), "{error}");
}
