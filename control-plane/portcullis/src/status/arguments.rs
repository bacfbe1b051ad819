use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::control_plane_client::ControlPlaneAddress;

/// Print the state of the objects: a table of all UpstreamClusters, or everything about one.
///
/// It asks a running `portcullis serve`, whatever its source. ACCEPTED: the object is valid and owns its names.
/// PROGRAMMED: every gateway that is connected has acknowledged it. READY: every gateway that reports has a healthy
/// endpoint.
///
///   portcullis status                                     # the control plane on this machine
///   portcullis status prod.example.com                    # one object: conditions, warnings, gateways
///   portcullis status --instance team-a                   # one Instance, its clusters and its Envoys
///   portcullis status -o wide                             # with reasons, versions and files
///   portcullis status --watch                             # again and again
///   portcullis status -o json | jq '.nodes[].id'
///
/// Exit: 0 if every printed object is accepted and every UpstreamCluster is programmed, 1 if not, or if the control
/// plane cannot be asked or has no such object, 2 for a wrong command line. READY does not count. With
/// --watch on a terminal: 0.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Status {
    /// The UpstreamCluster to print; all if unset.
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Print this Instance, the UpstreamClusters that belong to it, also those that pass over, and its Envoys, and nothing else. The right
    /// to get the Instance is enough; it shows clusters until they have passed over, and no message about others.
    #[arg(long, value_name = "NAME", conflicts_with = "name")]
    pub(crate) instance: Option<String>,
    /// How it is printed.
    #[arg(short = 'o', long, value_enum, default_value_t = StatusOutput::Text)]
    pub(crate) output: StatusOutput,
    /// Print it again and again, on a terminal; q ends it.
    #[arg(short = 'w', long)]
    pub(crate) watch: bool,
    /// With --watch: the time between two drawings.
    #[arg(long, value_name = "DURATION", value_parser = crate::top::interval, default_value = "2s")]
    pub(crate) interval: Duration,
    #[command(flatten)]
    pub(crate) control_plane: ControlPlaneAddress,
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
