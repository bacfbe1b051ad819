use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use portcullis_api::{FieldOrigin, Problem, Settings, claims_of, origins, upstream_key};
use portcullis_attach::{AttachedPolicies, Door, UnfitPolicy};
use portcullis_core::bucket::{Rate, TokenBucket};
use portcullis_core::exchange::RouteConfig;
use portcullis_core::host_names::AllowedHosts;
use portcullis_core::limit::InFlight;
use portcullis_core::policy::LinearMatcher;
use portcullis_core::review::{CredentialCaches, Lifetimes, Store};
use portcullis_core::state_store::CacheOwner;
use portcullis_core::{Gateway, StateStore};
use portcullis_filter_config::ClusterConfig;
use portcullis_sources::ObjectSet;
use portcullis_translate::{ExplainInput, explain_gateway, explain_input, explain_upstream, lost_names};
use serde_json::Value;

use super::error::EnvironmentError;
use super::object_files::{ObjectFiles, ReadObjects};
use super::served_settings::{ClusterSettings, InstanceAnswer, ServedSettings};
use crate::routed::{ClosedNames, RoutedCluster, RoutedNames, routes};

/// The gateway with its clusters.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) gateway: Gateway,
    pub(crate) clusters: Vec<ServedCluster>,
    /// Those behind HTTPRoutes, each under the host names of a route.
    pub(crate) routed: Vec<ServedCluster>,
    /// Host names of HTTPRoutes that are closed, and why: the upstream behind them is refused, a policy does not fit it, or they lead to
    /// nothing among the objects.
    pub(super) closed: Vec<(AllowedHosts, String)>,
    /// Whether clusters were asked about at all.
    pub(super) has_files: bool,
    /// Whether answers have those of a shadow beside them.
    pub(super) asks_shadow: bool,
    /// Verdicts about policies, where policies are among the objects.
    pub(super) attached: AttachedPolicies,
    problems: Vec<String>,
    asked: AtomicU64,
}

/// One `UpstreamCluster`, or a `KubernetesUpstream` behind a route.
#[derive(Debug)]
pub(crate) struct ServedCluster {
    /// Its name; the key of an upstream.
    pub(crate) name: String,
    /// The names without a wildcard, which win.
    pub(super) exact: AllowedHosts,
    pub(super) names: AllowedHosts,
    pub(super) route: RouteConfig<()>,
    pub(crate) config: ClusterConfig,
    pub(crate) subsets: Vec<Vec<String>>,
    pub(super) strategies: Vec<&'static str>,
    /// The instance that it belongs to; `None` without instances.
    pub(crate) instance: Option<InstanceAnswer>,
    /// The fields that are of policies.
    pub(super) origins: Vec<FieldOrigin>,
    /// The doors by which requests reach it, and the policies there that are left out, and why.
    pub(crate) doors: Vec<Door>,
    pub(super) unfit: BTreeMap<UnfitPolicy, String>,
    /// Whether a profile is in the place of policies and limits.
    pub(super) has_profile: bool,
    pub(super) matcher: LinearMatcher,
    /// Whether connections are passed on: no request is judged.
    pub(crate) is_passed_on: bool,
    /// The same if its shadow decided.
    pub(super) shadow: Option<Box<ServedCluster>>,
}

impl Environment {
    /// Reads the objects of all files.
    pub(crate) fn read(files: ObjectFiles<'_>, asks_shadow: bool) -> Result<Self, EnvironmentError> {
        let ReadObjects { set, attached } = files.read()?;
        let has_files = !files.paths.is_empty();
        Ok(Environment { asks_shadow, ..Self::with_routes(&set, attached, files.namespace, has_files)? })
    }

