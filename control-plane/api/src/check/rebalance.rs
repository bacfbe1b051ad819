use portcullis_filter_config as config;

use super::Findings;
use crate::quantity::parse_bytes;
use crate::types::{RebalanceConditions, RebalanceSettings};

/// Connections per second where none are given: their TLS handshakes take a hundredth of a core.
const CONNECTIONS_PER_SECOND: u32 = 10;

/// Checks the draining of connections. `None` if it cannot be used.
pub(super) fn check_rebalance(raw: &RebalanceSettings, findings: &mut Findings) -> Option<config::Rebalance> {
    let chance = chance_per_million(raw.chance);
    if chance.is_none() {
        findings.problem("spec.rebalance.chance", "must be from 0.000001 to 0.02");
    }
    let connections_per_second = raw.connections_per_second.unwrap_or(CONNECTIONS_PER_SECOND);
    if connections_per_second == 0 {
        findings.problem("spec.rebalance.connectionsPerSecond", "must be at least 1");
    }
    let when = raw.when.as_ref().map(|when| check_conditions(when, findings));
    Some(config::Rebalance { chance_per_million: chance?, connections_per_second, when })
}

fn chance_per_million(chance: f64) -> Option<u32> {
    let millionths = (chance * 1_000_000.0).round();
    let is_in_bounds = (1.0..=f64::from(config::Rebalance::MAX_CHANCE_PER_MILLION)).contains(&millionths);
    // A whole number of at most five digits.
    is_in_bounds.then_some(millionths as u32)
}

fn check_conditions(raw: &RebalanceConditions, findings: &mut Findings) -> config::RebalanceConditions {
    let memory_bytes = raw.memory.as_deref().map(|text| {
        parse_bytes(text).unwrap_or_else(|error| {
            findings.problem("spec.rebalance.when.memory", error.to_string());
            0
        })
    });
    let conditions = config::RebalanceConditions {
        in_flight: raw.in_flight,
        requests_per_second: raw.requests_per_second,
        memory_bytes,
        on_limited: raw.on_limited,
    };
    if conditions == config::RebalanceConditions::default() {
        let message = "names no condition, and no connection would be drained; leave it out to draw every request";
        findings.problem("spec.rebalance.when", message);
    }
    conditions
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::check::check_settings;

    fn checked(rebalance: &Value) -> Result<Option<config::Rebalance>, String> {
        let document = json!({
            "apiVersion": crate::SETTINGS_API_VERSION, "kind": crate::SETTINGS_KIND, "metadata": {"name": "x"},
            "spec": {"rebalance": rebalance},
        });
        let settings = crate::parse_settings(&document).map_err(|error| error.to_string())?;
        let outcome = check_settings(&settings).outcome;
        outcome.map(|settings| settings.rebalance).map_err(|problems| problems[0].to_string())
    }

    #[test]
    fn rebalance_is_read_whole() {
        let usual = config::Rebalance { chance_per_million: 1_000, connections_per_second: 10, when: None };
        assert_eq!(checked(&json!(null)), Ok(None));
        assert_eq!(checked(&json!({"chance": 0.001})), Ok(Some(usual.clone())));
        let when = json!({"inFlight": 300, "requestsPerSecond": 2_000, "memory": "1500Mi", "onLimited": true});
        let when_read = config::RebalanceConditions {
            in_flight: Some(300),
            requests_per_second: Some(2_000),
            memory_bytes: Some(1_500 << 20),
            on_limited: true,
        };
        let expected = config::Rebalance { connections_per_second: 3, when: Some(when_read), ..usual };
        assert_eq!(checked(&json!({"chance": 0.001, "connectionsPerSecond": 3, "when": when})), Ok(Some(expected)));
    }

    #[test]
    fn rebalance_out_of_bounds_is_refused() {
        for chance in [0.000_001, 0.000_5, 0.02] {
            assert!(checked(&json!({"chance": chance})).is_ok(), "{chance}");
        }
        for chance in [0.0, -0.001, 0.000_000_4, 0.020_001, 1.0, 1e300] {
            let problem = checked(&json!({"chance": chance})).unwrap_err();
            assert_eq!(problem, "spec.rebalance.chance: must be from 0.000001 to 0.02", "{chance}");
        }
        let table = [
            (json!({}), "chance"),
            (json!({"chance": "0.001"}), "must be a number"),
            (json!({"chance": 0.001, "connectionsPerSecond": 0}), "spec.rebalance.connectionsPerSecond"),
            (json!({"chance": 0.001, "when": {}}), "spec.rebalance.when"),
            (json!({"chance": 0.001, "when": {"onLimited": false}}), "spec.rebalance.when"),
            (json!({"chance": 0.001, "when": {"memory": "lots"}}), "spec.rebalance.when.memory"),
            (json!({"chance": 0.001, "when": {"inFlight": -1}}), "must be"),
        ];
        for (rebalance, field) in table {
            let problem = checked(&rebalance).unwrap_err();
            assert!(problem.contains(field), "{rebalance}: {problem}");
        }
    }
}
