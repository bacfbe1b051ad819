//! The Gateway API: its objects are judged by the attach step, and their statuses written. The accepted
//! part goes to the reconciler ([`super::gateway_views`]).
//!
//! [`statuses`] is pure; here the step runs, whenever objects or names of `UpstreamCluster`s have changed.

mod condition_counts;
mod content_documents;
mod content_reader;
mod demand;
mod former_doors;
mod former_listeners;
mod host_holders;
mod own_gateways;
mod programmed;
mod read_pace;
mod referred_names;
mod refused_routes;
mod secrets;
mod statuses;
mod supported_version;
mod upstream_status;
mod upstreams;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use portcullis_attach::{
    Attached, ConditionVerdict, FormerCertificates, GatewayObjects, Inventory, ObjectName, ReferredContents,
    RouteClosures, attach, referred_contents, upstreams_within_bounds,
};
use portcullis_gateway_api::read_object;
use portcullis_sources::{GatewayApiObjects, KubernetesAccess, ObjectKey, StoredStatuses, WatchedKind};
use portcullis_translate::Diagnosis;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::gateway_health::HealthAtGateways;
use super::gateway_views::{ClosedListeners, GatewayEnvoys, GatewayRefusals, ProgrammedState};
use super::instance_views::InstanceStates;
use super::metrics::ControlPlaneMetrics;
use super::policies::PolicyVerdicts;
use super::source::SettingsOrigin;
use condition_counts::CountedVerdicts;
use content_reader::ContentReader;
pub(super) use former_doors::FormerDoors;
use former_listeners::FormerListeners;
use host_holders::HostHolders;
use own_gateways::OwnGateways;
use referred_names::{ReferredNames, inventory, names};
use secrets::GatewayContents;
use statuses::{Judged, JudgedUids};
use supported_version::KnownVersion;
use upstreams::{KnownUpstreams, upstream_objects};

/// Least time between two steps: many routes change together.
const PACE: Duration = Duration::from_millis(250);
/// The interval of looking at what Envoys have acknowledged.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);
/// The interval of looking at the version of the definitions.
const VERSION_INTERVAL: Duration = Duration::from_secs(60);

/// Verdicts about all objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct GatewayApiVerdicts {
    /// Whether those about classes alone are written: without settings Gateways are served as before, whatever their class is.
    are_of_classes_alone: bool,
    attached: Arc<Attached>,
    uids: Arc<JudgedUids>,
    supported: Option<ConditionVerdict>,
    programmed_states: BTreeMap<ObjectName, ProgrammedState>,
    health: Arc<HealthAtGateways>,
    closed_listeners: Arc<ClosedListeners>,
    closures: Arc<RouteClosures>,
}

impl GatewayApiVerdicts {
    /// The wanted status of each object, by `now` in RFC 3339.
    pub(super) fn statuses<'a>(
        &'a self,
        stored: &'a StoredStatuses,
        now: &'a str,
    ) -> impl Iterator<Item = (ObjectKey, Value)> + 'a {
        statuses::statuses(self.judged(), self.supported.as_ref(), stored, now)
    }

    fn judged(&self) -> Judged<'_> {
        Judged {
            are_of_classes_alone: self.are_of_classes_alone,
            attached: &self.attached,
            uids: &self.uids,
            programmed_states: &self.programmed_states,
            health: &self.health,
            closed_listeners: &self.closed_listeners,
            closures: &self.closures,
        }
    }
}

/// The inputs of the step.
pub(super) struct GatewayApi {
    pub(super) access: KubernetesAccess,
    /// The objects of the Gateway API, with namespaces and Services.
    pub(super) objects: watch::Receiver<Arc<GatewayApiObjects>>,
    /// The `UpstreamCluster`s, with the names that they own.
    pub(super) diagnoses: watch::Receiver<Arc<Vec<Arc<Diagnosis>>>>,
    /// The names of `UpstreamCluster`s and `GatewaySettings`.
    pub(super) statuses: watch::Receiver<Arc<StoredStatuses>>,
    /// Which `GatewaySettings` are used.
    pub(super) settings: SettingsOrigin,
    /// The Envoys that serve what is accepted.
    pub(super) envoys: GatewayEnvoys,
    /// The verdicts about policies, if they are attached.
    pub(super) policies: Option<watch::Receiver<Arc<PolicyVerdicts>>>,
    /// The owners of Gateways and clusters.
    pub(super) instances: watch::Receiver<Arc<InstanceStates>>,
    /// The metrics in which the objects are counted.
    pub(super) metrics: Arc<ControlPlaneMetrics>,
    /// Whether this replica leads, and writes the statuses.
    pub(super) leads: watch::Receiver<bool>,
}

