use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::endpoint::{EndpointError, ServerHost};

/// Refuses addresses that lead back into the gateway's own machine or to a cloud's metadata. A DNS name is only judged by
/// its spelling: what it resolves to is Envoy's knowledge.
pub(super) fn check_address(host: &ServerHost, allow_loopback: bool) -> Result<(), EndpointError> {
    let reach = match host {
        ServerHost::Dns(name) if name == "localhost" || name.ends_with(".localhost") => Reach::Loopback,
        ServerHost::Dns(_) => Reach::Away,
        ServerHost::Ip(IpAddr::V4(ip)) => reach_of(*ip),
        ServerHost::Ip(IpAddr::V6(ip)) => ipv4_inside(*ip).into_iter().map(reach_of).fold(reach_of_v6(*ip), Reach::max),
    };
    match reach {
        Reach::Special => Err(EndpointError::Special),
        Reach::Loopback if !allow_loopback => Err(EndpointError::Loopback),
        Reach::Loopback | Reach::Away => Ok(()),
    }
}

/// Whether a server may have this address.
pub fn is_allowed_server(ip: IpAddr, allow_loopback: bool) -> bool {
    check_address(&ServerHost::Ip(ip.to_canonical()), allow_loopback).is_ok()
}

/// The reach of an address, the worst last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    Away,
    Loopback,
    Special,
}

impl Reach {
    fn of(is_loopback: bool, is_special: bool) -> Self {
        match (is_loopback, is_special) {
            (_, true) => Self::Special,
            (true, false) => Self::Loopback,
            (false, false) => Self::Away,
        }
    }
}

/// The addresses of cloud metadata services, or equally sensitive ones, in addition to the link-local range.
const METADATA_V4: [[u8; 4]; 3] = [[100, 100, 100, 200], [168, 63, 129, 16], [192, 0, 0, 192]];
const METADATA_V6: [[u16; 8]; 2] = [[0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254], [0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x254]];

fn reach_of(ip: Ipv4Addr) -> Reach {
    let [first, ..] = ip.octets();
    let is_metadata = METADATA_V4.contains(&ip.octets());
    let is_special = ip.is_link_local() || ip.is_broadcast() || ip.is_multicast() || first == 0;
    Reach::of(ip.is_loopback(), is_special || is_metadata)
}

fn reach_of_v6(ip: Ipv6Addr) -> Reach {
    let metadata = METADATA_V6.contains(&ip.segments());
    // Site-local addresses (fec0::/10) are given up, and some systems route them all the same.
    let is_site_local = ip.segments().first().is_some_and(|first| first & 0xffc0 == 0xfec0);
    let is_local = ip.is_unicast_link_local() || is_site_local;
    Reach::of(ip.is_loopback(), is_local || ip.is_multicast() || ip.is_unspecified() || metadata)
}

