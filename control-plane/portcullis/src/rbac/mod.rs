mod control_plane;
mod instance;
mod own_objects;
mod personas;

use std::collections::BTreeSet;
use std::process::ExitCode;

pub(crate) use control_plane::{instances_manifests as instances_rights, manifests as control_plane_rights};
use portcullis_api::{
    Cluster, Discovery, Problem, TOKEN_KEYS_PATH, UpstreamIdentity, parse_cluster, unchecked_cluster,
};
use portcullis_core::attribution;
use portcullis_core::request_info::unescape_path;
use portcullis_filter_config::DEFAULT_EXTRAS;
use portcullis_sources::ObjectSet;
use serde_json::{Value, json};

use self::own_objects::{OwnObjects, own_objects};
use crate::arguments::Rbac;
use crate::explain::{EnvironmentError, ObjectFiles, ServedSettings};

/// The reason for which the manifests do not show the permissions.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RbacError {
    #[error(transparent)]
    Objects(#[from] EnvironmentError),
    #[error("UpstreamCluster {0}: {1}")]
    Cluster(String, Problem),
    #[error("no UpstreamCluster {0} is among the files")]
    NoCluster(String),
    #[error("Instance {0}: {1}")]
    Instance(String, Problem),
    #[error("no Instance {0} is among the files")]
    NoInstance(String),
    #[error(
        "UpstreamCluster {0}: spec.portcullis.healthCheck.path ends with *, and as a rule of RBAC it would allow every path that begins so"
    )]
    Pattern(String),
}

pub(crate) fn run(arguments: &Rbac) -> ExitCode {
    if arguments.personas {
        return print(arguments, &personas::manifests());
    }
    if arguments.control_plane {
        let user = arguments.user.as_deref();
        let (namespace, lease) = (&arguments.namespace, &arguments.lease_name);
        let mut manifests = control_plane::manifests(namespace, lease, user, &arguments.discovery_namespaces);
        if arguments.gateway_api {
            manifests.extend(control_plane::gateway_api_manifests(namespace, user));
        }
        let of = &arguments.gateway_secrets;
        manifests.extend(control_plane::gateway_secrets_manifests(namespace, user, of));
        if arguments.instances {
            manifests.extend(control_plane::instances_manifests(namespace, user));
        }
        if arguments.policies {
            manifests.extend(control_plane::policy_manifests(namespace, user));
        }
        return print(arguments, &manifests);
    }
    if let Some(instance) = &arguments.instance {
        return match instance_manifests(arguments, instance) {
            Ok(manifests) => print(arguments, &manifests),
            Err(error) => crate::fail(&error),
        };
    }
    let user = arguments.user.as_deref().unwrap_or("system:portcullis");
    match clusters(arguments) {
        Ok(clusters) => match gateway_manifests(&clusters, user) {
            Ok(manifests) => print(arguments, &manifests),
            Err(error) => crate::fail(&error),
        },
        Err(error) => crate::fail(&error),
    }
}

/// The roles and the bindings of a tenant, for what belongs to its instance among the files.
fn instance_manifests(arguments: &Rbac, instance: &str) -> Result<Vec<Value>, RbacError> {
    let objects = objects(arguments)?;
    let settings = ServedSettings::of(&objects).map_err(EnvironmentError::Settings)?;
    let of_all = (settings.shared().instance.as_str(), arguments.settings_name.as_deref());
    let found = own_objects(&objects, instance, of_all);
    let found = match found.map_err(|refused| RbacError::Instance(refused.name, refused.problem))? {
        Some(found) => found,
        None if arguments.files.is_empty() => OwnObjects::default(),
        None => return Err(RbacError::NoInstance(instance.to_owned())),
    };
    for name in &found.contested {
        let text = format!("{name}: other Instances select it, too, and no right is given on it");
        crate::complain("warning", &text);
    }
    Ok(instance::manifests(instance, &found, arguments.user.as_deref()))
}

/// The role and the binding of the gateway's own user in the clusters.
pub(crate) fn gateway_manifests(clusters: &[Cluster], user: &str) -> Result<[Value; 2], RbacError> {
    Ok([role(clusters, &health_paths(clusters)?), binding(user)])
}

