use super::condition::Finding;
use super::{ConditionType, Served, State};

/// The finding of what is true of the version that is served. Of an older one it is not known of the newest, which the condition
/// is about.
pub(super) fn finding_of_served(
    served: Served,
    kind: ConditionType,
    (status, reason, message): (State, &str, String),
) -> Finding {
    let Served::Older(generation) = served else { return Finding::new(kind, status, reason, message) };
    // Stamped with the newest generation, which no gateway has.
    let generation = generation.map(|number| format!(" (generation {number})")).unwrap_or_default();
    let message = format!("the version that was accepted last{generation} is served: {message}");
    Finding::new(kind, State::Unknown, "OlderVersion", message)
}
