use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ranges of client addresses. The time to find an address grows with the logarithm of their number.
#[derive(Debug)]
pub(super) struct AddressRanges {
    /// First and last addresses, sorted, without overlaps.
    v4: Box<[(u32, u32)]>,
    v6: Box<[(u128, u128)]>,
}

impl AddressRanges {
    /// Compiles ranges as `10.0.0.0/8`.
    ///
    /// # Errors
    /// The first that is none.
    pub(super) fn compile(ranges: &[String]) -> Result<Self, &str> {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for text in ranges {
            match parse(text).ok_or(text.as_str())? {
                (IpAddr::V4(ip), length) => {
                    let behind = u32::MAX.checked_shr(length).unwrap_or(0);
                    v4.push((u32::from(ip) & !behind, u32::from(ip) | behind));
                }
                (IpAddr::V6(ip), length) => {
                    let behind = u128::MAX.checked_shr(length).unwrap_or(0);
                    v6.push((u128::from(ip) & !behind, u128::from(ip) | behind));
                }
            }
        }
        Ok(AddressRanges { v4: joined(v4), v6: joined(v6) })
    }

    /// Whether an address is in a range. An IPv4 address in the form of an IPv6 one is an IPv4 address.
    pub(super) fn contain(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(ip) => holds(&self.v4, u32::from(ip)),
            IpAddr::V6(ip) => holds(&self.v6, u128::from(ip)),
        }
    }
}

/// The bits before an IPv4 address in the form of an IPv6 one.
const V4_IN_V6: u32 = 96;

/// An IPv4 range in the form of an IPv6 one is an IPv4 range.
fn parse(text: &str) -> Option<(IpAddr, u32)> {
    let (ip, length) = text.split_once('/').map_or((text, None), |(ip, length)| (ip, Some(length)));
    let ip: IpAddr = ip.parse().ok()?;
    let most = if ip.is_ipv4() { Ipv4Addr::BITS } else { Ipv6Addr::BITS };
    let length = length.map_or(Some(most), |length| length.parse().ok())?;
    let of_v4 = match ip {
        IpAddr::V6(ip) => ip.to_ipv4_mapped().zip(length.checked_sub(V4_IN_V6)),
        IpAddr::V4(_) => None,
    };
    let (ip, length, most) = of_v4.map_or((ip, length, most), |(ip, length)| (ip.into(), length, Ipv4Addr::BITS));
    (length <= most).then_some((ip, length))
}

/// Joins ranges that overlap.
fn joined<N: Copy + Ord>(mut ranges: Vec<(N, N)>) -> Box<[(N, N)]> {
    ranges.sort_unstable();
    let mut joined: Vec<(N, N)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match joined.last_mut() {
            Some((_, end)) if first <= *end => *end = last.max(*end),
            _ => joined.push((first, last)),
        }
    }
    joined.into_boxed_slice()
}

fn holds<N: Copy + Ord>(ranges: &[(N, N)], address: N) -> bool {
    let behind = ranges.partition_point(|(first, _)| *first <= address);
    behind.checked_sub(1).and_then(|at| ranges.get(at)).is_some_and(|(_, last)| address <= *last)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::AddressRanges;

    fn ranges(texts: &[&str]) -> AddressRanges {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        AddressRanges::compile(&texts).unwrap()
    }

    #[test]
    fn address_is_found_in_its_range_alone() {
        let table = [
            (
                &["10.0.0.0/8"][..],
                &["10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3"][..],
                &["9.255.255.255", "11.0.0.0", "::"][..],
            ),
            (&["192.0.2.7", "192.0.2.9/32"], &["192.0.2.7", "192.0.2.9"], &["192.0.2.8", "192.0.2.6", "192.0.2.10"]),
            (&["10.0.0.0/8", "10.1.0.0/16", "10.255.0.0/16"], &["10.0.0.1", "10.200.0.0"], &["11.0.0.0"]),
            (&["0.0.0.0/0"], &["0.0.0.0", "255.255.255.255"], &["::1", "2001:db8::"]),
            (&["::/0"], &["::1", "ffff::"], &["1.2.3.4", "::ffff:1.2.3.4"]),
            (&["::ffff:203.0.113.0/120"], &["203.0.113.7", "::ffff:203.0.113.7"], &["203.0.114.0", "::"]),
            (&["::ffff:192.0.2.1"], &["192.0.2.1"], &["192.0.2.2"]),
            (&["2001:db8::/32"], &["2001:db8::", "2001:db8:ffff::1"], &["2001:db9::", "2001:db7:ffff::"]),
            (&[], &[], &["1.2.3.4", "::1"]),
        ];
        for (texts, inside, outside) in table {
            let ranges = ranges(texts);
            let contain = |text: &&str| ranges.contain(text.parse().unwrap());
            assert!(inside.iter().all(contain), "{texts:?} {inside:?}");
            assert!(!outside.iter().any(contain), "{texts:?} {outside:?}");
        }
    }

    #[test]
    fn text_that_is_no_range_is_refused() {
        for text in ["", "10.0.0.0/33", "::/129", "a", "10.0.0.0/", "10.0.0.0/-1", "10.0.0/8", "/8"] {
            assert_eq!(AddressRanges::compile(&[text.to_owned()]).err(), Some(text), "{text:?}");
        }
    }

    /// By the model of looking at each range.
    #[test]
    fn many_ranges_hold_what_each_of_them_holds() {
        let step = 0x9E37_79B9_u32;
        let texts: Vec<String> = (0..100_000_u32)
            .map(|at| format!("{}/{}", std::net::Ipv4Addr::from(at.wrapping_mul(step) & 0xFFFF_FFF0), 28 + at % 5))
            .collect();
        let ranges = AddressRanges::compile(&texts).unwrap();
        let (mut found, mut missed) = (0, 0);
        for at in 0..1_000_u32 {
            // Every other one is at an end of a range, or beside it.
            let address = match at % 2 {
                0 => at.wrapping_mul(0x85EB_CA6B).rotate_left(at % 32),
                _ => (at.wrapping_mul(step) & 0xFFFF_FFF0).wrapping_add(at % 19).wrapping_sub(1),
            };
            let is_in = |text: &String| {
                let (ip, length) = text.split_once('/').unwrap();
                let ip = u32::from(ip.parse::<std::net::Ipv4Addr>().unwrap());
                let behind = 32 - length.parse::<u32>().unwrap();
                ip >> behind == address >> behind
            };
            let wanted = texts.iter().any(is_in);
            assert_eq!(ranges.contain(IpAddr::V4(address.into())), wanted, "{address:x}");
            if wanted { found += 1 } else { missed += 1 }
        }
        assert!(found > 0 && missed > 0, "{found} {missed}");
    }
}
