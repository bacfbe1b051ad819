use clap::{Args, ValueEnum};

/// Print the state of the objects: a table of all UpstreamClusters, or everything about one.
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
/// Exit: 0 if every printed object is accepted and every UpstreamCluster is programmed, 1 if not, or if the control
/// plane cannot be asked or has no such object, 2 for a wrong command line. READY does not count.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Status {
    /// The UpstreamCluster to print; all if unset.
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Address of the control plane's status (--http-address of `portcullis serve`): an IP address or host name, and the port.
    #[arg(long, env = "PORTCULLIS_HTTP_ADDRESS", value_name = "HOST:PORT", default_value = "127.0.0.1:9080",
        value_parser = address)]
    pub(crate) address: String,
    /// How it is printed.
    #[arg(short = 'o', long, value_enum, default_value_t = StatusOutput::Text)]
    pub(crate) output: StatusOutput,
}

/// A host and a port; the host is looked up when it is asked.
fn address(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(_)) => Ok(text.to_owned()),
        _ => Err("must be HOST:PORT".to_owned()),
    }
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
