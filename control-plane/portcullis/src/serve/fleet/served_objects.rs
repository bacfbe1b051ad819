use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use portcullis_api::{
    CertificateDates, Transport, UpstreamCluster, certificate_dates, parse_cluster, unchecked_cluster,
};
use portcullis_filter_config::{GlobalLimit, counted_name};
use portcullis_instances::{MemberHolder, MemberName, Ownership, Settlement};
use portcullis_translate::{ResourceNames, cluster_word};
use portcullis_xds::Membership;
use serde_json::Value;

use super::super::gateway_views::RequestedObjects;
use crate::rule_text::rule_text;

/// The parts of served objects that views of the fleet show. No key is among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServedObjects {
    /// The instance of the control plane.
    pub(crate) instance: String,
    /// The names are shared: the map is copied whenever an object is another one.
    pub(super) by_name: Arc<BTreeMap<Arc<str>, Arc<ServedObject>>>,
    /// The names of objects with a limit of all gateways together.
    limited: Arc<BTreeSet<String>>,
    /// The owners of objects, if they are divided among instances.
    owners: Option<Arc<Settlement>>,
    /// The objects to which the views of Gateways send requests.
    at_gateways: Arc<RequestedObjects>,
}

/// Limits of one object of all gateways together.
#[derive(Clone, Debug)]
pub(crate) struct SharedLimits {
    /// `metadata.name` of the object.
    pub(crate) object: String,
    /// The object's name with the instance, the same for each object of this name.
    pub(crate) name: String,
    /// By schema.
    pub(crate) limits: Arc<BTreeMap<String, GlobalLimit>>,
}

/// The parts of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ServedObject {
    pub(super) servers: Vec<ServedServer>,
    /// The first rule of each policy, in a few words: one line each, in one allocation.
    pub(super) policies: Box<str>,
    /// Names of flow control schemas.
    pub(super) schemas: Vec<String>,
    pub(super) certificates: Vec<CertificateDates>,
    /// The word by which the filter knows the object.
    pub(super) word: String,
    /// Limits of all gateways together, by schema.
    pub(super) global_limits: BTreeMap<String, GlobalLimit>,
    /// Whether connections are passed on: no policy and no limit holds, and no certificate is shown.
    pub(super) is_passed_on: bool,
}

/// A server that may get requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServedServer {
    /// As metrics and health reports name it.
    pub(super) server: String,
    pub(super) zone: Option<String>,
    pub(super) weight: u32,
}

/// Most policies of an object that are shown.
const MAX_POLICIES: usize = 1_000;

impl ServedObjects {
    /// Whether objects were read since this process was started, if only that there are none.
    pub(crate) fn are_read(&self) -> bool {
        !self.instance.is_empty()
    }

    /// Whether an object has a limit of all gateways together.
    pub(crate) fn have_global_limits(&self) -> bool {
        !self.limited.is_empty()
    }

    /// The names of objects that have one, the same allocation as long as they are the same.
    pub(crate) fn limited(&self) -> &Arc<BTreeSet<String>> {
        &self.limited
    }

    /// The objects with owners from now on; without any they are not divided.
    pub(crate) fn owned_by(mut self, owners: Option<Arc<Settlement>>) -> Self {
        self.owners = owners;
        self
    }

    /// The objects with these that Envoys of Gateways may report about from now on; without any they may report nothing.
    pub(crate) fn requested_at(mut self, at_gateways: Arc<RequestedObjects>) -> Self {
        self.at_gateways = at_gateways;
        self
    }

    /// The names of objects that an owner of `before` has no more; some of them may be gone.
    pub(super) fn passed_over_since<'a>(&'a self, before: &'a Self) -> BTreeSet<&'a str> {
        let is_same = match (&self.owners, &before.owners) {
            (None, None) => true,
            (Some(now), Some(before)) => Arc::ptr_eq(now, before),
            _ => false,
        };
        if is_same {
            return BTreeSet::new();
        }
        let names = before.by_name.keys().chain(self.by_name.keys()).map(AsRef::as_ref);
        let passed_over = |name: &&str| {
            let (now, before) = (self.holders(name), before.holders(name));
            before.into_iter().flatten().any(|holder| !now.contains(&Some(holder)))
        };
        names.filter(passed_over).collect()
    }

    /// The holder and the next owner of an object. One of which nothing is known is no instance's.
    fn holders(&self, object: &str) -> [Option<&MemberHolder>; 2] {
        match self.owner(object) {
            Some(owner) => [Some(&owner.holder), owner.next.as_ref()],
            None => [Some(&MemberHolder::Free), None],
        }
    }

    fn owner(&self, object: &str) -> Option<&Ownership> {
        self.owners.as_ref()?.owners.get(&MemberName::cluster(object.to_ascii_lowercase()))
    }

    /// Whether a gateway whose certificate says this may report about an object, and have a part of its limits: while an object passes
    /// over, gateways of both owners; of an Envoy of a Gateway, as long as the Gateway's view sends requests there. A process of this
    /// machine that belongs to no Gateway may report about all.
    pub(crate) fn may_report(&self, membership: &Membership, object: &str) -> bool {
        let is_holder = |is_one: &dyn Fn(&MemberHolder) -> bool| self.holders(object).into_iter().flatten().any(is_one);
        match membership {
            Membership::Local => true,
            Membership::Bound(_) => membership.gateway().is_some_and(|gateway| self.is_requested(gateway, object)),
            Membership::Free => is_holder(&|holder| *holder == MemberHolder::Free),
            Membership::Instances(names) => {
                is_holder(&|holder| holder.instance().is_some_and(|name| names.contains(name)))
            }
        }
    }

