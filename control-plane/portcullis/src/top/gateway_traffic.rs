use super::numbers::{percent, rate};
use crate::display_text::one_line;
use crate::serve::fleet::view::GatewayTraffic;
use crate::table::aligned;

/// The columns that end at the same place.
const NUMBERS: [usize; 6] = [1, 2, 3, 4, 5, 6];

/// A table of the traffic at Gateways of the Gateway API, with a blank line before it; empty without any.
pub(super) fn gateway_traffic(lines: &[GatewayTraffic]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let titles = ["AT GATEWAY", "ENVOYS", "REQUESTS/S", "ERRORS", "RUNNING", "WATCHES", "SESSIONS"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    rows.extend(lines.iter().map(|one| {
        let numbers = &one.numbers;
        let name = if one.gateway.is_empty() { "(another one)".to_owned() } else { one_line(&one.gateway) };
        vec![
            name,
            one.envoys.to_string(),
            rate(numbers.requests_per_second),
            one.error_ratio.map_or_else(|| "-".to_owned(), percent),
            numbers.running.to_string(),
            numbers.watches.to_string(),
            numbers.sessions.to_string(),
        ]
    }));
    format!("\n{}", aligned(&rows, &NUMBERS))
}
