use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use portcullis_attach::{Attached, ObjectName};
use portcullis_translate::type_urls;
use portcullis_xds::{HealthRegistry, Registry};
use tokio::sync::watch;

use super::super::cluster_progress::ClusterProgress;
use super::super::gateway_health::{GatewayHealthReports, HealthAtGateways, PACE};
use super::{
    GatewayClaims, GatewayDemand, GatewayLink, GatewayOutcome, GatewayRefusals, NumberedDemand, ProgrammedState,
    ServedParts, gateway_view, programmed_states,
};

/// The Envoys of all Gateways, as the verdicts need them: what they are to serve goes in, what they do comes out.
pub(in super::super) struct GatewayEnvoys {
    demand: watch::Sender<Option<NumberedDemand>>,
    outcome: watch::Receiver<Arc<GatewayOutcome>>,
    claims: watch::Receiver<GatewayClaims>,
    registry: Arc<Registry>,
    acknowledged: AcknowledgedGateways,
    reports: Arc<HealthRegistry>,
    health: GatewayHealthReports,
}

/// The edition of each Gateway that was acknowledged last, and how its Envoys had it then.
#[derive(Default)]
struct AcknowledgedGateways(BTreeMap<ObjectName, (GatewayEdition, ServedParts)>);

/// The properties of a Gateway that are not those of its routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct GatewayEdition {
    /// `metadata.uid`: one of the same name has the same generations.
    uid: Option<String>,
    generation: Option<i64>,
    /// The names of Envoy's listeners, which are addresses and ports: the `GatewaySettings` may give the address.
    listeners: BTreeSet<String>,
    /// The names of its listeners that are closed: one that is open since is served when an Envoy has it.
    closed: BTreeSet<String>,
}

impl AcknowledgedGateways {
    /// Takes the state of an edition. One that was acknowledged is not pending again.
    fn follow(&mut self, gateway: &ObjectName, edition: GatewayEdition, state: &mut ProgrammedState) {
        match state {
            ProgrammedState::Programmed(parts) => {
                self.0.insert(gateway.clone(), (edition, parts.clone()));
            }
            ProgrammedState::Pending => {
                let before = self.0.get(gateway).filter(|(of, _)| *of == edition);
                if let Some((_, parts)) = before {
                    *state = ProgrammedState::Programmed(parts.clone());
                }
            }
            ProgrammedState::NoEnvoy | ProgrammedState::Refused(_) => drop(self.0.remove(gateway)),
        }
    }
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
        let acknowledged = AcknowledgedGateways::default();
        let (claims, reports, health) = (claims.clone(), Arc::default(), GatewayHealthReports::default());
        (Self { demand, outcome, claims, registry, acknowledged, reports, health }, link)
    }

    /// The same Envoys with what they report of servers.
    pub(in super::super) fn with_reports(self, reports: Arc<HealthRegistry>) -> Self {
        Self { reports, ..self }
    }

    /// The health of servers at Gateways, as their Envoys report it of what these have now.
    pub(in super::super) fn health(&mut self, now: Instant) -> Arc<HealthAtGateways> {
        let snapshot = self.outcome.borrow().snapshot.clone();
        self.health.follow(&self.reports, (snapshot.as_deref(), &[]), (now, PACE))
    }

    /// Has this served.
    pub(in super::super) fn demand(&self, newer: GatewayDemand) {
        self.demand.send_if_modified(|newest| {
            let before = newest.as_ref().map(|newest| newest.demand.as_ref());
            let newer = newer.after(before);
            let is_new = before != Some(&newer);
            if is_new {
                newest.get_or_insert_default().demand = Arc::new(newer);
            }
            is_new
        });
    }

    /// Takes the number of the policies at doors with which the newest demand is.
    pub(in super::super) fn doors(&self, number: u64) {
        self.demand.send_if_modified(|newest| {
            let Some(newest) = newest.as_mut().filter(|newest| newest.doors_number != number) else { return false };
            newest.doors_number = number;
            true
        });
    }

    /// The parts of the demand that are not served.
    pub(in super::super) fn refusals(&self) -> GatewayRefusals {
        self.outcome.borrow().refusals.clone()
    }

    /// The outcome that is newest, as far as versions of clusters are concerned.
    pub(in super::super) fn progress(&self) -> ClusterProgress {
        self.outcome.borrow().progress.clone()
    }

    /// Waits for another outcome; false if there is none any more.
    pub(in super::super) async fn changed(&mut self) -> bool {
        self.outcome.changed().await.is_ok()
    }

    /// The state of each accepted Gateway. One whose own version was acknowledged is not pending again because a route of it
    /// changes. `uid` is that of the Gateway that was judged.
    pub(in super::super) fn programmed_states(
        &mut self,
        attached: &Attached,
        uid: impl Fn(&ObjectName) -> Option<String>,
    ) -> BTreeMap<ObjectName, ProgrammedState> {
        let (outcome, claims) = (self.outcome.borrow_and_update().clone(), self.claims.borrow().clone());
        // The demand has the accepted Gateways of these verdicts.
        let NumberedDemand { demand, .. } = self.demand.borrow().clone().unwrap_or_default();
        let mut found = programmed_states(&demand.served, &outcome, &claims, &self.registry);
        let generations: BTreeMap<&ObjectName, Option<i64>> =
            attached.gateways.iter().map(|one| (&one.name, one.generation)).collect();
        for (gateway, state) in &mut found {
            let generation = generations.get(gateway).copied().flatten();
            let closed =
                outcome.refusals.listeners.get(gateway).into_iter().flat_map(BTreeMap::keys).cloned().collect();
            let listeners = listeners(&outcome, gateway);
            let edition = GatewayEdition { uid: uid(gateway), generation, listeners, closed };
            self.acknowledged.follow(gateway, edition, state);
        }
        self.acknowledged.0.retain(|gateway, _| found.contains_key(gateway));
        found
    }
}

