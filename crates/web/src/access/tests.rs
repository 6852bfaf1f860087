use super::*;
use proptest::prelude::*;

fn access(address: &str, token: bool, hosts: &[&str]) -> (Access, Token) {
    let token_of = Token::new().unwrap();
    let hosts: Vec<String> = hosts.iter().map(|h| (*h).to_owned()).collect();
    let address = address.parse().unwrap();
    let rules = Access::new(&address, token.then(|| token_of.clone()), &hosts);
    (rules, token_of)
}

fn host(name: &str) -> RequestFacts<'_> {
    RequestFacts {
        host: Some(name.as_bytes()),
        ..RequestFacts::default()
    }
}

#[test]
fn two_tokens_differ_and_neither_is_shown_in_a_log() {
    let (a, b) = (Token::new().unwrap(), Token::new().unwrap());
    assert_ne!(a.as_str(), b.as_str());
    assert_eq!(a.as_str().len(), 2 * TOKEN_BYTES);
    assert!(!format!("{a:?}").contains(a.as_str()));
}

/// Promise 73.
#[test]
fn the_page_answers_under_its_own_names_only() {
    let (rules, _) = access("127.0.0.1:9478", false, &["metrics.example"]);
    for own in [
        "127.0.0.1:9478",
        "127.0.0.1",
        "localhost:9478",
        "LOCALHOST:1",
        "[::1]:9478",
        "[::1]",
        "metrics.example",
        "Metrics.Example:443",
        "127.9.9.9:1",
    ] {
        assert_eq!(rules.decide(&host(own)), Decision::Allowed, "{own}");
    }
    for foreign in [
        "evil.example",
        "evil.example:9478",
        "localhost.evil.example",
        "192.0.2.1",
        "",
        ":9478",
        "[::1",
        "[::1]x",
        "127.0.0.1:port",
        "127.0.0.1:123456",
        "localhost:9478:9478",
        "0.0.0.0",
        "local\u{0}host",
        "localhost ",
        "metrics.example.",
        "2130706433",
    ] {
        assert_eq!(
            rules.decide(&host(foreign)),
            Decision::WrongHost,
            "{foreign:?}"
        );
    }
    assert_eq!(rules.decide(&RequestFacts::default()), Decision::WrongHost);
    let odd = RequestFacts {
        host: Some(&[0xff, 0xfe]),
        ..RequestFacts::default()
    };
    assert_eq!(rules.decide(&odd), Decision::WrongHost);
}

#[test]
fn a_page_for_other_hosts_answers_under_its_addresses() {
    let (one, _) = access("192.0.2.7:9478", false, &[]);
    assert_eq!(one.decide(&host("192.0.2.7:9478")), Decision::Allowed);
    assert_eq!(one.decide(&host("192.0.2.8:9478")), Decision::WrongHost);
    let (all, _) = access("0.0.0.0:9478", false, &[]);
    assert_eq!(all.decide(&host("192.0.2.8:9478")), Decision::Allowed);
    assert_eq!(all.decide(&host("evil.example")), Decision::WrongHost);
}

#[test]
fn the_token_comes_once_and_stays_as_a_cookie() {
    let (rules, token) = access("127.0.0.1:9478", true, &[]);
    let own = host("localhost");
    assert_eq!(rules.decide(&own), Decision::NoToken);
    let brought = |text: &'static str| RequestFacts {
        token: Some(text.as_bytes()),
        ..own
    };
    assert_eq!(rules.decide(&brought("")), Decision::WrongToken);
    assert_eq!(rules.decide(&brought("00")), Decision::WrongToken);
    let right = RequestFacts {
        token: Some(token.as_str().as_bytes()),
        ..own
    };
    assert_eq!(rules.decide(&right), Decision::Remember);
    let cookie = rules.set_cookie().unwrap();
    assert!(
        cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"),
        "{cookie}"
    );
    let pair = cookie.split(';').next().unwrap();
    let header = format!("a=b; {pair}; c=d");
    let again = RequestFacts {
        cookie: Some(header.as_bytes()),
        ..own
    };
    assert_eq!(rules.decide(&again), Decision::Allowed);
    let longer = format!("{pair}0");
    let cut = &pair[..pair.len() - 1];
    for wrong in [longer.as_str(), cut] {
        let facts = RequestFacts {
            cookie: Some(wrong.as_bytes()),
            ..own
        };
        assert_eq!(rules.decide(&facts), Decision::WrongToken);
    }
    // A cookie does not make up for a wrong token in the URL, and the cookie of another port is
    // ignored.
    let both = RequestFacts {
        token: Some(b"no"),
        ..again
    };
    assert_eq!(rules.decide(&both), Decision::WrongToken);
    let other = format!("cofferdam_1={}", token.as_str());
    let facts = RequestFacts {
        cookie: Some(other.as_bytes()),
        ..own
    };
    assert_eq!(rules.decide(&facts), Decision::NoToken);
}

/// Promise 73.
#[test]
fn pages_of_other_sites_are_answered_only_as_links() {
    let (rules, _) = access("unix:/run/web.sock", false, &[]);
    let from = |site: &'static str, mode: &'static str| RequestFacts {
        fetch_site: Some(site.as_bytes()),
        fetch_mode: Some(mode.as_bytes()),
        ..host("localhost:9478")
    };
    assert_eq!(
        rules.decide(&from("cross-site", "no-cors")),
        Decision::CrossSite
    );
    assert_eq!(
        rules.decide(&from("cross-site", "cors")),
        Decision::CrossSite
    );
    assert_eq!(
        rules.decide(&from("cross-site", "navigate")),
        Decision::Allowed
    );
    assert_eq!(
        rules.decide(&from("same-origin", "cors")),
        Decision::Allowed
    );
    assert_eq!(rules.decide(&from("none", "navigate")), Decision::Allowed);
    assert_eq!(rules.set_cookie(), None);
}

proptest! {
    /// Promise 73.
    #[test]
    fn only_the_token_admits(
        name in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)),
        cookie in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..90)),
        token in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..70)),
    ) {
        let (rules, _) = access("127.0.0.1:9478", true, &[]);
        let facts = RequestFacts {
            host: name.as_deref().or(Some(b"localhost")),
            cookie: cookie.as_deref(),
            token: token.as_deref(),
            ..RequestFacts::default()
        };
        let decision = rules.decide(&facts);
        prop_assert!(!matches!(decision, Decision::Allowed | Decision::Remember));
    }
}
