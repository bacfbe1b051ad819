use clap::{Parser, Subcommand};

use crate::agent::{Agent, ExecEnvoy};
use crate::arguments::{Check, Completion, Crd, Man, Rbac};
use crate::backup::{Backup, Restore};
use crate::bootstrap::Bootstrap;
use crate::copy::Copy;
use crate::diff::Diff;
use crate::explain::Explain;
use crate::freeze::{Freeze, Thaw};
use crate::init::Init;
use crate::offboard::Offboard;
use crate::onboard::Onboard;
use crate::probe::Probe;
use crate::promote::Promote;
use crate::replay::Replay;
use crate::serve::Serve;
use crate::status::Status;
use crate::top::Top;

/// Control plane of Portcullis, a gateway in front of kube-apiservers.
///
/// It turns UpstreamCluster and GatewaySettings objects into Envoy configuration, served over xDS. To start:
///
///   portcullis check -f DIR                               # are the objects good?
///   portcullis serve --config DIR --xds-socket /run/portcullis/xds.sock
///   portcullis agent --module-dir /usr/lib/portcullis --xds-socket /run/portcullis/xds.sock
///   portcullis status                                     # are they served?
///   portcullis top                                        # what do they do?
///
/// A cluster is put behind it by `portcullis onboard`.
#[derive(Debug, Parser)]
#[command(name = "portcullis", version, long_version = crate::version::long(), verbatim_doc_comment)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands. The help of each is the documentation of its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Box<Serve>),
    Agent(Agent),
    Bootstrap(Bootstrap),
    Check(Check),
    Explain(Box<Explain>),
    Promote(Promote),
    Replay(Replay),
    Diff(Diff),
    Rbac(Rbac),
    Onboard(Box<Onboard>),
    Offboard(Offboard),
    Freeze(Freeze),
    Thaw(Thaw),
    Crd(Crd),
    Init(Box<Init>),
    Backup(Backup),
    Restore(Restore),
    Completion(Completion),
    Man(Man),
    ExecEnvoy(ExecEnvoy),
    Status(Status),
    Top(Top),
    Probe(Probe),
    Copy(Copy),
}
