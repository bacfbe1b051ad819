use std::time::Duration;

use portcullis_api::{Cluster, Server};
use portcullis_filter_config::RequestHeaders;
use tokio::time::timeout;

use crate::onboard::{TokenKeysError, read_token_keys};

/// Servers of a cluster that one question goes to, one after another.
const SERVERS_OF_A_QUESTION: usize = 3;
/// Time for one server.
const SERVER_DEADLINE: Duration = Duration::from_secs(6);

/// Asks servers for the keys of their service accounts, until one of them answers.
pub(super) async fn read_server_keys(
    cluster: &Cluster,
    headers: &RequestHeaders,
    allow_loopback: bool,
    failures: usize,
) -> Result<String, TokenKeysError> {
    let mut keys = Err(TokenKeysError::NoServer);
    for server in round(&cluster.servers, failures) {
        let answer =
            timeout(SERVER_DEADLINE, read_token_keys(cluster, &server.endpoint, headers, allow_loopback)).await;
        keys = answer.unwrap_or(Err(TokenKeysError::Answer));
        if keys.is_ok() {
            break;
        }
    }
    keys
}

/// The servers that are asked after so many failures: each time the next ones. Those that are disabled get no requests of clients,
/// and are asked last.
pub(super) fn round(servers: &[Server], failures: usize) -> Vec<&Server> {
    let (mut ordered, disabled): (Vec<&Server>, Vec<&Server>) = servers.iter().partition(|server| server.enabled);
    ordered.extend(disabled);
    let asked = ordered.len().min(SERVERS_OF_A_QUESTION);
    let first = failures.wrapping_mul(SERVERS_OF_A_QUESTION).checked_rem(ordered.len()).unwrap_or(0);
    ordered.iter().cycle().skip(first).take(asked).copied().collect()
}
