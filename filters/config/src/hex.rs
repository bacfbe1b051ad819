/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn hex_has_two_digits_for_each_byte() {
        assert_eq!(super::hex(&[0, 9, 10, 0xff]), "00090aff");
        assert_eq!(super::hex(&[]), "");
    }
}
