use std::borrow::Cow;

use x509_parser::asn1_rs::{Any, Tag};

use super::CertificateError;

/// A name attribute's value as Go reads it (`crypto/x509`, `parseASN1String`). No other string types are text.
pub(super) fn text<'a>(value: &Any<'a>) -> Result<Cow<'a, str>, CertificateError> {
    let data = value.data;
    let plain = |is_allowed: fn(&u8) -> bool| {
        let is_text = data.iter().all(is_allowed);
        std::str::from_utf8(data).ok().filter(|_| is_text).map(Cow::Borrowed).ok_or(CertificateError::Subject)
    };
    match value.tag() {
        Tag::Utf8String => plain(|_| true),
        Tag::PrintableString => plain(is_printable),
        Tag::Ia5String => plain(u8::is_ascii),
        Tag::NumericString => plain(|byte| byte.is_ascii_digit() || *byte == b' '),
        // Read as Latin-1.
        Tag::T61String => Ok(data.iter().map(|byte| char::from(*byte)).collect::<String>().into()),
        Tag::BmpString => bmp(data).map(Cow::Owned).ok_or(CertificateError::Subject),
        _ => Err(CertificateError::Subject),
    }
}

/// The star and the ampersand are not of the type, but certificates have them.
fn is_printable(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b" '()+,-./:=?*&".contains(byte)
}

/// Two bytes a character, without a terminator, surrogates and what Unicode keeps unassigned for ever.
fn bmp(data: &[u8]) -> Option<String> {
    let data = data.strip_suffix(&[0, 0]).filter(|_| data.len().is_multiple_of(2)).unwrap_or(data);
    let (units, []) = data.as_chunks::<2>() else { return None };
    units.iter().map(|unit| u16::from_be_bytes(*unit)).map(bmp_character).collect()
}

fn bmp_character(unit: u16) -> Option<char> {
    let is_reserved = matches!(unit, 0xfdd0..=0xfdef | 0xfffe | 0xffff);
    char::from_u32(u32::from(unit)).filter(|_| !is_reserved)
}
