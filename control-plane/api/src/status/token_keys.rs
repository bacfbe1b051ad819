use super::condition::Finding;
use super::{ConditionType, State, Timestamp};

/// A source of keys of tokens, and how current its last answer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenKeysFacts {
    /// The source, in words.
    pub source: String,
    /// The keys that are in use; `None` if there are none, or they are too old.
    pub keys: Option<KeysInUse>,
    /// Whether the object has keys of it itself (`inline`), which hold while none of the source are known.
    pub has_written: bool,
    /// Since when there is no answer of the source, and why.
    pub failed: Option<(Timestamp, NoAnswer)>,
}

/// Why a source has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// It is not asked, because the object is not accepted: nothing is known of the source.
    Refused,
    /// It has not been asked yet since the control plane started, and the keys are those of an earlier run.
    NotYet,
    /// It failed, for this reason.
    Failed(String),
}

impl NoAnswer {
    /// The reason, in words.
    pub fn text(&self) -> &str {
        match self {
            NoAnswer::Refused => "the object is not accepted",
            NoAnswer::NotYet => "not asked yet since the control plane started",
            NoAnswer::Failed(why) => why,
        }
    }
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

/// How current the keys of one source are, from the best to the worst: the worst of an object counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KeysCurrency {
    Current,
    Pending,
    /// The object is not accepted.
    NotAsked,
    /// The last ones hold, up to their end.
    Unavailable,
    /// The written ones hold, without an end.
    Inline,
    NoKeys,
}

impl KeysCurrency {
    fn of(facts: &TokenKeysFacts) -> Self {
        match (&facts.failed, &facts.keys) {
            (Some((_, NoAnswer::Refused)), _) => KeysCurrency::NotAsked,
            (None, Some(_)) => KeysCurrency::Current,
            (None, None) | (Some((_, NoAnswer::NotYet)), _) => KeysCurrency::Pending,
            (Some(_), Some(_)) => KeysCurrency::Unavailable,
            (Some(_), None) if facts.has_written => KeysCurrency::Inline,
            (Some(_), None) => KeysCurrency::NoKeys,
        }
    }
}

/// Whether the keys are those that their sources show now.
pub(super) fn token_keys_finding(facts: &[TokenKeysFacts]) -> Finding {
    let (status, reason) = match facts.iter().map(KeysCurrency::of).max().unwrap_or(KeysCurrency::Current) {
        KeysCurrency::Current => (State::True, "Current"),
        KeysCurrency::Pending => (State::Unknown, "Pending"),
        KeysCurrency::NotAsked => (State::Unknown, "NotAsked"),
        KeysCurrency::Unavailable => (State::Unknown, "Unavailable"),
        KeysCurrency::Inline => (State::Unknown, "Inline"),
        KeysCurrency::NoKeys => (State::False, "NoKeys"),
    };
    let message: Vec<String> = facts.iter().map(text).collect();
    Finding::new(ConditionType::TokenKeysCurrent, status, reason, message.join("; "))
}

const WRITTEN: &str = "the keys in inline hold, without an end";

/// The time of the last answer is in it only while there is no newer one, so that a condition changes with what it says.
fn text(facts: &TokenKeysFacts) -> String {
    let source = &facts.source;
    let lost = |why: &NoAnswer| if *why == NoAnswer::Refused { "not asked" } else { "not available" };
    let hold = |keys: &KeysInUse| format!("{} of {} hold until {}", count(keys.number), keys.read, keys.until);
    match (&facts.keys, &facts.failed) {
        (Some(keys), Some((_, why @ NoAnswer::NotYet))) => format!("{source}: {}; {}", why.text(), hold(keys)),
        (Some(keys), None) => format!("{source}: {}, changed {}", count(keys.number), keys.changed),
        (Some(keys), Some((since, why))) => {
            format!("{source}: {} since {since}: {}; {}", lost(why), why.text(), hold(keys))
        }
        (None, None) if facts.has_written => format!("{source}: not read yet; {WRITTEN}"),
        (None, None) => format!("{source}: not read yet"),
        (None, Some((since, why))) => {
            let left = if facts.has_written { WRITTEN } else { "no key of it is known" };
            format!("{source}: {} since {since}: {}; {left}", lost(why), why.text())
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
        let failed = (time(180), NoAnswer::Failed("no answer".to_owned()));
        TokenKeysFacts {
            source: source.to_owned(),
            keys: has_keys.then_some(keys),
            has_written: false,
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

    /// Of the source nothing is known, good or bad.
    #[test]
    fn refused_object_asks_nothing_and_no_source_is_blamed() {
        for (has_keys, left) in [(true, "2 keys of"), (false, "no key of it is known")] {
            let failed = Some((Timestamp::from_seconds(180), NoAnswer::Refused));
            let refused = TokenKeysFacts { failed, ..facts("a", has_keys, true) };
            let stamped = token_keys_finding(&[refused]).stamp(None, &[], &Timestamp::from_seconds(200));
            assert_eq!((stamped.status, stamped.reason.as_str()), (State::Unknown, "NotAsked"));
            let begins = "a: not asked since 1970-01-01T00:03:00Z: ";
            assert!(stamped.message.starts_with(begins) && stamped.message.contains(left), "{}", stamped.message);
        }
    }

    #[test]
    fn source_that_was_not_asked_yet_is_not_blamed() {
        let failed = Some((Timestamp::from_seconds(180), NoAnswer::NotYet));
        let restored = TokenKeysFacts { failed, ..facts("a", true, true) };
        let stamped = token_keys_finding(&[restored]).stamp(None, &[], &Timestamp::from_seconds(200));
        assert_eq!((stamped.status, stamped.reason.as_str()), (State::Unknown, "Pending"));
        let message = "a: not asked yet since the control plane started; 2 keys of 1970-01-01T00:02:00Z hold until \
                       1970-01-02T00:00:00Z";
        assert_eq!(stamped.message, message);
    }

    /// A failure of one source and a missing answer of another are not both of one.
    #[test]
    fn worst_source_decides_the_condition_of_keys() {
        let written = |has_failed| TokenKeysFacts { has_written: true, ..facts("w", false, has_failed) };
        let (current, pending, unavailable) =
            (facts("c", true, false), facts("p", false, false), facts("u", true, true));
        let (inline, none) = (written(true), facts("n", false, true));
        let table = [
            (vec![&unavailable, &pending], State::Unknown, "Unavailable"),
            (vec![&pending, &current], State::Unknown, "Pending"),
            (vec![&inline, &unavailable], State::Unknown, "Inline"),
            (vec![&current, &none, &inline], State::False, "NoKeys"),
        ];
        for (sources, status, reason) in table {
            let sources: Vec<TokenKeysFacts> = sources.into_iter().cloned().collect();
            let stamped = token_keys_finding(&sources).stamp(None, &[], &Timestamp::from_seconds(200));
            assert_eq!((stamped.status, stamped.reason.as_str()), (status, reason), "{}", stamped.message);
        }
        for has_failed in [false, true] {
            let message = text(&written(has_failed));
            assert!(message.ends_with(WRITTEN) && !message.contains("no key"), "{message}");
        }
    }
}
