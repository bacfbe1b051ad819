use super::Outcome;
use super::shadow::{Agreement, ShadowKey};
use super::slow_log::{Conspicuous, Phases};
use crate::header_scan::HeaderScan;
use crate::identity::UserInfo;
use crate::request_info::RequestInfo;
use std::fmt::Write;

/// Bounds, in characters: a line is for people, and a hostile client writes as much as it may.
const PATH: usize = 1_024;
const NAME: usize = 253;
const USER: usize = 256;
const USER_AGENT: usize = 256;
const DETAILS: usize = 512;
/// Groups that a line names; the rest is a number.
const GROUPS: usize = 32;

/// The filter's part of a line of the access log: members of a JSON object. It never contains a credential, and of a path only
/// the part before the query, which holds commands of `exec`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLogEntry(JsonMembers);

impl AccessLogEntry {
    /// A line about a request of which nothing is known.
    pub fn bare() -> Self {
        AccessLogEntry(JsonMembers::default())
    }

    pub(super) fn of_cluster(cluster: &str) -> Self {
        let mut members = JsonMembers::with_capacity(768);
        members.text("cluster", cluster.as_bytes(), NAME);
        AccessLogEntry(members)
    }

    pub(super) fn message(&mut self, scan: &HeaderScan<'_>) {
        let path = scan.path.split(|byte| *byte == b'?').next().unwrap_or_default();
        self.0.text("method", scan.method, 32);
        self.0.text("path", path, PATH);
    }

    pub(super) fn request(&mut self, info: &RequestInfo<'_>) {
        self.0.text("verb", &info.verb, 32);
        if info.is_resource {
            self.0.text("apiGroup", info.api_group, NAME);
            self.0.text("apiVersion", info.api_version, NAME);
            self.0.text("resource", info.resource, NAME);
            self.0.text("subresource", info.subresource, NAME);
            self.0.text("namespace", info.namespace, NAME);
            self.0.text("name", &info.name, NAME);
        }
    }

    pub(super) fn user(&mut self, user: &UserInfo) {
        self.0.text("user", user.name.as_bytes(), USER);
        self.0.texts("groups", user.groups.iter().take(GROUPS).map(String::as_bytes), USER);
        if let Some(more) = user.groups.len().checked_sub(GROUPS).filter(|more| *more > 0) {
            self.0.number("moreGroups", more);
        }
    }

    pub(super) fn impersonated(&mut self, user: &UserInfo) {
        self.0.text("impersonatedUser", user.name.as_bytes(), USER);
    }

    pub(super) fn dispatch(&mut self, policy: &str, schema: &str, group: &str) {
        self.0.text("policy", policy.as_bytes(), NAME);
        self.0.text("schema", schema.as_bytes(), NAME);
        self.0.text("serverGroup", group.as_bytes(), NAME);
    }

    /// The outcome of the shadow, if it is another one.
    pub(super) fn shadow(&mut self, key: ShadowKey) {
        if key.agreement != Agreement::Same {
            let [_, shadow_policy, agreement] = key.labels("-");
            self.0.text("shadow", agreement.as_bytes(), NAME);
            self.0.text("shadowPolicy", shadow_policy.as_bytes(), NAME);
        }
    }

    /// `User-Agent` and the request's id.
    pub fn client(&mut self, user_agent: Option<&[u8]>, request_id: &[u8]) {
        self.0.text("userAgent", user_agent.unwrap_or_default(), USER_AGENT);
        self.0.text("requestId", request_id, 64);
    }

    /// Why the line is there although no policy asks for it, and the phases of the request in milliseconds.
    pub(crate) fn conspicuous(&mut self, why: Conspicuous, phases: Phases) {
        self.0.text("conspicuous", why.as_str().as_bytes(), NAME);
        self.0.text("longestPhase", phases.longest().as_bytes(), NAME);
        for (name, time) in phases.named() {
            self.0.number(name, usize::try_from(time.as_millis()).unwrap_or(usize::MAX));
        }
    }

    /// How many lines of other requests there was no room for.
    pub(crate) fn suppressed(&mut self, lines: u32) {
        if lines > 0 {
            self.0.number("suppressedLines", usize::try_from(lines).unwrap_or(usize::MAX));
        }
    }

    /// The members, with the outcome of the request and Envoy's word for how the answer came about.
    pub fn finish(mut self, outcome: Outcome, details: Option<&[u8]>) -> String {
        self.0.text("decision", outcome.decision().as_bytes(), NAME);
        self.0.text("reason", outcome.reason().as_bytes(), NAME);
        self.0.text("details", details.unwrap_or_default(), DETAILS);
        self.0.into_string()
    }
}

