//! Text of others, made safe to show: it controls neither a terminal nor the direction of writing.

/// The character, or U+FFFD for one that controls a terminal or the direction of writing.
pub(crate) fn printable(one: char) -> char {
    let directs =
        matches!(one, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if one.is_control() || directs || matches!(one, '\u{2028}' | '\u{2029}') { '\u{fffd}' } else { one }
}

/// The text as one line.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|one| if matches!(one, '\n' | '\t') { ' ' } else { printable(one) }).collect()
}
