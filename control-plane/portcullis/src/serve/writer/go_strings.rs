//! JSON as Go writes it. The API server compares strings of a JSON patch with stored ones by their texts, escapes included.

use std::io::{Result, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

/// The text of a value.
pub(super) fn text(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, GoStrings))?;
    Ok(text)
}

struct GoStrings;

impl Formatter for GoStrings {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> Result<()> {
        for part in fragment.split_inclusive(is_escaped) {
            match part.chars().next_back().filter(|last| is_escaped(*last)) {
                Some(last) => {
                    writer.write_all(part.strip_suffix(last).unwrap_or_default().as_bytes())?;
                    write!(writer, "\\u{:04x}", u32::from(last))?;
                }
                None => writer.write_all(part.as_bytes())?,
            }
        }
        Ok(())
    }
}

/// Characters that Go escapes, and `serde_json` does not.
fn is_escaped(character: char) -> bool {
    matches!(character, '<' | '>' | '&' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn written(value: &Value) -> String {
        String::from_utf8(text(value).unwrap()).unwrap()
    }

    /// The right side is the output of `json.Marshal`.
    #[test]
    fn strings_have_the_escapes_that_go_writes() {
        for (string, expected) in [
            ("a < b & c > d", r#""a \u003c b \u0026 c \u003e d""#),
            ("<<&", r#""\u003c\u003c\u0026""#),
            ("\u{2028}x\u{2029}", r#""\u2028x\u2029""#),
            ("\"\\/\n\t\u{1f}", r#""\"\\/\n\t\u001f""#),
            ("ä…\u{fffd}\u{7f}", "\"ä…\u{fffd}\u{7f}\""),
            ("", r#""""#),
        ] {
            assert_eq!(written(&json!(string)), expected);
        }
        assert_eq!(written(&json!({"<": [1, null, true]})), r#"{"\u003c":[1,null,true]}"#);
    }

    proptest! {
        #[test]
        fn value_is_read_back_as_it_was(strings in prop::collection::vec(any::<String>(), 0..8)) {
            let value = json!({"list": strings});
            let text = written(&value);
            prop_assert!(!text.contains(is_escaped), "{text}");
            prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
    }
}
