//! Untrusted text, on its way to a reader.

/// A character that controls nothing: neither a terminal nor the direction of writing.
pub(crate) fn plain(one: char) -> char {
    let directs =
        matches!(one, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if one.is_control() || directs || matches!(one, '\u{2028}' | '\u{2029}') { '\u{fffd}' } else { one }
}

/// A text as one line for a terminal.
pub(crate) fn line(text: &str) -> String {
    text.chars().map(|one| if matches!(one, '\n' | '\t') { ' ' } else { plain(one) }).collect()
}
