//! The cluster to put behind the gateway: its servers, its CAs, and the person who asks.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::Config;
use serde_json::{Value, json};

use super::arguments::{ServerArguments, ServerSource, TargetArguments};
use super::cluster_api::{Apply, ClusterApi, object_path, path_of, read_kubeconfig};
use super::directory::read_file;
use super::error::{OnboardError, Side};
use super::object::ServersPart;
use super::probe::ForwardedUser;

/// The ConfigMap in which each kube-apiserver publishes its CAs of clients.
const AUTHENTICATION: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dkubernetes";
/// The name that each kube-apiserver's certificate carries.
const SERVICE_NAME: &str = "kubernetes.default.svc";

/// The cluster to put behind the gateway.
pub(crate) struct TargetCluster {
    pub(crate) api: ClusterApi,
    /// The address in the kubeconfig.
    url: hyper::Uri,
    tls_server_name: Option<String>,
    authorities: Option<Vec<Vec<u8>>>,
}

impl TargetCluster {
    pub(crate) async fn open(arguments: &TargetArguments) -> Result<Self, OnboardError> {
        let (path, context) = (arguments.kubeconfig.as_deref(), arguments.context.as_deref());
        let config: Config = read_kubeconfig(path, context, Side::Target).await?;
        let (url, tls_server_name) = (config.cluster_url.clone(), config.tls_server_name.clone());
        let authorities = config.root_cert.clone();
        Ok(Self { api: ClusterApi::new(config, Side::Target)?, url, tls_server_name, authorities })
    }

    /// The person of the kubeconfig, as the cluster sees them.
    pub(super) async fn caller(&self) -> Result<Option<ForwardedUser>, OnboardError> {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let answer = self.api.create(super::probe::SELF_REVIEW, &review).await;
        Ok(ForwardedUser::of_review(&answer.map_err(self.api.failed("asking who the user is"))?))
    }

    /// The servers' addresses, the name and the CAs of their certificates.
    pub(super) async fn servers(&self, arguments: &ServerArguments) -> Result<ServersPart, OnboardError> {
        let from_endpoints = arguments.servers.is_empty() && arguments.servers_from == ServerSource::Endpoints;
        let servers = match (arguments.servers.is_empty(), from_endpoints) {
            (false, _) => arguments.servers.clone(),
            (true, true) => self.endpoints().await?,
            (true, false) => vec![self.url.to_string().trim_end_matches('/').to_owned()],
        };
        let host = self.url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let from_kubeconfig = self.tls_server_name.clone().unwrap_or(host);
        let name = arguments.server_name.clone();
        let name = name.unwrap_or_else(|| if from_endpoints { SERVICE_NAME.to_owned() } else { from_kubeconfig });
        let authorities = match (&arguments.upstream_ca, &self.authorities) {
            (Some(path), _) => read_file(path)?,
            (None, Some(all)) if !all.is_empty() => all.iter().map(|der| pem(der)).collect::<String>().into_bytes(),
            _ => return Err(OnboardError::NoAuthority(Side::Target)),
        };
        Ok(ServersPart { servers, name, authorities })
    }

    async fn endpoints(&self) -> Result<Vec<String>, OnboardError> {
        let answer =
            self.api.get(SLICES).await.map_err(self.api.failed("reading EndpointSlices of default/kubernetes"))?;
        let servers = servers_of_slices(&answer.unwrap_or_default());
        if servers.is_empty() {
            let what = "addresses in the EndpointSlices of default/kubernetes (--server)";
            return Err(OnboardError::Lacks(Side::Target, what.to_owned()));
        }
        Ok(servers)
    }

    /// The CAs of client certificates that the servers accept; none if they do not publish them.
    pub(super) async fn client_authorities(&self) -> Result<Option<Vec<u8>>, OnboardError> {
        let answer = self.api.get(AUTHENTICATION).await;
        let answer = answer.map_err(self.api.failed("reading kube-system/extension-apiserver-authentication"))?;
        let found = answer.as_ref().and_then(|map| map.pointer("/data/client-ca-file")).and_then(Value::as_str);
        Ok(found.map(|pem| pem.as_bytes().to_vec()))
    }

    /// The user to whom the gateway's role is bound.
    pub(super) async fn bound_user(&self) -> Result<Option<String>, OnboardError> {
        let path = object_path("ClusterRoleBinding", "", crate::rbac::NAME);
        let found = self.api.get(&path).await.map_err(self.api.failed("reading ClusterRoleBinding portcullis"))?;
        let name = found.as_ref().and_then(|binding| binding.pointer("/subjects/0/name")).and_then(Value::as_str);
        Ok(name.map(str::to_owned))
    }

    /// Applies an object; whether anything changed.
    pub(super) async fn apply(&self, object: &Value, how: Apply) -> Result<bool, OnboardError> {
        apply(&self.api, object, how).await
    }
}

/// Applies an object; whether anything changed, or would change.
pub(super) async fn apply(api: &ClusterApi, object: &Value, how: Apply) -> Result<bool, OnboardError> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let step = format!("applying {} {}", text("/kind"), text("/metadata/name"));
    let before = api.get(&path_of(object)).await.map_err(api.failed(step.clone()))?;
    let after = api.apply(object, how).await.map_err(api.failed(step))?;
    Ok(before.is_none_or(|before| content(before) != content(after)))
}

/// An object without what each write changes.
fn content(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["managedFields", "resourceVersion", "generation"] {
            metadata.remove(field);
        }
    }
    object
}

fn servers_of_slices(slices: &Value) -> Vec<String> {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let mut servers = Vec::new();
    for slice in list(slices.get("items")) {
        let ports = list(slice.get("ports"));
        let port = ports.iter().find(|port| port.get("name") == Some(&json!("https"))).or(ports.first());
        let port = port.and_then(|port| port.get("port")).and_then(Value::as_u64).unwrap_or(443);
        for address in list(slice.get("endpoints")).iter().flat_map(|endpoint| list(endpoint.get("addresses"))) {
            let address = address.as_str().unwrap_or_default();
            servers.push(match address.contains(':') {
                true => format!("https://[{address}]:{port}"),
                false => format!("https://{address}:{port}"),
            });
        }
    }
    servers.sort();
    servers.dedup();
    servers
}

fn pem(der: &[u8]) -> String {
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    for (index, character) in STANDARD.encode(der).chars().enumerate() {
        if index > 0 && index % 64 == 0 {
            text.push('\n');
        }
        text.push(character);
    }
    text.push_str("\n-----END CERTIFICATE-----\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_give_each_server_once() {
        let slice = |addresses: &[&str]| {
            json!({"ports": [{"name": "x", "port": 1}, {"name": "https", "port": 6443}],
                   "endpoints": addresses.iter().map(|one| json!({"addresses": [one]})).collect::<Vec<_>>()})
        };
        let slices = json!({"items": [slice(&["10.0.0.11", "10.0.0.10"]), slice(&["10.0.0.10", "fd00::1"])]});
        assert_eq!(
            servers_of_slices(&slices),
            ["https://10.0.0.10:6443", "https://10.0.0.11:6443", "https://[fd00::1]:6443",]
        );
        assert!(servers_of_slices(&json!({})).is_empty());
    }

    #[test]
    fn certificate_in_pem_reads_back() {
        use rustls_pki_types::{CertificateDer, pem::PemObject};
        for length in [1, 47, 48, 49, 500] {
            let der = vec![7_u8; length];
            assert_eq!(CertificateDer::from_pem_slice(pem(&der).as_bytes()).unwrap().as_ref(), der);
        }
    }
}
