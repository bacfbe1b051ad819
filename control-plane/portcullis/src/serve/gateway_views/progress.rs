use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use portcullis_api::status::GatewayProgress;
use portcullis_attach::{ObjectName, ServedGateway};
use portcullis_xds::Registry;

use super::{GatewayClaims, GatewayOutcome, gateway_view};

/// The state of a Gateway at its Envoys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) enum ProgrammedState {
    /// No Envoy of it is connected.
    #[default]
    NoEnvoy,
    /// None has acknowledged all of it yet.
    Pending,
    /// None has all of it, and one refuses something, with this message.
    Refused(String),
    /// One has acknowledged all of it; clients reach those that have at these addresses, as far as they say so.
    Programmed(BTreeSet<IpAddr>),
}

/// The state of each Gateway of `wanted`, by what its Envoys have acknowledged. One that the reconciler does not have yet is pending.
pub(in super::super) fn programmed_states(
    wanted: &[Arc<ServedGateway>],
    outcome: &GatewayOutcome,
    claims: &GatewayClaims,
    registry: &Registry,
) -> BTreeMap<ObjectName, ProgrammedState> {
    // Equal ones are mostly one, which costs no comparison.
    let served: BTreeMap<&ObjectName, &Arc<ServedGateway>> =
        outcome.served.iter().map(|one| (&one.gateway, one)).collect();
    let state = |wanted: &Arc<ServedGateway>| {
        let is_served = served.get(&wanted.gateway) == Some(&wanted);
        let Some(snapshot) = &outcome.snapshot else { return ProgrammedState::Pending };
        let nodes = registry.view_progress(snapshot, &gateway_view(&wanted.gateway));
        if nodes.is_empty() {
            return ProgrammedState::NoEnvoy;
        }
        let has_all = |progress: &GatewayProgress| is_served && *progress == GatewayProgress::Acknowledged;
        if nodes.values().any(has_all) {
            let addresses = claims.addresses(&wanted.gateway, |node| nodes.get(node).is_some_and(has_all));
            return ProgrammedState::Programmed(addresses);
        }
        let refusal = nodes.into_values().find_map(|progress| match progress {
            GatewayProgress::Refused { message } => Some(message),
            _ => None,
        });
        refusal.filter(|_| is_served).map_or(ProgrammedState::Pending, ProgrammedState::Refused)
    };
    wanted.iter().map(|one| (one.gateway.clone(), state(one))).collect()
}
