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

    /// The first and the last address as numbers.
    fn ends(self) -> (u128, u128) {
        let behind = u32::from(bits(self.ip).saturating_sub(self.length));
        let first = match self.ip {
            IpAddr::V4(ip) => u128::from(u32::from(ip)),
            IpAddr::V6(ip) => u128::from(ip),
        };
        (first, first | u128::MAX.checked_shl(behind).map_or(u128::MAX, |mask| !mask))
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

/// Whether these ranges, as [`check_ranges`] sorts them, have all addresses of IPv4 or all of IPv6.
pub(super) fn have_all_addresses(ranges: &[String]) -> bool {
    let ranges: Vec<Cidr> = ranges.iter().filter_map(|text| Cidr::parse(text)).collect();
    let ends = |is_v4| ranges.iter().filter(move |range| range.ip.is_ipv4() == is_v4).map(|range| range.ends());
    have_no_gap(ends(true), u128::from(u32::MAX)) || have_no_gap(ends(false), u128::MAX)
}

fn have_no_gap(ranges: impl Iterator<Item = (u128, u128)>, end: u128) -> bool {
    let mut next = 0_u128;
    for (first, last) in ranges {
        if first > next {
            return false;
        }
        if last >= end {
            return true;
        }
        next = next.max(last.saturating_add(1));
    }
    false
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
        for (ranges, is_all) in [
            (&["0.0.0.0/0"][..], true),
            (&["0.0.0.0/1", "128.0.0.0/1"], true),
            (&["0.0.0.0/1", "10.0.0.0/8", "128.0.0.0/2", "192.0.0.0/2"], true),
            (&["0.0.0.0/1", "128.0.0.0/2", "224.0.0.0/3"], false),
            (&["10.0.0.0/8", "::/1", "8000::/1"], true),
            (&["::/1", "8000::/2"], false),
            (&["::ffff:0.0.0.0/97", "128.0.0.0/1"], true),
            (&[], false),
        ] {
            let texts: Vec<String> = ranges.iter().map(|text| (*text).to_owned()).collect();
            let sorted: Vec<String> =
                check_ranges(&texts, "", &mut Findings::default()).iter().map(ToString::to_string).collect();
            assert_eq!(have_all_addresses(&sorted), is_all, "{ranges:?}");
        }
        for wrong in
            ["", "10.0.0.1/8", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/+8", "a/8", "10.0.0.0/8/8", "/8"]
        {
            assert_eq!(Cidr::parse(wrong), None, "{wrong}");
        }
    }
}