impl GatewayApi {
    /// Judges until a sender is gone. Needs a tokio runtime.
    pub(super) fn start(self) -> watch::Receiver<Arc<GatewayApiVerdicts>> {
        let (sender, receiver) = watch::channel(Arc::default());
        tokio::spawn(self.run(sender));
        receiver
    }

    async fn run(mut self, sender: watch::Sender<Arc<GatewayApiVerdicts>>) {
        let mut versions = tokio::time::interval(VERSION_INTERVAL);
        let (mut supported, mut version) = (None, KnownVersion::default());
        let mut judged: Option<(Arc<GatewayApiObjects>, ReferredNames)> = None;
        let mut known: Option<(Arc<GatewayApiObjects>, Arc<GatewayObjects>)> = None;
        let mut contents = ContentReader::start(self.access.client.clone());
        let (mut former, mut former_doors) = (FormerListeners::default(), FormerDoors::default());
        let (mut attached, mut uids) = (Arc::<Attached>::default(), Arc::<JudgedUids>::default());
        let (mut upstreams, mut holders) = (KnownUpstreams::default(), HostHolders::default());
        let mut own_gateways = OwnGateways::default();
        let mut counted = CountedVerdicts::new(Arc::clone(&self.metrics));
        let mut is_withheld = false;
        loop {
            let objects = self.objects.borrow_and_update().clone();
            let instances = self.instances.borrow_and_update().clone();
            // Without a kind a permission could be missing, or what a route refers to.
            let named = self.names(judged.is_some(), &mut former_doors).filter(|_| objects.is_listed());
            let statuses = self.statuses.borrow().clone();
            let named = named.filter(|_| holders.are_known(&statuses));
            holders.follow(&statuses);
            let leads = *self.leads.borrow();
            let listed = named.as_ref().map(|_| holders.listed(leads)).unwrap_or_default();
            let (mut names, doors_number) = named.unzip();
            if let Some(names) = &mut names {
                names.refused_clusters = self.envoys.refusals().clusters;
                names.contents = contents.newest();
                names.former_certificates = former.names(Instant::now());
                names.instances = instances;
            }
            let is_known =
                judged.as_ref().is_some_and(|(of, by)| Arc::ptr_eq(of, &objects) && Some(by) == names.as_ref());
            let has_news = !holders.have(&listed);
            if let Some(mut names) = names.filter(|_| has_news || !is_known) {
                let before = known.take().filter(|(of, _)| Arc::ptr_eq(of, &objects)).map(|(_, read)| read);
                let read = match before {
                    Some(read) => read,
                    None => {
                        // Thousands of routes take a while.
                        let of = Arc::clone(&objects);
                        let Ok(mut read) = tokio::task::spawn_blocking(move || read_all(&of)).await else { return };
                        read.orphans = own_gateways.orphans(&read, &statuses);
                        Arc::new(read)
                    }
                };
                known = Some((Arc::clone(&objects), Arc::clone(&read)));
                let of_gateways = Arc::new(gateway_uids(&objects));
                let referring = ReferringGateways { objects: &read, uids: &of_gateways };
                let Some(found) = referring.read(&mut contents, &mut former).await else { return };
                (names.contents, names.former_certificates) = found;
                let (of, by, home) = (Arc::clone(&objects), names.clone(), self.access.namespace.clone());
                let mut known_upstreams = std::mem::take(&mut upstreams);
                let (former_holders, listed_holders) = (holders.former(), Arc::new(listed));
                let step = move || {
                    let within = upstreams_within_bounds(read.upstreams.iter().map(|one| &one.metadata));
                    known_upstreams.follow(&of, &within, &by.upstream_policies, &by.contents);
                    let inventory = inventory(&of, by, home, &known_upstreams);
                    let inventory = Inventory { former_holders, listed_holders, ..inventory };
                    (attach(&read, &inventory), uids_of(&of), known_upstreams)
                };
                let Ok((newer, judged_uids, known)) = tokio::task::spawn_blocking(step).await else { return };
                former.remember(&newer, |gateway: &ObjectName| of_gateways.get(gateway).cloned());
                holders.remember(&newer.holders, leads);
                own_gateways.remember(&newer, |gateway: &ObjectName| of_gateways.get(gateway).cloned());
                (attached, uids, upstreams) = (Arc::new(newer), Arc::new(judged_uids), known);
                // A class without usable settings has no Gateways. Verdicts of that time would close them at the first translation.
                is_withheld = names.lacks_settings;
                if !is_withheld {
                    self.envoys.demand(demand::demand(&attached, &objects, &names.contents, &upstreams));
                }
                judged = Some((objects, names));
            }
            // With these policies the Gateways are by now, whether they are others by them or not.
            if let Some(doors_number) = doors_number.filter(|_| !is_withheld) {
                self.envoys.doors(doors_number);
            }
            let uid = |ObjectName { namespace, name }: &ObjectName| {
                let (kind, namespace, name) = (WatchedKind::Gateway, namespace.clone(), name.clone());
                uids.get(&ObjectKey { kind, namespace, name }).cloned()
            };
            let programmed_states = self.envoys.programmed_states(&attached, uid);
            let health = self.envoys.health(Instant::now().into_std());
            let GatewayRefusals { listeners: closed_listeners, routes: closures, .. } = self.envoys.refusals();
            let has_served = !attached.served.is_empty();
            let (attached, uids) = (Arc::clone(&attached), Arc::clone(&uids));
            let verdicts = GatewayApiVerdicts {
                are_of_classes_alone: is_withheld,
                attached,
                uids,
                supported: supported.clone(),
                programmed_states,
                health,
                closed_listeners,
                closures,
            };
            sender.send_if_modified(|before| {
                let is_new = **before != verdicts;
                if is_new {
                    *before = Arc::new(verdicts);
                }
                is_new
            });
            counted.follow(sender.borrow().clone(), self.policies.as_ref().map(|policies| policies.borrow().clone()));
            tokio::time::sleep(PACE).await;
            tokio::select! {
                changed = self.objects.changed() => if changed.is_err() { return },
                changed = self.diagnoses.changed() => if changed.is_err() { return },
                changed = self.statuses.changed() => if changed.is_err() { return },
                changed = self.envoys.changed() => if !changed { return },
                changed = self.instances.changed() => if changed.is_err() { return },
                changed = contents.changed() => if !changed { return },
                changed = changed(&mut self.policies) => if !changed { return },
                () = tokio::time::sleep(PROGRESS_INTERVAL), if has_served => {}
                _ = versions.tick() => supported = Some(version.follow(&self.access.client).await),
                () = sender.closed() => return,
            }
        }
    }