/// The names of the listeners of a Gateway's view.
fn listeners(outcome: &GatewayOutcome, gateway: &ObjectName) -> BTreeSet<String> {
    let view = outcome.snapshot.as_ref().and_then(|snapshot| snapshot.view(&gateway_view(gateway)));
    view.map(|view| view.names(type_urls::listener()).map(str::to_owned).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use portcullis_xds::{Resource, Snapshot};

    use super::*;

    fn edge() -> ObjectName {
        ObjectName::new("infra", "edge")
    }

    fn edition(uid: &str, generation: i64, listener: &str) -> GatewayEdition {
        let entry = (type_urls::listener(), listener.to_owned(), Resource::new(vec![1]));
        let views = gateway_view(&edge()).0.map(|name| (name, Snapshot::new([entry])));
        let snapshot = Some(Arc::new(Snapshot::default().with_views(views)));
        let listeners = listeners(&GatewayOutcome { snapshot, ..GatewayOutcome::default() }, &edge());
        assert_eq!(listeners, [listener.to_owned()].into());
        GatewayEdition { uid: Some(uid.to_owned()), generation: Some(generation), listeners, closed: BTreeSet::new() }
    }

    /// A door of no Gateway has another policy: everything that is served is what it was.
    #[test]
    fn other_number_of_the_policies_at_doors_is_no_other_demand() {
        let claims = watch::Sender::new(GatewayClaims::default());
        let (envoys, mut link) = GatewayEnvoys::new(&claims.subscribe(), Arc::default());
        envoys.doors(1);
        assert!(link.newest().0.is_none(), "nothing is served with them");
        envoys.demand(GatewayDemand::default());
        envoys.doors(1);
        let before = link.newest().0.unwrap();
        envoys.demand(GatewayDemand::default());
        envoys.doors(1);
        assert!(!link.demand.has_changed().unwrap());
        envoys.doors(2);
        let newest = link.newest().0.unwrap();
        assert_eq!([before.doors_number, newest.doors_number], [1, 2]);
        assert!(Arc::ptr_eq(&before.demand, &newest.demand), "no view is made anew");
    }

    #[test]
    fn gateway_is_pending_again_only_if_another_edition_is_served() {
        let address = IpAddr::from([192, 0, 2, 1]);
        let programmed = || ProgrammedState::programmed([address].into());
        let first = || edition("one", 1, "gateway-0.0.0.0-443");
        for (case, newer, expected) in [
            ("an edit of a route", first(), programmed()),
            ("an edit of the Gateway", edition("one", 2, "gateway-0.0.0.0-443"), ProgrammedState::Pending),
            ("a Gateway of the same name", edition("two", 1, "gateway-0.0.0.0-443"), ProgrammedState::Pending),
            ("another address of the settings", edition("one", 1, "gateway-10.0.0.1-443"), ProgrammedState::Pending),
            (
                "a certificate that came later",
                GatewayEdition { closed: ["https".to_owned()].into(), ..first() },
                ProgrammedState::Pending,
            ),
        ] {
            let mut acknowledged = AcknowledgedGateways::default();
            acknowledged.follow(&edge(), first(), &mut programmed());
            let mut state = ProgrammedState::Pending;
            acknowledged.follow(&edge(), newer, &mut state);
            assert_eq!(state, expected, "{case}");
        }
    }

    #[test]
    fn gateway_that_was_refused_is_pending_until_it_is_acknowledged() {
        let first = || edition("one", 1, "gateway-0.0.0.0-443");
        for lost in [ProgrammedState::NoEnvoy, ProgrammedState::Refused("no".to_owned())] {
            let mut acknowledged = AcknowledgedGateways::default();
            for mut state in [ProgrammedState::programmed(BTreeSet::new()), lost] {
                acknowledged.follow(&edge(), first(), &mut state);
            }
            let mut state = ProgrammedState::Pending;
            acknowledged.follow(&edge(), first(), &mut state);
            assert_eq!(state, ProgrammedState::Pending);
        }
    }
}
