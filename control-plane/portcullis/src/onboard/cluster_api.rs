//! A Kubernetes API, asked in JSON: of the cluster to onboard, of the store, and as the gateway.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::{Method, Request, Response, StatusCode, header};
use kube::client::Body;
use kube::config::KubeConfigOptions;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::error::{ApiError, OnboardError, Side};

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(15);
const CONNECT: Duration = Duration::from_secs(5);
/// Largest answer: lists of Secrets.
const MAX_ANSWER: usize = 64 << 20;
/// As whom fields of objects are managed.
pub(crate) const MANAGER: &str = "portcullis-onboard";
/// The label of objects that were made here.
pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// The API of a cluster.
#[derive(Clone)]
pub(crate) struct ClusterApi {
    client: Client,
    pub(crate) side: Side,
}

/// How an object is applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Apply {
    pub(crate) dry_run: bool,
    pub(crate) force: bool,
}

/// The configuration of a kubeconfig's context. One whose servers are not verified is refused: keys and rights go there.
pub(crate) async fn read_kubeconfig(
    path: Option<&Path>,
    context: Option<&str>,
    side: Side,
) -> Result<Config, OnboardError> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let read = match path {
        Some(path) => match kube::config::Kubeconfig::read_from(path) {
            Ok(kubeconfig) => Config::from_custom_kubeconfig(kubeconfig, &options).await,
            Err(error) => Err(error),
        },
        None => Config::from_kubeconfig(&options).await,
    };
    let mut config = read.map_err(|error| OnboardError::Kubeconfig(side, Box::new(error)))?;
    refuse_unverified(&config).map_err(|fault| OnboardError::Unverified(side, fault))?;
    config.connect_timeout = Some(CONNECT);
    Ok(config)
}

fn refuse_unverified(config: &Config) -> Result<(), &'static str> {
    if config.accept_invalid_certs {
        return Err("has insecure-skip-tls-verify");
    }
    if config.cluster_url.scheme_str() != Some("https") {
        return Err("has a server without https");
    }
    Ok(())
}

impl ClusterApi {
    pub(crate) fn new(mut config: Config, side: Side) -> Result<Self, OnboardError> {
        // An answer of the server is the outcome; it is not asked again.
        config.default_retry = false;
        let client = Client::try_from(config).map_err(|error| OnboardError::Client(side, Box::new(error)))?;
        Ok(Self { client, side })
    }

    /// Sends a request; the head of the answer, and its body as it arrives.
    pub(super) async fn send(&self, request: Request<Body>) -> Result<Response<Body>, ApiError> {
        match timeout(ANSWER, self.client.send(request)).await {
            Err(_) => Err(ApiError::Timeout(ANSWER)),
            Ok(answer) => answer.map_err(|error| ApiError::Transport(Box::new(error))),
        }
    }

    /// Sends a request; the whole answer, whatever its status.
    pub(super) async fn ask(&self, request: Request<Body>) -> Result<(StatusCode, Bytes), ApiError> {
        let (head, body) = self.send(request).await?.into_parts();
        let body = timeout(ANSWER, Limited::new(body, MAX_ANSWER).collect()).await;
        let body = body.map_err(|_| ApiError::Timeout(ANSWER))?.map_err(ApiError::Body)?;
        Ok((head.status, body.to_bytes()))
    }

    /// Sends a request; the object of a good answer.
    pub(super) async fn object(&self, request: Request<Body>) -> Result<Value, ApiError> {
        let (status, body) = self.ask(request).await?;
        if !status.is_success() {
            return Err(refused(status, &body));
        }
        serde_json::from_slice(&body).map_err(ApiError::Json)
    }

    /// The object at a path; none if there is no such object.
    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>, ApiError> {
        absent(self.object(json_request(Method::GET, path, None, &[])?).await)
    }

