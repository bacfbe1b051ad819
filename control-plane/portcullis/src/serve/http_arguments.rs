use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use portcullis_api::parse_duration;
use portcullis_xds::TlsError;

use super::console::{KubernetesReviewer, LoginPolicy, LoginSettings};
use super::source::Source;
use super::source::SourceKind;
use crate::page_tls::PageTls;

/// The address of the console, the status, the metrics and the probes.
#[derive(Debug, Args)]
pub(crate) struct HttpArguments {
    /// Address of the console, /status, /healthz, /readyz and /metrics; port 0 takes a free one. On loopback every client may
    /// read. Elsewhere the console and /status need a login: with the Kubernetes source a token or client certificate that its
    /// API reviews, with the directory source a client certificate (--http-client-ca).
    #[arg(long, env = "PORTCULLIS_HTTP_ADDRESS", value_name = "ADDR", default_value = "127.0.0.1:9080")]
    pub(crate) http_address: SocketAddr,
    /// A host name under which the console and the status may be asked for, beside IP addresses and localhost; may be
    /// repeated. Other names are refused, because a page in a browser could make its own name lead here.
    #[arg(long = "http-host", env = "PORTCULLIS_HTTP_HOSTS", value_name = "NAME", value_delimiter = ',')]
    pub(crate) http_hosts: Vec<String>,
    /// Certificate of the HTTP address, PEM, with its chain: TLS and plain text at the same port, for probes and /metrics need
    /// no TLS. Read anew when it changes, as the two below.
    #[arg(long, env = "PORTCULLIS_HTTP_TLS_CERT", value_name = "FILE", requires = "http_tls_key")]
    http_tls_cert: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, env = "PORTCULLIS_HTTP_TLS_KEY", value_name = "FILE", requires = "http_tls_cert")]
    http_tls_key: Option<PathBuf>,
    /// The CAs of readers' client certificates, PEM. With the Kubernetes source the names in them are users whose rights the
    /// API reviews; with the directory source each certificate may read everything.
    #[arg(long, env = "PORTCULLIS_HTTP_CLIENT_CA", value_name = "FILE", requires = "http_tls_cert")]
    http_client_ca: Option<PathBuf>,
    /// A proxy in front of the HTTP address ends TLS, and only it reaches the address: tokens are taken in plain text from it. The
    /// last address in its X-Forwarded-For, which it has to append, is the client whose attempts are counted.
    #[arg(long, env = "PORTCULLIS_HTTP_BEHIND_TLS_PROXY")]
    http_behind_tls_proxy: bool,
    /// How often a login's token and rights are reviewed again; one that fails ends the login.
    #[arg(
        long,
        env = "PORTCULLIS_HTTP_REVIEW_INTERVAL",
        value_name = "DURATION",
        value_parser = review_interval,
        default_value = "1m",
    )]
    http_review_interval: Duration,
}

/// An interval that is no flood of reviews, and after which a revoked token does not open much more.
fn review_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text).map_err(|error| error.to_string())?;
    let is_good = (Duration::from_secs(1)..=Duration::from_secs(600)).contains(&interval);
    is_good.then_some(interval).ok_or_else(|| "must be from 1s to 10m".to_owned())
}

impl HttpArguments {
    /// Reads the certificate, if the address has one.
    pub(super) fn tls(&self) -> Result<Option<Arc<PageTls>>, TlsError> {
        match (&self.http_tls_cert, &self.http_tls_key) {
            (Some(certificate), Some(key)) => {
                PageTls::open(certificate, key, self.http_client_ca.as_deref()).map(|tls| Some(Arc::new(tls)))
            }
            _ => Ok(None),
        }
    }

    /// How readers log in, by the address and the source. The address that is bound counts, and no header of a request.
    pub(super) fn login(&self, source: &Source) -> LoginSettings {
        let policy = match (&source.kubernetes, source.kind) {
            _ if self.http_address.ip().to_canonical().is_loopback() => LoginPolicy::Open,
            (Some(access), _) => LoginPolicy::Reviewed(Arc::new(KubernetesReviewer::new(access.client.clone()))),
            (None, SourceKind::Directory) if self.http_client_ca.is_some() => LoginPolicy::Certificates,
            (None, _) => LoginPolicy::Impossible,
        };
        LoginSettings {
            policy,
            behind_tls_proxy: self.http_behind_tls_proxy,
            review_interval: self.http_review_interval,
        }
    }
}
