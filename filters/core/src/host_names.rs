//! Whether a request's `:authority` belongs to the cluster whose filter chain it arrived on. SNI chose the chain; a
//! request for another cluster's name on the same connection must not be judged by this one's rules.

use std::net::IpAddr;

/// The names that a cluster answers to, lower-case.
#[derive(Debug, Default)]
pub struct AllowedHosts {
    exact: Vec<Box<[u8]>>,
    /// Without the `*`: `.example.com`.
    suffixes: Vec<Box<[u8]>>,
}

impl AllowedHosts {
    /// Compiles names; `*.example.com` covers exactly one label.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut authorities = AllowedHosts::default();
        for name in names {
            let name = name.to_ascii_lowercase();
            match name.strip_prefix('*') {
                Some(suffix) => authorities.suffixes.push(suffix.as_bytes().into()),
                None => authorities.exact.push(name.as_bytes().into()),
            }
        }
        authorities
    }

    /// Whether the authority, port included, is one of the names or an IP address: no cluster can be named like one.
    pub fn accept(&self, authority: &[u8]) -> bool {
        host_of(authority).is_some_and(|host| self.hold(host) || is_ip(host))
    }

    /// Whether the authority, port included, is one of the names.
    pub fn name(&self, authority: &[u8]) -> bool {
        host_of(authority).is_some_and(|host| self.hold(host))
    }

    fn hold(&self, host: &[u8]) -> bool {
        self.exact.iter().any(|name| name.eq_ignore_ascii_case(host))
            || self.suffixes.iter().any(|suffix| is_one_label_under(host, suffix))
    }
}

/// The host without port and trailing dot. `None` for what is no authority.
fn host_of(authority: &[u8]) -> Option<&[u8]> {
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

fn is_one_label_under(host: &[u8], suffix: &[u8]) -> bool {
    let Some((label, tail)) = host.len().checked_sub(suffix.len()).and_then(|at| host.split_at_checked(at)) else {
        return false;
    };
    !label.is_empty() && !label.contains(&b'.') && tail.eq_ignore_ascii_case(suffix)
}

fn is_ip(host: &[u8]) -> bool {
    let bare = host.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")).unwrap_or(host);
    std::str::from_utf8(bare).is_ok_and(|text| text.parse::<IpAddr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

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
