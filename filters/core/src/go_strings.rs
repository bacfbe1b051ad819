//! Functions of Go's `strings` on text that is not ASCII, where kube-apiserver's decisions depend on them.

/// `strings.EqualFold` with a word of lower-case ASCII letters: the long s folds to s, the Kelvin sign to k.
pub(crate) fn equal_fold(value: &[u8], word: &[u8]) -> bool {
    if value.is_ascii() {
        return value.eq_ignore_ascii_case(word);
    }
    let fold = |character: char| match character {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    std::str::from_utf8(value).is_ok_and(|text| text.chars().map(fold).eq(word.iter().map(|byte| char::from(*byte))))
}

/// `strings.TrimSpace`: also blanks beyond ASCII, such as the no-break space.
pub(crate) fn trim_space(value: &[u8]) -> &[u8] {
    let is_blank = |byte: Option<&u8>| byte.is_some_and(|byte| !byte.is_ascii_graphic());
    if !is_blank(value.first()) && !is_blank(value.last()) {
        return value;
    }
    let first = value.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let value = value.get(first.len().saturating_sub(first.trim_start().len())..).unwrap_or_default();
    match value.utf8_chunks().last() {
        Some(last) if last.invalid().is_empty() => {
            let blanks = last.valid().len().saturating_sub(last.valid().trim_end().len());
            value.get(..value.len().saturating_sub(blanks)).unwrap_or_default()
        }
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_fold_as_in_go() {
        for equal in ["websocket", "WebSocket", "web\u{17f}ocket", "websoc\u{212a}et"] {
            assert!(equal_fold(equal.as_bytes(), b"websocket"), "{equal}");
        }
        for other in ["", "websocke", "websockets", "web\u{df}ocket", "w\u{451}bsocket"] {
            assert!(!equal_fold(other.as_bytes(), b"websocket"), "{other}");
        }
        assert!(!equal_fold(b"web\xffocket", b"websocket"));
    }

    #[test]
    fn blanks_are_trimmed_as_in_go() {
        let table: [(&[u8], &[u8]); 10] = [
            (b"", b""),
            (b"a", b"a"),
            (b" \t\n\x0b\x0c\r", b""),
            ("\u{a0}\u{3000}a b\u{85}".as_bytes(), b"a b"),
            ("ü".as_bytes(), "ü".as_bytes()),
            ("\u{200b}a".as_bytes(), "\u{200b}a".as_bytes()),
            (b" \xff ", b"\xff"),
            (b"\xff", b"\xff"),
            (b"\xa0a\x85", b"\xa0a\x85"),
            (b" a\xc2", b"a\xc2"),
        ];
        for (value, expected) in table {
            assert_eq!(trim_space(value), expected, "{value:?}");
        }
    }
}
