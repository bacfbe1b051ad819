use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use portcullis_core::credential::{BrokenToken, bearer_token, subprotocol_token};
use portcullis_core::gateway::subprotocols_without_tokens;
use portcullis_core::header_scan::HeaderScan;
use portcullis_core::identity::UserInfo;
use portcullis_core::upstream_user::UpstreamUser;
use portcullis_core::x509::{ClientCa, ClientChain, encode_chain, verify};
use portcullis_filter_config::hex;
use ring::digest::{SHA256, digest};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::answer::{CredentialAnswer, text};
use super::arguments::ExplainCertificate;

/// A mistake in the call. The certificates themselves lead to an answer, however malformed they are.
#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error("{0} cannot be read")]
    Read(PathBuf, #[source] io::Error),
    #[error("--at is not a time of RFC 3339")]
    Time,
}

/// The user that a certificate names.
#[derive(Debug, Default, Serialize)]
struct CertificateAnswer {
    outcome: &'static str,
    name: Option<String>,
    uid: Option<String>,
    groups: Option<Vec<String>>,
    extra: Option<BTreeMap<String, Vec<String>>>,
    reason: Option<String>,
}

pub(super) fn run(arguments: &ExplainCertificate) -> ExitCode {
    let answer = match explain(arguments) {
        Ok(answer) => answer,
        Err(error) => return crate::fail(&error),
    };
    match arguments.output.text(&answer) {
        Ok(text) => crate::print(&text),
        Err(error) => crate::fail(&error),
    }
}

fn explain(arguments: &ExplainCertificate) -> Result<CertificateAnswer, CallError> {
    let now = arguments.at.as_deref().map_or_else(|| Ok(UnixTime::now()), time_of)?;
    let mut pem = read(&arguments.certificate)?;
    if let Some(path) = &arguments.chain {
        pem.push(b'\n');
        pem.extend(read(path)?);
    }
    let chain: Vec<CertificateDer<'_>> = match CertificateDer::pem_slice_iter(&pem).collect() {
        Ok(chain) => chain,
        Err(_) => return Ok(failed(&"the certificate is not PEM")),
    };
    if chain.is_empty() {
        return Ok(failed(&"there is no certificate"));
    }
    let ca = match ClientCa::from_pem(&String::from_utf8_lossy(&read(&arguments.ca)?)) {
        Ok(ca) => ca,
        Err(error) => return Ok(failed(&error)),
    };
    let encoded = encode_chain(chain.iter().map(|certificate| &**certificate));
    let chain = match ClientChain::decode(&encoded) {
        Ok(chain) => chain,
        Err(error) => return Ok(failed(&error)),
    };
    Ok(match verify(&chain, &ca, now) {
        Ok(verified) => verified.user.map_or_else(no_user, user_answer),
        Err(error) => failed(&error),
    })
}

fn user_answer(user: UserInfo) -> CertificateAnswer {
    // Verified, and yet without a user that the filter can forward.
    if let Err(error) = UpstreamUser::new(user.clone()) {
        return failed(&error);
    }
    CertificateAnswer {
        outcome: "user",
        name: Some(user.name),
        uid: Some(user.uid),
        groups: Some(user.groups),
        extra: Some(user.extra.into_iter().map(|extra| (extra.key, extra.values)).collect()),
        reason: None,
    }
}

fn no_user() -> CertificateAnswer {
    CertificateAnswer {
        outcome: "none",
        reason: Some("the subject has no common name".to_owned()),
        ..CertificateAnswer::default()
    }
}

fn failed(error: &dyn std::fmt::Display) -> CertificateAnswer {
    CertificateAnswer { outcome: "error", reason: Some(error.to_string()), ..CertificateAnswer::default() }
}

fn time_of(text: &str) -> Result<UnixTime, CallError> {
    let time = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| CallError::Time)?;
    // No certificate that is accepted is valid before.
    let seconds = u64::try_from(time.unix_timestamp()).unwrap_or_default();
    Ok(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
}

fn read(path: &Path) -> Result<Vec<u8>, CallError> {
    std::fs::read(path).map_err(|error| CallError::Read(path.to_owned(), error))
}

type Presented<'a> = Result<Option<Cow<'a, [u8]>>, BrokenToken>;

const NONE: CredentialAnswer =
    CredentialAnswer { outcome: "none", source: None, token_sha256: None, subprotocols_after_success: None };

/// The first token that is presented in a readable form; else an error, if there was one. Of several `Authorization` lines
/// none counts: the gateway refuses the request.
pub(super) fn read_credential(scan: &HeaderScan<'_>) -> CredentialAnswer {
    if scan.authorization_lines > 1 {
        return CredentialAnswer { outcome: "error", source: Some("authorization"), ..NONE };
    }
    let mut answer = NONE;
    for (presented, source) in presented(scan) {
        match presented {
            Ok(Some(token)) => {
                let left = scan.is_websocket && scan.token_subprotocol;
                return CredentialAnswer {
                    outcome: "token",
                    source: Some(source),
                    token_sha256: Some(sha256_hex(&token)),
                    subprotocols_after_success: left.then(|| text(&subprotocols_without_tokens(scan))),
                };
            }
            Err(BrokenToken) if answer.source.is_none() => {
                answer = CredentialAnswer { outcome: "error", source: Some(source), ..answer };
            }
            _ => {}
        }
    }
    answer
}

/// The token of [`read_credential`].
pub(super) fn presented_token<'a>(scan: &'a HeaderScan<'_>) -> Option<Cow<'a, [u8]>> {
    let is_one = scan.authorization_lines <= 1;
    presented(scan).into_iter().filter(|_| is_one).find_map(|(presented, _)| presented.ok().flatten())
}

/// The tokens that the request presents, in the order in which they count.
fn presented<'a>(scan: &'a HeaderScan<'_>) -> [(Presented<'a>, &'static str); 2] {
    let from_header = scan.authorization.map_or(Ok(None), bearer_token);
    let from_subprotocol = if scan.is_websocket { subprotocol_token(&scan.subprotocols) } else { Ok(None) };
    [(from_header, "authorization"), (from_subprotocol, "websocket")]
}

fn sha256_hex(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}
