/// A text is no number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a number of bytes: write it as 1500Mi or 2Gi")]
pub(crate) struct QuantityError;

const SUFFIXES: [(&str, u64); 8] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
];

/// Reads a number of bytes as Kubernetes writes quantities: a whole number, and a suffix if it has one.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    let suffixed = SUFFIXES.iter().find_map(|(suffix, scale)| Some((text.strip_suffix(suffix)?, *scale)));
    let (number, scale) = suffixed.unwrap_or((text, 1));
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(QuantityError);
    }
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale)).ok_or(QuantityError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_of_bytes_are_kubernetes_ones() {
        let table =
            [("0", 0), ("123", 123), ("2k", 2_000), ("3Ki", 3_072), ("1500Mi", 1_500 << 20), ("2G", 2_000_000_000)];
        for (text, bytes) in table {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "Mi", "-1", "+1", "1.5Gi", "1 Gi", "1gi", "1e3", "99999999999999999999", "99999999Ti"] {
            assert_eq!(parse_bytes(text), Err(QuantityError), "{text:?}");
        }
    }
}
