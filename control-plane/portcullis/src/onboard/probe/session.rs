use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{self, HeaderValue};
use hyper::{Method, StatusCode};
use kube::Config;
use kube::client::Body;
use portcullis_api::{Cluster, Endpoint, PeerName, Trust, UpstreamIdentity};
use portcullis_filter_config::RequestHeaders;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};

use super::report::{CheckFailure, CheckValue};
use crate::onboard::cluster_api::{ClusterApi, json_request, refused};
use crate::onboard::error::{ApiError, Side, chain};

/// Time for an answer.
pub(super) const ANSWER: std::time::Duration = std::time::Duration::from_secs(15);

/// The question who one is.
pub(in crate::onboard) const SELF_REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// A user whom the gateway forwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::onboard) struct ForwardedUser {
    pub(in crate::onboard) name: String,
    pub(in crate::onboard) groups: Vec<String>,
}

impl ForwardedUser {
    /// The user of a SelfSubjectReview.
    pub(in crate::onboard) fn of_review(review: &Value) -> Option<Self> {
        let user = review.pointer("/status/userInfo")?;
        let groups = user.get("groups").and_then(Value::as_array).into_iter().flatten();
        Some(Self {
            name: user.get("username")?.as_str()?.to_owned(),
            groups: groups.filter_map(Value::as_str).map(str::to_owned).collect(),
        })
    }
}

/// Requests to one server with the gateway's credential.
pub(in crate::onboard) struct GatewaySession {
    api: ClusterApi,
    pub(super) identity: UpstreamIdentity,
    pub(super) headers: RequestHeaders,
}

impl CheckValue for GatewaySession {
    fn detail(&self) -> Option<String> {
        None
    }
}

impl GatewaySession {
    pub(in crate::onboard) fn open(cluster: &Cluster, endpoint: &Endpoint) -> Result<Self, CheckFailure> {
        let unusable = |reason: String| CheckFailure::new(reason, "correct the object's certificate, key or token");
        let config = config(cluster, endpoint).map_err(unusable)?;
        let api = ClusterApi::new(config, Side::Gateway).map_err(|error| unusable(chain(&error)))?;
        // Names that GatewaySettings change are not known here.
        Ok(Self { api, identity: cluster.upstream_identity.clone(), headers: RequestHeaders::default() })
    }

    /// A session that impersonates, at a server of the test's.
    #[cfg(test)]
    pub(super) fn of_config(config: Config) -> Result<Self, crate::onboard::OnboardError> {
        let api = ClusterApi::new(config, Side::Gateway)?;
        Ok(Self { api, identity: UpstreamIdentity::Impersonate, headers: RequestHeaders::default() })
    }

    /// Asks as the gateway itself, or with a user forwarded; the answer, whatever its status.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        user: Option<&ForwardedUser>,
    ) -> Result<(StatusCode, bytes::Bytes), ApiError> {
        self.api.ask(self.request(method, path, body, user)?).await
    }

    /// As [`GatewaySession::ask`], the object of a good answer.
    pub(super) async fn object(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        user: Option<&ForwardedUser>,
    ) -> Result<Value, ApiError> {
        let (status, body) = self.ask(method, path, body, user).await?;
        match status.is_success() {
            true => serde_json::from_slice(&body).map_err(ApiError::Json),
            false => Err(refused(status, &body)),
        }
    }

    /// Begins to read an answer of these types to a question of the gateway itself.
    pub(super) async fn read(&self, path: &str, accept: &'static str) -> Result<hyper::Response<Body>, ApiError> {
        let mut request = self.request(Method::GET, path, None, None)?;
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(accept));
        self.api.send(request).await
    }

    /// Begins to read an answer.
    pub(super) async fn open_stream(
        &self,
        path: &str,
        user: &ForwardedUser,
    ) -> Result<hyper::Response<Body>, ApiError> {
        self.api.send(self.request(Method::GET, path, None, Some(user))?).await
    }

    /// The user whom the server sees.
    pub(in crate::onboard) async fn who_am_i(&self, user: Option<&ForwardedUser>) -> Result<ForwardedUser, ApiError> {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let answer = self.object(Method::POST, SELF_REVIEW, Some(&review), user).await?;
        Ok(ForwardedUser::of_review(&answer).unwrap_or(ForwardedUser { name: String::new(), groups: Vec::new() }))
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        user: Option<&ForwardedUser>,
    ) -> Result<hyper::Request<Body>, ApiError> {
        let forwarded = |name_header: &str, group_header: &str, user: &ForwardedUser| {
            let groups = user.groups.iter().map(|group| (group_header.to_owned(), group.clone()));
            std::iter::once((name_header.to_owned(), user.name.clone())).chain(groups).collect()
        };
        let headers: Vec<(String, String)> = match (&self.identity, user) {
            (UpstreamIdentity::Impersonate, None) => Vec::new(),
            (UpstreamIdentity::Impersonate, Some(user)) => forwarded("impersonate-user", "impersonate-group", user),
            (UpstreamIdentity::RequestHeader { .. }, Some(user)) => {
                forwarded(&self.headers.user, &self.headers.group, user)
            }
            (UpstreamIdentity::RequestHeader { user, .. }, None) => vec![(self.headers.user.clone(), user.clone())],
        };
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        json_request(method, path, body, &headers)
    }
}

/// The connection of the gateway to a server. The name in the certificate is not that of the address.
fn config(cluster: &Cluster, endpoint: &Endpoint) -> Result<Config, String> {
    let url = format!("https://{endpoint}").parse().map_err(|error| format!("{endpoint}: {error}"))?;
    let mut config = Config::new(url);
    config.proxy_url = None;
    match &cluster.trust {
        Trust::Insecure => config.accept_invalid_certs = true,
        Trust::Bundle(bundle) => {
            let roots = CertificateDer::pem_slice_iter(bundle.as_slice());
            let roots: Result<Vec<Vec<u8>>, _> = roots.map(|root| root.map(|root| root.to_vec())).collect();
            config.root_cert = Some(roots.map_err(|error| error.to_string())?);
        }
    }
    config.tls_server_name = Some(match &cluster.peer_name {
        PeerName::Dns(name) => name.clone(),
        PeerName::Ip(ip) => ip.to_string(),
    });
    if let Some(pair) = &cluster.certificate {
        config.auth_info.client_certificate_data = Some(STANDARD.encode(pair.chain.as_slice()));
        config.auth_info.client_key_data = Some(STANDARD.encode(pair.key.expose()).into());
    }
    if let Some(token) = &cluster.token {
        config.auth_info.token = Some(String::from_utf8_lossy(token.expose()).into_owned().into());
    }
    Ok(config)
}
