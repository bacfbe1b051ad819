//! Requests that another site made a browser send (CSRF).

use axum::http::{HeaderMap, Uri, header};

/// The page that sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A page of this server.
    Same,
    /// A page of another one, or one that hides.
    Other,
    /// No browser says anything about it.
    Unknown,
}

/// The origin of a request, by the headers that no script in a browser can write.
pub(crate) fn origin(headers: &HeaderMap, uri: &Uri) -> Origin {
    let text = |name: header::HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    match text(header::HeaderName::from_static("sec-fetch-site")) {
        Some("same-origin") => {}
        // Of the address bar: no page sent it.
        Some("none") | None => {
            let Some(origin) = text(header::ORIGIN) else { return Origin::Unknown };
            return if is_own(origin, headers, uri) { Origin::Same } else { Origin::Other };
        }
        Some(_) => return Origin::Other,
    }
    match text(header::ORIGIN) {
        Some(origin) if !is_own(origin, headers, uri) => Origin::Other,
        _ => Origin::Same,
    }
}

/// Whether an origin is the host that the request asks. The scheme is not compared: behind a proxy it is another one.
fn is_own(origin: &str, headers: &HeaderMap, uri: &Uri) -> bool {
    let written = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = uri.authority().map(|authority| authority.as_str()).or(written);
    let authority = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    match (authority, host) {
        (Some(authority), Some(host)) => authority.eq_ignore_ascii_case(host),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&'static str, &'static str)]) -> Origin {
        let mut headers = HeaderMap::new();
        headers.insert("host", "portcullis.test:9080".parse().unwrap());
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        origin(&headers, &Uri::from_static("/ui/login"))
    }

    #[test]
    fn pages_of_this_server_alone_are_same() {
        let own = ("origin", "https://portcullis.test:9080");
        let fetch = |site| ("sec-fetch-site", site);
        assert_eq!(of(&[own]), Origin::Same);
        assert_eq!(of(&[own, fetch("same-origin")]), Origin::Same);
        assert_eq!(of(&[fetch("same-origin")]), Origin::Same);
        assert_eq!(of(&[]), Origin::Unknown);
        assert_eq!(of(&[fetch("none")]), Origin::Unknown);
        for site in ["cross-site", "same-site", "x"] {
            assert_eq!(of(&[own, fetch(site)]), Origin::Other, "{site}");
        }
        for other in [
            "null",
            "https://attacker.test",
            "https://portcullis.test",
            "https://portcullis.test:9081",
            "ftp://portcullis.test:9080",
            "https://portcullis.test:9080.attacker.test",
        ] {
            assert_eq!(of(&[("origin", other)]), Origin::Other, "{other}");
            assert_eq!(of(&[("origin", other), fetch("same-origin")]), Origin::Other, "{other}");
        }
    }
}
