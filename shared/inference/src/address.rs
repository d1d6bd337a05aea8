//! Addresses of engines as people write them.

use reqwest::Url;

/// Brings the base address of a server into one form: with a scheme, without `/v1` and without a slash at the end.
///
/// `localhost:8000`, `http://localhost:8000/` and `http://localhost:8000/v1/` all become `http://localhost:8000`; a path
/// before `/v1` is kept. A text that is no address comes back trimmed; [`Client::new`](crate::Client::new) says why it is
/// none.
#[must_use]
pub fn normalise_url(text: &str) -> String {
    base(text).unwrap_or_else(|_| text.trim().to_owned())
}

/// The normal form, or a clause that says why the text is no base address.
pub(crate) fn base(text: &str) -> Result<String, String> {
    let text = text.trim();
    let with_scheme = if text.contains("://") {
        text.to_owned()
    } else {
        format!("http://{text}")
    };
    let url = Url::parse(&with_scheme).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("the scheme is {}, not http or https", url.scheme()));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err("there is no host".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("a base address has no query and no fragment".to_owned());
    }
    let trimmed = url.as_str().trim_end_matches('/');
    let base = trimmed.strip_suffix("/v1").unwrap_or(trimmed);
    Ok(base.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_base_address_is_the_same_address() {
        for (written, normal) in [
            ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
            ("http://127.0.0.1:8000/", "http://127.0.0.1:8000"),
            ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000"),
            (" http://127.0.0.1:8000/v1// ", "http://127.0.0.1:8000"),
            ("localhost:8000/v1", "http://localhost:8000"),
            ("https://host/team/a/v1/", "https://host/team/a"),
            ("https://host/v10", "https://host/v10"),
        ] {
            assert_eq!(normalise_url(written), normal, "{written}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_reason() {
        for written in ["", "ftp://host", "http://", "http://host:port", "http://host?key=1"] {
            assert!(base(written).is_err(), "{written}");
            assert_eq!(normalise_url(written), written);
        }
    }
}