    /// The gateway with these objects, and with the clusters behind routes.
    pub(crate) fn with_routes(
        set: &ObjectSet,
        attached: AttachedPolicies,
        home_namespace: &str,
        has_files: bool,
    ) -> Result<Self, EnvironmentError> {
        let settings = ServedSettings::of(set).map_err(EnvironmentError::Settings)?;
        let RoutedNames { open, closed } = routes(set, &attached, home_namespace, settings.owners());
        let mut environment = Environment { attached, ..Self::served(set, &settings, has_files)? };
        for route in open {
            environment.add_route(route, &settings)?;
        }
        // Without any object behind a route these are nothing to ask about.
        let mut environment = environment.with_any()?;
        for ClosedNames { hosts, why } in closed {
            environment.closed.push((AllowedHosts::new(hosts.iter().map(String::as_str)), why));
        }
        Ok(environment)
    }

    /// The gateway with these objects.
    #[cfg(test)]
    pub(crate) fn of_objects(all: &ObjectSet, has_files: bool) -> Result<Self, EnvironmentError> {
        let settings = ServedSettings::of(all).map_err(EnvironmentError::Settings)?;
        Self::served(all, &settings, has_files)?.with_any()
    }

    /// The same, if files have something to ask about.
    fn with_any(self) -> Result<Self, EnvironmentError> {
        let is_empty = self.clusters.is_empty() && self.routed.is_empty() && self.closed.is_empty();
        if self.has_files && is_empty { Err(EnvironmentError::NoCluster) } else { Ok(self) }
    }

    fn served(all: &ObjectSet, settings: &ServedSettings, has_files: bool) -> Result<Self, EnvironmentError> {
        let mut environment = Self::empty(settings.shared(), has_files)?;
        for (document, lost) in all.clusters.iter().zip(lost_names(&all.clusters, settings.shared())) {
            environment.add(document, &lost, settings, None)?;
        }
        let refused = all.diagnoses.iter().filter(|diagnosis| diagnosis.refused);
        let refused = refused.map(|diagnosis| format!("{}: {}", diagnosis.file, diagnosis.message));
        environment.problems.splice(..0, refused.chain(settings.problems()));
        Ok(environment)
    }

    /// The gateway with one of the clusters, which owns its names among all of them. `instances` are those that it belongs to, as
    /// the control plane has it.
    pub(super) fn of_cluster(
        objects: &ExplainedObjects,
        cluster: &str,
        instances: Option<&[String]>,
    ) -> Result<Self, EnvironmentError> {
        let settings = objects.settings.as_ref().map_err(|problems| EnvironmentError::Settings(problems.clone()))?;
        let mut environment = Self::empty(settings.shared(), true)?;
        for (document, lost) in objects.set.clusters.iter().zip(&objects.lost) {
            if name_of(document) == cluster {
                environment.add(document, lost, settings, instances)?;
            }
        }
        if environment.clusters.is_empty() { Err(EnvironmentError::NoCluster) } else { Ok(environment) }
    }

    fn empty(settings: &Settings, has_files: bool) -> Result<Self, EnvironmentError> {
        let gateway = Gateway::compile(&explain_gateway(settings)).map_err(EnvironmentError::Gateway)?;
        let (clusters, routed, closed, problems) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (attached, asked) = (AttachedPolicies::default(), AtomicU64::new(0));
        Ok(Environment { gateway, clusters, routed, closed, has_files, asks_shadow: true, attached, problems, asked })
    }