/// The paths of health checks as kube-apiserver authorises them: decoded, and without the query.
fn health_paths(clusters: &[Cluster]) -> Result<BTreeSet<String>, RbacError> {
    let mut paths = BTreeSet::new();
    for cluster in clusters {
        let (path, _) = cluster.health_check.path.split_once('?').unwrap_or((&cluster.health_check.path, ""));
        let decoded = unescape_path(path.as_bytes()).ok().and_then(|path| String::from_utf8(path.into_owned()).ok());
        let path = decoded.unwrap_or_else(|| path.to_owned());
        if path.ends_with('*') {
            return Err(RbacError::Pattern(cluster.name.clone()));
        }
        paths.insert(path);
        if cluster.token_keys_from_servers {
            paths.insert(TOKEN_KEYS_PATH.to_owned());
        }
    }
    if paths.is_empty() {
        paths.insert("/readyz".to_owned());
    }
    Ok(paths)
}

fn print(arguments: &Rbac, manifests: &[Value]) -> ExitCode {
    match arguments.output.list(manifests) {
        Ok(text) => crate::print(&text),
        Err(error) => crate::fail(&error),
    }
}

/// The name of the role and of its binding.
pub(crate) const NAME: &str = "portcullis";

/// The objects of the files, with policies in their clusters: these may say how servers know users.
fn objects(arguments: &Rbac) -> Result<ObjectSet, EnvironmentError> {
    let files = ObjectFiles {
        paths: &arguments.files,
        namespace: &arguments.namespace,
        settings_name: arguments.settings_name.as_deref(),
    };
    Ok(files.read()?.set)
}

fn clusters(arguments: &Rbac) -> Result<Vec<Cluster>, RbacError> {
    let wanted = arguments.cluster.as_deref();
    let mut clusters = Vec::new();
    for document in &objects(arguments)?.clusters {
        let raw = parse_cluster(document)
            .map_err(|problem| RbacError::Cluster(crate::policies::name_of(document).to_owned(), problem))?;
        clusters.extend(unchecked_cluster(&raw).filter(|cluster| wanted.is_none_or(|wanted| cluster.name == wanted)));
    }
    match wanted {
        Some(wanted) if clusters.is_empty() => Err(RbacError::NoCluster(wanted.to_owned())),
        _ => Ok(clusters),
    }
}

/// The permissions for forwarding the user and reviewing credentials, and nothing else: an authenticating proxy needs no right
/// to impersonate.
fn role(clusters: &[Cluster], health_paths: &BTreeSet<String>) -> Value {
    let mut extras: BTreeSet<&str> = DEFAULT_EXTRAS.into_iter().collect();
    for cluster in clusters {
        extras.extend(cluster.forwarded_extras.iter().map(String::as_str));
        extras.extend(attribution::KEYS.iter().filter(|_| cluster.audit_attribution));
    }
    let extras = extras.into_iter().map(|key| format!("userextras/{key}"));
    let attributes: Vec<String> = std::iter::once("uids".to_owned()).chain(extras).collect();
    let proxies = |cluster: &Cluster| matches!(cluster.upstream_identity, UpstreamIdentity::RequestHeader { .. });
    let impersonates = clusters.is_empty() || !clusters.iter().all(proxies);
    let impersonation = [
        json!({"apiGroups": [""], "resources": ["users", "groups", "serviceaccounts"], "verbs": ["impersonate"]}),
        json!({"apiGroups": ["authentication.k8s.io"], "resources": attributes, "verbs": ["impersonate"]}),
        json!({"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]}),
    ];
    let always = [
        json!({"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}),
        json!({"nonResourceURLs": health_paths, "verbs": ["get"]}),
    ];
    // By name: other EndpointSlices are no concern of the gateway's.
    let slice = json!({
        "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "resourceNames": ["kubernetes"],
        "verbs": ["list", "watch"],
    });
    let asks = clusters.iter().any(|cluster| cluster.discovery == Some(Discovery::KubernetesService));
    let rules = impersonation.into_iter().filter(|_| impersonates).chain(always).chain(asks.then_some(slice));
    let rules: Vec<Value> = rules.collect();
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": NAME},
        "rules": rules,
    })
}

fn binding(user: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": NAME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    })
}
