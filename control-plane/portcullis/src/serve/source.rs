use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use k8s_openapi::jiff::Timestamp;
use portcullis_sources::{
    ConnectError, DirectoryError, GatewayApiObjects, KubernetesAccess, KubernetesSets, ObjectSet, Root, SourceHealth,
    StoredStatuses, WatchOptions, Watched, connect, watch_kubernetes, with_profiles, with_settings,
};
use serde::Serialize;
use tokio::sync::watch;

use super::instance_views::InstanceStates;
use super::policies::{PolicyStage, PolicyVerdicts};
use crate::leader::{LEASE_NAME, Leadership};

/// How often a directory that cannot be read is tried.
const RETRY: Duration = Duration::from_secs(1);

/// The kinds of sources of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SourceKind {
    /// Files of a directory (--config).
    Directory,
    /// A Kubernetes API that stores UpstreamClusters (`portcullis crd`); GatewaySettings are an object there (--settings-name) or come
    /// from files (--settings).
    Kubernetes,
}

/// The source of the objects.
#[derive(Debug, Args)]
pub(crate) struct SourceArguments {
    /// The kind of source.
    #[arg(long, env = "PORTCULLIS_SOURCE", value_enum, default_value = "directory")]
    pub(crate) source: SourceKind,
    /// Directory source: directory of *.yaml, *.yml and *.json files.
    #[arg(long, env = "PORTCULLIS_CONFIG", value_name = "DIR")]
    pub(crate) config: Option<PathBuf>,
    /// The directory below which UpstreamClusters of the directory source, and GatewaySettings, may refer to files; without it
    /// they may not.
    #[arg(long, env = "PORTCULLIS_REFERENCES_ROOT", value_name = "DIR")]
    references_root: Option<PathBuf>,
    /// Kubernetes source: how the API is reached; what KUBECONFIG names if unset, and without that the pod's service
    /// account.
    #[arg(long, env = "PORTCULLIS_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Kubernetes source: the context of the kubeconfig; its current one if unset.
    #[arg(long, env = "PORTCULLIS_CONTEXT", value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Kubernetes source: the control plane's own namespace, with its Lease and the Secrets to which UpstreamClusters refer;
    /// the pod's if unset.
    #[arg(long, env = "PORTCULLIS_NAMESPACE", value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Kubernetes source: file or directory with GatewaySettings; their defaults hold if unset, without --settings-name.
    #[arg(long, env = "PORTCULLIS_SETTINGS", value_name = "FILE_OR_DIR", conflicts_with = "settings_name")]
    settings: Option<PathBuf>,
    /// The name of the GatewaySettings that are used for all gateways: of the object there with the Kubernetes source, of the document
    /// among the files with the directory source. Nothing is served until they are there and accepted; those of other names are used
    /// by Instances that name them alone. Unset, files have one.
    #[arg(long, env = "PORTCULLIS_SETTINGS_NAME", value_name = "NAME")]
    settings_name: Option<String>,
    /// Kubernetes source: judge the objects of the Gateway API and write their status (`portcullis rbac --control-plane --gateway-api`),
    /// and serve Gateways to Envoys of their own (`portcullis bootstrap --gateway`). A preview.
    #[arg(long, env = "PORTCULLIS_GATEWAY_API")]
    gateway_api: bool,
    /// Kubernetes source: divide UpstreamClusters among the Instances there (`portcullis rbac --control-plane --instances`); nothing is
    /// served before these are listed. Those of a directory are always read. A preview.
    #[arg(long, env = "PORTCULLIS_INSTANCES")]
    instances: bool,
    /// Kubernetes source: attach DispatchPolicies, FlowControlPolicies and UpstreamIdentityPolicies to UpstreamClusters, and write
    /// their status (`portcullis rbac --control-plane --policies`). No cluster is served by its newest version before these kinds
    /// and ReferenceGrants are listed. A preview.
    #[arg(long, env = "PORTCULLIS_POLICIES")]
    policies: bool,
    /// A file with profiles of UpstreamClusters that are in effect whatever their annotations say, as `portcullis freeze
    /// --profiles-file` writes it: the way to close and open a cluster while the source is away.
    #[arg(long, env = "PORTCULLIS_PROFILES_FILE", value_name = "FILE")]
    profiles_file: Option<PathBuf>,
    /// Kubernetes source: the name of the Lease by which replicas agree which of them writes; one for each gateway. By another
    /// Lease, with -limits after this name, they agree which of them divides limits of all gateways.
    #[arg(long, env = "PORTCULLIS_LEASE_NAME", value_name = "NAME", default_value = LEASE_NAME)]
    pub(crate) lease_name: String,
}

