//! Repeated translation: checks each document, emits its resources, decides who owns a name, and collects the filter chains of
//! all objects in the listeners.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use portcullis_api::{ClaimKind, Claims, Problem, Settings, Transport, WildcardSubdomains, claims_of};
use serde_json::Value;

use crate::diagnosis::{Diagnosis, Reason};
use crate::document_parts::{PartedTranslation, Parts};
use crate::filter_build::FilterBuild;
use crate::listener::{self, Chain, CommonBytes};
use crate::ownership::LostName;
use crate::resource::{Resource, ResourceGroup};
use crate::{Input, Translation, check, cluster, emit, ownership, secrets};

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
    last: Vec<(Arc<Value>, Arc<CheckedCluster>)>,
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

/// Why the filter would refuse a client CA bundle (PEM), if it would.
pub type ClientCaCheck = fn(&str) -> Result<(), String>;

struct CachedTranslation {
    document: Arc<Value>,
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

/// The result of a document, without the other documents.
struct CheckedCluster {
    claims: Claims,
    /// The diagnosis if it gets every name that it claims.
    diagnosis: Arc<Diagnosis>,
    /// `None` if it is refused.
    emitted: Option<EmittedResources>,
    /// In the place of a chain if it is not served.
    reserved: Arc<Chain>,
    /// The number of the translation that used it last. It orders nothing else.
    used: AtomicU64,
}

struct EmittedResources {
    resources: ResourceGroup,
    chain: Arc<Chain>,
    /// The edition of the shadow, if there is one.
    shadow: Option<String>,
    /// Whether clients meet the default certificate.
    is_by_default: bool,
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
        let checked = self.checked_all(input);
        let conflicts = self.lost(&checked, input.settings.wildcard_subdomains);
        let mut translation = PartedTranslation::default();
        let count = parts.count.max(1);
        let mut chains = vec![Vec::with_capacity(checked.len()); count];
        translation.groups.resize_with(count, Vec::new);
        let documents = input.clusters.iter().zip(&checked).zip(conflicts.iter());
        for (index, ((document, one), lost)) in documents.enumerate() {
            let one = &self.without(document, one, lost, input);
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
    fn checked_all(&mut self, input: &Input<'_>) -> Vec<Arc<CheckedCluster>> {
        let mut is_other = self.last.len() != input.clusters.len();
        let mut checked = Vec::with_capacity(input.clusters.len());
        for (index, document) in input.clusters.iter().enumerate() {
            let last = self.last.get(index).filter(|(known, _)| Arc::ptr_eq(known, document));
            let Some((_, last)) = last else {
                is_other = true;
                checked.push(self.checked(document, &[], input));
                continue;
            };
            last.used.store(self.sequence, Ordering::Relaxed);
            checked.push(Arc::clone(last));
        }
        if is_other {
            self.changed = self.sequence;
            self.last = input.clusters.iter().cloned().zip(checked.iter().cloned()).collect();
        }
        checked
    }

    /// The same object without the names that another one owns; it is served under the others, or keeps them closed.
    fn without(
        &mut self,
        document: &Arc<Value>,
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

    /// The cached result of a document, or a new one.
    fn checked(&mut self, document: &Arc<Value>, lost: &[String], input: &Input<'_>) -> Arc<CheckedCluster> {
        let check = self.client_ca_check;
        let name = document.get("metadata").and_then(|metadata| metadata.get("name")?.as_str()).unwrap_or_default();
        if !self.known.contains_key(name) {
            self.known.insert(name.to_owned(), Vec::new());
        }
        let Some(known) = self.known.get_mut(name) else {
            return Arc::new(translate_object(document, lost, input, check, &mut self.common));
        };
        let same = |one: &&mut CachedTranslation| {
            one.lost == lost && (Arc::ptr_eq(&one.document, document) || one.document == *document)
        };
        if let Some(one) = known.iter_mut().find(same) {
            one.checked.used.store(self.sequence, Ordering::Relaxed);
            // A source that reads anew has equal documents in other places.
            one.document = Arc::clone(document);
            return Arc::clone(&one.checked);
        }
        let mut checked = translate_object(document, lost, input, check, &mut self.common);
        known.iter().for_each(|before| checked.keep_allocations(&before.checked));
        checked.used = AtomicU64::new(self.sequence);
        let checked = Arc::new(checked);
        let (document, lost) = (Arc::clone(document), lost.to_vec());
        known.push(CachedTranslation { document, checked: Arc::clone(&checked), lost });
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

impl CheckedCluster {
    /// The part of it that is served, and its diagnosis: with the problems of names that another one owns.
    fn served_part(&self, lost: &[LostName]) -> (Option<&EmittedResources>, Arc<Diagnosis>) {
        if lost.is_empty() {
            return (self.emitted.as_ref(), Arc::clone(&self.diagnosis));
        }
        let mut diagnosis = self.diagnosis.as_ref().clone();
        diagnosis.names.retain(|name| lost.iter().all(|lost| lost.name != *name));
        let problems: Vec<_> = lost.iter().map(|lost| lost.problem.clone()).collect();
        let emitted = if self.emitted.is_none() {
            problems.into_iter().for_each(|problem| diagnosis.add_problem(problem));
            None
        } else if lost.iter().any(|lost| lost.kind == ClaimKind::Name) {
            diagnosis.refuse(Reason::Conflicted, problems);
            diagnosis.shadow = None;
            None
        } else {
            diagnosis.accept_in_part(problems);
            self.emitted.as_ref()
        };
        (emitted, Arc::new(diagnosis))
    }

    /// Takes over what another version of the object has as well: an edit of policies leaves the listener as it is.
    fn keep_allocations(&mut self, before: &Self) {
        let keep = |chain: &mut Arc<Chain>, before: &Arc<Chain>| {
            if **chain == **before {
                *chain = Arc::clone(before);
            }
        };
        keep(&mut self.reserved, &before.reserved);
        if let (Some(emitted), Some(before)) = (&mut self.emitted, &before.emitted) {
            keep(&mut emitted.chain, &before.chain);
        }
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

/// The same of an object that no Envoy serves with the default certificate.
fn without_certificate(diagnosis: &Diagnosis) -> Arc<Diagnosis> {
    let mut diagnosis = diagnosis.clone();
    let message = "is required of an object that belongs to an Instance, whose Envoys have no defaultCertificate";
    let problem = Problem::new("spec.secureServing.certData", message);
    diagnosis.refuse(Reason::Invalid, vec![problem]);
    diagnosis.shadow = None;
    Arc::new(diagnosis)
}

/// Checks a document and emits its resources, without the names that another object owns.
fn translate_object(
    document: &Value,
    lost: &[String],
    input: &Input<'_>,
    client_ca: Option<ClientCaCheck>,
    common: &mut CommonBytes,
) -> CheckedCluster {
    let claims = claims_of(document);
    let (cluster, mut diagnosis) = check(document, &claims.name, input.settings, client_ca);
    let emitted = cluster.map(|mut cluster| {
        cluster.server_names.retain(|name| !lost.contains(name));
        cluster.virtual_ips.retain(|ip| !lost.contains(&ip.to_string()));
        let mut resources = Vec::new();
        let (mut chain, shadow) = emit(&cluster, input, &mut resources);
        chain.share(common);
        let resources = resources.into_iter().map(Arc::new).collect();
        let is_by_default = cluster.serving.is_none() && cluster.transport == Transport::Terminate;
        EmittedResources { resources, chain: Arc::new(chain), shadow, is_by_default }
    });
    diagnosis.names = claims.names.iter().map(|(name, _)| name.clone()).collect();
    diagnosis.shadow = emitted.as_ref().and_then(|emitted| emitted.shadow.clone());
    let diagnosis = Arc::new(diagnosis);
    let reserved = Arc::new(Chain::reserved(&claims, lost));
    CheckedCluster { claims, diagnosis, emitted, reserved, used: AtomicU64::new(0) }
}
