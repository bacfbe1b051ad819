//! The output of cargo's test programs.

use std::collections::BTreeMap;

/// Whether each test that has ended passed.
pub(crate) fn ended(output: &str) -> BTreeMap<&str, bool> {
    let line = |line: &'_ str| -> Option<(usize, bool)> {
        let rest = line.strip_prefix("test ")?;
        let name = rest.strip_suffix(" ... ok").map(|name| (name.len(), true));
        name.or_else(|| rest.strip_suffix(" ... FAILED").map(|name| (name.len(), false)))
    };
    let named = |text| line(text).and_then(|(length, passed)| Some((text.get(5..5 + length)?, passed)));
    output.lines().filter_map(named).collect()
}

/// Envoy's message in the output of the probe.
pub(crate) fn refusal(output: &str) -> Option<String> {
    let told = output.lines().find_map(|line| line.strip_prefix("Envoy refuses: "))?;
    Some(told.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
running 3 tests
test attack::early ... ok
test attack::late ... FAILED
test attack::never has been running for over 60 seconds

failures:

---- attack::late stdout ----
Envoy refuses: to go on.
test of a sentence ... or not
";

    #[test]
    fn tests_are_recognised_and_unfinished_ones_left_out() {
        assert_eq!(ended(OUTPUT), BTreeMap::from([("attack::early", true), ("attack::late", false)]));
    }

    #[test]
    fn probe_tells_what_envoy_said() {
        assert_eq!(refusal(OUTPUT).as_deref(), Some("to go on."));
        assert_eq!(refusal("running 0 tests"), None);
    }
}
