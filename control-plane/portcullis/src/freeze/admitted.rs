//! The requests that a profile lets in, for a reader who is about to switch it on.

use portcullis_api::Cluster;
use portcullis_filter_config::{FlowControlLimit, FlowControlSchema, ProtectedIdentities};

use crate::rule_text::rule_text;
use crate::table::aligned;

/// A line for each rule, in the order in which they are asked.
pub(super) fn admitted(cluster: &Cluster, protected: &ProtectedIdentities) -> String {
    if cluster.gates.deny_all_requests {
        return "  no request: each is answered 429\n".to_owned();
    }
    let mut rows = Vec::new();
    for policy in &cluster.policies {
        let limit = policy.schema.as_deref().and_then(|name| cluster.schemas.iter().find(|one| one.name == name));
        let is_denied = policy.deny.is_some();
        for rule in &policy.rules {
            let refused: Vec<&str> =
                rule.user_groups.iter().filter(|group| protected.groups.contains(group)).map(String::as_str).collect();
            let mut text = rule_text(rule);
            if !refused.is_empty() {
                text.push_str(&format!(" ({} refused or dropped: protectedIdentities)", refused.join(", ")));
            }
            let limit = if is_denied { "denied, 403".to_owned() } else { limit_text(limit) };
            rows.push(vec![format!("  {limit}"), text]);
        }
    }
    aligned(&rows, &[])
}

fn limit_text(schema: Option<&FlowControlSchema>) -> String {
    match schema.map(|schema| schema.limit) {
        None => "without a limit".to_owned(),
        Some(FlowControlLimit::MaxRequestsInflight(0)) => "refused, 429".to_owned(),
        Some(FlowControlLimit::MaxRequestsInflight(max)) => format!("{max} at a time"),
        Some(FlowControlLimit::TokenBucket { qps, burst }) => format!("{qps} a second, burst {burst}"),
    }
}
