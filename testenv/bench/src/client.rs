//! The load: what kubectl sends, over and over.

use portcullis_harness::client::{H2Client, Response};

use crate::case::Case;
use crate::error::BenchError;

/// The token that the stub knows: as long as a service account's.
pub(crate) const TOKEN_LEN: usize = 900;

/// Different pods that are asked for in turn.
const PODS: u32 = 64;

/// Sends requests one after the other, each answered as the case says.
pub(crate) fn send(client: &H2Client, case: Case, token: &str, count: u32) -> Result<(), BenchError> {
    let mut headers = vec![
        ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"),
        ("accept-encoding", "gzip"),
        ("user-agent", "kubectl/v1.36.3 (linux/amd64) kubernetes/1234567"),
        ("kubectl-command", "kubectl get"),
        ("kubectl-session", "5f0c1d2e-3a4b-4c5d-8e6f-708192a3b4c5"),
    ];
    let bearer = format!("Bearer {token}");
    if case.uses_token() {
        headers.push(("authorization", &bearer));
    }
    for number in 0..count {
        let path = format!("/api/v1/namespaces/default/pods/web-7d9c6b5f4-{:05}", number % PODS);
        expect(&client.get(&path, &headers)?, case)?;
    }
    Ok(())
}

fn expect(response: &Response, case: Case) -> Result<(), BenchError> {
    let (found, wanted) = (response.status, case.status());
    if found == wanted { Ok(()) } else { Err(BenchError::Answer { found, wanted, body: response.text() }) }
}
