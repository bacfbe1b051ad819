use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use portcullis_attach::{Attached, ObjectName};
use portcullis_xds::Registry;
use tokio::sync::watch;

use super::{GatewayClaims, GatewayDemand, GatewayLink, GatewayOutcome, ProgrammedState, programmed_states};

/// The Envoys of all Gateways, as the verdicts need them: what they are to serve goes in, what they do comes out.
pub(in super::super) struct GatewayEnvoys {
    demand: watch::Sender<Option<Arc<GatewayDemand>>>,
    outcome: watch::Receiver<Arc<GatewayOutcome>>,
    claims: watch::Receiver<GatewayClaims>,
    registry: Arc<Registry>,
    /// The version of each Gateway that was acknowledged last, and the addresses of its Envoys then.
    acknowledged: BTreeMap<ObjectName, (Option<i64>, BTreeSet<IpAddr>)>,
}

impl GatewayEnvoys {
    /// The end of the verdicts, and the reconciler's.
    pub(in super::super) fn new(
        claims: &watch::Receiver<GatewayClaims>,
        registry: Arc<Registry>,
    ) -> (Self, GatewayLink) {
        let (demand, demanded) = watch::channel(None);
        let (sender, outcome) = watch::channel(Arc::default());
        let link = GatewayLink { demand: demanded, claims: claims.clone(), outcome: sender };
        (Self { demand, outcome, claims: claims.clone(), registry, acknowledged: BTreeMap::new() }, link)
    }

    /// Has this served.
    pub(in super::super) fn demand(&self, newer: GatewayDemand) {
        self.demand.send_if_modified(|before| {
            let is_new = before.as_deref() != Some(&newer);
            if is_new {
                *before = Some(Arc::new(newer));
            }
            is_new
        });
    }

    /// `UpstreamClusters` to which no connection may be passed on, and why, as far as a route leads there.
    pub(in super::super) fn refused_clusters(&self) -> Arc<BTreeMap<String, String>> {
        Arc::clone(&self.outcome.borrow().refused_clusters)
    }

    /// Waits for another outcome; false if there is none any more.
    pub(in super::super) async fn changed(&mut self) -> bool {
        self.outcome.changed().await.is_ok()
    }

    /// The state of each accepted Gateway. One whose own version was acknowledged is not pending again because a route of it
    /// changes.
    pub(in super::super) fn programmed_states(&mut self, attached: &Attached) -> BTreeMap<ObjectName, ProgrammedState> {
        let (outcome, claims) = (self.outcome.borrow_and_update().clone(), self.claims.borrow().clone());
        let mut found = programmed_states(&attached.served, &outcome, &claims, &self.registry);
        let generations: BTreeMap<&ObjectName, Option<i64>> =
            attached.gateways.iter().map(|one| (&one.name, one.generation)).collect();
        for (gateway, state) in &mut found {
            let generation = generations.get(gateway).copied().flatten();
            match state {
                ProgrammedState::Programmed(addresses) => {
                    self.acknowledged.insert(gateway.clone(), (generation, addresses.clone()));
                }
                ProgrammedState::Pending => {
                    let before = self.acknowledged.get(gateway).filter(|(of, _)| *of == generation);
                    if let Some((_, addresses)) = before {
                        *state = ProgrammedState::Programmed(addresses.clone());
                    }
                }
                ProgrammedState::NoEnvoy | ProgrammedState::Refused(_) => drop(self.acknowledged.remove(gateway)),
            }
        }
        self.acknowledged.retain(|gateway, _| found.contains_key(gateway));
        found
    }
}
