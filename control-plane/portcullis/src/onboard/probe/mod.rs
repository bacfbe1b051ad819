//! A cluster, asked as the gateway will ask it: from this machine, with the object's credential, CA and server name.
//!
//! - [`connection`]: TCP, and the server's certificate.
//! - [`session`]: requests as the gateway, in either identity mode.
//! - [`rights`]: what `portcullis rbac` prints for the object, right by right.
//! - [`questions`]: the other checks.
//! - [`token_keys`]: the public keys of service accounts' tokens.
//! - [`report`]: the lines that are printed.

mod connection;
mod questions;
mod report;
mod rights;
mod session;
mod token_keys;

pub(super) use report::{ProbeReport, ServerReport};
pub(super) use session::{ForwardedUser, GatewaySession, SELF_REVIEW};
pub(crate) use token_keys::{TokenKeysError, read_token_keys};

use portcullis_api::{Cluster, Server};

use report::{CHECKS, CheckOutcome};

/// The users whom the gateway forwards in a probe.
#[derive(Clone, Debug)]
pub(super) struct ProbeUsers {
    /// A name that needs no rights.
    pub(super) anybody: String,
    /// The person at the keyboard, who may watch; `None` if no such user is known.
    pub(super) caller: Option<ForwardedUser>,
}

/// Asks each server that takes requests.
pub(super) async fn probe(cluster: &Cluster, users: &ProbeUsers) -> ProbeReport {
    let mut servers = Vec::new();
    for server in cluster.servers.iter().filter(|server| server.enabled) {
        servers.push(probe_server(cluster, server, users).await);
    }
    ProbeReport { name: cluster.name.clone(), servers }
}

async fn probe_server(cluster: &Cluster, server: &Server, users: &ProbeUsers) -> ServerReport {
    let mut report = ServerReport::new(server.endpoint.to_string());
    let asked = ask(cluster, server, users, &mut report).await;
    if asked.is_none() {
        report.fill(&CHECKS);
    }
    report
}

/// Adds the outcomes; `None` if a check failed without which the others say nothing.
async fn ask(cluster: &Cluster, server: &Server, users: &ProbeUsers, report: &mut ServerReport) -> Option<()> {
    let stream = report.take("reach", connection::reach(&server.endpoint).await)?;
    report.take("certificate", connection::verify(stream, cluster).await)?;
    let session = report.take("credential", GatewaySession::open(cluster, &server.endpoint))?;
    let credential = questions::credential(&session).await;
    let is_accepted = credential.is_good();
    report.add("credential", credential);
    if !is_accepted {
        return None;
    }
    report.add("health", questions::health(&session, cluster).await);
    report.add("rights", rights::check(&session, cluster).await);
    report.add("token review", questions::token_review(&session).await);
    let forwarding = questions::forwarding(&session, &users.anybody).await;
    let streaming = match &users.caller {
        _ if !forwarding.is_good() => CheckOutcome::Skipped("no user can be forwarded".to_owned()),
        Some(caller) => questions::streaming(&session, caller).await,
        None => CheckOutcome::Skipped("no user is known who may watch: name a --kubeconfig of the cluster".to_owned()),
    };
    report.add("forwarding", forwarding);
    report.add("streaming", streaming);
    Some(())
}
