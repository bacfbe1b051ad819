use std::time::Duration;

use clap::{Args, ValueEnum};
use portcullis_api::parse_duration;

use crate::control_plane_client::ControlPlaneAddress;

/// Print the traffic of all clusters, or everything about one, and draw it again and again.
///
/// It asks a running `portcullis serve`. Gateways report through `portcullis agent`, every 5 seconds or more seldom; rates
/// are averages over the last half a minute. ERRORS/S are answers of 5xx, of servers and for want of one;
/// REFUSED/S are requests that the gateway refused. Watches, sessions and other long-running requests have no part in P50
/// and P99 but the time to their headers.
///
///   portcullis top                                        # all clusters, worst first
///   portcullis top --sort requests                        # the busiest first; in the terminal, s changes it
///   portcullis top -c prod.example.com                    # servers, policies, limits, certificates, clients
///   portcullis top --once                                 # once, as without a terminal
///   portcullis top -o json | jq '.clusters[] | select(.severity != "Good").name'
///
/// Keys: q ends it, s changes the order.
///
/// Exit: 0; 1 if the control plane cannot be asked or has no such object, 2 for a wrong command line.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Top {
    /// The UpstreamCluster to print everything about.
    #[arg(short = 'c', long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// The order of the clusters.
    #[arg(long, value_enum, default_value_t = Order::Severity)]
    pub(crate) sort: Order,
    /// Time between two drawings.
    #[arg(long, value_name = "DURATION", value_parser = interval, default_value = "2s")]
    pub(crate) interval: Duration,
    /// Print once and end.
    #[arg(long)]
    pub(crate) once: bool,
    /// How it is printed; json is printed once.
    #[arg(short = 'o', long, value_enum, default_value_t = TopOutput::Text)]
    pub(crate) output: TopOutput,
    #[command(flatten)]
    pub(crate) control_plane: ControlPlaneAddress,
}

/// Shortest time between two drawings: views are made once a second.
const MIN_INTERVAL: Duration = Duration::from_millis(500);

/// The time between two drawings.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text).map_err(|error| error.to_string())?;
    if interval < MIN_INTERVAL { Err("must be 500ms or more".to_owned()) } else { Ok(interval) }
}

/// The order of the clusters, the largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// The worst first, then by name.
    Severity,
    /// Requests in a second.
    Requests,
    /// Errors in a second.
    Errors,
    /// Refusals in a second.
    Refused,
    /// The median of durations.
    P50,
    /// The 99th percentile of durations.
    P99,
    /// Requests in flight.
    Running,
    /// Open watches.
    Watches,
    /// The name.
    Name,
}

impl Order {
    /// The one after this, in the order of the columns.
    pub(crate) fn next(self) -> Self {
        let all = Self::value_variants();
        let position = all.iter().position(|one| *one == self).unwrap_or_default();
        all.get(position + 1).or(all.first()).copied().unwrap_or(self)
    }

    /// As it is written on the command line.
    pub(crate) fn word(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// How it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopOutput {
    /// For people.
    Text,
    /// For programs: the body of /ui/api/fleet, or of /ui/api/clusters/NAME.
    Json,
}
