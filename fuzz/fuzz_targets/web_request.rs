//! Headers and query of a request to the live page.
#![no_main]

use cofferdam_web::{
    Access, Address, Decision, MOST_POINTS, RequestFacts, Route, Token, route, token,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.split(|b| *b == b'\n');
    let mut part = || parts.next().unwrap_or_default();
    let (host, cookie, site, mode) = (part(), part(), part(), part());
    let (path, query) = (part(), part());
    let address: Address = "127.0.0.1:9478".parse().expect("an address");
    let secret = Token::new().expect("random numbers");
    let access = Access::new(&address, Some(secret), &["proxy.example".to_owned()]);
    let (path, query) = (
        String::from_utf8_lossy(path),
        String::from_utf8_lossy(query),
    );
    let shown = RequestFacts {
        host: Some(host),
        cookie: Some(cookie),
        token: token(&query).map(str::as_bytes),
        fetch_site: Some(site),
        fetch_mode: Some(mode),
    };
    // No input guesses 32 random bytes.
    let decision = access.decide(&shown);
    assert!(!matches!(decision, Decision::Allowed | Decision::Remember));
    if let Ok(Route::Series {
        from, to, points, ..
    }) = route(&path, &query)
    {
        assert!(from < to && (1..=MOST_POINTS).contains(&points));
    }
    if let Ok(text) = std::str::from_utf8(host)
        && let Ok(address) = text.parse::<Address>()
    {
        let again: Address = address
            .to_string()
            .parse()
            .expect("a written address parses");
        assert_eq!(again, address);
    }
});
