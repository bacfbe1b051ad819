use std::collections::BTreeMap;

use portcullis_instances::{InstanceClaim, MemberHolder, MemberKind, MemberName, Ownership, Settlement};
use serde::{Deserialize, Serialize};

/// The owners of Gateways, by `NAMESPACE/NAME`, as they are saved for the next start: resources of Gateways do not say whose these are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(in super::super) struct GatewayOwners(BTreeMap<String, GatewayOwner>);

/// The owner of one Gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct GatewayOwner {
    /// `metadata.uid`: another Gateway of the name has another one, and no owner yet.
    uid: String,
    /// The instance; none if it belongs to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    /// The instance that takes over, while it does; empty if none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl GatewayOwners {
    /// Whether there is none.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those of a settlement.
    pub(super) fn of(settled: &Settlement, uids: &BTreeMap<MemberName, String>) -> Self {
        let gateways = settled.owners.iter().filter(|(member, _)| member.kind == MemberKind::Gateway);
        let owner = |(member, owner): (&MemberName, &Ownership)| {
            let instance = |holder: &MemberHolder| holder.instance().map(str::to_owned);
            let next = owner.next.as_ref().map(|next| instance(next).unwrap_or_default());
            let owner = GatewayOwner { uid: uids.get(member)?.clone(), instance: instance(&owner.holder), next };
            Some((member.name.clone(), owner))
        };
        Self(gateways.filter_map(owner).collect())
    }

    /// The owner of a Gateway that is there now. The time of a hand-over begins anew. An instance that is gone has it no more: by which
    /// settings it was served is not known.
    pub(super) fn owner(&self, gateway: &str, uid: Option<&str>, claims: &[InstanceClaim]) -> Option<Ownership> {
        let known = self.0.get(gateway).filter(|owner| Some(&*owner.uid) == uid)?;
        let GatewayOwner { instance, next, .. } = known.clone();
        let holder = |instance: Option<String>| match instance.filter(|name| !name.is_empty()) {
            None => Some(MemberHolder::Free),
            Some(name) => claims.iter().any(|one| one.name == name).then_some(MemberHolder::Instance(name)),
        };
        let next = next.and_then(|next| holder(Some(next)));
        match (holder(instance), next) {
            (Some(holder), next) => Some(Ownership { next: next.filter(|next| *next != holder), holder }),
            (None, Some(holder)) => Some(Ownership { holder, next: None }),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use portcullis_api::Settings;
    use portcullis_attach::ObjectName;
    use portcullis_sources::ObjectSet;
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::owners::{InstanceInput, InstanceOwners};
    use super::super::{GatewayMember, InstanceStates};
    use super::*;

    /// Three instances that may select the label of two Gateways, and what becomes of them.
    #[derive(Clone, Debug)]
    enum Event {
        /// An instance is there with a selector of this team, of all, or is removed.
        Instance(usize, Option<Option<u8>>),
        /// A Gateway has a label, or is deleted.
        Gateway(usize, Option<u8>),
        /// A Gateway of the name is made anew.
        Anew(usize),
        /// Seconds pass.
        Time(u64),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            (0..3_usize, prop::option::weighted(0.9, prop::option::weighted(0.7, 0..3_u8)))
                .prop_map(|(number, selector)| Event::Instance(number, selector)),
            (0..2_usize, prop::option::weighted(0.9, 0..3_u8)).prop_map(|(number, team)| Event::Gateway(number, team)),
            (0..2_usize).prop_map(Event::Anew),
            (1..40_u64).prop_map(Event::Time),
        ]
    }

    /// The objects, and their owners.
    struct World {
        instances: [Option<Option<u8>>; 3],
        /// Labels and UIDs.
        gateways: [Option<(u8, usize)>; 2],
        made: usize,
        owners: InstanceOwners,
        now: Instant,
    }

    impl World {
        fn new() -> Self {
            let (instances, gateways) = ([Some(Some(0)), Some(Some(1)), None], [Some((0, 0)), Some((1, 1))]);
            Self { instances, gateways, made: 2, owners: InstanceOwners::default(), now: Instant::now() }
        }

        fn take(&mut self, event: &Event) {
            match *event {
                Event::Instance(number, selector) => self.instances[number] = selector,
                Event::Gateway(number, None) => self.gateways[number] = None,
                Event::Gateway(number, Some(team)) => {
                    let uid = self.gateways[number].map_or(self.made, |(_, uid)| uid);
                    self.made = self.made.max(uid + 1);
                    self.gateways[number] = Some((team, uid));
                }
                Event::Anew(number) => {
                    if let Some((_, uid)) = &mut self.gateways[number] {
                        (*uid, self.made) = (self.made, self.made + 1);
                    }
                }
                Event::Time(seconds) => self.now += Duration::from_secs(seconds),
            }
        }

        /// Settles all owners; before there are verdicts no Gateway is known.
        fn follow(&mut self, is_judged: bool) -> Arc<InstanceStates> {
            let instance = |(number, selector): (usize, &Option<Option<u8>>)| {
                let labels =
                    (*selector)?.map_or_else(|| json!({}), |team| json!({"matchLabels": {"team": team.to_string()}}));
                let metadata = json!({"name": format!("i{number}"), "creationTimestamp": "2026-01-01T00:00:00Z"});
                let (version, spec) = ("portcullis.dev/v1alpha1", json!({"gatewaysSelector": labels}));
                Some(Arc::new(json!({"apiVersion": version, "kind": "Instance", "metadata": metadata, "spec": spec})))
            };
            let instances = self.instances.iter().enumerate().filter_map(instance).collect();
            let gateway = |(number, gateway): (usize, &Option<(u8, usize)>)| {
                let (team, uid) = (*gateway)?;
                let labels = BTreeMap::from([("team".to_owned(), team.to_string())]);
                let member = GatewayMember { uid: Some(uid.to_string()), labels };
                Some((ObjectName::new("infra", format!("g{number}")), member))
            };
            let gateways = self.gateways.iter().enumerate().filter_map(gateway).collect();
            let (settings, accepted) = (Settings::default(), BTreeMap::new());
            let objects = ObjectSet { instances, ..ObjectSet::default() };
            let input = InstanceInput {
                settings: &settings,
                objects: &objects,
                clusters: &[],
                gateways: is_judged.then_some(&gateways),
                accepted: &accepted,
            };
            self.owners.follow(&input, self.now);
            self.owners.states()
        }

        /// The Gateways whose owners are saved for the next start.
        fn saved(&self) -> Vec<String> {
            self.owners.gateway_owners().0.keys().cloned().collect()
        }

        fn restart(&mut self) {
            let saved = serde_json::to_string(&*self.owners.gateway_owners()).unwrap();
            self.owners = InstanceOwners::default();
            self.owners.resume_gateways(serde_json::from_str(&saved).unwrap());
        }
    }

    proptest! {
        #[test]
        fn owners_of_gateways_are_the_same_after_a_restart(
            events in prop::collection::vec(event(), 0..12), turns in 0..3_usize, deleted in prop::option::of(0..2_usize)
        ) {
            let mut world = World::new();
            let mut before = world.follow(true);
            for event in &events {
                world.take(event);
                before = world.follow(true);
            }
            world.restart();
            for _ in 0..turns {
                // It may be stopped again before there are verdicts.
                world.follow(false);
                world.restart();
            }
            deleted.iter().for_each(|number| world.take(&Event::Gateway(*number, None)));
            let after = world.follow(true);
            let remains = |name: &MemberName| deleted.is_none_or(|number| name.name != format!("infra/g{number}"));
            for (name, owner) in before.settled.owners.iter().filter(|(name, _)| remains(name)) {
                let is_there = |holder: &MemberHolder| {
                    holder.instance().is_none_or(|name| before.by_name.contains_key(name))
                };
                let expected = match is_there(&owner.holder) {
                    true => owner.clone(),
                    false => Ownership { holder: owner.settled().clone(), next: None },
                };
                // Without any instance all owners are the same one.
                let free = Ownership { holder: MemberHolder::Free, next: None };
                prop_assert_eq!(after.settled.owners.get(name).unwrap_or(&free), &expected, "{}", name);
            }
            let known = |name: &String| after.settled.owners.contains_key(&MemberName::gateway(name.as_str()));
            prop_assert!(world.saved().iter().all(known), "{:?}", world.saved());
        }
    }

    #[test]
    fn hand_over_of_a_gateway_goes_on_after_a_restart() {
        let mut world = World::new();
        world.follow(true);
        world.take(&Event::Gateway(0, Some(1)));
        world.follow(true);
        world.now += Duration::from_secs(20);
        world.restart();
        let owner = |states: &InstanceStates| states.settled.owners[&MemberName::gateway("infra/g0")].clone();
        let of = |name: &str| MemberHolder::Instance(name.to_owned());
        let both = Ownership { holder: of("i0"), next: Some(of("i1")) };
        assert_eq!(owner(&world.follow(true)), both);
        world.now += Duration::from_secs(20);
        assert_eq!(owner(&world.follow(true)), both, "its time begins anew");
        world.now += Duration::from_secs(10);
        assert_eq!(owner(&world.follow(true)), Ownership { holder: of("i1"), next: None });
    }

    /// Else the file would grow by each Gateway that is deleted while no control plane runs.
    #[test]
    fn deleted_gateway_is_forgotten_after_a_restart() {
        let mut world = World::new();
        world.follow(true);
        world.restart();
        world.take(&Event::Gateway(1, None));
        world.follow(false);
        assert_eq!(world.saved(), ["infra/g0", "infra/g1"], "it is not known yet which there are");
        world.follow(true);
        assert_eq!(world.saved(), ["infra/g0"]);
        // Both select one that is made anew, and its namesake was that of the second.
        world.take(&Event::Instance(0, Some(None)));
        world.take(&Event::Gateway(1, Some(1)));
        world.restart();
        let owner = world.follow(true).settled.owners[&MemberName::gateway("infra/g1")].holder.clone();
        assert_eq!(owner, MemberHolder::Instance("i0".to_owned()));
    }

    /// Both select it, and the younger one has it since before the older one did.
    #[test]
    fn gateway_stays_with_the_younger_instance_after_a_restart() {
        let mut world = World::new();
        world.take(&Event::Instance(0, None));
        world.take(&Event::Gateway(0, Some(1)));
        world.follow(true);
        world.take(&Event::Instance(0, Some(None)));
        world.follow(true);
        let holder = |states: &InstanceStates| states.settled.owners[&MemberName::gateway("infra/g0")].holder.clone();
        world.restart();
        world.follow(false);
        assert_eq!(holder(&world.follow(true)), MemberHolder::Instance("i1".to_owned()));
        world.take(&Event::Anew(0));
        world.restart();
        assert_eq!(holder(&world.follow(true)), MemberHolder::Instance("i0".to_owned()), "another one of its name");
    }
}