/// JsonMembers of a JSON object, without the braces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct JsonMembers(String);

impl JsonMembers {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        JsonMembers(String::with_capacity(bytes))
    }

    /// Adds a text of at most that many characters; `…` marks a cut. An empty text adds nothing. Bytes that are not UTF-8
    /// become U+FFFD.
    pub(super) fn text(&mut self, name: &'static str, text: &[u8], most: usize) {
        if !text.is_empty() {
            self.name(name);
            self.value(text, most);
        }
    }

    pub(super) fn texts<'a>(&mut self, name: &'static str, texts: impl Iterator<Item = &'a [u8]>, most: usize) {
        self.name(name);
        self.0.push('[');
        for (number, text) in texts.enumerate() {
            if number > 0 {
                self.0.push(',');
            }
            self.value(text, most);
        }
        self.0.push(']');
    }

    pub(super) fn number(&mut self, name: &'static str, number: usize) {
        self.name(name);
        // Writing to a String does not fail.
        let _ = write!(self.0, "{number}");
    }

    fn into_string(self) -> String {
        self.0
    }

    fn name(&mut self, name: &'static str) {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.push('"');
        self.0.push_str(name);
        self.0.push_str("\":");
    }

    fn value(&mut self, text: &[u8], most: usize) {
        self.0.push('"');
        // Nearly every text is plain, and stands as it is.
        let plain = text.iter().position(|byte| !is_plain(*byte)).unwrap_or(text.len()).min(most);
        let (plain, rest) = text.split_at(plain);
        self.0.push_str(std::str::from_utf8(plain).unwrap_or_default());
        self.odd(rest, most.saturating_sub(plain.len()));
        self.0.push('"');
    }

    /// Whatever it is, at most so many characters of it. None is shorter than a byte: what lies behind is not looked at.
    fn odd(&mut self, text: &[u8], most: usize) {
        let mut room = most;
        for chunk in text.utf8_chunks() {
            let broken = (!chunk.invalid().is_empty()).then_some('\u{fffd}');
            for character in chunk.valid().chars().chain(broken) {
                let Some(left) = room.checked_sub(1) else {
                    self.0.push('…');
                    return;
                };
                room = left;
                self.character(character);
            }
        }
    }

    fn character(&mut self, character: char) {
        match character {
            '"' => self.0.push_str("\\\""),
            '\\' => self.0.push_str("\\\\"),
            // Controls, those of ISO 6429 included, and what some readers take for the end of a line.
            '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(self.0, "\\u{:04x}", u32::from(character));
            }
            other => self.0.push(other),
        }
    }
}

/// A character that means itself in a JSON string.
const fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(members: &JsonMembers) -> serde_json::Value {
        serde_json::from_str(&format!("{{{}}}", members.0)).unwrap()
    }

    proptest! {
        #[test]
        fn bytes_become_one_line_that_parses_to_the_lossy_text(first: Vec<u8>, second: Vec<u8>, third in any::<String>()) {
            let mut members = JsonMembers::default();
            members.text("first", &first, 10_000);
            members.texts("list", [&second[..], third.as_bytes()].into_iter(), 10_000);
            members.number("number", first.len());
            let line = &members.0;
            prop_assert!(!line.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')), "{line:?}");
            let parsed = parsed(&members);
            let expected = (!first.is_empty()).then(|| String::from_utf8_lossy(&first).into_owned());
            prop_assert_eq!(parsed.get("first").and_then(|text| text.as_str()), expected.as_deref());
            prop_assert_eq!(parsed["list"][0].as_str().unwrap(), String::from_utf8_lossy(&second));
            prop_assert_eq!(parsed["list"][1].as_str().unwrap(), &third);
            prop_assert_eq!(parsed["number"].as_u64().unwrap(), first.len() as u64);
        }

        #[test]
        fn text_that_is_too_long_is_marked(text in any::<String>(), most in 0_usize..20) {
            let mut members = JsonMembers::default();
            members.text("text", text.as_bytes(), most);
            if !text.is_empty() {
                let kept = parsed(&members)["text"].as_str().unwrap().to_owned();
                let short: String = text.chars().take(most).collect();
                let expected = if text.chars().count() > most { format!("{short}…") } else { short };
                prop_assert_eq!(kept, expected);
            }
        }
    }

    #[test]
    fn value_cannot_add_members() {
        let mut members = JsonMembers::default();
        members.text("path", b"/x\",\"user\":\"admin\",\"y\":\"\n{\"", 100);
        members.text("user", b"alice\\", 100);
        let parsed = parsed(&members);
        assert_eq!(parsed.as_object().unwrap().len(), 2);
        assert_eq!(parsed["user"], "alice\\");
    }
}
