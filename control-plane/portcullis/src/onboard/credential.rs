//! The gateway's credential: from files, of an earlier run, or new from the cluster.

use std::time::{Duration, SystemTime};

use portcullis_api::{ClientConfig, PublicBytes, SecretBytes, UpstreamClusterSpec, certificate_dates};

use super::arguments::{CredentialArguments, IdentityMode};
use super::directory::read_file;
use super::error::{OnboardError, Side};
use super::object::{Credential, DEFAULT_USER, Plan};
use super::probe::GatewaySession;
use super::progress::say;
use super::target::TargetCluster;
use super::{certificate, token};

/// A certificate that ends sooner is renewed.
const RENEW_BEFORE: Duration = Duration::from_secs(30 * 86_400);

/// The credential in the files of the command line.
pub(super) fn from_files(arguments: &CredentialArguments) -> Result<Option<Credential>, OnboardError> {
    if let Some(path) = &arguments.token_file {
        return Ok(Some(Credential::Token(SecretBytes::new(read_file(path)?.trim_ascii().to_vec()))));
    }
    let Some((certificate, key)) = arguments.client_cert.as_ref().zip(arguments.client_key.as_ref()) else {
        return Ok(None);
    };
    Ok(Some(Credential::Pair { certificate: read_file(certificate)?, key: SecretBytes::new(read_file(key)?) }))
}

/// The name of the gateway's user. Of files only the cluster knows it.
pub(super) async fn user_of(
    plan: &Plan,
    arguments: &CredentialArguments,
    given: Option<&Credential>,
) -> Result<String, OnboardError> {
    if let Some(user) = &arguments.user {
        return Ok(user.clone());
    }
    match given {
        Some(credential) if plan.mode == IdentityMode::Impersonate => {
            let seen = seen_as(plan, credential).await?;
            Ok(seen)
        }
        None if arguments.token => Ok(token::user_of(&arguments.service_account)),
        _ => Ok(DEFAULT_USER.to_owned()),
    }
}

/// As whom the first server sees a credential.
async fn seen_as(plan: &Plan, credential: &Credential) -> Result<String, OnboardError> {
    let cluster = plan.checked(credential)?;
    let Some(server) = cluster.servers.first() else {
        return Err(OnboardError::Lacks(Side::Target, "server".to_owned()));
    };
    let session = GatewaySession::open(&cluster, &server.endpoint);
    let session = session.map_err(|failure| OnboardError::Lacks(Side::Gateway, failure.to_string()))?;
    let seen = session.who_am_i(None).await;
    let step = "asking whose the given credential is".to_owned();
    seen.map(|user| user.name).map_err(|source| OnboardError::Request { step, side: Side::Gateway, source })
}

/// A credential that is there already and good for a while, or a new one.
pub(super) async fn obtain(
    target: &TargetCluster,
    plan: &Plan,
    arguments: &CredentialArguments,
    earlier: Option<Credential>,
) -> Result<Credential, OnboardError> {
    if arguments.token {
        return token::request(target, &arguments.service_account, arguments.lifetime).await;
    }
    if let Some(credential) = earlier.filter(|_| !arguments.renew)
        && is_good(plan, &credential, arguments.lifetime).await
    {
        say(&format!("certificate of {}: the present one is good", plan.user));
        return Ok(credential);
    }
    certificate::request(&target.api, &plan.name, &plan.user, arguments).await
}

/// Whether a certificate lasts, and the cluster sees the wanted user.
async fn is_good(plan: &Plan, credential: &Credential, lifetime: Option<Duration>) -> bool {
    let Credential::Pair { certificate, .. } = credential else { return false };
    let margin = lifetime.map_or(RENEW_BEFORE, |lifetime| RENEW_BEFORE.min(lifetime / 3));
    remaining(certificate).is_some_and(|left| left > margin)
        && seen_as(plan, credential).await.is_ok_and(|user| user == plan.user)
}

/// How long a certificate is valid from now on.
fn remaining(certificate: &[u8]) -> Option<Duration> {
    let client_config = ClientConfig { cert_data: PublicBytes::new(certificate.to_vec()), ..ClientConfig::default() };
    let spec = UpstreamClusterSpec { client_config, ..UpstreamClusterSpec::default() };
    let not_after = certificate_dates(&spec).into_iter().find(|one| one.usage == "client")?.not_after;
    (SystemTime::UNIX_EPOCH + Duration::from_secs(not_after)).duration_since(SystemTime::now()).ok()
}
