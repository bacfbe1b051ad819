use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Judge yesterday's requests by other objects: what would be different, and for whom.
///
/// Each line of the gateway's access log (docs/operations.md, Access log) is judged by the objects of -f as `portcullis
/// explain` judges a request, and compared with what the gateway did. It connects to nothing.
///
///   portcullis replay -f new/ < access.log
///   portcullis replay -f new/ --log access.log.1 --log access.log -n prod.example.com
///   kubectl logs -n portcullis deploy/gateway | portcullis replay -f new/
///   portcullis replay -f new/ -o json < access.log | jq '.differences[] | {count, then, now, example}'
///
/// Parts that a line lacks are named, never guessed: groups beyond its 32, groups of impersonated users, users of tokens
/// that were not reviewed, values that are cut. If that could decide, the line counts as unknown, with the reason. Limits
/// are not replayed: "flow control" says how many requests each schema counted, and how many it would. Authentication is
/// taken from the log; `portcullis diff` names changes of it. Lines of requests that were refused before their user was known
/// are counted by reason. A `until` of an access list is compared with the present time.
///
/// Lines of a cluster are judged by the GatewaySettings of its Instance, if the files have both. A line does not say by which
/// Gateway or HTTPRoute its request came: policies there judge no line, and a note names them.
///
/// Exit: 0 if every line that is judged stays the same, 1 if one differs or is unknown, 2 if something cannot be read or no
/// line is judged.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Replay {
    /// Manifest, or directory of *.yaml, *.yml and *.json files; may be repeated.
    #[arg(short = 'f', long = "filename", value_name = "FILE_OR_DIR", required = true)]
    pub(super) files: Vec<PathBuf>,
    /// File of the access log, one JSON object a line; - or none is standard input. May be repeated.
    #[arg(long = "log", value_name = "FILE")]
    pub(super) logs: Vec<PathBuf>,
    /// Judge the lines of this UpstreamCluster only; may be repeated.
    #[arg(short = 'n', long = "cluster", value_name = "NAME")]
    pub(super) clusters: Vec<String>,
    /// The control plane's own namespace: policies there decide, and those of others only tighten, with a ReferenceGrant there.
    #[arg(long, value_name = "NAMESPACE", default_value = "portcullis")]
    pub(super) namespace: String,
    /// The name of the GatewaySettings of all gateways, as for serve: those of other names are used by Instances that name them alone.
    #[arg(long, value_name = "NAME")]
    pub(super) settings_name: Option<String>,
    /// How many differences are printed, those of most requests; the others are counted.
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    pub(super) show: usize,
    /// How the report is printed.
    #[arg(short = 'o', long, value_enum, default_value_t = ReplayOutput::Text)]
    pub(super) output: ReplayOutput,
}

/// How a report of differences is printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ReplayOutput {
    /// For people.
    Text,
    /// For programs.
    Json,
}
