use std::net::IpAddr;

/// Longest DNS name.
const MAX_NAME: usize = 253;
/// Longest label of a DNS name.
const MAX_LABEL: usize = 63;

/// Whether `label` is a DNS label as Kubernetes names have it (RFC 1123, lower-case).
pub(crate) fn is_dns_label(label: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    !label.is_empty()
        && label.len() <= MAX_LABEL
        && label.bytes().all(inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Whether `name` is a DNS subdomain as Kubernetes names have it (RFC 1123, lower-case).
pub(crate) fn is_subdomain(name: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let is_part =
        |part: &str| !part.is_empty() && part.bytes().all(inner) && !part.starts_with('-') && !part.ends_with('-');
    name.len() <= MAX_NAME && name.split('.').all(is_part)
}

/// Whether `name` is a lower-case DNS name and cannot be taken for an IP address.
pub(crate) fn is_dns_name(name: &str) -> bool {
    let last_is_number = name.rsplit('.').next().is_some_and(|last| last.bytes().all(|c| c.is_ascii_digit()));
    name.len() <= MAX_NAME && name.split('.').all(is_dns_label) && !last_is_number && name.parse::<IpAddr>().is_err()
}

/// Whether `name` is the lower-case name of SRV records of a TCP service (RFC 2782): `_service._tcp.` before a DNS name.
pub(crate) fn is_srv_name(name: &str) -> bool {
    let service_and_name = name.strip_prefix('_').and_then(|rest| rest.split_once("._tcp."));
    name.len() <= MAX_NAME && service_and_name.is_some_and(|(service, name)| is_dns_label(service) && is_dns_name(name))
}

/// Whether `name` is a DNS name or `*.` before one of at least two labels.
pub(crate) fn is_served_name(name: &str) -> bool {
    match name.strip_prefix("*.") {
        Some(parent) => parent.contains('.') && is_dns_name(parent),
        None => is_dns_name(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_srv_records_are_of_a_service_over_tcp() {
        for name in ["_https._tcp.example.com", "_kube-apiserver._tcp.a"] {
            assert!(is_srv_name(name), "{name}");
        }
        let long = format!("_https._tcp.{}", ["a".repeat(60).as_str(); 4].join("."));
        for name in [
            "",
            "_https._tcp",
            "_https._tcp.",
            "https._tcp.a",
            "_https._udp.a",
            "_HTTPS._tcp.a",
            "__._tcp.a",
            "_._tcp.a",
            "_https._tcp.a.",
            "_a.b._tcp.c",
            "_https._tcp.10.0.0.1",
            "_https._tcp._a",
            &long,
        ] {
            assert!(!is_srv_name(name), "{name}");
        }
    }

    #[test]
    fn names_are_dns_names_with_at_most_one_leading_wildcard() {
        for name in ["a", "prod.example.com", "*.example.com", "a-1.b", "0a.b"] {
            assert!(is_served_name(name), "{name}");
        }
        let long = format!("{}.test", "a".repeat(64));
        for name in [
            "",
            "*",
            "*.com",
            "a.*.com",
            "*a.example.com",
            "A.test",
            "a_b",
            "-a",
            "a-",
            "a..b",
            "a.",
            "1.2.3.4",
            "a.1",
            "::1",
            "a:1",
            &long,
        ] {
            assert!(!is_served_name(name), "{name}");
        }
    }
}
