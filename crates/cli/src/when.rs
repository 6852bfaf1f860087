//! Times as people write them: a moment, a time of day, or a time ago.

use jiff::civil::{Date, DateTime, Time};
use jiff::{Timestamp, ToSpan, Zoned};
use std::time::SystemTime;

const FORMS: &str =
    "write 2026-03-01T03:00:00Z, \"2026-03-01 03:00\", \"yesterday 03:00\", 03:00 or \"2h ago\"";

/// Moment that `text` means now, in the local time zone.
pub fn parse(text: &str) -> Result<SystemTime, String> {
    at(text, &Zoned::now())
}

fn at(text: &str, now: &Zoned) -> Result<SystemTime, String> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("now") {
        return Ok(now.timestamp().into());
    }
    if let Some(length) = text.strip_suffix("ago") {
        let wrong = || format!("'{}' is not a duration: write 2h ago", length.trim());
        let length = humantime::parse_duration(length.trim()).map_err(|_| wrong())?;
        let now = SystemTime::from(now.timestamp());
        let earliest = SystemTime::UNIX_EPOCH;
        let then = now.checked_sub(length).filter(|then| *then >= earliest);
        return then.ok_or_else(|| "that is before 1970".to_owned());
    }
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment.into());
    }
    let local = local(text, now)?;
    let moment = local.to_zoned(now.time_zone().clone());
    let moment = moment.map_err(|e| format!("there is no such time here: {e}"))?;
    Ok(moment.timestamp().into())
}

/// Parses a date, a time of day, or both.
fn local(text: &str, now: &Zoned) -> Result<DateTime, String> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let ago = match word.to_ascii_lowercase().as_str() {
        "today" => Some(0),
        "yesterday" => Some(1),
        _ => None,
    };
    if let Some(ago) = ago {
        let day = now.date().checked_sub(ago.days());
        let day = day.map_err(|e| e.to_string())?;
        return Ok(day.to_datetime(time_of_day(rest.trim())?));
    }
    if let Ok(date) = word.parse::<Date>() {
        return match rest.trim() {
            "" if word.len() < text.len() || text.len() == "2026-03-01".len() => {
                Ok(date.to_datetime(Time::midnight()))
            }
            "" => text.parse().map_err(|_| FORMS.to_owned()),
            time => Ok(date.to_datetime(time_of_day(time)?)),
        };
    }
    // After the date: a date with a time would be parsed as a time of day as well.
    if let Ok(time) = text.parse::<Time>() {
        // The last time that a clock showed it.
        let today = now.date().to_datetime(time);
        let last = if today > now.datetime() {
            today.checked_sub(1.day())
        } else {
            Ok(today)
        };
        return last.map_err(|e| e.to_string());
    }
    Err(format!("not a time: {FORMS}"))
}

fn time_of_day(text: &str) -> Result<Time, String> {
    match text {
        "" => Ok(Time::midnight()),
        text => text
            .parse()
            .map_err(|_| format!("'{text}' is not a time of day: write 03:00")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn when(text: &str) -> Result<String, String> {
        // A Tuesday, six hours after midnight, two days after the change to summer time.
        let now: Zoned = "2026-03-31T06:00:00+02:00[Europe/Berlin]".parse().unwrap();
        at(text, &now).map(|time| humantime::format_rfc3339(time).to_string())
    }

    /// Promise 16.
    #[test]
    fn every_form_that_the_book_names_is_read() {
        for (text, expected) in [
            ("2026-03-01T03:00:00Z", "2026-03-01T03:00:00Z"),
            ("2026-03-01T03:00:00+01:00", "2026-03-01T02:00:00Z"),
            ("2026-03-01 03:00", "2026-03-01T02:00:00Z"),
            ("2026-03-01T03:00", "2026-03-01T02:00:00Z"),
            ("2026-03-01", "2026-02-28T23:00:00Z"),
            ("03:00", "2026-03-31T01:00:00Z"),
            ("03:00:30", "2026-03-31T01:00:30Z"),
            // Later than now, and therefore yesterday.
            ("23:00", "2026-03-30T21:00:00Z"),
            ("today 03:00", "2026-03-31T01:00:00Z"),
            ("yesterday 03:00", "2026-03-30T01:00:00Z"),
            ("Yesterday", "2026-03-29T22:00:00Z"),
            // In winter time.
            ("2026-03-28 03:00", "2026-03-28T02:00:00Z"),
            ("2h ago", "2026-03-31T02:00:00Z"),
            ("90s ago", "2026-03-31T03:58:30Z"),
            ("1day 6h ago", "2026-03-29T22:00:00Z"),
            (" now ", "2026-03-31T04:00:00Z"),
        ] {
            assert_eq!(when(text).as_deref(), Ok(expected), "{text}");
        }
    }

    /// Promise 16.
    #[test]
    fn an_invalid_time_is_refused_with_the_valid_forms() {
        for (text, words) in [
            ("", "yesterday 03:00"),
            ("noon", "yesterday 03:00"),
            ("25:00", "yesterday 03:00"),
            ("2026-02-30", "yesterday 03:00"),
            ("yesterday at 3", "'at 3' is not a time of day"),
            ("2026-03-01 3pm", "'3pm' is not a time of day"),
            ("3 ago", "'3' is not a duration"),
            ("ago", "'' is not a duration"),
            ("9999999999h ago", "before 1970"),
            ("-1h ago", "'-1h' is not a duration"),
        ] {
            let refused = when(text).unwrap_err();
            assert!(refused.contains(words), "{text}: {refused}");
        }
    }
}
