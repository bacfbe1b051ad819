use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use portcullis_api::parse_duration;

use crate::arguments::LogFormat;
use crate::bootstrap::Bootstrap;

/// Run one Envoy as a gateway: start it, report whether it is ready, and stop it without failing a request.
///
///   portcullis agent --envoy /usr/bin/envoy --module-dir /usr/lib/portcullis --xds-socket /run/portcullis/xds.sock
///   portcullis agent ... --http-address 0.0.0.0:9081 -- --concurrency 4 --log-level warning
///
/// Envoy's bootstrap is that of `portcullis bootstrap`, and its output goes where this program's goes. Arguments after --
/// are passed to Envoy.
///
/// HTTP: /healthz (this program runs and Envoy answers it), /readyz (Envoy has its configuration, listens, and is not
/// about to stop), /metrics (Envoy's, the filter's among them, and the names of the clients with the most requests, if the
/// settings ask for them). Point the load balancer's or Kubernetes' readiness at /readyz.
///
/// On SIGTERM or SIGINT /readyz fails at once. --shutdown-delay later, when the load balancer has noticed, Envoy begins to
/// send its clients away: GOAWAY on HTTP/2, Connection: close on HTTP/1.1, with the response to their next request.
/// Open requests go on, and new ones are served; watches end one after the other, as if the apiserver had ended
/// them. Envoy stops when the last connection is closed, at the latest after --drain-timeout more; open connections,
/// as a rule sessions like exec, are cut then.
/// A second signal stops Envoy at once. Both times together have to stay below terminationGracePeriodSeconds (Kubernetes)
/// or TimeoutStopSec (systemd); their defaults fit Kubernetes' 30 seconds.
///
/// If Envoy ends by itself, this program ends with the same exit status (128 + N for signal N) and does not start it again:
/// that is the platform's part. If this program is killed, Envoy ends as well, without draining.
///
/// Every 2 seconds, or more seldom if Envoy is busy, the agent reports the health of servers to each control plane, for the
/// condition Ready; every 5 seconds what the filter counted, for `portcullis top` and the console.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Agent {
    #[command(flatten)]
    pub(crate) bootstrap: Bootstrap,
    /// Envoy's executable.
    #[arg(long, env = "PORTCULLIS_ENVOY", value_name = "PATH", default_value = "envoy")]
    pub(crate) envoy: PathBuf,
    /// Directory of libportcullis.so; ENVOY_DYNAMIC_MODULES_SEARCH_PATH if unset.
    #[arg(long, env = "PORTCULLIS_MODULE_DIR", value_name = "DIR")]
    pub(crate) module_dir: Option<PathBuf>,
    /// Address of /healthz, /readyz and /metrics; port 0 takes a free one. Every client that can connect may read.
    #[arg(long, env = "PORTCULLIS_AGENT_HTTP_ADDRESS", value_name = "ADDR", default_value = "127.0.0.1:9081")]
    pub(crate) http_address: SocketAddr,
    /// Time from the failure of /readyz until Envoy sends its clients away: load balancers need it to notice.
    #[arg(
        long,
        env = "PORTCULLIS_SHUTDOWN_DELAY",
        value_name = "DURATION",
        value_parser = parse_duration,
        default_value = "5s",
    )]
    pub(crate) shutdown_delay: Duration,
    /// Time for clients to leave, and for watches to go on, before Envoy cuts what is still open.
    #[arg(
        long,
        env = "PORTCULLIS_DRAIN_TIMEOUT",
        value_name = "DURATION",
        value_parser = parse_duration,
        default_value = "20s",
    )]
    pub(crate) drain_timeout: Duration,
    /// How this program's log is written, on standard error; RUST_LOG says how much of it. Envoy's own log goes its own way.
    #[arg(long, env = "PORTCULLIS_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// More arguments of Envoy.
    #[arg(last = true, value_name = "ENVOY_FLAG")]
    pub(crate) envoy_flags: Vec<String>,
}

/// Replace this process by Envoy, and end when the program that started this ends. Not for people.
#[derive(Debug, Args)]
#[command(hide = true)]
pub(crate) struct ExecEnvoy {
    /// The process that this one must not outlive.
    #[arg(long)]
    pub(crate) parent: i32,
    /// Envoy and its arguments.
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<std::ffi::OsString>,
}
