//! Routes of the page. This module is pure.

use crate::access::TOKEN_PARAMETER;
use std::time::{Duration, SystemTime};

/// Limit on the points of a series.
pub const MOST_POINTS: u32 = 1000;
/// Longest span of a series, milliseconds: a year.
const LONGEST_MS: u64 = 366 * 86_400_000;

/// Resource that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// File of the page, by its index in [`crate::assets::FILES`].
    Asset(usize),
    /// Stream of readings.
    Live,
    /// Host at a moment; `None` is now.
    Frame(Option<SystemTime>),
    /// One container at a moment.
    Story {
        /// Id of its cgroup.
        container: u64,
        /// Moment; `None` is now.
        at: Option<SystemTime>,
    },
    /// Figures over time, of the host or of one container.
    Series {
        /// Begin of the requested time.
        from: SystemTime,
        /// End, later than `from`.
        to: SystemTime,
        /// Limit on the points.
        points: u32,
        /// Id of the container's cgroup; `None` is the host.
        container: Option<u64>,
    },
    /// First and last known moment of the past.
    Extent,
}

/// Reason why a request has no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoute {
    /// The path does not exist.
    NotFound,
    /// Name of a parameter that is missing or invalid.
    Parameter(&'static str),
}

/// Route of `path` and `query`, as in the request's first line.
pub fn route(path: &str, query: &str) -> Result<Route, NoRoute> {
    if let Some(index) = crate::assets::find(path) {
        return Ok(Route::Asset(index));
    }
    match path {
        "/api/live" => Ok(Route::Live),
        "/api/extent" => Ok(Route::Extent),
        "/api/frame" => Ok(Route::Frame(moment(query, "at")?)),
        "/api/story" => Ok(Route::Story {
            container: number(query, "container")?.ok_or(NoRoute::Parameter("container"))?,
            at: moment(query, "at")?,
        }),
        "/api/series" => series(query),
        _ => Err(NoRoute::NotFound),
    }
}

fn series(query: &str) -> Result<Route, NoRoute> {
    let from_ms = number(query, "from")?.ok_or(NoRoute::Parameter("from"))?;
    let to_ms = number(query, "to")?.ok_or(NoRoute::Parameter("to"))?;
    let span = to_ms.saturating_sub(from_ms);
    if !(1..=LONGEST_MS).contains(&span) {
        return Err(NoRoute::Parameter("to"));
    }
    let points = number(query, "points")?.unwrap_or(u64::from(MOST_POINTS));
    let points = u32::try_from(points).ok();
    Ok(Route::Series {
        from: time(from_ms).ok_or(NoRoute::Parameter("from"))?,
        to: time(to_ms).ok_or(NoRoute::Parameter("to"))?,
        points: points
            .filter(|p| (1..=MOST_POINTS).contains(p))
            .ok_or(NoRoute::Parameter("points"))?,
        container: number(query, "container")?,
    })
}

/// Token in `query`.
pub fn token(query: &str) -> Option<&str> {
    parameter(query, TOKEN_PARAMETER)
}

fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut all = query.split('&').filter_map(|pair| pair.split_once('='));
    all.find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// Number in decimal digits only: no sign, no escape, no space.
fn number(query: &str, name: &'static str) -> Result<Option<u64>, NoRoute> {
    let Some(text) = parameter(query, name) else {
        return Ok(None);
    };
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let value = digits.then(|| text.parse().ok()).flatten();
    value.map(Some).ok_or(NoRoute::Parameter(name))
}

fn moment(query: &str, name: &'static str) -> Result<Option<SystemTime>, NoRoute> {
    let Some(ms) = number(query, name)? else {
        return Ok(None);
    };
    time(ms).map(Some).ok_or(NoRoute::Parameter(name))
}

/// Time `ms` milliseconds after 1970, up to the year 9999: later ones cannot be written as RFC
/// 3339.
fn time(ms: u64) -> Option<SystemTime> {
    const LAST_MS: u64 = 253_402_300_799_000;
    (ms <= LAST_MS).then(|| SystemTime::UNIX_EPOCH + Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_path_has_one_meaning() {
        assert!(matches!(route("/", ""), Ok(Route::Asset(_))));
        assert_eq!(route("/api/live", ""), Ok(Route::Live));
        assert_eq!(route("/api/frame", ""), Ok(Route::Frame(None)));
        let at = time(1_764_000_000_000);
        assert_eq!(
            route("/api/frame", "at=1764000000000"),
            Ok(Route::Frame(at))
        );
        assert_eq!(
            route("/api/story", "container=12&at=1764000000000"),
            Ok(Route::Story { container: 12, at })
        );
        assert!(matches!(
            route("/api/series", "from=1000&to=2000"),
            Ok(Route::Series {
                points: MOST_POINTS,
                container: None,
                ..
            })
        ));
    }

    #[test]
    fn paths_lead_nowhere_else() {
        for path in [
            "",
            "*",
            "//",
            "/../etc/passwd",
            "/assets/../../etc/passwd",
            "/%2e%2e/etc/passwd",
            "/index.html/",
            "/app.js/../../x",
            "/api",
            "/api/",
            "/api/live/",
            "/API/live",
            "/vendor/",
            "/metrics",
            "/app.js%00",
            "/./app.js",
        ] {
            assert_eq!(route(path, ""), Err(NoRoute::NotFound), "{path:?}");
        }
    }

    #[test]
    fn a_wrong_parameter_is_named() {
        for (path, query, name) in [
            ("/api/story", "", "container"),
            ("/api/story", "container=-1", "container"),
            ("/api/story", "container=18446744073709551616", "container"),
            ("/api/frame", "at=yesterday", "at"),
            ("/api/frame", "at=", "at"),
            ("/api/frame", "at=999999999999999999", "at"),
            ("/api/series", "to=2", "from"),
            ("/api/series", "from=1", "to"),
            ("/api/series", "from=2&to=1", "to"),
            ("/api/series", "from=2&to=2", "to"),
            ("/api/series", "from=0&to=99999999999999", "to"),
            ("/api/series", "from=1&to=2&points=0", "points"),
            ("/api/series", "from=1&to=2&points=1001", "points"),
            ("/api/series", "from=1&to=2&container=x", "container"),
        ] {
            assert_eq!(
                route(path, query),
                Err(NoRoute::Parameter(name)),
                "{path}?{query}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(path in "(/api/[a-z]{0,6}|.{0,30})", query in ".{0,60}") {
            let _ = route(&path, &query);
            let _ = token(&query);
        }
    }
}
