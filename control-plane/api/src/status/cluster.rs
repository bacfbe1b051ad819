use serde::{Deserialize, Serialize};

use super::{
    Condition, ConditionType, Gateway, GatewayProgress, Served, State, StatusInput, Timestamp, UnhealthyServer,
    discovery, findings, limits, sanitize, shadow, token_keys,
};

/// Most gateways that a status lists one by one.
pub const MAX_GATEWAYS: usize = 16;
/// Most servers that a gateway's entry names.
pub const MAX_UNHEALTHY: usize = 8;
/// Most characters of a gateway's id.
const MAX_NAME: usize = 128;

/// The `status` of an `UpstreamCluster`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterStatus {
    /// The `metadata.generation` that all of it is about; an object of a file has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// A hash of what is served, the same at every replica of the control plane; unset if nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<String>,
    /// The host names and virtual IPs that it owns. Because they stand here, they stay its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The `Instance` that it belongs to, or will at the end of a hand-over; unset if it belongs to none. Other replicas of the control
    /// plane, and those that start, follow it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// `Accepted`, `Programmed` and `Ready`, in this order; then `ServersDiscovered` where servers are discovered,
    /// `ShadowDiffers` where policies only report, `TokenKeysCurrent` where the control plane reads keys of tokens, and
    /// `LimitsShared` where limits are those of all gateways.
    pub conditions: Vec<Condition>,
    /// Gateways: those that refuse come first, then those that have not answered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<GatewayEntry>,
    /// How many gateways there are besides.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_gateways: u32,
}

/// One gateway, as a status lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayEntry {
    /// The node's id.
    pub name: String,
    /// `Acknowledged`, `Pending` or `Refused`; `OtherReplica` if another replica of the control plane knows.
    pub state: String,
    /// Why it refuses, in Envoy's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How many endpoints it finds healthy; unset if it does not report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy_endpoints: Option<u32>,
    /// How many endpoints it has; unset if it does not report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<u32>,
    /// The servers that it sends nothing to, and why, at most [`MAX_UNHEALTHY`] of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unhealthy: Vec<UnhealthyServer>,
}

impl ClusterStatus {
    /// The status of an object at `now`. `before` are the conditions that it had: their times stay where the status does.
    pub fn of(seen: &StatusInput<'_>, before: &[Condition], now: &Timestamp) -> Self {
        let findings = [
            findings::accepted_finding(&seen.acceptance),
            findings::programmed_finding(seen),
            findings::ready_finding(seen),
        ]
        .into_iter()
        .chain(seen.discovery.as_ref().map(discovery::discovered_finding))
        .chain(seen.shadow.as_ref().map(|facts| shadow::shadow_finding(facts, seen)))
        .chain((!seen.token_keys.is_empty()).then(|| token_keys::token_keys_finding(&seen.token_keys)))
        .chain(seen.limits.as_ref().map(|facts| limits::shared_finding(facts, seen)))
        .chain(seen.policies.iter().map(|(kind, which)| findings::affected_finding(*kind, which)));
        let mut gateways: Vec<&Gateway<'_>> = seen.gateways.iter().collect();
        gateways.sort_by_key(|one| (rank(&one.progress), one.name));
        // Of two streams with one id the worse one is listed: the list is a map by name.
        let mut entries: Vec<GatewayEntry> = Vec::new();
        let mut more = 0;
        for entry in gateways.into_iter().map(entry) {
            if entries.iter().any(|known| known.name == entry.name) {
                continue;
            }
            if entries.len() < MAX_GATEWAYS {
                entries.push(entry);
            } else {
                more += 1;
            }
        }
        let hash = Some(seen.content_hash).filter(|hash| seen.served != Served::Nothing && !hash.is_empty());
        Self {
            observed_generation: seen.generation,
            content_hash: hash.map(str::to_owned),
            names: seen.acceptance.names.to_vec(),
            instance: seen.instance.map(str::to_owned),
            conditions: findings.map(|one| one.stamp(seen.generation, before, now)).collect(),
            gateways: entries,
            more_gateways: more,
        }
    }

    /// The condition about `kind`.
    pub fn condition(&self, kind: ConditionType) -> Option<&Condition> {
        self.conditions.iter().find(|one| one.kind == kind)
    }

    /// Whether the condition about `kind` holds.
    pub fn is(&self, kind: ConditionType) -> bool {
        self.condition(kind).is_some_and(|one| one.status == State::True)
    }
}

fn rank(progress: &GatewayProgress) -> u8 {
    match progress {
        GatewayProgress::Refused { .. } => 0,
        GatewayProgress::Pending => 1,
        GatewayProgress::Acknowledged => 2,
        GatewayProgress::Elsewhere => 3,
    }
}

fn entry(gateway: &Gateway<'_>) -> GatewayEntry {
    let (state, message) = match &gateway.progress {
        GatewayProgress::Acknowledged => ("Acknowledged", None),
        GatewayProgress::Pending => ("Pending", None),
        GatewayProgress::Refused { message } => ("Refused", Some(sanitize(message))),
        GatewayProgress::Elsewhere => ("OtherReplica", None),
    };
    GatewayEntry {
        name: sanitize(gateway.name).chars().take(MAX_NAME).collect(),
        state: state.to_owned(),
        message,
        healthy_endpoints: gateway.health.as_ref().map(|health| health.healthy),
        endpoints: gateway.health.as_ref().map(|health| health.total),
        unhealthy: unhealthy(gateway),
    }
}

/// Those that are not healthy in any pool, each once, since when it was first so.
fn unhealthy(gateway: &Gateway<'_>) -> Vec<UnhealthyServer> {
    let mut all: Vec<&UnhealthyServer> =
        gateway.health.iter().chain(&gateway.lost_subsets).flat_map(|health| &health.unhealthy).collect();
    all.sort_by_key(|one| (&one.server, &one.since));
    all.dedup_by_key(|one| &one.server);
    all.into_iter().take(MAX_UNHEALTHY).cloned().collect()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}
