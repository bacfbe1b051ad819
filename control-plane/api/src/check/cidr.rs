use std::fmt;
use std::net::IpAddr;

use super::Findings;

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cidr {
    /// The first address of the range.
    pub ip: IpAddr,
    /// The number of leading bits of the range.
    pub length: u8,
}

/// The bits before an IPv4 address in the form of an IPv6 one.
const V4_IN_V6: u8 = 96;

impl Cidr {
    /// Whether the address is in the range.
    pub fn contains(&self, ip: IpAddr) -> bool {
        Self::truncated(ip, self.length) == Some(self.ip)
    }

    /// Reads `10.0.0.0/8`; an address alone is a range of one. `None` for anything else, and where bits are set behind the
    /// range's. An IPv4 range in the form of an IPv6 one is an IPv4 range.
    fn parse(text: &str) -> Option<Self> {
        let (ip, length) = match text.split_once('/') {
            Some((ip, length)) if length.bytes().all(|c| c.is_ascii_digit()) => {
                (ip.parse().ok()?, length.parse().ok()?)
            }
            Some(_) => return None,
            None => {
                let ip: IpAddr = text.parse().ok()?;
                (ip, bits(ip))
            }
        };
        if Self::truncated(ip, length) != Some(ip) {
            return None;
        }
        let of_v4 = match ip {
            IpAddr::V6(ip) => ip.to_ipv4_mapped().zip(length.checked_sub(V4_IN_V6)),
            IpAddr::V4(_) => None,
        };
        let (ip, length) = of_v4.map_or((ip, length), |(ip, length)| (ip.into(), length));
        Some(Self { ip, length })
    }

    fn truncated(ip: IpAddr, length: u8) -> Option<IpAddr> {
        let behind = u32::from(bits(ip).checked_sub(length)?);
        Some(match ip {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(behind).unwrap_or(0);
                IpAddr::V4((u32::from(ip) & mask).into())
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(behind).unwrap_or(0);
                IpAddr::V6((u128::from(ip) & mask).into())
            }
        })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.length)
    }
}

fn bits(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

/// The ranges, sorted, each once.
pub(super) fn check_ranges(raw: &[String], path: &str, findings: &mut Findings) -> Vec<Cidr> {
    let mut ranges = Vec::with_capacity(raw.len());
    for (index, text) in raw.iter().enumerate() {
        match Cidr::parse(text) {
            Some(range) => ranges.push(range),
            None => findings.problem(format!("{path}[{index}]"), "must be an address or a range as 10.0.0.0/8"),
        }
    }
    ranges.sort_unstable();
    ranges.dedup();
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_what_they_say() {
        for (range, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("0.0.0.0/0", "255.255.255.255", "::"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("::/0", "ffff::", "0.0.0.0"),
            ("::ffff:10.0.0.0/104", "10.1.2.3", "11.0.0.0"),
        ] {
            let range = Cidr::parse(range).unwrap();
            assert!(range.contains(inside.parse().unwrap()), "{range} {inside}");
            assert!(!range.contains(outside.parse().unwrap()), "{range} {outside}");
        }
        for wrong in
            ["", "10.0.0.1/8", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/+8", "a/8", "10.0.0.0/8/8", "/8"]
        {
            assert_eq!(Cidr::parse(wrong), None, "{wrong}");
        }
    }
}
