//! Names and numbers in messages.

/// Most gateways that a message names.
const MAX_NAMES: usize = 4;

/// The first names, and how many there are beside them: `a, b and 3 more`.
pub(super) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let named: Vec<&str> = names.iter().take(MAX_NAMES).copied().collect();
    match names.len().checked_sub(named.len()) {
        Some(more) if more > 0 => format!("{} and {more} more", named.join(", ")),
        _ => named.join(", "),
    }
}

/// `1 gateway`, `2 gateways`.
pub(super) fn many(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}
