//! Whether a request's `:authority` belongs to the cluster whose filter chain it arrived on. SNI chose the chain; a
//! request for another cluster's name on the same connection must not be judged by this one's rules.

use std::cmp::Ordering;
use std::net::IpAddr;

/// The names that a cluster answers to, lower-case.
#[derive(Debug, Default)]
pub struct AllowedHosts {
    /// By length, then in order, as the suffixes are: tenants give a cluster many names, and each request's is looked for.
    exact: Box<[Box<[u8]>]>,
    /// Without the `*`: `.example.com`.
    suffixes: Box<[Box<[u8]>]>,
}

/// How closely a name, or a wildcard, covers a host; the closest is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostCover {
    /// A wildcard with a suffix of that many bytes.
    Wildcard(usize),
    /// The name itself.
    Exact,
}

impl AllowedHosts {
    /// Compiles names; `*.example.com` covers exactly one label.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut exact, mut suffixes) = (Vec::<Box<[u8]>>::new(), Vec::<Box<[u8]>>::new());
        for name in names {
            let name = name.to_ascii_lowercase();
            match name.strip_prefix('*') {
                Some(suffix) => suffixes.push(Box::from(suffix.as_bytes())),
                None => exact.push(Box::from(name.as_bytes())),
            }
        }
        for names in [&mut exact, &mut suffixes] {
            names.sort_unstable_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
        }
        AllowedHosts { exact: exact.into(), suffixes: suffixes.into() }
    }

    /// Whether the authority, port included, is one of the names or an IP address: no cluster can be named like one.
    pub fn accept(&self, authority: &[u8]) -> bool {
        host_of(authority).is_some_and(|host| self.cover(host).is_some() || is_ip(host))
    }

    /// Whether the authority, port included, is one of the names.
    pub fn name(&self, authority: &[u8]) -> bool {
        host_of(authority).is_some_and(|host| self.cover(host).is_some())
    }

    /// Whether a wildcard covers all hosts.
    pub(crate) fn cover_all(&self) -> bool {
        self.suffixes.first().is_some_and(|shortest| shortest.is_empty())
    }

    /// How the names cover the host of a request.
    pub(crate) fn cover(&self, host: &[u8]) -> Option<HostCover> {
        if contains(&self.exact, host) {
            return Some(HostCover::Exact);
        }
        let label = host.iter().position(|byte| *byte == b'.').unwrap_or(host.len());
        self.wildcard(host, label)
    }

    /// How the names cover the server name of a connection, of which a wildcard covers any number of labels, as in a proxy's filter
    /// chains.
    pub(crate) fn cover_server_name(&self, name: &[u8]) -> Option<HostCover> {
        if contains(&self.exact, name) {
            return Some(HostCover::Exact);
        }
        let dots = name.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(at, _)| at);
        dots.chain([name.len()]).find_map(|labels| self.wildcard(name, labels))
    }

    /// The same by the authority of the connection's requests, port included.
    pub fn cover_connection(&self, authority: &[u8]) -> Option<HostCover> {
        self.cover_server_name(host_of(authority)?)
    }

    /// The wildcard whose suffix is behind that many bytes.
    fn wildcard(&self, host: &[u8], labels: usize) -> Option<HostCover> {
        let suffix = host.get(labels..).filter(|_| labels > 0)?;
        contains(&self.suffixes, suffix).then_some(HostCover::Wildcard(suffix.len()))
    }
}

/// Whether a text is among lower-case ones, which are in order.
fn contains(sorted: &[Box<[u8]>], text: &[u8]) -> bool {
    let of_same_length = |known: &[u8]| {
        if known.eq_ignore_ascii_case(text) {
            return Ordering::Equal;
        }
        known.iter().copied().cmp(text.iter().map(u8::to_ascii_lowercase))
    };
    sorted.binary_search_by(|known| known.len().cmp(&text.len()).then_with(|| of_same_length(known))).is_ok()
}