    fn add_route(&mut self, route: RoutedCluster, settings: &ServedSettings) -> Result<(), EnvironmentError> {
        let RoutedCluster { hosts, doors, document, rules, unfit } = route;
        let names = || hosts.iter().map(String::as_str);
        let (exact, all) = (names().filter(|name| !name.starts_with('*')), names());
        let hosts_of = [AllowedHosts::new(exact), AllowedHosts::new(all)];
        let (name, instance, mut read) = match &rules {
            None => {
                let name = name_of(&document).to_owned();
                let ClusterSettings { settings, instance } = settings.of_cluster(&name, &document, None)?;
                let read = explain_input(&document, settings);
                (name.clone(), instance, read.map_err(|problem| EnvironmentError::Cluster(name, problem))?)
            }
            Some(rules) => {
                let namespace = document.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
                let name = upstream_key(namespace, name_of(&document));
                if !unfit.is_empty() {
                    let [_, all] = hosts_of;
                    self.closed.push((all, closed_by(&unfit)));
                    return Ok(());
                }
                match explain_upstream(&document, rules, settings.shared()) {
                    Ok(read) => (name, None, read),
                    Err(problems) => {
                        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                        let why = format!("KubernetesUpstream {name} is refused, and requests of its routes get 500");
                        let [_, all] = hosts_of;
                        self.closed.push((all, format!("{why}: {}", problems.join("; "))));
                        return Ok(());
                    }
                }
            }
        };
        read.config.authorities = hosts.iter().cloned().collect();
        let served = ServedCluster::new(name, hosts_of, read)?;
        let origins = origins(rules.as_ref().unwrap_or(&document));
        self.routed.push(ServedCluster { origins, instance, doors: doors.into(), unfit, ..served });
        Ok(())
    }

    /// A time so long after every earlier one that each request finds the token buckets full.
    pub(super) fn later(&self) -> Duration {
        Duration::from_secs(self.asked.fetch_add(1, Ordering::Relaxed).saturating_mul(1_000_000_000))
    }

    /// The policies at Gateways, listeners and `HTTPRoutes` that tighten a cluster for requests which come by there, each by its kind and
    /// name.
    pub(crate) fn policies_at_doors(&self, cluster: &str) -> BTreeSet<String> {
        self.routed.iter().filter(|one| one.name == cluster).flat_map(|routed| self.tightened_by(routed)).collect()
    }

    /// Whether a cluster behind a route has more policies than under its own names.
    pub(crate) fn is_tightened(&self, routed: &ServedCluster) -> bool {
        !self.tightened_by(routed).is_empty()
    }

    fn tightened_by(&self, routed: &ServedCluster) -> BTreeSet<String> {
        let named = |served: &ServedCluster| -> BTreeSet<String> {
            served.origins.iter().map(|origin| format!("{} {}", origin.kind, origin.policy)).collect()
        };
        let own = self.clusters.iter().find(|one| one.name == routed.name).map(named).unwrap_or_default();
        named(routed).difference(&own).cloned().collect()
    }

    /// Problems of the files, for their author.
    pub(crate) fn problems(&self) -> &[String] {
        &self.problems
    }

    fn add(
        &mut self,
        document: &Value,
        lost: &[(String, Problem)],
        settings: &ServedSettings,
        instances: Option<&[String]>,
    ) -> Result<(), EnvironmentError> {
        let name = name_of(document).to_owned();
        let ClusterSettings { settings, instance } = settings.of_cluster(&name, document, instances)?;
        let read =
            explain_input(document, settings).map_err(|problem| EnvironmentError::Cluster(name.clone(), problem))?;
        for problem in &read.problems {
            self.problems.push(format!("UpstreamCluster {name} would be refused: {problem}"));
        }
        for (_, problem) in lost {
            self.problems.push(format!("UpstreamCluster {name} would not have a name: {problem}"));
        }
        let is_own = |name: &&str| lost.iter().all(|(lost, _)| lost != name);
        // Without its own name it is not served at all.
        let is_served = is_own(&name.as_str());
        let names = || read.config.authorities.iter().map(String::as_str).filter(is_own).filter(|_| is_served);
        let (exact, all) = (names().filter(|name| !name.starts_with('*')), names());
        let (exact, all) = (AllowedHosts::new(exact), AllowedHosts::new(all));
        let served = ServedCluster::new(name, [exact, all], read)?;
        self.clusters.push(ServedCluster { origins: origins(document), instance, ..served });
        Ok(())
    }
}

