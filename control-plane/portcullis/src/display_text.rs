//! Text of others, made safe to show: it controls neither a terminal nor the direction of writing.

use serde_json::Value;

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

/// JSON for a terminal or a program, with a line's end: what would control a terminal is escaped.
pub(crate) fn json(value: &Value) -> String {
    let mut text = String::new();
    // Beyond ASCII there are only strings. Line ends in them are escaped already.
    for one in format!("{value:#}\n").chars() {
        if one == '\n' || printable(one) == one {
            text.push(one);
        } else {
            text.push_str(&format!("\\u{:04x}", u32::from(one)));
        }
    }
    text
}

/// Most names of a list that are shown.
const LISTED: usize = 8;

/// Names in one line; of many the first, and the number of the others.
pub(crate) fn listed(names: impl IntoIterator<Item = String>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| one_line(&name)).collect();
    let shown = names.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(LISTED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_for_a_terminal_controls_nothing_and_says_the_same() {
        let value = serde_json::json!({"a\u{9b}": ["\u{202e}\u{7f}\u{85}", "\n\u{1b}ä\u{2028}"], "b": {"c": 1}});
        let text = json(&value);
        assert!(text.chars().all(|one| one == '\n' || printable(one) == one), "{text:?}");
        assert!(text.contains(r"\u009b") && text.contains(r"\u202e") && text.contains('ä'), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn names_of_a_long_list_are_counted() {
        let names = |count: usize| (0..count).map(|number| number.to_string());
        assert_eq!(listed(names(2)), "0, 1");
        assert_eq!(listed(names(8)), "0, 1, 2, 3, 4, 5, 6, 7");
        assert_eq!(listed(names(10)), "0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
    }
}