    /// The names, and the number of the policies at doors that are among them.
    fn names(&mut self, has_judged: bool, former: &mut FormerDoors) -> Option<(ReferredNames, u64)> {
        let diagnoses = self.diagnoses.borrow_and_update().clone();
        let statuses = self.statuses.borrow_and_update().clone();
        // No route is served without the policies that deny some of its requests.
        let (door_policies, upstream_policies, doors_number) = match &mut self.policies {
            Some(policies) => {
                // Before the verdicts: what they have may not be served yet.
                let progress = self.envoys.progress();
                let verdicts = policies.borrow_and_update();
                let at_doors = former.follow(verdicts.at_doors()?, &progress);
                (at_doors, verdicts.at_upstreams(), verdicts.doors_number())
            }
            None => (Arc::default(), Arc::default(), 0),
        };
        let names = names(&diagnoses, &statuses, &self.settings, has_judged)?;
        Some((ReferredNames { door_policies, upstream_policies, ..names }, doors_number))
    }
}

/// Waits for other verdicts about policies, for ever without any; false if none come any more.
async fn changed(policies: &mut Option<watch::Receiver<Arc<PolicyVerdicts>>>) -> bool {
    match policies {
        Some(policies) => policies.changed().await.is_ok(),
        None => std::future::pending().await,
    }
}

