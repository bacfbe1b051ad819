use std::net::{AddrParseError, IpAddr, SocketAddr};
use std::time::Duration;

use clap::Args;
use portcullis_api::parse_duration;

use super::discovery::Nameservers;
use super::edit_traces::TracingArguments;
use super::http_arguments::HttpArguments;
use super::limits::LimitsArguments;
use super::source::SourceArguments;
use super::state::StateArguments;
use super::xds::XdsArguments;
use crate::arguments::LogFormat;

/// Serve Envoy over xDS, and follow every change of the objects.
///
///   portcullis serve --config DIR --xds-socket /run/portcullis/xds.sock
///   portcullis serve --source kubernetes --settings settings.yaml --xds-socket /run/portcullis/xds.sock
///
/// A bad object is left out and listed at /status; the others go on. A file that cannot be parsed keeps its last good
/// objects. Replace files by renaming a finished one into place. A Kubernetes API that does not answer keeps its last
/// objects, too; /status shows since when.
///
/// HTTP: /ui/ (the console, for people), /status (JSON: objects with their conditions, Envoys and what each of them has
/// acknowledged; no secrets), /healthz (the objects are followed), /readyz (something is served), /metrics
/// (docs/reference/control-plane-metrics.md). Unless its address is loopback, the console and /status need a login.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) source: SourceArguments,
    #[command(flatten)]
    pub(crate) state: StateArguments,
    #[command(flatten)]
    pub(crate) xds: XdsArguments,
    /// How long an object is served with the keys it had, after the Secret or file that it refers to is revoked (deleted);
    /// 0s ends that at once. A restart ends it, too.
    #[arg(
        long,
        env = "PORTCULLIS_REVOKED_REFERENCE_GRACE",
        value_name = "DURATION",
        value_parser = parse_duration,
        default_value = "24h",
    )]
    pub(crate) revoked_reference_grace: Duration,
    /// DNS servers for the SRV records of discovered servers: IP addresses, with a port if it is not 53. By default those of
    /// /etc/resolv.conf.
    #[arg(
        long = "dns-server",
        env = "PORTCULLIS_DNS_SERVERS",
        value_name = "ADDRESS",
        value_delimiter = ',',
        value_parser = dns_server,
    )]
    pub(crate) dns_servers: Vec<SocketAddr>,
    /// Interval at which keys of tokens are read (jwks.fromServers, url, fromIssuer of issuers), from 1s to 1h.
    #[arg(
        long,
        env = "PORTCULLIS_TOKEN_KEYS_INTERVAL",
        value_name = "DURATION",
        value_parser = keys_interval,
        default_value = "5m",
    )]
    pub(crate) token_keys_interval: Duration,
    #[command(flatten)]
    pub(crate) limits: LimitsArguments,
    #[command(flatten)]
    pub(crate) http: HttpArguments,
    #[command(flatten)]
    pub(crate) tracing: TracingArguments,
    /// How the log is written, on standard error; RUST_LOG says how much of it.
    #[arg(long, env = "PORTCULLIS_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
}

impl Serve {
    /// The DNS servers for SRV records.
    pub(super) fn nameservers(&self) -> Nameservers {
        match self.dns_servers.as_slice() {
            [] => Nameservers::System,
            listed => Nameservers::Listed(listed.to_vec()),
        }
    }
}

/// The port of DNS.
const DNS: u16 = 53;

fn keys_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text).map_err(|error| error.to_string())?;
    let is_within = (Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&interval);
    if is_within { Ok(interval) } else { Err("must be from 1s to 1h".to_owned()) }
}

fn dns_server(text: &str) -> Result<SocketAddr, AddrParseError> {
    match text.parse::<IpAddr>() {
        Ok(ip) => Ok(SocketAddr::new(ip, DNS)),
        Err(_) => text.parse(),
    }
}