/// Whether an authority, port included, is an IP address.
pub(crate) fn is_address(authority: &[u8]) -> bool {
    host_of(authority).is_some_and(is_ip)
}

/// The host without port and trailing dot. `None` for what is no authority.
pub(crate) fn host_of(authority: &[u8]) -> Option<&[u8]> {
    let host = if authority.starts_with(b"[") {
        let end = authority.iter().position(|byte| *byte == b']')?;
        let (host, port) = authority.split_at_checked(end.checked_add(1)?)?;
        is_port(port).then_some(host)?
    } else {
        match authority.iter().position(|byte| *byte == b':') {
            Some(colon) => {
                let (host, port) = authority.split_at_checked(colon)?;
                is_port(port).then_some(host)?
            }
            None => authority,
        }
    };
    let host = host.strip_suffix(b".").unwrap_or(host);
    (!host.is_empty()).then_some(host)
}

/// Not without digits: Envoy does not take a colon alone off a name, and so finds the virtual host of no name with it.
fn is_port(text: &[u8]) -> bool {
    match text.split_first() {
        None => true,
        Some((b':', digits)) => (1..=5).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit),
        Some(_) => false,
    }
}

pub(crate) fn is_ip(host: &[u8]) -> bool {
    let bare = host.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")).unwrap_or(host);
    std::str::from_utf8(bare).is_ok_and(|text| text.parse::<IpAddr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by looking through all names.
    fn cover_by_search(names: &[String], host: &[u8], is_server_name: bool) -> Option<HostCover> {
        let lower = host.to_ascii_lowercase();
        let of_name = |name: &String| match name.strip_prefix('*') {
            None => (name.as_bytes() == lower).then_some(HostCover::Exact),
            Some(suffix) => {
                let labels = lower.strip_suffix(suffix.as_bytes()).filter(|labels| !labels.is_empty())?;
                (is_server_name || !labels.contains(&b'.')).then_some(HostCover::Wildcard(suffix.len()))
            }
        };
        names.iter().filter_map(of_name).max()
    }

    proptest::proptest! {
        #[test]
        fn names_are_found_as_by_looking_through_them(
            names in proptest::collection::vec("(\\*\\.|)[ab](\\.[ab]){0,2}|\\*", 0..20),
            host in "[.:\\[]?[abAB](\\.?[abAB]){0,4}\\.?",
        ) {
            let hosts = AllowedHosts::new(names.iter().map(String::as_str));
            let host = host.as_bytes();
            proptest::prop_assert_eq!(hosts.cover(host), cover_by_search(&names, host, false));
            proptest::prop_assert_eq!(hosts.cover_server_name(host), cover_by_search(&names, host, true));
        }
    }

    #[test]
    fn host_is_accepted_only_if_it_is_the_clusters() {
        let authorities = AllowedHosts::new(["prod.example.com", "*.shared.example.com"]);
        let accepted = [
            "prod.example.com",
            "PROD.example.com:6443",
            "prod.example.com.",
            "prod.example.com.:443",
            "a.shared.example.com",
            "127.0.0.1:6443",
            "[::1]:6443",
            "[::1]",
        ];
        let refused = [
            "",
            ":443",
            ".",
            "other.example.com",
            "prod.example.com.evil.com",
            "evil-prod.example.com",
            "prod.example.com:x",
            "prod.example.com:",
            "a.shared.example.com:",
            "a.shared.example.com.:",
            "127.0.0.1:",
            "[::1]:",
            "prod.example.com:443:443",
            "shared.example.com",
            ".shared.example.com",
            "a.b.shared.example.com",
            "user@prod.example.com",
            "[::1]x",
            "[prod.example.com]",
            "prod.example.com..",
        ];
        for authority in accepted {
            assert!(authorities.accept(authority.as_bytes()), "{authority}");
        }
        for authority in refused {
            assert!(!authorities.accept(authority.as_bytes()), "{authority}");
        }
    }
}