/// The objects whose contents are read, and the UIDs of Gateways.
#[derive(Clone, Copy)]
struct ReferringGateways<'a> {
    objects: &'a Arc<GatewayObjects>,
    uids: &'a Arc<BTreeMap<ObjectName, String>>,
}

impl ReferringGateways<'_> {
    /// Has the contents of Gateways read, and yields them beside the certificates that listeners keep. `None` if the runtime ends.
    async fn read(
        self,
        contents: &mut ContentReader,
        former: &mut FormerListeners,
    ) -> Option<(Arc<GatewayContents>, FormerCertificates)> {
        let known = contents.newest();
        let (_, referred) =
            self.referred(former, move |former, objects, uid| former.possible(objects, &known, uid)).await?;
        let known = contents.read(referred).await;
        let now = Instant::now();
        let (kept, referred) =
            self.referred(former, move |former, objects, uid| former.kept(objects, &known, uid, now)).await?;
        // Those that are needless are forgotten.
        contents.follow(&referred);
        Some((contents.newest(), kept))
    }

    /// The certificates that listeners may keep, and everything that is referred to with them. Tenants write thousands of references:
    /// other tasks go on meanwhile.
    async fn referred(
        self,
        former: &mut FormerListeners,
        certificates: impl FnOnce(&mut FormerListeners, &GatewayObjects, GatewayUid<'_>) -> FormerCertificates
        + Send
        + 'static,
    ) -> Option<(FormerCertificates, ReferredContents)> {
        let (objects, uids, mut listeners) = (Arc::clone(self.objects), Arc::clone(self.uids), std::mem::take(former));
        let work = move || {
            let uid = |gateway: &ObjectName| uids.get(gateway).cloned();
            let certificates = certificates(&mut listeners, &objects, &uid);
            let referred = referred_contents(&objects, &certificates);
            (listeners, certificates, referred)
        };
        let (listeners, certificates, referred) = tokio::task::spawn_blocking(work).await.ok()?;
        *former = listeners;
        Some((certificates, referred))
    }
}

/// Finds the UID of a Gateway.
type GatewayUid<'a> = &'a dyn Fn(&ObjectName) -> Option<String>;

fn gateway_uids(objects: &GatewayApiObjects) -> BTreeMap<ObjectName, String> {
    let uid =
        |document: &Arc<Value>| Some((name_of(document), document.pointer("/metadata/uid")?.as_str()?.to_owned()));
    objects.of(WatchedKind::Gateway).filter_map(uid).collect()
}

fn uids_of(objects: &GatewayApiObjects) -> JudgedUids {
    let uid = |kind: WatchedKind, document: &Value| {
        let ObjectName { namespace, name } = name_of(document);
        let uid = document.pointer("/metadata/uid").and_then(Value::as_str)?;
        Some((ObjectKey { kind, namespace, name }, uid.to_owned()))
    };
    let routes = [WatchedKind::HttpRoute, WatchedKind::TlsRoute, WatchedKind::KubernetesUpstream];
    let kinds = [WatchedKind::GatewayClass, WatchedKind::Gateway].into_iter().chain(routes);
    let of_kind = |kind| objects.of(kind).filter_map(move |document| uid(kind, document));
    kinds.flat_map(of_kind).collect()
}

fn read_all(objects: &GatewayApiObjects) -> GatewayObjects {
    let mut read = GatewayObjects { upstreams: upstream_objects(objects), ..GatewayObjects::default() };
    for document in objects.of_gateway_api() {
        match read_object(document) {
            Ok(object) => read.add(object),
            Err(error) => {
                let name = name_of(document);
                tracing::warn!(%name, %error, "an object of the Gateway API cannot be read and counts as absent");
            }
        }
    }
    read
}

fn name_of(document: &Value) -> ObjectName {
    let text = |field: &str| document.pointer(field).and_then(Value::as_str).unwrap_or_default();
    ObjectName::new(text("/metadata/namespace"), text("/metadata/name"))
}
