//! Repeated translation: checks each document, emits its resources, decides who owns a name, and collects the filter chains of
//! all objects in the listeners.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use portcullis_api::{Claims, Settings, WildcardSubdomains};
use serde_json::Value;

use crate::checked_cluster::{CheckedCluster, ClientCaCheck, names_alone, translate_object, without_certificate};
use crate::document_parts::{PartedTranslation, Parts};
use crate::filter_build::FilterBuild;
use crate::listener::{self, Chain, CommonBytes};
use crate::ownership::LostName;
use crate::resource::{Resource, ResourceGroup};
use crate::{Input, Translation, cluster, ownership, secrets};

/// Translates repeatedly, and caches the result of each document: an edit of one costs the work of one.
///
/// The output depends on the input alone, not on earlier translations. The cache holds the documents, and with them their keys.
#[derive(Default)]
pub struct Translator {
    /// The settings and the build of every cached translation.
    basis: Option<(Settings, FilterBuild)>,
    /// By `metadata.name`: several if objects have equal names, and the previous version of one.
    known: HashMap<String, Vec<CachedTranslation>>,
    /// The documents of the last translation and their results, in its order: one that is still in its place costs a comparison of
    /// addresses.
    last: Vec<KnownDocument>,
    /// The last translation that had other documents than the one before it.
    changed: u64,
    /// The clusters of the gateway itself, and what they refer to.
    own_resources: Vec<Arc<Resource>>,
    /// The default certificate, for the first part alone.
    default_certificate: Option<Arc<Resource>>,
    /// The settings of the other parts.
    part_settings: Settings,
    /// Those with the listeners, of the last two translations: one with a refused object, and one with its accepted version.
    own_groups: Vec<OwnGroup>,
    /// The names that objects do not get, also of the last two translations.
    conflicts: Vec<KnownConflicts>,
    /// The bytes that the chains of many objects have.
    common: CommonBytes,
    /// The number of the present translation.
    sequence: u64,
    client_ca_check: Option<ClientCaCheck>,
}

/// A document of the last translation.
struct KnownDocument {
    document: Arc<Value>,
    /// Whether it has its names alone.
    is_foreign: bool,
    checked: Arc<CheckedCluster>,
}

struct CachedTranslation {
    document: Arc<Value>,
    is_foreign: bool,
    checked: Arc<CheckedCluster>,
    /// Names that it claims and does not get.
    lost: Vec<String>,
}

/// The names that the objects do not get, as long as all claim what they claimed.
struct KnownConflicts {
    checked: Vec<Arc<CheckedCluster>>,
    lost: Arc<Vec<Vec<LostName>>>,
    /// The translation that used it last.
    used: u64,
}

/// The resources of the gateway itself, as long as the objects contribute the same chains.
struct OwnGroup {
    /// Whether it is of the first part.
    is_first: bool,
    /// The contributions to the listeners.
    chains: Vec<Arc<Chain>>,
    /// The listeners, and the routes of tunnels.
    listeners: Vec<Arc<Resource>>,
    group: ResourceGroup,
    /// The translation that used it last.
    used: u64,
}

impl Translator {
    /// Checks client CAs as the filter does: else Envoy alone would report an object that the filter refuses.
    #[must_use]
    pub fn check_client_cas(self, check: ClientCaCheck) -> Self {
        Self { client_ca_check: Some(check), ..self }
    }

    /// Translates all objects.
    pub fn translate(&mut self, input: &Input<'_>) -> Translation {
        let PartedTranslation { mut groups, diagnoses } = self.translate_parts(input, &Parts::default());
        Translation { groups: groups.pop().unwrap_or_default(), diagnoses }
    }

