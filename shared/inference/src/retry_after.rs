//! The `Retry-After` header.

use std::time::{Duration, SystemTime};

/// How long from `now` a server asks to be left alone: seconds or a date. `None` where the text is neither.
///
/// A date that has passed is a wait of zero. Callers clamp what they are told.
///
/// Source: RFC 9110, section 10.2.3.
pub(crate) fn parse(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let due = httpdate::parse_http_date(text).ok()?;
    Some(due.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_understood() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_770);
        for (text, seconds) in [
            ("7", Some(7.0)),
            (" 0.5 ", Some(0.5)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(7.0)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0.0)),
            ("-3", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(parse(text, now).map(|wait| wait.as_secs_f64()), seconds, "{text:?}");
        }
    }
}