    /// The objects of a list.
    pub(crate) async fn list(&self, path: &str) -> Result<Vec<Value>, ApiError> {
        let mut list = self.object(json_request(Method::GET, path, None, &[])?).await?;
        match list.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// Creates an object; the server's answer.
    pub(super) async fn create(&self, collection: &str, object: &Value) -> Result<Value, ApiError> {
        let path = format!("{collection}?fieldManager={MANAGER}");
        self.object(json_request(Method::POST, &path, Some(object), &[])?).await
    }

    /// Merges into an object.
    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Result<Value, ApiError> {
        let kind = [("content-type", "application/merge-patch+json")];
        self.object(json_request(Method::PATCH, path, Some(patch), &kind)?).await
    }

    /// Applies an object, server-side.
    pub(super) async fn apply(&self, object: &Value, how: Apply) -> Result<Value, ApiError> {
        let dry_run = if how.dry_run { "&dryRun=All" } else { "" };
        let path = format!("{}?fieldManager={MANAGER}&force={}{dry_run}", path_of(object), how.force);
        let kind = [("content-type", "application/apply-patch+yaml")];
        self.object(json_request(Method::PATCH, &path, Some(object), &kind)?).await
    }

    /// Deletes the object that was read, and no other that has its name now; whether there was one.
    pub(crate) async fn delete(&self, path: &str, uid: &str) -> Result<bool, ApiError> {
        let request = json_request(Method::DELETE, path, Some(&delete_options(uid)), &[])?;
        match absent(self.object(request).await) {
            Err(ApiError::Refused { code: 409, .. }) => Err(ApiError::Replaced),
            other => Ok(other?.is_some()),
        }
    }

    /// The error of a step here.
    pub(crate) fn failed(&self, step: impl Into<String>) -> impl FnOnce(ApiError) -> OnboardError {
        let (step, side) = (step.into(), self.side);
        move |source| OnboardError::Request { step, side, source }
    }
}

fn delete_options(uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}})
}

fn absent(answer: Result<Value, ApiError>) -> Result<Option<Value>, ApiError> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(ApiError::Refused { code: 404, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A request with a JSON body, or none. `headers` come last, and replace those of the same name.
pub(super) fn json_request(
    method: Method,
    path: &str,
    body: Option<&Value>,
    headers: &[(&str, &str)],
) -> Result<Request<Body>, ApiError> {
    let mut builder = Request::builder().method(method).uri(path).header(header::ACCEPT, "application/json");
    if body.is_some() && headers.iter().all(|(name, _)| *name != "content-type") {
        builder = builder.header(header::CONTENT_TYPE, "application/json");
    }
    let builder = headers.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
    let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string().into_bytes()));
    builder.body(body).map_err(ApiError::Build)
}

/// An answer that is no success.
pub(super) fn refused(status: StatusCode, body: &[u8]) -> ApiError {
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    let message = parsed.as_ref().and_then(|status| status.get("message")).and_then(Value::as_str);
    let message = message.unwrap_or_else(|| status.canonical_reason().unwrap_or("no reason"));
    ApiError::Refused { code: status.as_u16(), message: crate::display_text::one_line(message) }
}

/// The path of an object of a kind that is made here.
pub(super) fn path_of(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    object_path(text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}

/// The path of an object by its name.
pub(crate) fn object_path(kind: &str, namespace: &str, name: &str) -> String {
    format!("{}/{name}", collection(kind, namespace))
}

/// The collection of a kind that is made here.
pub(crate) fn collection(kind: &str, namespace: &str) -> String {
    match kind {
        "ClusterRole" => "/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned(),
        "ClusterRoleBinding" => "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings".to_owned(),
        "CertificateSigningRequest" => "/apis/certificates.k8s.io/v1/certificatesigningrequests".to_owned(),
        "ServiceAccount" => format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
        "Secret" => format!("/api/v1/namespaces/{namespace}/secrets"),
        _ => format!("/apis/{}/upstreamclusters", portcullis_api::CLUSTER_API_VERSION),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn opened(cluster: Value) -> Result<Config, OnboardError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": cluster}],
            "users": [{"name": "a", "user": {"token": "none"}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        });
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        read_kubeconfig(Some(&path), None, Side::Target).await
    }

    #[tokio::test]
    async fn kubeconfig_whose_servers_are_not_verified_is_refused() {
        let faults = [
            (json!({"server": "https://10.0.0.1:6443", "insecure-skip-tls-verify": true}), "insecure-skip-tls-verify"),
            (json!({"server": "http://10.0.0.1:8080"}), "without https"),
        ];
        for (cluster, fault) in faults {
            let error = opened(cluster).await.unwrap_err();
            assert!(error.to_string().contains(fault), "{error}");
            assert!(error.advice().unwrap().contains("certificate-authority"), "{error}");
        }
        assert!(opened(json!({"server": "https://10.0.0.1:6443"})).await.is_ok());
    }

    #[test]
    fn deletion_names_the_object_that_was_read() {
        assert_eq!(delete_options("abc")["preconditions"], json!({"uid": "abc"}));
    }
}