    /// Translates all objects for Envoys that have parts of them. Names of objects that are not in a part are closed where a wildcard
    /// in it would cover them. Only the first part has the default certificate: an object that needs it is refused in the others.
    pub fn translate_parts(&mut self, input: &Input<'_>, parts: &Parts<'_>) -> PartedTranslation {
        self.begin(input);
        let checked = self.checked_all(input, parts);
        let conflicts = self.lost(&checked, input.settings.wildcard_subdomains);
        let mut translation = PartedTranslation::default();
        let count = parts.count.max(1);
        let mut chains = vec![Vec::with_capacity(checked.len()); count];
        translation.groups.resize_with(count, Vec::new);
        let documents = input.clusters.iter().zip(&checked).zip(conflicts.iter());
        for (index, ((document, one), lost)) in documents.enumerate() {
            let one = &self.without((document, parts.is_foreign(index)), one, lost, input);
            let (emitted, diagnosis) = one.served_part(lost);
            let is_by_default = emitted.is_some_and(|emitted| emitted.is_by_default);
            for (part, (groups, chains)) in translation.groups.iter_mut().zip(&mut chains).enumerate() {
                match emitted.filter(|_| parts.has(part, index) && (part == 0 || !is_by_default)) {
                    Some(emitted) => {
                        groups.push(Arc::clone(&emitted.resources));
                        chains.push(Arc::clone(&emitted.chain));
                    }
                    None => chains.push(Arc::clone(&one.reserved)),
                }
            }
            let is_refused = is_by_default && parts.has_others_alone(index);
            translation.diagnoses.push(if is_refused { without_certificate(&diagnosis) } else { diagnosis });
        }
        for (part, (groups, chains)) in translation.groups.iter_mut().zip(chains).enumerate() {
            groups.push(self.own_group(input.settings, chains, part == 0));
        }
        self.forget();
        translation
    }

    fn begin(&mut self, input: &Input<'_>) {
        let is_same =
            |(settings, filter): &(Settings, FilterBuild)| settings == input.settings && *filter == input.filter;
        if !self.basis.as_ref().is_some_and(is_same) {
            let default_certificate = secrets::default_certificate(input.settings).map(Arc::new);
            let part_settings = Settings { default_certificate: None, ..input.settings.clone() };
            let collector = cluster::collector(input.settings).into_iter().chain(secrets::collector_ca(input.settings));
            let own_resources = collector.chain(cluster::tunnel(input.settings)).map(Arc::new).collect();
            let basis = Some((input.settings.clone(), input.filter));
            let client_ca_check = self.client_ca_check;
            *self =
                Self { basis, own_resources, default_certificate, part_settings, client_ca_check, ..Self::default() };
        }
        self.sequence += 1;
    }

    /// The result of every document, each without the others.
    fn checked_all(&mut self, input: &Input<'_>, parts: &Parts<'_>) -> Vec<Arc<CheckedCluster>> {
        let mut is_other = self.last.len() != input.clusters.len();
        let mut checked = Vec::with_capacity(input.clusters.len());
        for (index, document) in input.clusters.iter().enumerate() {
            let is_foreign = parts.is_foreign(index);
            let is_same =
                |known: &&KnownDocument| known.is_foreign == is_foreign && Arc::ptr_eq(&known.document, document);
            let Some(last) = self.last.get(index).filter(is_same) else {
                is_other = true;
                checked.push(self.checked((document, is_foreign), &[], input));
                continue;
            };
            last.checked.used.store(self.sequence, Ordering::Relaxed);
            checked.push(Arc::clone(&last.checked));
        }
        if is_other {
            self.changed = self.sequence;
            let known = |(index, (document, checked)): (usize, (&Arc<Value>, &Arc<CheckedCluster>))| KnownDocument {
                document: Arc::clone(document),
                is_foreign: parts.is_foreign(index),
                checked: Arc::clone(checked),
            };
            self.last = input.clusters.iter().zip(&checked).enumerate().map(known).collect();
        }
        checked
    }

    /// The same object without the names that another one owns; it is served under the others, or keeps them closed.
    fn without(
        &mut self,
        document: (&Arc<Value>, bool),
        one: &Arc<CheckedCluster>,
        lost: &[LostName],
        input: &Input<'_>,
    ) -> Arc<CheckedCluster> {
        if lost.is_empty() {
            return Arc::clone(one);
        }
        let lost: Vec<_> = lost.iter().map(|lost| lost.name.clone()).collect();
        self.checked(document, &lost, input)
    }

    /// The cached result of a document, or a new one. A foreign one has its names alone.
    fn checked(
        &mut self,
        (document, is_foreign): (&Arc<Value>, bool),
        lost: &[String],
        input: &Input<'_>,
    ) -> Arc<CheckedCluster> {
        let (check, common) = (self.client_ca_check, &mut self.common);
        let mut make = || match is_foreign {
            true => names_alone(document, lost),
            false => translate_object(document, lost, input, check, common),
        };
        let name = document.get("metadata").and_then(|metadata| metadata.get("name")?.as_str()).unwrap_or_default();
        if !self.known.contains_key(name) {
            self.known.insert(name.to_owned(), Vec::new());
        }
        let Some(known) = self.known.get_mut(name) else { return Arc::new(make()) };
        let same = |one: &&mut CachedTranslation| {
            one.is_foreign == is_foreign
                && one.lost == lost
                && (Arc::ptr_eq(&one.document, document) || one.document == *document)
        };
        if let Some(one) = known.iter_mut().find(same) {
            one.checked.used.store(self.sequence, Ordering::Relaxed);
            // A source that reads anew has equal documents in other places.
            one.document = Arc::clone(document);
            return Arc::clone(&one.checked);
        }
        let mut checked = make();
        known.iter().for_each(|before| checked.keep_allocations(&before.checked));
        checked.used = AtomicU64::new(self.sequence);
        let checked = Arc::new(checked);
        let (document, lost) = (Arc::clone(document), lost.to_vec());
        known.push(CachedTranslation { document, is_foreign, checked: Arc::clone(&checked), lost });
        checked
    }

