use super::condition::Finding;
use super::{ConditionType, State, Timestamp};

/// A source of keys of tokens, and how current its last answer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenKeysFacts {
    /// The source, in words.
    pub source: String,
    /// The keys that are in use; `None` if there are none, or they are too old.
    pub keys: Option<KeysInUse>,
    /// Since when the source has not answered, and why.
    pub failed: Option<(Timestamp, String)>,
}

/// Keys that a source has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeysInUse {
    /// How many of them can be used.
    pub number: usize,
    /// When they changed last.
    pub changed: Timestamp,
    /// When they were read last.
    pub read: Timestamp,
    /// Up to when they hold, if they are not read again.
    pub until: Timestamp,
}

/// Whether the keys are those that their sources show now.
pub(super) fn token_keys_finding(facts: &[TokenKeysFacts]) -> Finding {
    let has_failed = facts.iter().any(|one| one.failed.is_some());
    let is_missing = facts.iter().any(|one| one.keys.is_none());
    let (status, reason) = match (has_failed, is_missing) {
        (false, false) => (State::True, "Current"),
        (false, true) => (State::Unknown, "Pending"),
        (true, false) => (State::Unknown, "Unavailable"),
        (true, true) => (State::False, "NoKeys"),
    };
    let message: Vec<String> = facts.iter().map(text).collect();
    Finding::new(ConditionType::TokenKeysCurrent, status, reason, message.join("; "))
}

/// The time of the last answer is in it only while there is no newer one, so that a condition changes with what it says.
fn text(facts: &TokenKeysFacts) -> String {
    let source = &facts.source;
    match (&facts.keys, &facts.failed) {
        (Some(keys), None) => format!("{source}: {}, changed {}", count(keys.number), keys.changed),
        (Some(keys), Some((since, why))) => format!(
            "{source}: not available since {since}: {why}; {} of {} hold until {}",
            count(keys.number),
            keys.read,
            keys.until
        ),
        (None, None) => format!("{source}: not read yet"),
        (None, Some((since, why))) => {
            format!("{source}: not available since {since}: {why}; no key of it is known")
        }
    }
}

fn count(number: usize) -> String {
    if number == 1 { "1 key".to_owned() } else { format!("{number} keys") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(source: &str, has_keys: bool, has_failed: bool) -> TokenKeysFacts {
        let time = Timestamp::from_seconds;
        let keys = KeysInUse { number: 2, changed: time(60), read: time(120), until: time(86_400) };
        let failed = (time(180), "no answer".to_owned());
        TokenKeysFacts {
            source: source.to_owned(),
            keys: has_keys.then_some(keys),
            failed: has_failed.then_some(failed),
        }
    }

    #[test]
    fn condition_of_keys_tells_their_age_and_failure() {
        let of = |facts: &[TokenKeysFacts]| {
            let stamped = token_keys_finding(facts).stamp(None, &[], &Timestamp::from_seconds(200));
            (stamped.status, stamped.reason, stamped.message)
        };
        let current = "a: 2 keys, changed 1970-01-01T00:01:00Z";
        assert_eq!(of(&[facts("a", true, false)]), (State::True, "Current".to_owned(), current.to_owned()));
        let (status, reason, message) = of(&[facts("a", true, false), facts("b", true, true)]);
        let failing = "b: not available since 1970-01-01T00:03:00Z: no answer; 2 keys of 1970-01-01T00:02:00Z hold until \
                       1970-01-02T00:00:00Z";
        assert_eq!(
            (status, reason.as_str(), message),
            (State::Unknown, "Unavailable", format!("{current}; {failing}"))
        );
        let (status, reason, message) = of(&[facts("a", false, true)]);
        assert_eq!((status, reason.as_str()), (State::False, "NoKeys"));
        assert!(message.contains("no key of it is known"), "{message}");
        assert_eq!(of(&[facts("a", false, false)]).1, "Pending");
    }
}
