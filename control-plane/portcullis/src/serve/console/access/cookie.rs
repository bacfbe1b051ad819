use std::time::Duration;

use axum::http::{HeaderMap, header};

/// The prefix makes browsers refuse the cookie unless it is `Secure`, of this host alone and of every path of it.
const NAME: &str = "__Host-portcullis";

/// The session's id in the cookies of a request.
pub(super) fn session_id(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut ids = pairs.filter(|(name, _)| *name == NAME).map(|(_, id)| id);
    // Of two no one can say which is the browser's own.
    ids.next().filter(|_| ids.next().is_none())
}

/// The header that stores a session's id in the browser.
pub(crate) fn set(id: &str, lifetime: Duration) -> String {
    format!("{NAME}={id}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age={}", lifetime.as_secs())
}

/// The header that removes it.
pub(crate) fn remove() -> String {
    set("", Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_id_is_that_of_the_only_cookie_of_the_name() {
        let of = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::COOKIE, line.parse().unwrap());
            }
            session_id(&headers).map(str::to_owned)
        };
        assert_eq!(of(&["a=b; __Host-portcullis=id; c=d"]), Some("id".to_owned()));
        assert_eq!(of(&["a=b", "__Host-portcullis=id"]), Some("id".to_owned()));
        assert_eq!(of(&["portcullis=id; host-portcullis=id"]), None);
        assert_eq!(of(&["__Host-portcullis=id; __Host-portcullis=other"]), None);
        assert_eq!(of(&[]), None);
        let expected = "__Host-portcullis=id; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=60";
        assert_eq!(set("id", Duration::from_secs(60)), expected);
    }
}