    /// Drops cached results that the last two translations did not use. A refused version and the accepted one before it are
    /// translated one after the other, so both stay.
    fn forget(&mut self) {
        let sequence = self.sequence;
        // Two translations after the last change nothing is left to be dropped.
        if self.changed + 2 >= sequence {
            self.known.retain(|_, known| {
                known.retain(|one| one.checked.used.load(Ordering::Relaxed) + 1 >= sequence);
                !known.is_empty()
            });
            self.common.forget();
        }
        self.own_groups.retain(|one| one.used + 1 >= sequence);
        self.conflicts.retain(|one| one.used + 1 >= sequence);
    }

    /// For each object, the names that it claims and does not own.
    fn lost(&mut self, checked: &[Arc<CheckedCluster>], below: WildcardSubdomains) -> Arc<Vec<Vec<LostName>>> {
        let used = self.sequence;
        if let Some(known) = self.conflicts.iter_mut().find(|known| known.is_of(checked)) {
            known.used = used;
            if !known.checked.iter().map(Arc::as_ptr).eq(checked.iter().map(Arc::as_ptr)) {
                known.checked = checked.to_vec();
            }
            return Arc::clone(&known.lost);
        }
        let claims: Vec<&Claims> = checked.iter().map(|one| &one.claims).collect();
        let lost = Arc::new(ownership::conflicts(&claims, below));
        self.conflicts.push(KnownConflicts { checked: checked.to_vec(), lost: Arc::clone(&lost), used });
        lost
    }

    /// The resources of the gateway itself.
    fn own_group(&mut self, settings: &Settings, chains: Vec<Arc<Chain>>, is_first: bool) -> ResourceGroup {
        let used = self.sequence;
        let is_of = |known: &&mut OwnGroup| known.is_first == is_first && known.is_of(&chains);
        if let Some(known) = self.own_groups.iter_mut().find(is_of) {
            known.used = used;
            return Arc::clone(&known.group);
        }
        let listeners = self.listeners(if is_first { settings } else { &self.part_settings }, &chains);
        let certificate = self.default_certificate.iter().filter(|_| is_first);
        let all = certificate.chain(&self.own_resources).chain(&listeners);
        let is_same = |known: &&OwnGroup| known.group.iter().map(Arc::as_ptr).eq(all.clone().map(Arc::as_ptr));
        let known = self.own_groups.iter().find(is_same).map(|known| Arc::clone(&known.group));
        let group: ResourceGroup = known.unwrap_or_else(|| all.cloned().collect());
        self.own_groups.push(OwnGroup { is_first, chains, listeners, group: Arc::clone(&group), used });
        group
    }

    fn listeners(&self, settings: &Settings, chains: &[Arc<Chain>]) -> Vec<Arc<Resource>> {
        let made = listener::listeners(settings, chains).into_iter();
        let before = || self.own_groups.iter().flat_map(|known| &known.listeners);
        let known = |made: &Resource| before().find(|before| ***before == *made).cloned();
        made.map(|made| known(&made).unwrap_or_else(|| Arc::new(made))).collect()
    }
}

impl KnownConflicts {
    /// Whether these objects claim the same.
    fn is_of(&self, checked: &[Arc<CheckedCluster>]) -> bool {
        let claims_same = |(one, other): (&Arc<CheckedCluster>, &Arc<CheckedCluster>)| {
            Arc::ptr_eq(one, other) || one.claims == other.claims
        };
        checked.len() == self.checked.len() && checked.iter().zip(&self.checked).all(claims_same)
    }
}

impl OwnGroup {
    /// Whether it is made of these chains.
    fn is_of(&self, chains: &[Arc<Chain>]) -> bool {
        let is_same = |(one, other): (&Arc<Chain>, &Arc<Chain>)| Arc::ptr_eq(one, other);
        chains.len() == self.chains.len() && chains.iter().zip(&self.chains).all(is_same)
    }
}
