use std::net::SocketAddr;

use clap::{Args, ValueEnum};

/// Tell what became of the objects: a table of all UpstreamClusters, or everything about one.
///
/// It asks a running `portcullis serve`, whatever its source. ACCEPTED: the object is valid and owns its names.
/// PROGRAMMED: every gateway that is connected has acknowledged it. READY: every gateway that reports has a healthy
/// endpoint.
///
///   portcullis status                                     # the control plane on this machine
///   portcullis status prod.example.com                    # one object: conditions, warnings, gateways
///   portcullis status -o wide                             # with reasons, versions and files
///   portcullis status -o json | jq '.nodes[].id'
///
/// Exit: 0 if every object that is told is accepted and every UpstreamCluster is programmed, 1 if not, or if the control
/// plane cannot be asked or has no such object, 2 for a wrong command line. READY does not count.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Status {
    /// The UpstreamCluster to tell about; all if left out.
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Where the control plane serves its status (--http-address of `portcullis serve`).
    #[arg(long, env = "PORTCULLIS_HTTP_ADDRESS", value_name = "ADDR", default_value = "127.0.0.1:9080")]
    pub(crate) address: SocketAddr,
    /// How it is printed.
    #[arg(short = 'o', long, value_enum, default_value_t = StatusOutput::Text)]
    pub(crate) output: StatusOutput,
}

/// How a status is printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum StatusOutput {
    /// For people.
    Text,
    /// For people with wide screens.
    Wide,
    /// For programs: what /status says, or the one object of it.
    Json,
}