/// The IPv4 addresses to which a machine may translate or tunnel this one. Mapped ones (`::ffff:0:0/96`) are read as IPv4
/// already.
fn ipv4_inside(ip: Ipv6Addr) -> Vec<Ipv4Addr> {
    let bits = u128::from(ip);
    // The number of bits before the address.
    let at = |before: u32| Ipv4Addr::from_bits(low_32(bits >> (96 - before)));
    match ip.segments() {
        _ if ip.is_loopback() || ip.is_unspecified() => Vec::new(),
        // Compatible (RFC 4291, 2.5.5.1) and translated (RFC 7915).
        [0, 0, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => vec![at(96)],
        // NAT64 (RFC 6052).
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => vec![at(96)],
        [0x64, 0xff9b, 1, ..] => local_nat64(bits),
        // 6to4 (RFC 3056).
        [0x2002, ..] => vec![at(16)],
        // Teredo (RFC 4380): the server, and the client with its bits inverted.
        [0x2001, 0, ..] => vec![at(32), Ipv4Addr::from_bits(!low_32(bits))],
        // ISATAP (RFC 5214).
        [.., 0 | 0x200, 0x5efe, _, _] => vec![at(96)],
        _ => Vec::new(),
    }
}

/// The position of the address in the local-use prefix (RFC 8215) depends on a length that only the translator knows: 48, 56,
/// 64 or 96 bits, and bits 64 to 71 belong to no address (RFC 6052, 2.2). Bits that are no address at one length begin with
/// zeros.
fn local_nat64(bits: u128) -> Vec<Ipv4Addr> {
    let without_octet = (bits >> 64 << 56) | (bits & ((1 << 56) - 1));
    let at = |before: u32| Ipv4Addr::from_bits(low_32(without_octet >> (88 - before)));
    let all = [at(48), at(56), at(64), Ipv4Addr::from_bits(low_32(bits))];
    let (none, some): (Vec<_>, Vec<_>) = all.into_iter().partition(|ip| ip.octets().starts_with(&[0]));
    if some.is_empty() { none } else { some }
}

fn low_32(bits: u128) -> u32 {
    u32::try_from(bits & u128::from(u32::MAX)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::endpoint::parse_endpoint;
    use super::*;

    fn reach(host: &str, allow_loopback: bool) -> Result<(), EndpointError> {
        check_address(&parse_endpoint(&format!("https://{host}")).unwrap().endpoint.host, allow_loopback)
    }

    /// Every way to write an IPv4 address inside an IPv6 one.
    fn disguises(ip: [u8; 4]) -> Vec<String> {
        let [a, b, c, d] = ip;
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let hex = |bytes: &[u8]| {
            bytes.chunks(2).map(|pair| format!("{:x}{:02x}", pair[0], pair[1])).collect::<Vec<_>>().join(":")
        };
        vec![
            format!("{a}.{b}.{c}.{d}"),
            format!("[::ffff:{a}.{b}.{c}.{d}]"),
            format!("[::ffff:{high:x}:{low:x}]"),
            format!("[0:0:0:0:0:FFFF:{high:x}:{low:x}]"),
            format!("[::{a}.{b}.{c}.{d}]"),
            format!("[::ffff:0:{a}.{b}.{c}.{d}]"),
            format!("[64:ff9b::{a}.{b}.{c}.{d}]"),
            format!("[64:ff9b:0:0::{high:x}:{low:x}]"),
            format!("[64:ff9b:1::{a}.{b}.{c}.{d}]"),
            format!("[64:ff9b:1:ffff:0:ffff:{a}.{b}.{c}.{d}]"),
            format!("[64:ff9b:1:{}::]", hex(&[a, b, 0, c, d, 0])),
            format!("[64:ff9b:1:{}::]", hex(&[0, a, 0, b, c, d])),
            format!("[64:ff9b:1:{}::]", hex(&[0, 0, 0, a, b, c, d, 0])),
            format!("[2002:{high:x}:{low:x}::1]"),
            format!("[2001:0:{high:x}:{low:x}::f5ff:fffe]"),
            format!("[2001:0:c000:201::{:x}:{:x}]", !high, !low),
            format!("[2001:db8::5efe:{a}.{b}.{c}.{d}]"),
            format!("[2001:db8::200:5efe:{a}.{b}.{c}.{d}]"),
        ]
    }

    #[test]
    fn addresses_that_lead_home_are_refused() {
        let plain = ["[::1]", "localhost", "a.localhost", "LOCALHOST"].map(str::to_owned);
        let inside = [[127, 0, 0, 1], [127, 8, 8, 8]].into_iter().flat_map(disguises);
        for host in plain.into_iter().chain(inside) {
            assert_eq!(reach(&host, false), Err(EndpointError::Loopback), "{host}");
            assert_eq!(reach(&host, true), Ok(()), "{host}");
        }
    }

    #[test]
    fn addresses_that_are_no_servers_are_refused() {
        let plain = [
            "[fe80::1]",
            "[fec0::1]",
            "[::]",
            "[ff02::1]",
            "[fd00:ec2::254]",
            "[fd20:ce::254]",
            "0.0.0.0",
            "0.1.2.3",
            "[64:ff9b:1::]",
        ];
        let inside = [[169, 254, 169, 254], [169, 254, 0, 1], [224, 0, 0, 1], [255, 255, 255, 255]];
        let inside = inside.into_iter().chain(METADATA_V4);
        for host in plain.map(str::to_owned).into_iter().chain(inside.flat_map(disguises)) {
            assert_eq!(reach(&host, true), Err(EndpointError::Special), "{host}");
        }
    }

    #[test]
    fn address_of_another_host_is_accepted() {
        let plain = ["a.test", "[2001:db8::1]", "[fd00:ec2::253]", "localhost.test", "[2001:1::127.0.0.1]"];
        let inside = [[10, 0, 0, 1], [192, 0, 2, 200], [100, 64, 7, 7]].into_iter().flat_map(disguises);
        for host in plain.map(str::to_owned).into_iter().chain(inside) {
            assert_eq!(reach(&host, false), Ok(()), "{host}");
        }
    }
}
