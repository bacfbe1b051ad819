use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use crate::dns_name::is_dns_name;

/// A server's host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServerHost {
    /// An address.
    Ip(IpAddr),
    /// A lower-case DNS name, resolved by Envoy.
    Dns(String),
}

/// The address of a server. The protocol is always HTTPS.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The host.
    pub host: ServerHost,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            ServerHost::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]:{}", self.port),
            ServerHost::Ip(IpAddr::V4(ip)) => write!(f, "{ip}:{}", self.port),
            ServerHost::Dns(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

/// Why an endpoint cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EndpointError {
    #[error("must be https://host[:port]")]
    Scheme,
    #[error("http is not supported, because the gateway's credential would travel in the clear: use https")]
    Http,
    #[error("must not hold user information, a query or a fragment")]
    Extra,
    #[error("the host must be a DNS name, an IPv4 address or an IPv6 address in brackets")]
    Host,
    #[error("the port must be a number from 1 to 65535")]
    Port,
    #[error("a loopback address is only allowed with allowLoopbackUpstreams in the GatewaySettings")]
    Loopback,
    #[error("link-local (including cloud metadata), unspecified, broadcast and multicast addresses are not allowed")]
    Special,
}

/// An endpoint and whether a path was dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub(crate) endpoint: Endpoint,
    pub(crate) had_path: bool,
}

/// Reads `https://host[:port][/path]`.
pub(crate) fn parse_endpoint(text: &str) -> Result<Parsed, EndpointError> {
    let rest = match text.strip_prefix("https://") {
        Some(rest) => rest,
        None if text.starts_with("http://") => return Err(EndpointError::Http),
        None => return Err(EndpointError::Scheme),
    };
    if rest.contains(['@', '?', '#', '\\']) {
        return Err(EndpointError::Extra);
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = split_port(authority)?;
    Ok(Parsed { endpoint: Endpoint { host: parse_host(host)?, port: parse_port(port)? }, had_path: !path.is_empty() })
}

fn split_port(authority: &str) -> Result<(&str, Option<&str>), EndpointError> {
    if authority.starts_with('[') {
        let end = authority.find(']').ok_or(EndpointError::Host)?;
        let (host, after) = authority.split_at(end + 1);
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if after.is_empty() => Ok((host, None)),
            None => Err(EndpointError::Host),
        };
    }
    Ok(match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    })
}

fn parse_port(port: Option<&str>) -> Result<u16, EndpointError> {
    let Some(port) = port else { return Ok(443) };
    if !port.bytes().all(|c| c.is_ascii_digit()) {
        return Err(EndpointError::Port);
    }
    port.parse().ok().filter(|port| *port != 0).ok_or(EndpointError::Port)
}

fn parse_host(host: &str) -> Result<ServerHost, EndpointError> {
    if let Some(inner) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        let ip: Ipv6Addr = inner.parse().map_err(|_| EndpointError::Host)?;
        return Ok(ServerHost::Ip(ip.to_canonical()));
    }
    if let Ok(ip) = host.parse::<std::net::Ipv4Addr>() {
        return Ok(ServerHost::Ip(ip.into()));
    }
    let name = host.to_ascii_lowercase();
    if is_dns_name(&name) && !ends_in_hex(&name) { Ok(ServerHost::Dns(name)) } else { Err(EndpointError::Host) }
}

/// As in `0x7f000001`, which resolvers take for an IPv4 address. They do so with decimal numbers, too, which no DNS name
/// ends in.
fn ends_in_hex(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    last.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|c| c.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_normalised() {
        for (text, shown) in [
            ("https://10.0.0.1:6443", "10.0.0.1:6443"),
            ("https://10.0.0.1", "10.0.0.1:443"),
            ("https://API.example.com/", "api.example.com:443"),
            ("https://api.example.com:8443/path", "api.example.com:8443"),
            ("https://[2001:db8::1]:6443", "[2001:db8::1]:6443"),
            ("https://[::ffff:10.0.0.1]:1", "10.0.0.1:1"),
        ] {
            assert_eq!(parse_endpoint(text).map(|p| p.endpoint.to_string()), Ok(shown.to_owned()), "{text}");
        }
    }

    #[test]
    fn broken_endpoints_are_told_apart() {
        for (text, error) in [
            ("http://10.0.0.1", EndpointError::Http),
            ("HTTPS://10.0.0.1", EndpointError::Scheme),
            ("10.0.0.1:6443", EndpointError::Scheme),
            ("https://user@10.0.0.1", EndpointError::Extra),
            ("https://a.test?x", EndpointError::Extra),
            ("https://", EndpointError::Host),
            ("https://2001:db8::1", EndpointError::Host),
            ("https://[10.0.0.1]", EndpointError::Host),
            ("https://[::1", EndpointError::Host),
            ("https://[2001:db8::1]x", EndpointError::Host),
            ("https://a_b.test", EndpointError::Host),
            ("https://127.1:443", EndpointError::Host),
            ("https://2130706433", EndpointError::Host),
            ("https://0177.0.0.1", EndpointError::Host),
            ("https://0x7f000001", EndpointError::Host),
            ("https://0X7F.1", EndpointError::Host),
            ("https://127.0.0.0x1:443", EndpointError::Host),
            ("https://0x", EndpointError::Host),
            ("https://127.0.0.1.", EndpointError::Host),
            ("https://localhost.", EndpointError::Host),
            ("https://%31%32%37.0.0.1", EndpointError::Host),
            ("https://１２７.0.0.1", EndpointError::Host),
            ("https://[fe80::1%eth0]", EndpointError::Host),
            ("https://[fe80::1%25eth0]", EndpointError::Host),
            ("https://[2001:db8::1%1]", EndpointError::Host),
            ("https://a.test:0", EndpointError::Port),
            ("https://a.test:65536", EndpointError::Port),
            ("https://a.test:+1", EndpointError::Port),
            ("https://a.test:", EndpointError::Port),
        ] {
            assert_eq!(parse_endpoint(text), Err(error), "{text}");
        }
    }
}
