use std::fmt;

use serde::Deserialize;

use super::Findings;
use super::address_policy::check_address;
use super::certificates::read_bundle;
use super::endpoint::{Endpoint, parse_endpoint};
use crate::bounds::{MAX_ISSUER_CAS, MAX_JWKS, MAX_KEYS_URL};
use crate::secret::PublicBytes;
use crate::types;

/// The path of an issuer's discovery document below its URL (OpenID Connect Discovery 1.0, section 4).
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// An issuer whose keys the control plane reads from a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedIssuer {
    /// The issuer: the claim `iss` of its tokens, and what its discovery document has to name.
    pub issuer: String,
    /// The URL of the key set, or of the discovery document.
    pub url: IssuerUrl,
    /// Whether `url` is that of the discovery document.
    pub is_discovery: bool,
    /// CAs by which the server is known, PEM; `None` for those of the system.
    pub authorities: Option<PublicBytes>,
}

/// An `https` URL, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerUrl {
    /// The server.
    pub endpoint: Endpoint,
    /// The path, with the query.
    pub path: String,
}

/// Why a URL is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssuerUrlError {
    /// The spelling.
    #[error(
        "must be https://host[:port]/path of at most {MAX_KEYS_URL} visible ASCII characters, without user information or fragment"
    )]
    Form,
    /// An address to which nothing is sent.
    #[error(
        "names a loopback address, which needs allowLoopbackUpstreams in the GatewaySettings, or one that no server may have (link-local, metadata, unspecified, multicast)"
    )]
    Address,
}

/// Why a discovery document names no key set. Nothing of the document is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryDocumentError {
    /// Its form.
    #[error("the discovery document has no issuer and jwks_uri, or is larger than {MAX_JWKS} bytes")]
    Form,
    /// The document of another issuer.
    #[error("the discovery document is of another issuer")]
    Issuer,
    /// The URL of the keys.
    #[error("jwks_uri of the discovery document {0}")]
    Url(#[from] IssuerUrlError),
}

#[derive(Deserialize)]
struct DiscoveryDocument {
    issuer: String,
    jwks_uri: String,
}

impl IssuerUrl {
    /// Reads a URL. An address in it is judged as a server's; a name is judged again when it is resolved.
    ///
    /// # Errors
    /// [`IssuerUrlError`].
    pub fn parse(text: &str, allow_loopback: bool) -> Result<Self, IssuerUrlError> {
        if text.len() > MAX_KEYS_URL || !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains('#') {
            return Err(IssuerUrlError::Form);
        }
        let (address, query) = text.split_once('?').map_or((text, None), |(address, query)| (address, Some(query)));
        let endpoint = parse_endpoint(address).map_err(|_| IssuerUrlError::Form)?.endpoint;
        check_address(&endpoint.host, allow_loopback).map_err(|_| IssuerUrlError::Address)?;
        let rest = address.strip_prefix("https://").unwrap_or_default();
        let path = rest.find('/').and_then(|start| rest.get(start..)).unwrap_or("/");
        let path = query.map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
        Ok(Self { endpoint, path })
    }
}

impl fmt::Display for IssuerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}{}", self.endpoint, self.path)
    }
}

/// The URL of the keys in the discovery document of an issuer.
///
/// # Errors
/// [`DiscoveryDocumentError`], the issuer's fault.
pub fn read_discovery_document(
    text: &[u8],
    issuer: &str,
    allow_loopback: bool,
) -> Result<IssuerUrl, DiscoveryDocumentError> {
    if text.len() > MAX_JWKS {
        return Err(DiscoveryDocumentError::Form);
    }
    let document: DiscoveryDocument = serde_json::from_slice(text).map_err(|_| DiscoveryDocumentError::Form)?;
    if document.issuer != issuer {
        return Err(DiscoveryDocumentError::Issuer);
    }
    Ok(IssuerUrl::parse(&document.jwks_uri, allow_loopback)?)
}

/// The issuer, if its keys are read from a URL. `path` is that of `jwks`.
pub(super) fn check_asked_issuer(
    raw: &types::TokenIssuer,
    path: &str,
    allow_loopback: bool,
    findings: &mut Findings,
) -> Option<AskedIssuer> {
    let jwks = &raw.jwks;
    let sources = [jwks.from_servers, !jwks.url.is_empty(), jwks.from_issuer];
    if sources.iter().filter(|is_set| **is_set).count() > 1 {
        findings.problem(path, "at most one of fromServers, url and fromIssuer may be set");
        return None;
    }
    let authorities = check_authorities(jwks, path, findings);
    let (field, text) = match (jwks.url.as_str(), jwks.from_issuer) {
        (url, false) if !url.is_empty() => ("url", url.to_owned()),
        (_, true) if raw.url.contains(['?', '#']) => {
            let message = "needs a url of the issuer without a query: the document is below it";
            findings.problem(format!("{path}.fromIssuer"), message);
            return None;
        }
        (_, true) => ("fromIssuer", format!("{}{DISCOVERY}", raw.url.strip_suffix('/').unwrap_or(&raw.url))),
        _ => return None,
    };
    match IssuerUrl::parse(&text, allow_loopback) {
        Ok(url) => Some(AskedIssuer {
            issuer: raw.url.clone(),
            url,
            is_discovery: jwks.from_issuer,
            authorities: authorities?,
        }),
        Err(error) => {
            let of = if jwks.from_issuer { "needs a url of the issuer that can be asked: it " } else { "" };
            findings.problem(format!("{path}.{field}"), format!("{of}{error}"));
            None
        }
    }
}