/// Why there is nothing to read objects from. The operator has to act.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("the {0:?} source needs {1}")]
    Needs(SourceKind, &'static str),
    #[error("{1} is not for the {0:?} source")]
    Excludes(SourceKind, &'static str),
    #[error("cannot read the configuration")]
    Directory(#[from] DirectoryError),
    #[error("cannot reach the Kubernetes API")]
    Connect(#[from] ConnectError),
}

type Sets = Pin<Box<dyn Future<Output = Option<watch::Receiver<Arc<ObjectSet>>>> + Send>>;

/// A source that is open.
pub(super) struct Source {
    pub(super) kind: SourceKind,
    /// Sets of objects, when there is a first one.
    pub(super) sets: Sets,
    /// Whether the newest set is current.
    pub(super) health: watch::Receiver<SourceHealth>,
    /// The Kubernetes API that it is.
    pub(super) kubernetes: Option<KubernetesAccess>,
    /// The `status` of each object there.
    pub(super) statuses: watch::Receiver<Arc<StoredStatuses>>,
    /// The objects of the Gateway API, if they are judged.
    pub(super) gateway_api: Option<watch::Receiver<Arc<GatewayApiObjects>>>,
    /// The verdicts about policies, if they are attached.
    pub(super) policies: Option<watch::Receiver<Arc<PolicyVerdicts>>>,
    /// Which `GatewaySettings` are used.
    pub(super) settings: SettingsOrigin,
    /// The control plane, as statuses name it: its namespace and the name of its Lease.
    pub(super) control_plane: String,
}

/// The outputs of what is served on which objects of a source depend.
pub(super) struct FollowedOutputs {
    /// The instances.
    pub(super) instances: watch::Receiver<Arc<InstanceStates>>,
    /// The number of the policies at doors that are served.
    pub(super) doors_served: watch::Receiver<u64>,
}

/// The origin of the `GatewaySettings`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SettingsOrigin {
    /// From nowhere: defaults hold.
    Defaults,
    /// From files.
    Files,
    /// The Kubernetes object of this name.
    Object(String),
}

impl Source {
    /// Opens it. A directory that cannot be read is an error, unless it may be waited for.
    pub(super) async fn open(
        arguments: &SourceArguments,
        may_wait: bool,
        followed: FollowedOutputs,
    ) -> Result<Self, SourceError> {
        arguments.check()?;
        let mut source = match arguments.source {
            SourceKind::Directory => Self::directory(arguments, may_wait).await?,
            SourceKind::Kubernetes => Self::kubernetes(arguments, followed).await?,
        };
        if let Some(file) = arguments.profiles_file.clone() {
            let sets = source.sets;
            source.sets = Box::pin(async { Some(with_profiles(sets.await?, file).await) });
        }
        Ok(source)
    }

    async fn directory(arguments: &SourceArguments, may_wait: bool) -> Result<Self, SourceError> {
        let kind = SourceKind::Directory;
        let directory = arguments.config.clone().ok_or(SourceError::Needs(kind, "--config"))?;
        let root = arguments.references_root.clone().map(Root::new);
        let watched = Watched::directory(directory).references(root).settings_name(arguments.settings_name.clone());
        match portcullis_sources::watch(watched.clone()).await {
            Ok(objects) => {
                // A directory that cannot be read later is reported among its objects.
                let (_, health) = watch::channel(SourceHealth::current());
                Ok(Self::of_files(Box::pin(async { Some(objects) }), health))
            }
            Err(error) if may_wait => {
                tracing::error!(%error, "the last good configuration is served until the directory can be read");
                let (sender, health) = watch::channel(SourceHealth::stale(SystemTime::now(), error.to_string()));
                Ok(Self::of_files(Box::pin(wait_for(watched, sender)), health))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn kubernetes(arguments: &SourceArguments, followed: FollowedOutputs) -> Result<Self, SourceError> {
        let (kubeconfig, context) = (arguments.kubeconfig.as_deref(), arguments.context.as_deref());
        let access = connect(kubeconfig, context, arguments.namespace.as_deref()).await?;
        let files = match &arguments.settings {
            Some(path) => {
                let root = arguments.references_root.clone().map(Root::new);
                Some(portcullis_sources::watch(Watched::file_or_directory(path).references(root)).await?)
            }
            None => None,
        };
        let settings = match (&arguments.settings_name, &files) {
            (Some(name), _) => SettingsOrigin::Object(name.clone()),
            (None, Some(_)) => SettingsOrigin::Files,
            (None, None) => SettingsOrigin::Defaults,
        };
        let control_plane = format!("{}/{}", access.namespace, arguments.lease_name);
        let is_judged = arguments.gateway_api;
        let options = WatchOptions {
            settings: arguments.settings_name.clone(),
            gateway_api: is_judged,
            instances: arguments.instances,
            policies: arguments.policies,
        };
        let KubernetesSets { objects, health, statuses, gateway_api, policies } = watch_kubernetes(&access, options);
        let gateway_api = Some(gateway_api).filter(|_| is_judged);
        let mut sets: Sets = Box::pin(with_settings(objects, files));
        let verdicts = arguments.policies.then(|| watch::Sender::new(Arc::default()));
        if let Some(verdicts) = verdicts.clone() {
            let (gateway_api, home_namespace) = (gateway_api.clone(), access.namespace.clone());
            let FollowedOutputs { instances, doors_served } = followed;
            let stage = PolicyStage { policies, gateway_api, home_namespace, verdicts, instances, doors_served };
            let own = sets;
            sets = Box::pin(async { stage.attach(own.await?).await });
        }
        let policies = verdicts.map(|verdicts| verdicts.subscribe());
        let (kind, kubernetes) = (SourceKind::Kubernetes, Some(access));
        Ok(Self { kind, sets, health, kubernetes, statuses, gateway_api, policies, settings, control_plane })
    }

    fn of_files(sets: Sets, health: watch::Receiver<SourceHealth>) -> Self {
        let (_, statuses) = watch::channel(Arc::default());
        let (settings, control_plane) = (SettingsOrigin::Files, String::new());
        Self {
            kind: SourceKind::Directory,
            sets,
            health,
            kubernetes: None,
            statuses,
            gateway_api: None,
            policies: None,
            settings,
            control_plane,
        }
    }
}

/// Tries until the directory can be read.
async fn wait_for(watched: Watched, health: watch::Sender<SourceHealth>) -> Option<watch::Receiver<Arc<ObjectSet>>> {
    loop {
        tokio::time::sleep(RETRY).await;
        if let Ok(objects) = portcullis_sources::watch(watched.clone()).await {
            tracing::info!("the directory can be read");
            health.send_replace(SourceHealth::current());
            return Some(objects);
        }
    }
}

impl SourceArguments {
    /// Refuses flags of the other source: they would have no effect.
    fn check(&self) -> Result<(), SourceError> {
        let given = [
            (SourceKind::Directory, "--config", self.config.is_some()),
            // Settings come from files, and may refer to others, with either source.
            (SourceKind::Directory, "--references-root", self.references_root.is_some() && self.settings.is_none()),
            (SourceKind::Kubernetes, "--kubeconfig", self.kubeconfig.is_some()),
            (SourceKind::Kubernetes, "--context", self.context.is_some()),
            (SourceKind::Kubernetes, "--namespace", self.namespace.is_some()),
            (SourceKind::Kubernetes, "--settings", self.settings.is_some()),
            (SourceKind::Kubernetes, "--gateway-api", self.gateway_api),
            (SourceKind::Kubernetes, "--instances", self.instances),
            (SourceKind::Kubernetes, "--policies", self.policies),
        ];
        match given.into_iter().find(|(kind, _, is_given)| *is_given && *kind != self.source) {
            Some((_, flag, _)) => Err(SourceError::Excludes(self.source, flag)),
            None => Ok(()),
        }
    }
}

/// The state of the source, for the pages.
#[derive(Clone)]
pub(super) struct SourceState {
    kind: SourceKind,
    health: watch::Receiver<SourceHealth>,
    leads: Option<watch::Receiver<bool>>,
    divides_limits: Option<watch::Receiver<bool>>,
    limits_failure: Option<watch::Receiver<Option<String>>>,
}

/// The source in /status. It holds no secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SourceStatus {
    pub(super) kind: &'static str,
    /// Since when what is served may be old, in RFC 3339; none if it is current.
    pub(super) stale_since: Option<String>,
    /// Why.
    pub(super) reason: Option<String>,
    /// Whether this replica leads: writes to Kubernetes. None where replicas do not elect one.
    pub(super) leader: Option<bool>,
    /// Whether this replica divides limits of all gateways; none where replicas do not elect one.
    pub(super) divides_limits: Option<bool>,
    /// Why it cannot take part in the election of the one that does.
    pub(super) limits_reason: Option<String>,
}

impl SourceState {
    pub(super) fn new(source: &Source, writer: Option<&Leadership>, limits: Option<&Leadership>) -> Self {
        let [leads, divides_limits] = [writer, limits].map(|one| one.map(|leadership| leadership.leads.clone()));
        let limits_failure = limits.map(|leadership| leadership.failure.clone());
        Self { kind: source.kind, health: source.health.clone(), leads, divides_limits, limits_failure }
    }

    /// That of files that can be read.
    #[cfg(test)]
    pub(super) fn of_files() -> Self {
        let (_, health) = watch::channel(SourceHealth::current());
        Self { kind: SourceKind::Directory, health, leads: None, divides_limits: None, limits_failure: None }
    }

    pub(super) fn status(&self) -> SourceStatus {
        let health = self.health.borrow().clone();
        let since = health.stale_since.and_then(|since| Timestamp::try_from(since).ok());
        SourceStatus {
            kind: match self.kind {
                SourceKind::Directory => "directory",
                SourceKind::Kubernetes => "kubernetes",
            },
            stale_since: since.map(|since| format!("{since:.0}")),
            reason: health.reason,
            leader: self.leads.as_ref().map(|leads| *leads.borrow()),
            divides_limits: self.divides_limits.as_ref().map(|divides| *divides.borrow()),
            limits_reason: self.limits_failure.as_ref().and_then(|failure| failure.borrow().clone()),
        }
    }
}
