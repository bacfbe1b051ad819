/// Most characters of a message.
pub const MAX_MESSAGE: usize = 1_024;
/// Longest run of characters of base64 that is no key: longer than any label of a host name, shorter than any key.
const MAX_RUN: usize = 72;
/// The text in place of removed parts.
const HIDDEN: &str = "[hidden]";
/// Fields of Envoy's messages whose values may be secret, as its dumps write them.
const SECRET_FIELDS: [&str; 6] =
    ["inline_bytes:", "inline_string:", "password:", "\"inlineBytes\":", "\"inlineString\":", "\"inline_bytes\":"];

/// A text of another program for people to read: one line, at most [`MAX_MESSAGE`] characters, no control characters.
/// Everything that could be a secret is removed: private keys, long runs of base64, dumps of messages (Envoy adds one to its
/// message about a field, and it holds a secret's value).
pub fn sanitize(text: &str) -> String {
    let text = without_dump(text);
    let text = without_fields(&without_pem(text));
    let text: String = text.split_whitespace().map(without_run).collect::<Vec<_>>().join(" ");
    bounded(text.chars().filter(|one| !one.is_control()).collect())
}

/// `Proto constraint validation failed (which field and why): the whole message`.
fn without_dump(text: &str) -> &str {
    let Some(start) = text.find("constraint validation failed") else { return text };
    let end = text.get(start..).and_then(|rest| rest.find("): ")).map(|end| start + end + 1);
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}

fn without_pem(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, block)) = rest.split_once("-----BEGIN ") {
        kept.push_str(before);
        kept.push_str(HIDDEN);
        // A block that does not end is secret to the end of the text.
        rest =
            block.split_once("-----END ").and_then(|(_, after)| after.split_once("-----")).map_or("", |after| after.1);
    }
    kept.push_str(rest);
    kept
}

/// Takes out the quoted values of [`SECRET_FIELDS`].
fn without_fields(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, field, after)) = first_field(rest) {
        kept.push_str(before);
        kept.push_str(field);
        kept.push_str(HIDDEN);
        rest = after_value(after);
    }
    kept.push_str(rest);
    kept
}

fn first_field(text: &str) -> Option<(&str, &str, &str)> {
    let found = SECRET_FIELDS.iter().filter_map(|field| Some((text.find(field)?, field.len()))).min()?;
    let (before, rest) = text.split_at_checked(found.0)?;
    let (field, after) = rest.split_at_checked(found.1)?;
    Some((before, field, after))
}

/// The text after a quoted value; empty if the value does not end.
fn after_value(text: &str) -> &str {
    let text = text.trim_start();
    let Some(value) = text.strip_prefix('"') else {
        return text.find(char::is_whitespace).and_then(|end| text.get(end..)).unwrap_or_default();
    };
    let mut escaped = false;
    let end = value.char_indices().find(|(_, one)| {
        let ends = *one == '"' && !escaped;
        escaped = *one == '\\' && !escaped;
        ends
    });
    end.and_then(|(end, quote)| value.get(end + quote.len_utf8()..)).unwrap_or_default()
}

/// A word without runs of base64 that are long enough to be a key or a token.
fn without_run(word: &str) -> String {
    let is_base64 = |one: char| one.is_ascii_alphanumeric() || matches!(one, '+' | '/' | '=' | '_' | '-');
    let mut kept = String::new();
    let mut rest = word;
    while !rest.is_empty() {
        let (run, after) = rest.split_at(rest.find(|one| !is_base64(one)).unwrap_or(rest.len()));
        kept.push_str(if run.len() > MAX_RUN { HIDDEN } else { run });
        let other = after.find(is_base64).unwrap_or(after.len());
        let (other, after) = after.split_at(other);
        kept.push_str(other);
        rest = after;
    }
    kept
}

fn bounded(text: String) -> String {
    if text.chars().count() <= MAX_MESSAGE {
        return text;
    }
    let mut cut: String = text.chars().take(MAX_MESSAGE - 1).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "MC4CAQAwBQYDK2VwBCIEIJFkq0mZcanaryCanaryCANARYcanarYCANARYcanary0123456789";

    #[test]
    fn possible_secrets_are_removed() {
        let pem = format!("bad key -----BEGIN PRIVATE KEY-----\n{KEY}\n-----END PRIVATE KEY-----\n in e2e/-/a/serving");
        let table = [
            (pem.as_str(), "bad key [hidden] in e2e/-/a/serving"),
            ("x -----BEGIN EC PRIVATE KEY----- short", "x [hidden]"),
            (
                "Proto constraint validation failed (SecretValidationError.Name: too short): token { s: \"canary\" }",
                "Proto constraint validation failed (SecretValidationError.Name: too short)",
            ),
            ("secret { inline_string: \"can\\\"ary\" name: \"a\" }", "secret { inline_string:[hidden] name: \"a\" }"),
            (
                "{\"inlineBytes\": \"Y2Fu\", \"b\": 1} password: canary c",
                "{\"inlineBytes\":[hidden], \"b\": 1} password:[hidden] c",
            ),
            ("inline_bytes: \"canary", "inline_bytes:[hidden]"),
            (KEY, "[hidden]"),
            ("a\tb\nc\u{1b}[31md", "a b c[31md"),
            ("Failed to load private key from <inline>", "Failed to load private key from <inline>"),
        ];
        for (text, expected) in table {
            assert_eq!(sanitize(text), expected, "{text}");
        }
    }

    #[test]
    fn names_and_hashes_stay_readable_and_length_is_bounded() {
        let name = format!("{}.example.com/all.pass", "a".repeat(63));
        assert_eq!(sanitize(&name), name);
        let hash = "0123456789abcdef".repeat(4);
        assert_eq!(sanitize(&hash), hash);
        let long = "ä ".repeat(MAX_MESSAGE);
        assert_eq!(sanitize(&long).chars().count(), MAX_MESSAGE);
        assert!(sanitize(&long).ends_with('…'));
    }
}