impl ServedCluster {
    fn new(name: String, [exact, names]: [AllowedHosts; 2], read: ExplainInput) -> Result<Self, EnvironmentError> {
        let (route, _) = RouteConfig::compile(&read.config, &EmptyState, Arc::default(), 0)
            .map_err(|error| EnvironmentError::Compile(name.clone(), error))?;
        let unasked = || AllowedHosts::new(std::iter::empty::<&str>());
        let shadow = read.shadow.map(|shadow| Self::new(name.clone(), [unasked(), unasked()], *shadow).map(Box::new));
        Ok(ServedCluster {
            exact,
            names,
            matcher: LinearMatcher::new(&read.config.policies.policies()),
            name,
            route,
            subsets: read.subsets,
            strategies: read.strategies,
            instance: None,
            origins: Vec::new(),
            doors: Vec::new(),
            unfit: BTreeMap::new(),
            has_profile: read.has_profile,
            config: read.config,
            is_passed_on: read.is_passed_on,
            shadow: shadow.transpose()?,
        })
    }
}

/// The objects of a control plane with what every question needs of all of them: it is found out once.
#[derive(Debug)]
pub(crate) struct ExplainedObjects {
    set: Arc<ObjectSet>,
    /// Or why there are none.
    settings: Result<ServedSettings, String>,
    /// By cluster, in their order.
    lost: Vec<Vec<(String, Problem)>>,
    /// The names that a cluster claims: those without a wildcard, and all.
    hosts: Vec<[AllowedHosts; 2]>,
}

impl ExplainedObjects {
    /// Looks through all objects.
    pub(crate) fn new(set: Arc<ObjectSet>) -> Self {
        let settings = ServedSettings::of(&set);
        let lost = settings.as_ref().map(|settings| lost_names(&set.clusters, settings.shared())).unwrap_or_default();
        let hosts = |document: &Arc<Value>| {
            let claims = claims_of(document).names;
            let names = || claims.iter().map(|(name, _)| name.as_str());
            [AllowedHosts::new(names().filter(|name| !name.starts_with('*'))), AllowedHosts::new(names())]
        };
        let hosts = set.clusters.iter().map(hosts).collect();
        Self { set, settings, lost, hosts }
    }

    /// Whether these are the objects.
    pub(crate) fn is_of(&self, set: &Arc<ObjectSet>) -> bool {
        Arc::ptr_eq(&self.set, set)
    }

    /// The names of all clusters.
    pub(crate) fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.set.clusters.iter().map(|document| name_of(document))
    }

    /// The cluster that claims a host, first of all without a wildcard.
    pub(crate) fn by_host(&self, host: &str) -> Option<&str> {
        let find = |which: usize| {
            let claims = |hosts: &[AllowedHosts; 2]| hosts.get(which).is_some_and(|all| all.name(host.as_bytes()));
            self.hosts.iter().position(claims)
        };
        let found = find(0).or_else(|| find(1))?;
        self.names().nth(found)
    }
}

/// The words about a route that policies close.
fn closed_by(unfit: &BTreeMap<UnfitPolicy, String>) -> String {
    let one = |(UnfitPolicy { kind, policy, .. }, why): (&UnfitPolicy, &String)| format!("{kind} {policy}: {why}");
    let all: Vec<String> = unfit.iter().map(one).collect();
    format!("connections of the route are closed, because policies do not fit: {}", all.join("; "))
}

pub(crate) fn name_of(document: &Value) -> &str {
    document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// A process in which nothing has happened yet.
pub(crate) struct EmptyState;

impl StateStore for EmptyState {
    /// Keeps no answer, so that each request is reviewed as its own line says.
    fn caches(&self, _owner: CacheOwner) -> Arc<CredentialCaches> {
        let never = Lifetimes { token: 0, rejected_token: 0, allowed: 0, denied: 0 };
        Arc::new(CredentialCaches::new(&[0; 32], never, &Store::default()))
    }

    fn in_flight(&self, _cluster: &str, _schema: &str) -> Arc<InFlight> {
        Arc::default()
    }

    fn token_bucket(&self, _cluster: &str, _schema: &str, rate: Rate) -> Arc<TokenBucket> {
        Arc::new(TokenBucket::new(rate))
    }
}
