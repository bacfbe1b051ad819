use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Deserialize;

use crate::arguments::ManifestOutput;

/// Explain how the gateway would treat a request, offline, by the filter's own code.
///
///   portcullis explain -f manifests/ GET /api/v1/namespaces/default/pods --user alice --group dev
///   portcullis explain -f cluster.yaml GET /api/v1/pods --header 'Authorization: Bearer x' \
///       --token-review '{"authenticated":true,"user":{"username":"alice"}}'
///   portcullis explain GET '/api/v1/pods?watch=1'                  # without -f: request info and credential only
///   portcullis explain -f manifests/ --batch < requests.jsonl
///
/// With Instances among the files a cluster is judged by the GatewaySettings of the one that its labels choose, and "instance" in
/// the answer names both; --settings-name says which settings are of all gateways. With policies, "policies" has each one that
/// names the cluster, or the HTTPRoute of --host with its listener and Gateway: its part there, or why it has none.
///
///   portcullis explain -f manifests/ --settings-name edge GET /api/v1/pods --host prod.example.com --user alice
///
/// A part of the answer that does not apply is null. With --batch each line of standard input is a request:
///
///   {"id","method","target","host","headers":[[name,value]],"user":{"name","uid","groups":[],"extra":{key:[]}},
///    "reviews":{"token":{TokenReview status},"impersonation":"allow|deny|error"},"expect":{}}
///
/// All but method and target may be left out. "user" is the authenticated user of the request; without it
/// and without a credential it is anonymous. No user may impersonate unless "reviews" allows it, and a token without a review
/// is a review that failed. With "expect", any part of the answer, the call is a test: differences are printed on standard
/// error and in the answer, and the exit status is 1.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, args_conflicts_with_subcommands = true)]
pub(crate) struct Explain {
    #[command(subcommand)]
    pub(crate) command: Option<ExplainCommand>,
    /// Manifest, or directory of *.yaml, *.yml and *.json files; may be repeated.
    #[arg(short = 'f', long = "filename", alias = "file", value_name = "FILE_OR_DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// The control plane's own namespace: policies there decide, and those of others only tighten, with a ReferenceGrant there.
    #[arg(long, value_name = "NAMESPACE", default_value = "portcullis")]
    pub(crate) namespace: String,
    /// The name of the GatewaySettings of all gateways, as for serve: those of other names are used by Instances that name them alone.
    #[arg(long, value_name = "NAME")]
    pub(crate) settings_name: Option<String>,
    /// How the answer is printed; with --batch each is a line of JSON.
    #[arg(short = 'o', long, value_enum, default_value_t = ManifestOutput::Yaml, conflicts_with = "batch")]
    pub(crate) output: ManifestOutput,
    /// Answer by the shadow as well, as if it decided: `dispatch` and `refusal` below `shadow`, for a cluster that has one.
    #[arg(long)]
    pub(crate) shadow: bool,
    /// Read requests from standard input, one JSON object a line, and answer each by a line.
    #[arg(long, conflicts_with_all = ["method", "target", "user", "header", "host"])]
    pub(crate) batch: bool,
    /// HTTP method.
    #[arg(value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// Path and query, as in the request line.
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Host name that the client asks for, of a cluster or of an HTTPRoute; needed if there are several clusters.
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// Header line; may be repeated.
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    /// The authenticated user.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// The user's UID.
    #[arg(long, value_name = "UID", requires = "user")]
    pub(crate) uid: Option<String>,
    /// A group of the user; may be repeated.
    #[arg(long, value_name = "GROUP", requires = "user")]
    pub(crate) group: Vec<String>,
    /// An extra value of the user; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", requires = "user")]
    pub(crate) extra: Vec<String>,
    /// The upstream's answer to a TokenReview: its status.
    #[arg(long, value_name = "JSON")]
    pub(crate) token_review: Option<String>,
    /// The upstream's answer to every SubjectAccessReview.
    #[arg(long, value_name = "ANSWER")]
    pub(crate) impersonation: Option<Impersonation>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ExplainCommand {
    /// Print the user that a client certificate names.
    Certificate(ExplainCertificate),
}

/// Print the user that a client certificate names: {"outcome":"user|none|error","name","uid","groups","extra","reason"}.
///
/// "none" is a certificate that verifies and names no user; the groups are those of the certificate itself. Exit status 0
/// whatever the outcome.
#[derive(Debug, Args)]
pub(crate) struct ExplainCertificate {
    /// The client's certificate; further ones in the file are its chain.
    #[arg(long, value_name = "PEM")]
    pub(crate) certificate: PathBuf,
    /// Intermediate certificates that the client sends.
    #[arg(long, value_name = "PEM")]
    pub(crate) chain: Option<PathBuf>,
    /// The CAs of client certificates (clientCAData).
    #[arg(long, value_name = "PEM")]
    pub(crate) ca: PathBuf,
    /// The time of the request; now if unset.
    #[arg(long, value_name = "RFC3339")]
    pub(crate) at: Option<String>,
    /// How the answer is printed.
    #[arg(short = 'o', long, value_enum, default_value_t = ManifestOutput::Yaml)]
    pub(crate) output: ManifestOutput,
}

/// The upstream's answer to access reviews.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Impersonation {
    /// The user may.
    Allow,
    /// The user may not.
    #[default]
    Deny,
    /// The upstream does not answer.
    Error,
}