/// The written CAs; `None` for a problem.
fn check_authorities(jwks: &types::Jwks, path: &str, findings: &mut Findings) -> Option<Option<PublicBytes>> {
    let path = format!("{path}.certificateAuthority");
    if jwks.certificate_authority.is_empty() {
        return Some(None);
    }
    if jwks.certificate_authority.len() > MAX_ISSUER_CAS {
        findings.problem(path, format!("must not be larger than {MAX_ISSUER_CAS} bytes"));
        return None;
    }
    if jwks.url.is_empty() && !jwks.from_issuer {
        findings.problem(path, "is for url and fromIssuer");
        return None;
    }
    match read_bundle(&PublicBytes::new(jwks.certificate_authority.clone().into_bytes())) {
        Ok(bundle) => Some(Some(bundle)),
        Err(error) => {
            findings.problem(path, error.to_string());
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_of_keys_keeps_path_and_query() {
        for (text, shown) in [
            ("https://a.test", "https://a.test:443/"),
            ("https://A.test:8443/keys", "https://a.test:8443/keys"),
            ("https://a.test/keys?appid=1&b=%2F", "https://a.test:443/keys?appid=1&b=%2F"),
            ("https://a.test?x", "https://a.test:443/?x"),
            ("https://[2001:db8::1]/k", "https://[2001:db8::1]:443/k"),
        ] {
            assert_eq!(IssuerUrl::parse(text, false).map(|url| url.to_string()), Ok(shown.to_owned()), "{text}");
        }
    }

    #[test]
    fn url_that_is_not_https_or_leads_home_is_refused() {
        let long = format!("https://a.test/{}", "a".repeat(MAX_KEYS_URL));
        let forms = [
            "http://a.test/keys",
            "a.test/keys",
            "https://u@a.test/keys",
            "https://a.test/k#f",
            "https://a.test/a b",
            "https://a.test/\r\nx: y",
            "https://a.test\\@b.test/",
            "https:///keys",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://a.test/kéys",
            &long,
        ];
        for text in forms {
            assert_eq!(IssuerUrl::parse(text, true), Err(IssuerUrlError::Form), "{text}");
        }
        for (text, with_loopback) in [
            ("https://127.0.0.1/k", true),
            ("https://localhost/k", true),
            ("https://[::ffff:127.0.0.1]/k", true),
            ("https://169.254.169.254/k", false),
            ("https://[fe80::1]/k", false),
            ("https://0.0.0.0/k", false),
        ] {
            assert_eq!(IssuerUrl::parse(text, false), Err(IssuerUrlError::Address), "{text}");
            assert_eq!(IssuerUrl::parse(text, true).is_ok(), with_loopback, "{text}");
        }
    }

    #[test]
    fn discovery_document_of_another_issuer_names_no_keys() {
        let read = |document: &str| read_discovery_document(document.as_bytes(), "https://a.test", false);
        let of = |issuer: &str, keys: &str| format!(r#"{{"issuer":"{issuer}","jwks_uri":"{keys}","other":[1]}}"#);
        assert_eq!(
            read(&of("https://a.test", "https://b.test/k")).map(|url| url.to_string()),
            Ok("https://b.test:443/k".to_owned())
        );
        for issuer in ["https://a.test/", "https://A.test", "https://b.test", ""] {
            assert_eq!(read(&of(issuer, "https://b.test/k")), Err(DiscoveryDocumentError::Issuer), "{issuer}");
        }
        let url = |error| Err(DiscoveryDocumentError::Url(error));
        assert_eq!(read(&of("https://a.test", "http://b.test/k")), url(IssuerUrlError::Form));
        assert_eq!(read(&of("https://a.test", "https://169.254.169.254/k")), url(IssuerUrlError::Address));
        assert_eq!(read(&of("https://a.test", "https://127.0.0.1/k")), url(IssuerUrlError::Address));
        let large = format!("{}{}", of("https://a.test", "https://b.test/k"), " ".repeat(MAX_JWKS));
        for document in ["[]", "", r#"{"issuer":"https://a.test"}"#, &large] {
            assert_eq!(read(document), Err(DiscoveryDocumentError::Form), "{document}");
        }
    }
}