    fn is_requested(&self, gateway: &str, object: &str) -> bool {
        self.at_gateways.get(gateway).is_some_and(|objects| objects.contains(object))
    }

    /// The name under which the cluster of a report counts: a gateway that does not have its configuration from a control plane knows
    /// an object by its name alone.
    pub(crate) fn reported_cluster<'a>(&self, cluster: &'a str) -> Cow<'a, str> {
        self.by_name.get(cluster).map_or(Cow::Borrowed(cluster), |object| Cow::Owned(self.counted(cluster, object)))
    }

    fn counted(&self, name: &str, object: &ServedObject) -> String {
        counted_name(ResourceNames::new(&self.instance, name).chain(), &object.word)
    }

    /// The limits of all gateways together, by the name under which a cluster counts.
    pub(crate) fn shared_limits(&self) -> HashMap<String, SharedLimits> {
        let objects = self.limited.iter().filter_map(|name| self.by_name.get_key_value(name.as_str()));
        let shared = objects.map(|(object_name, object)| {
            let name = ResourceNames::new(&self.instance, object_name).chain().to_owned();
            let limits = Arc::new(object.global_limits.clone());
            let counted = counted_name(&name, &object.word);
            (counted, SharedLimits { object: object_name.to_string(), name, limits })
        });
        shared.collect()
    }
}

/// Reads each document once.
#[derive(Debug, Default)]
pub(crate) struct ServedObjectCache {
    known: BTreeMap<String, Arc<Value>>,
    read: Arc<BTreeMap<Arc<str>, Arc<ServedObject>>>,
    limited: Arc<BTreeSet<String>>,
}

impl ServedObjectCache {
    #[cfg(test)]
    pub(crate) fn read(&mut self, instance: &str, documents: &BTreeMap<String, Arc<Value>>) -> ServedObjects {
        self.follow(instance, documents, None)
    }

    /// The parts of the documents that are served, by the name of their object. Those of other names than the `touched` ones are the
    /// same as the last time; `None` are all.
    pub(crate) fn follow(
        &mut self,
        instance: &str,
        documents: &BTreeMap<String, Arc<Value>>,
        touched: Option<&BTreeSet<String>>,
    ) -> ServedObjects {
        match touched {
            Some(names) => names.iter().for_each(|name| self.take(name, documents.get(name))),
            None => {
                let gone: Vec<_> = self.known.keys().filter(|name| !documents.contains_key(*name)).cloned().collect();
                gone.iter().for_each(|name| self.take(name, None));
                documents.iter().for_each(|(name, document)| self.take(name, Some(document)));
            }
        }
        let (by_name, limited) = (Arc::clone(&self.read), Arc::clone(&self.limited));
        ServedObjects { instance: instance.to_owned(), by_name, limited, ..ServedObjects::default() }
    }

    fn take(&mut self, name: &str, document: Option<&Arc<Value>>) {
        let Some(document) = document else {
            if self.known.remove(name).is_some() {
                Arc::make_mut(&mut self.read).remove(name);
                self.set_limited(name, false);
            }
            return;
        };
        let before = self.known.insert(name.to_owned(), Arc::clone(document));
        if before.is_some_and(|before| Arc::ptr_eq(&before, document) || before == *document) {
            return;
        }
        let read = ServedObject::of(document);
        self.set_limited(name, !read.global_limits.is_empty());
        if self.read.get(name).is_none_or(|before| **before != read) {
            Arc::make_mut(&mut self.read).insert(name.into(), Arc::new(read));
        }
    }
}

impl ServedObjectCache {
    fn set_limited(&mut self, name: &str, is_limited: bool) {
        if self.limited.contains(name) == is_limited {
            return;
        }
        let limited = Arc::make_mut(&mut self.limited);
        if is_limited {
            limited.insert(name.to_owned());
        } else {
            limited.remove(name);
        }
    }
}

impl ServedObject {
    /// The first rule of each policy, in a few words.
    pub(super) fn policies(&self) -> impl Iterator<Item = &str> {
        self.policies.split_terminator('\n')
    }

    fn of(document: &Arc<Value>) -> Self {
        parse_cluster(document).map(|raw| Self::of_cluster(&raw)).unwrap_or_default()
    }

    fn of_cluster(raw: &UpstreamCluster) -> Self {
        let Some(cluster) = unchecked_cluster(raw) else { return Self::default() };
        let served = cluster.servers.iter().filter(|server| server.enabled).map(|server| ServedServer {
            server: server.endpoint.to_string(),
            zone: Some(server.zone.clone()).filter(|zone| !zone.is_empty()),
            weight: server.weight,
        });
        let word = cluster_word(&cluster);
        if cluster.transport == Transport::Passthrough {
            return Self { servers: served.collect(), word, is_passed_on: true, ..Self::default() };
        }
        let policies = cluster.policies.iter().take(MAX_POLICIES);
        let global = cluster.schemas.iter().filter_map(|schema| Some((schema.name.clone(), schema.global?)));
        Self {
            servers: served.collect(),
            policies: policies.map(|one| one.rules.first().map(rule_text).unwrap_or_default() + "\n").collect(),
            global_limits: global.collect(),
            schemas: cluster.schemas.iter().map(|schema| schema.name.clone()).collect(),
            certificates: certificate_dates(&raw.spec),
            is_passed_on: false,
            word,
        }
    }
}
