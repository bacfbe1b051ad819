//! The little DER that certificates need. Written here because hostile tests want subjects that certificate libraries
//! refuse to make: several organizations in order, two common names, attributes with odd bytes.

/// One element: tag, length, content.
pub(super) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len();
    if let Ok(short @ 0..=0x7f) = u8::try_from(length) {
        out.push(short);
    } else {
        let bytes = length.to_be_bytes();
        let used: Vec<u8> = bytes.into_iter().skip_while(|byte| *byte == 0).collect();
        out.push(0x80 | u8::try_from(used.len()).unwrap_or(8));
        out.extend(used);
    }
    out.extend_from_slice(content);
    out
}

/// SEQUENCE of elements that are encoded already.
pub(super) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    element(0x30, &parts.concat())
}

/// SET of one element.
pub(super) fn set(part: &[u8]) -> Vec<u8> {
    element(0x31, part)
}

/// Non-negative INTEGER from big-endian bytes.
pub(super) fn integer(bytes: &[u8]) -> Vec<u8> {
    let mut content: Vec<u8> = bytes.iter().copied().skip_while(|byte| *byte == 0).collect();
    if content.first().is_none_or(|first| *first >= 0x80) {
        content.insert(0, 0);
    }
    element(0x02, &content)
}

/// OBJECT IDENTIFIER; the first two arcs are one byte together.
pub(super) fn oid(arcs: &[u64]) -> Vec<u8> {
    let (first, second) = (arcs.first().copied().unwrap_or(0), arcs.get(1).copied().unwrap_or(0));
    let mut content = Vec::new();
    for arc in std::iter::once(first * 40 + second).chain(arcs.iter().skip(2).copied()) {
        base128(arc, &mut content);
    }
    element(0x06, &content)
}

fn base128(value: u64, out: &mut Vec<u8>) {
    let mut groups = vec![(value & 0x7f) as u8];
    let mut rest = value >> 7;
    while rest > 0 {
        groups.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.extend(groups.into_iter().rev());
}

/// BIT STRING without unused bits.
pub(super) fn bit_string(bytes: &[u8]) -> Vec<u8> {
    element(0x03, &[&[0], bytes].concat())
}

/// OCTET STRING.
pub(super) fn octet_string(bytes: &[u8]) -> Vec<u8> {
    element(0x04, bytes)
}

/// UTF8String; the bytes are not checked, on purpose.
pub(super) fn utf8_string(bytes: &[u8]) -> Vec<u8> {
    element(0x0c, bytes)
}

/// BOOLEAN true.
pub(super) fn boolean_true() -> Vec<u8> {
    element(0x01, &[0xff])
}

/// Time from seconds since 1970: UTCTime until 2049, GeneralizedTime after, as RFC 5280 4.1.2.5 wants.
pub(super) fn time(unix_seconds: i64) -> Vec<u8> {
    let (year, month, day) = civil_from_days(unix_seconds.div_euclid(86_400));
    let second = unix_seconds.rem_euclid(86_400);
    let rest = format!("{month:02}{day:02}{:02}{:02}{:02}Z", second / 3600, second / 60 % 60, second % 60);
    if (1950..2050).contains(&year) {
        element(0x17, format!("{:02}{rest}", year % 100).as_bytes())
    } else {
        element(0x18, format!("{year:04}{rest}").as_bytes())
    }
}

/// Proleptic Gregorian date of a day count since 1970-01-01, counted in 400-year eras that start on 1 March.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::{civil_from_days, integer, oid, time};

    #[test]
    fn dates_are_those_of_the_calendar() {
        let table = [(0, (1970, 1, 1)), (-1, (1969, 12, 31)), (11_016, (2000, 2, 29)), (20_778, (2026, 11, 21))];
        for (days, date) in table {
            assert_eq!(civil_from_days(days), date);
        }
        assert_eq!(&time(951_782_400)[2..], b"000229000000Z");
        assert_eq!(&time(4_102_444_800)[2..], b"21000101000000Z".get(..15).unwrap());
    }

    #[test]
    fn integers_are_minimal_and_never_negative() {
        assert_eq!(integer(&[0, 0, 1]), [2, 1, 1]);
        assert_eq!(integer(&[0x80]), [2, 2, 0, 0x80]);
        assert_eq!(integer(&[]), [2, 1, 0]);
    }

    #[test]
    fn object_identifiers_use_base_128() {
        assert_eq!(oid(&[1, 2, 840, 10045, 2, 1]), [6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1]);
    }
}
