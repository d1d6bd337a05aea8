//! The `Retry-After` header.

use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};

/// How long a server asks to be left alone. A date is measured by the server's own clock, where the response tells it.
pub(crate) fn read(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok();
    let now = text(DATE).and_then(|date| httpdate::parse_http_date(date.trim()).ok());
    parse(text(RETRY_AFTER)?, now.unwrap_or_else(SystemTime::now))
}

/// How long from `now` a server asks to be left alone: seconds or a date. `None` where the text is neither.
///
/// A date that has passed is a wait of zero; more seconds than can be told are the longest wait. Callers clamp what they are
/// told.
///
/// Source: RFC 9110, section 10.2.3.
fn parse(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return (seconds >= 0.0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
    }
    let due = httpdate::parse_http_date(text).ok()?;
    Some(due.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn seconds_and_dates_are_understood() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_770);
        for (text, wait) in [
            ("7", Some(Duration::from_secs(7))),
            (" 0.5 ", Some(Duration::from_millis(500))),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(Duration::from_secs(7))),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(Duration::ZERO)),
            ("99999999999999999999", Some(Duration::MAX)),
            ("-3", None),
            ("nan", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(parse(text, now), wait, "{text:?}");
        }
    }

    #[test]
    fn a_date_is_measured_by_the_clock_of_the_server() {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT"));
        assert_eq!(read(&headers), Some(Duration::ZERO), "by ours it has passed");
        headers.insert(DATE, HeaderValue::from_static("Sun, 06 Nov 1994 08:49:30 GMT"));
        assert_eq!(read(&headers), Some(Duration::from_secs(7)));
        headers.insert(RETRY_AFTER, HeaderValue::from_static("9"));
        assert_eq!(read(&headers), Some(Duration::from_secs(9)));
    }
}
